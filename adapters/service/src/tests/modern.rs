//! The modern era (2026-07-28): stateless requests, and input requests in results.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitSchema, ElicitUrlParams, InputRequest, ListRootsParams, LoggingLevel, Map, Role, Root, SamplingContent,
        SamplingMessage, StringSchema, TaskSupport,
    },
};
use serde_json::{Value, json};

use super::pair::{Pair, code};
use crate::{
    client::{Host, builder::HostBuilder, roots::Roots},
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::{builder::ServiceBuilder, prompt::Prompt, resource::Resource, service::Service, tool::Tool},
    util::lock::lock,
};

pub(super) fn form(field: &str) -> ElicitSchema {
    ElicitSchema {
        required: Some(vec![field.into()]),
        ..ElicitSchema::new(Map::from([(field, StringSchema::default().into())]))
    }
}

pub(super) fn said(answer: &ElicitResult, field: &str) -> String {
    match (&answer.action, answer.content.as_ref().and_then(|content| content.get(field))) {
        (ElicitAction::Accept, Some(value)) => format!("{value:?}"),
        (action, _) => action.to_string(),
    }
}

/// Elicits twice and samples once, and returns each error.
fn interview(context: &Context) -> Result<String, Failure> {
    let name = context.elicit("Who are you?", form("name")).wait()?;
    let color = context.elicit("Which color?", form("color")).wait()?;
    let verdict = context.sample(CreateMessageParams::new([SamplingMessage::user("Well?")], 10_u64)).wait()?;
    let [SamplingContent::Text(verdict)] = verdict.content.as_slice() else { return Err(Failure::new("no text")) };
    Ok(format!("{} {} {}", said(&name, "name"), said(&color, "color"), verdict.text))
}

fn service_with_requests() -> ServiceBuilder {
    Service::builder("test", "1")
        .state_key([7; 32])
        .tool(Tool::new("interview", |context: Context| interview(&context)))
        .tool(Tool::new("swallows", |context: Context| interview(&context).map_or("all the same", |_| "asked")))
        .tool(Tool::new("shy", |context: Context| {
            context.roots().wait().map_or_else(|_| "none".into(), |it| it.len().to_string())
        }))
        .prompt(Prompt::new("interview", |context: Context| interview(&context)))
        .resource(Resource::new("test://interview", "interview", |context: Context| interview(&context)))
}

pub(super) fn obliging() -> HostBuilder {
    Host::builder("client", "1")
        .sampling(|_: CreateMessageParams, _| {
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("fine"), "m"))
        })
        .elicitation(|received: ElicitFormParams, _| {
            let (field, value) = if received.message == "Who are you?" { ("name", "Ada") } else { ("color", "red") };
            Ok::<_, Failure>(ElicitResult::accept([(field, value.into())]))
        })
        .elicitation_url(|_: ElicitUrlParams, _| Ok::<_, Failure>(ElicitAction::Accept))
        .roots(&Roots::new([Root::new("file:///a")]).expect("good roots"))
}

pub(super) fn modern(service: &Service) -> Pair {
    Pair::new(&obliging().build(), service, ProtocolVersion::V2026_07_28)
}

/// Sends a request with the metadata that the modern era requires. Returns its result or its error.
pub(super) fn send(pair: &Pair, method: &str, mut params: Value, capabilities: Value) -> Result<Value, Value> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    pair.server.take_lines();
    pair.input_to_server(&json!({"jsonrpc": "2.0", "id": "by hand", "method": method, "params": params}).to_string());
    let mut answer = None;
    pair.until(|| {
        pair.server.flush();
        answer = pair.server.take_lines().into_iter().find(|line| line["id"] == "by hand");
        answer.is_some()
    });
    let mut answer = answer.expect("it was there");
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["result"].take()),
    }
}

pub(super) fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

// req: M-MRTR-001 M-MRTR-006 M-MRTR-018 M-MRTR-029 M-MRTR-040
#[test]
fn handler_gives_equal_results_in_both_eras() {
    let service = service_with_requests().build().expect("a good service");
    let expected = "String(\"Ada\") String(\"red\") fine";
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&obliging().build(), &service, version);
        let result = pair.send_request("tools/call", json!({"name": "interview"})).expect("a result");
        assert_eq!((text(&result), result.get("isError")), (expected, None), "{version}");
        let result = pair.send_request("prompts/get", json!({"name": "interview"})).expect("a result");
        assert_eq!(result["messages"][0]["content"]["text"], expected);
        let result = pair.send_request("resources/read", json!({"uri": "test://interview"})).expect("a result");
        assert_eq!(result["contents"][0]["text"], expected);
        let result = pair.send_request("tools/call", json!({"name": "swallows"})).expect("a result");
        assert_eq!(text(&result), "asked");
        pair.assert_clean();
        let input_requests = pair.server.take_lines();
        let server_requests = input_requests.iter().filter(|line| line.get("method").is_some()).count();
        assert_eq!(server_requests, if version == ProtocolVersion::V2026_07_28 { 0 } else { 12 }, "{version}");
    }
}

// req: M-MRTR-004 M-MRTR-005 M-MRTR-007 M-MRTR-008 M-MRTR-031 M-MRTR-032
#[test]
fn input_required_results_repeat_until_complete() {
    let pair = modern(&service_with_requests().build().expect("a good service"));
    let call = |more: Value| {
        let mut params = json!({"name": "interview"});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        send(&pair, "tools/call", params, everything()).expect("a result")
    };
    let first = call(json!({}));
    assert_eq!(first["resultType"], "input_required");
    let keys = |result: &Value| -> Vec<String> {
        result["inputRequests"].as_object().expect("input requests").keys().cloned().collect()
    };
    assert_eq!(keys(&first), ["q1"]);
    let input_request = first["inputRequests"]["q1"].as_object().expect("an input request");
    assert_eq!(input_request.keys().collect::<Vec<_>>(), ["method", "params"]);
    assert_eq!(input_request["method"], "elicitation/create");
    let accept = |field: &str, value: &str| json!({"action": "accept", "content": {field: value}});
    // Unknown responses are ignored, and missing ones are requested again.
    let again = call(json!({"inputResponses": {"else": {"x": 1}}, "requestState": first["requestState"]}));
    assert_eq!(keys(&again), ["q1"]);
    let second = call(json!({"inputResponses": {"q1": accept("name", "Bob")}, "requestState": first["requestState"]}));
    assert_eq!(keys(&second), ["q2"]);
    assert_ne!(second["requestState"], first["requestState"]);
    // A response is kept in the state: a later one to the same request is ignored.
    let third = call(json!({
        "inputResponses": {"q1": accept("name", "Eve"), "q2": {"action": "decline"}},
        "requestState": second["requestState"],
    }));
    assert_eq!(third["inputRequests"]["q3"]["method"], "sampling/createMessage");
    let model = json!({"role": "assistant", "content": {"type": "text", "text": "fine"}, "model": "m"});
    let last = call(json!({"inputResponses": {"q3": model}, "requestState": third["requestState"]}));
    assert_eq!(last["resultType"], "complete");
    assert_eq!(text(&last), "String(\"Bob\") decline fine");
    pair.assert_clean();
}

// req: M-MRTR-010 M-MRTR-012 M-MRTR-014 M-MRTR-015 M-MRTR-030
#[test]
fn validates_request_state_and_input_responses() {
    let service = service_with_requests().build().expect("a good service");
    let pair = modern(&service);
    let call = |more: Value| {
        let mut params = json!({"name": "interview", "arguments": {}});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        send(&pair, "tools/call", params, everything())
    };
    let state = call(json!({})).expect("input requests")["requestState"].as_str().expect("a state").to_owned();
    let answers = json!({"q1": {"action": "accept", "content": {"name": "Bob"}}});
    assert!(call(json!({"inputResponses": answers, "requestState": state})).is_ok());

    let mut tampered = state.clone().into_bytes();
    tampered[20] = if tampered[20] == b'A' { b'B' } else { b'A' };
    let tampered = String::from_utf8(tampered).expect("text");
    for bad in [json!(tampered), json!(""), json!("junk"), json!(5), json!(null), json!(format!("{state}AAAA"))] {
        assert_eq!(code(&call(json!({"inputResponses": answers, "requestState": bad}))), -32602, "{bad}");
    }
    // The state in another request, and in another method.
    let params = json!({"name": "swallows", "arguments": {}, "inputResponses": answers, "requestState": state});
    assert_eq!(code(&send(&pair, "tools/call", params, everything())), -32602);
    assert_eq!(code(&call(json!({"arguments": {"x": 1}, "requestState": state}))), -32602);
    let params = json!({"name": "interview", "inputResponses": answers, "requestState": state});
    assert_eq!(code(&send(&pair, "prompts/get", params, everything())), -32602);
    // An expired state, and the state of a server with another key.
    let late = modern(&service_with_requests().state_lifetime(Duration::ZERO).build().expect("a good service"));
    let params = json!({"name": "interview", "arguments": {}});
    let expired = send(&late, "tools/call", params.clone(), everything()).expect("input requests");
    assert_eq!(code(&call(json!({"requestState": expired["requestState"]}))), -32602);
    let other = modern(&service_with_requests().state_key([8; 32]).build().expect("a good service"));
    let foreign = send(&other, "tools/call", params, everything()).expect("input requests");
    assert_eq!(code(&call(json!({"requestState": foreign["requestState"]}))), -32602);

    for bad in [
        json!([]),
        json!("x"),
        json!(null),
        json!({"q1": 5}),
        json!({"q1": {}}),
        json!({"q1": {"action": "accept", "content": {"name": 7}}}),
        json!({"q1": {"action": "accept"}}),
    ] {
        assert_eq!(code(&call(json!({"inputResponses": bad, "requestState": state}))), -32602, "{bad}");
    }
    pair.assert_clean();
}

// req: M-MRTR-009 M-MRTR-033
#[test]
fn undeclared_input_fails_the_request() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let page = |context: Context| {
        context.elicit_url("Sign in", "https://example.com/").wait().map(|visit| visit.action.to_string())
    };
    let service = service_with_requests()
        .tool(Tool::new("page", page))
        .tool(
            Tool::new("declared", move || {
                count.fetch_add(1, Ordering::SeqCst);
                "ran"
            })
            .requires(Capability::Sampling),
        )
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let call = |name: &str, capabilities| send(&pair, "tools/call", json!({"name": name}), capabilities);
    for (name, capabilities, missing) in [
        ("interview", json!({}), json!({"elicitation": {"form": {}}})),
        ("interview", json!({"elicitation": {"url": {}}}), json!({"elicitation": {"form": {}}})),
        ("page", json!({"elicitation": {}}), json!({"elicitation": {"url": {}}})),
        ("declared", json!({}), json!({"sampling": {}})),
    ] {
        let error = call(name, capabilities).expect_err("an error");
        assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &missing), "{name}");
    }
    // A handler that does not need the client's response completes without it.
    assert_eq!(text(&call("shy", json!({})).expect("a result")), "none");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(text(&call("declared", json!({"sampling": {}})).expect("a result")), "ran");

    let mute = Host::builder("client", "1").build();
    let legacy = Pair::new(&mute, &service, ProtocolVersion::V2025_11_25);
    let result = legacy.send_request("tools/call", json!({"name": "declared"})).expect("a result");
    assert_eq!(result["isError"], true);
    assert!(text(&result).contains("sampling"), "{result}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

// req: M-MRTR-002 M-COMPL-010
#[test]
fn completion_cannot_request_input() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let note = received.clone();
    let service = Service::builder("test", "1")
        .prompt(Prompt::with_arguments("p", [mcp_proto::schema::PromptArgument::new("a")], || "text").complete(
            "a",
            move |completing: crate::inbound::completion_request::CompletionRequest| {
                lock(&note).push(completing.context.roots().wait());
                vec!["x"]
            },
        ))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let params = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    let result = pair.send_request("completion/complete", params).expect("a result");
    assert_eq!(result["completion"]["values"], json!(["x"]));
    assert!(matches!(lock(&received).as_slice(), [Err(CallError::Send(_))]), "{received:?}");
    pair.assert_clean();
}

// req: M-MRTR-006
#[test]
fn request_inputs_sends_input_requests_together() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("all", |context: Context| {
            let greeting = CreateMessageParams::new([SamplingMessage::user("Greet")], 10_u64);
            let input_requests: [(_, InputRequest); 3] = [
                ("user_name", ElicitParams::from(ElicitFormParams::new("Who are you?", form("name"))).into()),
                ("greeting", greeting.into()),
                ("roots", ListRootsParams::default().into()),
            ];
            let answers = context.request_inputs(input_requests).wait()?;
            let name = answers.get::<ElicitParams>("user_name")?;
            let model = answers.get::<CreateMessageParams>("greeting")?.model;
            let roots = answers.get::<ListRootsParams>("roots")?.roots.len();
            Ok::<_, Failure>(format!("{} {model} {roots}", said(&name, "name")))
        }))
        .build()
        .expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&obliging().build(), &service, version);
        let result = pair.send_request("tools/call", json!({"name": "all"})).expect("a result");
        assert_eq!(text(&result), "String(\"Ada\") m 1", "{version}");
    }
    let pair = modern(&service);
    let result = send(&pair, "tools/call", json!({"name": "all"}), everything()).expect("input requests");
    assert_eq!(result["inputRequests"].as_object().expect("input requests").len(), 3);
    assert_eq!(result["inputRequests"]["roots"], json!({"method": "roots/list", "params": {}}));
}

#[test]
fn modern_request_uses_its_own_revision() {
    let service = Service::builder("test", "1")
        .tool(
            Tool::new("logs", |context: Context| {
                context.log(LoggingLevel::Info, None, "said").wait()?;
                Ok::<_, Failure>(context.version().to_string())
            })
            .task_support(TaskSupport::Optional),
        )
        .tool(Tool::new("must", |_: Context| ()).task_support(TaskSupport::Required))
        .tool(Tool::new("typed", |_: Context| ()))
        .build()
        .expect("a good service");
    // A session and a request without one, on the same connection.
    let pair = Pair::new(&obliging().build(), &service, ProtocolVersion::V2025_11_25);
    let result = send(&pair, "tools/call", json!({"name": "logs", "task": {"ttl": 1}}), json!({})).expect("a result");
    assert_eq!(text(&result), "2026-07-28", "a tool that can be a task is run without where there are none");
    assert_eq!(code(&send(&pair, "tools/call", json!({"name": "must"}), json!({}))), -32021);
    assert_eq!(code(&send(&pair, "resources/read", json!({"uri": "test://none"}), json!({}))), -32601);
    assert_eq!(
        pair.send_request("tools/call", json!({"name": "must"})).map_err(|error| error["code"].clone()),
        Err(json!(-32601))
    );
    let result = send(&pair, "tools/call", json!({"name": "typed", "arguments": {"x": 1}}), json!({}));
    assert_eq!(result.expect("a result")["isError"], true);
}

// req: M-SUBS-004 M-SUBS-010
#[test]
fn changes_reach_subscribers_without_session() {
    let service = service_with_requests().subscriptions().build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&obliging().build(), &service, version);
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://interview"]});
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"notifications": filter, "_meta": meta});
        let listen = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
        pair.input_to_server(&listen.to_string());
        pair.server.flush();
        pair.server.take_lines();
        service.add(Tool::new("new", || ())).expect("a good tool");
        assert!(service.remove_tool("new"));
        assert_eq!(service.resource_updated("test://interview"), 1);
        assert_eq!(service.resource_updated("test://other"), 0);
        pair.server.flush();
        let lines = pair.server.take_lines();
        let tagged = |method: &str| {
            let of = |line: &&Value| line["method"] == method;
            let all: Vec<_> = lines.iter().filter(of).map(|it| it["params"]["_meta"].clone()).collect();
            let tag = json!({"io.modelcontextprotocol/subscriptionId": "l"});
            (all.iter().filter(|meta| **meta == tag).count(), all.len())
        };
        assert_eq!(tagged("notifications/resources/updated"), (1, 1), "the session has not subscribed");
        let session = usize::from(version == ProtocolVersion::V2025_11_25);
        assert_eq!(tagged("notifications/tools/list_changed"), (1, 1 + session));
    }
}
