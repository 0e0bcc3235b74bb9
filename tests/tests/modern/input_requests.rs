//! Input requests in results (2026-07-28): which results may have them, and which requests are allowed.

use mcp_proto::{
    connection::{ClientRole, Event, Outcome, RequestOptions, ResourceUsage},
    protocol::{Method, ProtocolVersion, VersionSet},
    rpc::CallId,
    schema::{CallToolParams, GetPromptParams, ReadResourceParams},
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::{modern, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

fn call(client: &mut Harness<ClientRole>, name: &str) -> (CallId, Value) {
    let call = client.conn.request(client.now, &CallToolParams::new(name), RequestOptions::default());
    (call.expect("it is ready"), one(client.sent()))
}

// req: M-MRTR-003 M-MRTR-025 M-MRTR-037
#[test]
fn only_three_methods_retry_after_input_required() {
    let options = RequestOptions::default();
    for method in Method::ALL.iter().copied().filter(|method| method.kind() == mcp_proto::protocol::MethodKind::Request)
    {
        let mut client = Harness::modern_client();
        let requested = match method {
            Method::CallTool => client.conn.request(client.now, &CallToolParams::new("t"), options.clone()),
            Method::GetPrompt => client.conn.request(client.now, &GetPromptParams::new("p"), options.clone()),
            Method::ReadResource => client.conn.request(client.now, &ReadResourceParams::new("a:b"), options.clone()),
            _ => client.conn.request_raw(client.now, method.as_str(), None, options.clone()),
        };
        let Ok(requested) = requested else { continue };
        let first = one(client.sent());
        client.feed(&result(first["id"].clone(), json!({"resultType": "input_required", "requestState": "s"})));
        let may_require_input = [Method::CallTool, Method::GetPrompt, Method::ReadResource].contains(&method);
        if may_require_input {
            let again = one(client.sent());
            let mut expected = first.clone();
            expected["id"] = again["id"].clone();
            expected["params"]["_meta"]["progressToken"] = again["id"].clone();
            expected["params"]["requestState"] = json!("s");
            assert_eq!(again, expected, "{method}");
        } else {
            assert_eq!(
                client.take_events(),
                [Event::Response { call: requested, outcome: Outcome::Malformed }],
                "{method}"
            );
            assert_eq!(client.sent(), NOTHING);
        }
    }
}

// req: M-MRTR-023 M-MRTR-038
#[test]
fn retry_carries_only_the_latest_state() {
    let mut client = Harness::modern_client();
    let (_, first) = call(&mut client, "t");
    let mut request = first;
    // The result of each round, and what the next request repeats of it.
    for (name, state) in [("a", Some("1")), ("b", None), ("c", Some("3")), ("d", None)] {
        let mut requires_input =
            json!({"resultType": "input_required", "inputRequests": {name: {"method": "roots/list"}}});
        if let Some(state) = state {
            requires_input["requestState"] = json!(state);
        }
        client.feed(&result(request["id"].clone(), requires_input));
        let events = client.take_events();
        let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
        client.respond(key, &json!({"roots": []}));
        request = one(client.sent());
        assert_eq!(request["params"].get("requestState"), state.map(|state| json!(state)).as_ref(), "{name}");
        assert_eq!(request["params"]["inputResponses"], json!({name: {"roots": []}}));
    }
    // The first request carries a state and responses of an earlier call.
    let own = [
        json!({"name": "t", "requestState": "own", "inputResponses": {"own": {}}}),
        json!({"requestState": "own", "inputResponses": {"own": {}}, "name": "t"}),
        json!({"inputResponses": {"own": {}}, "requestState": "own"}),
    ];
    for params in own {
        for (state, asks) in [(Some("1"), true), (None, true), (Some("1"), false)] {
            let mut client = Harness::modern_client();
            let own = Json::new(&params).expect("JSON");
            let options = RequestOptions::default();
            let requested = client.conn.request_raw(client.now, "tools/call", Some(&RawJson::from(&own)), options);
            requested.expect("it is ready");
            let first = one(client.sent());
            assert_eq!(first["params"]["requestState"], "own");
            let mut requires_input = json!({"resultType": "input_required"});
            if let Some(state) = state {
                requires_input["requestState"] = json!(state);
            }
            if asks {
                requires_input["inputRequests"] = json!({"a": {"method": "roots/list"}});
            }
            client.feed(&result(first["id"].clone(), requires_input));
            if asks {
                let events = client.take_events();
                let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
                client.respond(key, &json!({"roots": []}));
            }
            let again = one(client.sent())["params"].clone();
            let answers = asks.then(|| json!({"a": {"roots": []}}));
            assert_eq!(again.get("requestState"), state.map(|state| json!(state)).as_ref(), "{params}");
            assert_eq!(again.get("inputResponses"), answers.as_ref(), "{params}");
            assert_eq!(again.get("name"), params.get("name"), "{params}");
        }
    }
}

// req: M-MRTR-017
#[test]
fn input_required_leaves_no_server_state() {
    let mut server = Harness::modern_server();
    for id in 0..1000 {
        let key = server.receive_request(&modern(id, "tools/call", json!({"name": "t"})));
        server.respond(key, &json!({"resultType": "input_required", "requestState": "s"}));
        assert_eq!(one(server.sent())["result"]["resultType"], "input_required");
    }
    assert_eq!(server.conn.usage(), ResourceUsage::default());
    assert_eq!(server.conn.poll_timeout(), None);
    // A retry is an ordinary request, with any id.
    let key = server.receive_request(&modern(
        5,
        "tools/call",
        json!({"name": "t", "requestState": "s", "inputResponses": {}}),
    ));
    server.respond(key, &json!({"content": []}));
    assert_eq!(one(server.sent())["result"]["resultType"], "complete");
}

// req: M-CACHE-001 M-CACHE-004
#[test]
fn only_final_results_carry_cache_hints() {
    for method in ["resources/read", "tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let mut server = Harness::modern_server();
        let key = server.receive_request(&modern(1, method, json!({"uri": "a:b"})));
        server.respond(key, &json!({"contents": []}));
        let hints = one(server.sent())["result"].clone();
        assert_eq!((&hints["ttlMs"], &hints["cacheScope"]), (&json!(0), &json!("private")), "{method}");
        let key = server.receive_request(&modern(2, method, json!({"uri": "a:b"})));
        server.respond(key, &json!({"contents": [], "ttlMs": 5000, "cacheScope": "public"}));
        let hints = one(server.sent())["result"].clone();
        assert_eq!((&hints["ttlMs"], &hints["cacheScope"]), (&json!(5000), &json!("public")), "{method}");
    }
    let mut server = Harness::modern_server();
    let key = server.receive_request(&modern(1, "resources/read", json!({"uri": "a:b"})));
    server.respond(key, &json!({"resultType": "input_required", "requestState": "s"}));
    let requires_input = one(server.sent())["result"].clone();
    assert_eq!((requires_input.get("ttlMs"), requires_input.get("cacheScope")), (None, None));
}

// req: M-SAMP-007 M-ELIC-008 M-ELIC-011
#[test]
fn undeclared_input_requests_are_refused() {
    let form_params = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let with = |mode: Value| {
        let mut params = form_params.clone();
        params["mode"] = mode;
        json!({"method": "elicitation/create", "params": params})
    };
    let page = json!({"method": "elicitation/create",
        "params": {"mode": "url", "message": "m", "url": "https://a/"}});
    let plain = json!({"messages": [], "maxTokens": 5});
    let sample = |name: &str, value: Value| {
        let mut params = plain.clone();
        params[name] = value;
        json!({"method": "sampling/createMessage", "params": params})
    };
    let (form, url) = (json!({"elicitation": {"form": {}}}), json!({"elicitation": {"url": {}}}));
    let (any, model) = (json!({"elicitation": {}}), json!({"sampling": {}}));
    let tools = json!({"sampling": {"tools": {}}});
    // The declared capabilities, the input request, and whether it reaches the application.
    let table = [
        (&form, with(json!("form")), true),
        (&form, json!({"method": "elicitation/create", "params": form_params}), true),
        (&url, json!({"method": "elicitation/create", "params": form_params}), false),
        (&form, with(Value::Null), true),
        (&any, with(json!("form")), true),
        (&any, page.clone(), false),
        (&form, page.clone(), false),
        (&form, with(json!("hologram")), false),
        (&form, with(json!(5)), false),
        (&url, page, true),
        (&url, with(json!("form")), false),
        (&model, with(json!("form")), false),
        (&model, sample("temperature", json!(0.5)), true),
        (&model, sample("tools", json!([])), false),
        (&model, sample("toolChoice", json!({"mode": "none"})), false),
        (&tools, sample("tools", json!([])), true),
        (&tools, sample("toolChoice", json!({"mode": "none"})), true),
        (&form, sample("temperature", json!(1)), false),
        (&model, json!({"method": "roots/list"}), false),
    ];
    for (declared, input_request, is_requested) in table {
        let mut config = full_client();
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        config.capabilities = serde_json::from_value(declared.clone()).expect("capabilities");
        let mut client = Harness::modern_client_with(config);
        let (asking, request) = call(&mut client, "t");
        let requires_input = json!({"resultType": "input_required", "inputRequests": {"q": input_request}});
        client.feed(&result(request["id"].clone(), requires_input));
        let events = client.take_events();
        match &events[..] {
            [Event::Request { key, .. }] if is_requested => {
                client.respond(*key, &json!({}));
                assert_eq!(one(client.sent())["params"]["inputResponses"], json!({"q": {}}));
            }
            [Event::Response { call: ended, outcome: Outcome::Malformed }] if !is_requested => {
                assert_eq!(*ended, asking);
                assert_eq!(client.sent(), NOTHING);
                assert_eq!(client.conn.usage(), ResourceUsage::default());
            }
            _ => panic!("{declared} {input_request}: {events:?}"),
        }
    }
}
