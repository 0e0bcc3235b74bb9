//! The limit of rounds of a request, and the binding of its state to a principal (2026-07-28).

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{ElicitFormParams, ElicitParams, ElicitSchema, Map, StringSchema},
};
use serde_json::{Value, json};

use super::pair::Pair;
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure},
    server::{prompt::Prompt, resource::Resource, service::Service, tool::Tool},
};

fn input_request() -> ElicitParams {
    ElicitFormParams::new("Go on?", ElicitSchema::new(Map::from([("x", StringSchema::default().into())]))).into()
}

/// A tool that requests input in every round, and one that requests it once.
fn service_with_requests() -> Pair {
    let service = Service::builder("test", "1")
        .state_key([7; 32])
        .tool(Tool::new("never-done", |context: Context| {
            for n in 0..1000 {
                context.request_inputs([(format!("n{n}"), input_request().into())]).wait()?;
            }
            Ok::<_, Failure>("done")
        }))
        .tool(Tool::new("once", |context: Context| {
            context.request_inputs([("n", input_request().into())]).wait()?;
            Ok::<_, Failure>("done")
        }))
        .build()
        .expect("a good service");
    Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2026_07_28)
}

/// Calls a tool with a hand-written request, with a principal or without one.
fn call(pair: &Pair, principal: Option<&str>, params: Value) -> Value {
    request(pair, "tools/call", principal, params)
}

fn request(pair: &Pair, method: &str, principal: Option<&str>, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let request = json!({"jsonrpc": "2.0", "id": "by hand", "method": method, "params": params}).to_string();
    pair.server.take_lines();
    match principal {
        Some(principal) => pair.server.input_from(principal, request.as_bytes()),
        None => pair.input_to_server(&request),
    }
    pair.await_answer("by hand")
}

/// Returns the same call with responses to all input requests.
fn answered(name: &str, result: &Value) -> Value {
    let requested = result["inputRequests"].as_object().expect("input requests");
    let answers: serde_json::Map<_, _> =
        requested.keys().map(|key| (key.clone(), json!({"action": "decline"}))).collect();
    json!({"name": name, "requestState": result["requestState"], "inputResponses": answers})
}

// req: M-MRTR-018 M-MRTR-017
#[test]
fn input_required_rounds_are_limited() {
    let pair = service_with_requests();
    let mut answer = call(&pair, None, json!({"name": "never-done"}));
    for round in 1..16 {
        assert_eq!(answer["result"]["resultType"], "input_required", "round {round}");
        answer = call(&pair, None, answered("never-done", &answer["result"]));
    }
    assert_eq!(answer["result"]["resultType"], "input_required");
    let end = call(&pair, None, answered("never-done", &answer["result"]));
    assert_eq!(end["error"]["code"], -32603, "{end}");
    // A new request starts with the first round.
    let answer = call(&pair, None, json!({"name": "never-done"}));
    assert_eq!(answer["result"]["resultType"], "input_required");
}

/// A service with a tool, a prompt and a resource that request input once.
fn all_require_input(name: &str) -> Pair {
    fn send_request(context: &Context) -> Result<&'static str, Failure> {
        context.request_inputs([("n", input_request().into())]).wait()?;
        Ok("done")
    }
    let service = Service::builder(name, "1")
        .state_key([7; 32])
        .tool(Tool::new("same", |context: Context| send_request(&context)))
        .prompt(Prompt::new("same", |context: Context| send_request(&context).map(ToOwned::to_owned)))
        .resource(Resource::new("same:it", "it", |context: Context| send_request(&context).map(ToOwned::to_owned)))
        .build()
        .expect("a good service");
    Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2026_07_28)
}

// req: M-MRTR-013
#[test]
fn state_is_bound_to_principal_and_service() {
    let (ours, theirs) = (all_require_input("test"), all_require_input("other"));
    for (method, params) in [
        ("tools/call", json!({"name": "same"})),
        ("prompts/get", json!({"name": "same"})),
        ("resources/read", json!({"uri": "same:it"})),
    ] {
        let requested = request(&ours, method, Some("ada"), params.clone());
        let mut again = answered("", &requested["result"]);
        for (name, value) in params.as_object().expect("an object") {
            again[name] = value.clone();
        }
        if method == "resources/read" {
            again.as_object_mut().expect("an object").remove("name");
        }
        for (pair, principal, is_good) in [
            (&ours, Some("ada"), true),
            (&ours, Some("eve"), false),
            (&ours, None, false),
            (&theirs, Some("ada"), false),
        ] {
            let answer = request(pair, method, principal, again.clone());
            let is_done = answer["result"]["resultType"] == "complete";
            assert_eq!(is_done, is_good, "{method} {principal:?}: {answer}");
            assert_eq!(answer["error"]["code"] == -32602, !is_good, "{method} {principal:?}: {answer}");
        }
    }
}

// req: M-MRTR-013
#[test]
fn state_of_another_principal_is_rejected() {
    let pair = service_with_requests();
    let principals = [None, Some("ada"), Some("eve"), Some("")];
    for owner in principals {
        let requested = call(&pair, owner, json!({"name": "once"}));
        for other in principals {
            let answer = call(&pair, other, answered("once", &requested["result"]));
            if owner == other {
                assert_eq!(answer["result"]["content"][0]["text"], "done", "{owner:?}: {answer}");
            } else {
                assert_eq!(answer["error"]["code"], -32602, "{owner:?} {other:?}: {answer}");
            }
        }
    }
}

#[test]
fn handlers_see_the_principal() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("who", |context: Context| {
            context.info().principal.as_ref().map_or("anonymous".into(), |principal| principal.id.clone())
        }))
        .build()
        .expect("a good service");
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2026_07_28);
    for (principal, said) in [(None, "anonymous"), (Some("ada"), "ada")] {
        let answer = call(&pair, principal, json!({"name": "who"}));
        assert_eq!(answer["result"]["content"][0]["text"], said);
    }
}
