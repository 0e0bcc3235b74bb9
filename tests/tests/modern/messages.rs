//! Messages of 2026-07-28: which are served, which are refused with which code, and which get no response.

use mcp_proto::{
    connection::{
        ClientConfig, Event, Outcome, RequestOptions, ResourceUsage, SendError, ServerConfig, ServerRole, Violation,
    },
    protocol::{Capability, Method, ProtocolVersion, VersionSet},
    rpc::ReplyKey,
    schema::{CallToolParams, Implementation, ListPromptsParams, ListToolsParams, ReadResourceParams},
    wire::{ErrorCode, ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::{error, listen, modern, modern_with, notification, notification_with, request, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

/// Returns servers of 2026-07-28: alone, beside the older revisions, and beside a session.
fn servers() -> [Harness<ServerRole>; 3] {
    let mut beside = Harness::with_versions(VersionSet::ALL);
    beside.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}));
    beside.feed(&notification("notifications/initialized"));
    assert_eq!(beside.take_events(), [Event::Ready]);
    beside.sent();
    [Harness::modern_server(), Harness::with_versions(VersionSet::ALL), beside]
}

// req: M-BASE-007 M-BASE-017
#[test]
fn response_ids_match_byte_for_byte() {
    for token in ["0", "-0", "7.0", r#""7""#, "9223372036854775808", "-9007199254740993", r#""\u00e9\"""#, r#""""#] {
        for mut server in servers() {
            let text = modern("ID", "tools/list", json!({})).to_string().replace("\"ID\"", token);
            let head = format!(r#"{{"jsonrpc":"2.0","id":{token},"#);
            server.feed_text(&text);
            let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token} is a good id") };
            server.respond(key, &json!({"tools": []}));
            assert!(server.sent_text()[0].starts_with(&format!("{head}\"result\":")), "{token}");
            server.feed_text(&text.replace("tools/list", "ping"));
            assert!(server.sent_text()[0].starts_with(&format!("{head}\"error\":")), "{token}");
        }
    }
    // A number and a string that look alike are two ids.
    let mut server = Harness::modern_server();
    let (number, text) = (
        server.receive_request(&modern(7, "tools/list", json!({}))),
        server.receive_request(&modern("7", "tools/list", json!({}))),
    );
    server.respond(text, &json!({"tools": [], "x": "text"}));
    server.respond(number, &json!({"tools": [], "x": "number"}));
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["result"]["x"]), (&json!("7"), &json!("text")));
    assert_eq!((&sent[1]["id"], &sent[1]["result"]["x"]), (&json!(7), &json!("number")));
}

// req: M-BASE-006 M-BASE-016 M-BASE-017 M-BASE-026 M-BASE-027 M-BASE-045 M-STDIO-002
#[test]
fn malformed_requests_get_the_matching_error_code() {
    let good = || modern(7, "tools/list", json!({}));
    let with = |name: &str, value: Value| {
        let mut message = good();
        message[name] = value;
        message.to_string().into_bytes()
    };
    let without = |name: &str| {
        let mut message = good();
        message.as_object_mut().expect("an object").remove(name);
        message.to_string().into_bytes()
    };
    let mut latin = good().to_string().replace("tools", "t\u{f6}ls").into_bytes();
    latin.retain(|byte| *byte != 0xc3);
    let seven = Some(json!(7));
    let table = [
        (with("id", json!(null)), -32600, None),
        (with("id", json!(1.5)), -32600, None),
        (with("id", json!(true)), -32600, None),
        (with("id", json!({"a": 1})), -32600, None),
        (with("id", json!([1])), -32600, None),
        (without("jsonrpc"), -32600, seven.clone()),
        (with("jsonrpc", json!("1.0")), -32600, seven.clone()),
        (with("jsonrpc", json!(2.0)), -32600, seven.clone()),
        (without("method"), -32600, seven.clone()),
        (with("method", json!(5)), -32600, seven.clone()),
        (with("method", json!(null)), -32600, seven.clone()),
        (with("params", json!([1])), -32602, seven),
        (json!([good()]).to_string().into_bytes(), -32600, None),
        (b"[]".to_vec(), -32600, None),
        (b"\"tools/list\"".to_vec(), -32600, None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,".to_vec(), -32700, None),
        (b"tools/list".to_vec(), -32700, None),
        (latin, -32700, None),
    ];
    for (line, code, id) in table {
        for mut server in servers() {
            server.feed_bytes(&line);
            let answer = one(server.sent());
            let shown = String::from_utf8_lossy(&line);
            assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(code), id.as_ref()), "{shown}");
            assert!(answer["error"]["message"].is_string() && answer.get("result").is_none(), "{answer}");
            assert!(matches!(server.take_events()[..], [Event::Violation(_)]), "{shown}");
            assert_eq!(server.conn.usage(), ResourceUsage::default());
            server.receive_request(&good());
        }
    }
}

// req: M-STDIO-002
#[test]
fn modern_requests_in_a_batch_are_refused() {
    let mut server = Harness::with_versions(VersionSet::ALL);
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}));
    server.feed(&notification("notifications/initialized"));
    server.sent();
    server.take_events();
    // A subscription would delay the other responses until it ends.
    server.feed(&json!([
        request(1, "ping"),
        modern(2, "tools/list", json!({})),
        modern(3, "server/discover", json!({})),
        listen(4, json!({"toolsListChanged": true})),
    ]));
    let answers = one(server.sent());
    let seen: Vec<_> =
        answers.as_array().expect("one frame").iter().map(|it| (&it["id"], &it["error"]["code"])).collect();
    let refused = json!(-32600);
    let null = Value::Null;
    assert_eq!(
        seen,
        [(&json!(1), &null), (&json!(2), &refused), (&json!(3), &refused), (&json!(4), &refused)],
        "{answers}"
    );
    assert!(server.take_events().iter().all(|event| matches!(event, Event::Violation(_))));
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

// req: M-BASE-021 M-BASE-056
#[test]
fn notifications_are_never_answered() {
    let meta = modern(1, "x", json!({}))["params"].clone();
    let odd = [
        notification("notifications/unknown"),
        notification_with("vendor/anything", meta.clone()),
        notification_with("notifications/unknown", json!([1])),
        notification_with("notifications/cancelled", json!({})),
        notification_with("notifications/cancelled", json!({"requestId": 99})),
        notification_with("notifications/cancelled", json!({"requestId": {}})),
        notification_with("notifications/progress", json!({"progressToken": 1, "progress": 1})),
        notification_with("notifications/tools/list_changed", meta.clone()),
        notification("notifications/roots/list_changed"),
        notification_with("tools/list", meta),
        notification("server/discover"),
        json!({"jsonrpc": "2.0", "method": "notifications/unknown", "params": {}, "unknown": 1}),
    ];
    for message in odd {
        for mut server in servers() {
            server.feed(&message);
            assert_eq!(server.sent(), NOTHING, "{message}");
            assert!(
                !server.take_events().iter().any(|event| matches!(event, Event::Closed(_) | Event::Request { .. }))
            );
            server.receive_request(&modern(1, "tools/list", json!({})));
        }
        let mut client = Harness::modern_client();
        client.feed(&message);
        assert_eq!(client.sent(), NOTHING, "{message}");
        assert!(client.conn.is_ready(), "{message}");
    }
}

// req: M-BASE-058
#[test]
fn responses_from_clients_are_violations() {
    for mut server in servers() {
        let key = server.receive_request(&modern(1, "tools/list", json!({})));
        for answer in [
            result(1, json!({"tools": []})),
            result(2, json!({"roots": []})),
            result("init", json!({})),
            error(1, -32603, "no"),
        ] {
            server.feed(&answer);
            assert!(matches!(server.take_events()[..], [Event::Violation(Violation::UnknownResponse(_))]), "{answer}");
            assert_eq!(server.sent(), NOTHING, "{answer}");
        }
        server.respond(key, &json!({"tools": []}));
        assert_eq!(one(server.sent())["id"], 1);
    }
}

// req: M-BASE-008
#[test]
fn non_object_results_are_not_sent() {
    let mut server = Harness::modern_server();
    let key = server.receive_request(&modern(1, "tools/call", json!({"name": "t"})));
    for bad in ["[]", "\"done\"", "null", "7", "true"] {
        let bad = Json::parse(bad).expect("JSON");
        assert!(matches!(server.conn.respond_raw(key, &RawJson::from(&bad)), Err(SendError::Encode(_))));
    }
    assert_eq!(server.sent(), NOTHING);
    server.respond(key, &json!({"content": []}));
    assert_eq!(one(server.sent())["result"]["resultType"], "complete");
}

fn code_of(server: &mut Harness<ServerRole>, key: ReplyKey, code: i64) -> i64 {
    let error = ErrorObject::new(ErrorCode(code), "why").with_data(Json::parse("{\"a\":1}").expect("JSON"));
    server.conn.respond_error(key, &error).expect("an answer is owed");
    let answer = one(server.sent());
    assert_eq!((&answer["error"]["message"], &answer["error"]["data"]), (&json!("why"), &json!({"a": 1})));
    answer["error"]["code"].as_i64().expect("a code")
}

// req: M-BASE-031 M-BASE-034 M-BASE-036 M-BASE-037
#[test]
fn reserved_error_codes_are_replaced() {
    let [_, _, mut server] = servers();
    for code in (-32100..=-31999).chain([-32700, -32603, -32602, -32601, -32600, -1, 0, 5]) {
        let key = server.receive_request(&modern("m", "resources/read", json!({"uri": "a:b"})));
        let expected = match code {
            // This error has its own code in 2026-07-28.
            -32002 => -32602,
            -32022..=-32020 => code,
            -32099..=-32000 => -32603,
            _ => code,
        };
        assert_eq!(code_of(&mut server, key, code), expected, "{code}");
        // Handlers of a session may use any code.
        let key = server.receive_request(
            &json!({"jsonrpc": "2.0", "id": "l", "method": "resources/read", "params": {"uri": "a:b"}}),
        );
        assert_eq!(code_of(&mut server, key, code), code);
    }
}

// req: M-BASE-035
#[test]
fn new_error_codes_have_one_meaning() {
    assert_eq!(ErrorCode::HEADER_MISMATCH, ErrorCode(-32020));
    assert_eq!(ErrorCode::MISSING_CLIENT_CAPABILITY, ErrorCode(-32021));
    assert_eq!(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, ErrorCode(-32022));
    // Only an unsupported version gets the code for unsupported versions.
    let unserved = json!({"io.modelcontextprotocol/protocolVersion": "1999-12-31"});
    for message in [
        modern_with(1, "tools/list", json!({}), json!({"io.modelcontextprotocol/clientCapabilities": 5})),
        modern_with(1, "tools/list", json!({}), json!({"io.modelcontextprotocol/protocolVersion": 5})),
        modern(1, "initialize", json!({})),
        modern(1, "tasks/list", json!({})),
        listen(1, json!([])),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
        json!({"jsonrpc": "2.0", "id": {}, "method": "tools/list"}),
        modern_with(1, "tools/list", json!({}), unserved),
    ] {
        let mut server = Harness::modern_server();
        server.feed(&message);
        let code = one(server.sent())["error"]["code"].as_i64().expect("a code");
        assert_eq!(code == -32022, message.to_string().contains("1999"), "{message}");
        assert!(![-32020, -32021].contains(&code), "{message}");
    }
}

// req: M-BASE-033
#[test]
fn draft_error_codes_have_no_special_meaning() {
    for code in -32019..=-32000 {
        let mut config = full_client();
        config.settings.versions = VersionSet::ALL;
        let mut client = Harness::client(config);
        client.sent();
        client.feed(&error(1, code, "no"));
        assert_eq!(one(client.sent())["method"], "initialize", "{code} says nothing about the era");

        let mut client = Harness::modern_client();
        let call = client.call("tools/list");
        client.feed(&error(call.as_u64(), code, "no"));
        let events = client.take_events();
        let [Event::Response { outcome: Outcome::Error(error), .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(error.code, ErrorCode(code));
        assert_eq!(client.sent(), NOTHING, "{code} is not tried again");
        assert!(client.conn.is_ready());
    }
}

// req: M-BASE-002
#[test]
fn base_protocol_works_without_capabilities() {
    let mut config = ServerConfig::new(Implementation::new("plain", "1"), 1);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut server = Harness::server(config);
    server.feed(&modern(1, "server/discover", json!({})));
    assert_eq!(one(server.sent())["result"]["capabilities"], json!({}));
    server.feed(&modern_with(1, "server/discover", json!({}), json!({"io.modelcontextprotocol/protocolVersion": "x"})));
    assert_eq!(one(server.sent())["error"]["code"], -32022);
    server.feed(&listen("s", json!({"toolsListChanged": true})));
    assert_eq!(one(server.sent())["params"]["notifications"], json!({}));
    server.take_events();
    let key = server.receive_request(&modern(2, "vendor/own", json!({})));
    server.respond(key, &json!({}));
    assert_eq!(one(server.sent())["result"]["resultType"], "complete");

    // A client without capabilities still retries a request with a request state.
    let mut client = Harness::modern_client_with(ClientConfig::new(Implementation::new("plain", "1"), 1));
    let call =
        client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("it is ready");
    let first = one(client.sent());
    client.feed(&result(first["id"].clone(), json!({"resultType": "input_required", "requestState": "s"})));
    let second = one(client.sent());
    assert_eq!((&second["method"], &second["params"]["requestState"]), (&json!("tools/call"), &json!("s")));
    client.feed(&result(second["id"].clone(), json!({"resultType": "complete", "content": []})));
    let events = client.take_events();
    assert!(matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call));
}

// req: M-BASE-055
#[test]
fn client_requests_need_server_capabilities() {
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut client = Harness::client(config);
    client.sent();
    client.feed(&result(
        1,
        json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}),
    ));
    client.take_events();
    let options = RequestOptions::default;
    let (prompts, resource) = (ListPromptsParams::default(), ReadResourceParams::new("a:b"));
    assert_eq!(client.conn.request(client.now, &prompts, options()), Err(SendError::Undeclared(Capability::Prompts)));
    assert_eq!(
        client.conn.request(client.now, &resource, options()),
        Err(SendError::Undeclared(Capability::Resources))
    );
    let completion = Method::Complete.as_str();
    let raw = client.conn.request_raw(client.now, completion, None, options());
    assert_eq!(raw, Err(SendError::Undeclared(Capability::Completions)));
    assert_eq!(client.sent(), NOTHING);
    assert!(client.conn.request(client.now, &ListToolsParams::default(), options()).is_ok());
}

// req: M-BASE-012 M-BASE-013
#[test]
fn task_results_need_the_declared_extension() {
    let extension = Capability::TasksExtension;
    for (declared, method, kind, good) in [
        (true, "tools/call", "complete", true),
        (true, "tools/call", "task", true),
        (false, "tools/call", "task", false),
        (true, "tools/list", "task", false),
        (true, "prompts/get", "task", false),
        (true, "tools/call", "Task", false),
        (true, "tools/call", "com.example/kind", false),
        (false, "tools/call", "", false),
    ] {
        let mut config = full_client();
        config.capabilities = if declared { config.capabilities.with(extension) } else { config.capabilities };
        let mut client = Harness::modern_client_with(config);
        let call = client.call(method);
        let task = json!({"resultType": kind, "content": [], "taskId": "t", "status": "working",
            "createdAt": "2026-08-01T10:00:00Z", "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": null});
        client.feed(&result(call.as_u64(), task));
        let events = client.take_events();
        match &events[..] {
            [Event::Response { outcome: Outcome::Result(_), .. }] if good && kind == "complete" => {}
            [Event::Task { call: of, .. }] if good => assert_eq!(*of, call),
            [Event::Response { outcome: Outcome::Malformed, .. }] if !good => {}
            _ => panic!("{declared} {method} {kind}: {events:?}"),
        }
    }
}
