//! Requests of 2026-07-28 on a server, alone and beside a legacy session on the same pipe.

use mcp_proto::{
    connection::{CloseReason, Event, RequestOptions, SendError, ServerConfig, Violation},
    protocol::{Method, ProtocolVersion, VersionSet},
    rpc::ReplyKey,
    schema::{
        CallToolResult, ListRootsParams, ListToolsResult, LogMessageParams, LoggingLevel, ResourceUpdatedParams,
        ToolsListChangedParams,
    },
    wire::{Json, RequestId},
};
use mcp_tests::harness::{Harness, full_server};
use serde_json::{Value, json};

type Server = Harness<mcp_proto::connection::ServerRole>;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn config(versions: VersionSet) -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = versions;
    config
}

/// The levels of RFC 5424, from the least severe to the most severe.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn dual() -> Server {
    Harness::server(config(VersionSet::ALL))
}

/// Returns a request of the modern era with additional `_meta` fields.
fn request(id: impl Into<Value>, method: &str, mut params: Value, meta: Value) -> Value {
    let mut all = json!({ VERSION: "2026-07-28", CAPABILITIES: {} });
    for (key, value) in meta.as_object().expect("members of _meta") {
        all[key] = value.clone();
    }
    params["_meta"] = all;
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "old", "version": "1"}}})
}

fn key(events: &[Event<'_>]) -> ReplyKey {
    match events {
        [Event::Request { key, .. }] => *key,
        other => panic!("one request: {other:?}"),
    }
}

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

// req: M-DISC-001 M-DISC-003 M-DISC-004 M-DISC-005 M-BASE-009 M-BASE-010
#[test]
fn discovery_needs_no_handshake() {
    let mut server = Harness::server(ServerConfig { instructions: Some("Ask me".into()), ..config(VersionSet::ALL) });
    server.feed(&request(1, "server/discover", json!({}), json!({})));
    let answer = one(server.sent());
    let result = &answer["result"];
    assert_eq!((&result["resultType"], &result["instructions"]), (&json!("complete"), &json!("Ask me")));
    assert_eq!(
        result["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
    assert_eq!(result["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"], json!({"name": "server", "version": "1"}));
    assert_eq!(server.take_events(), []);
}

// req: M-DUAL-033
#[test]
fn legacy_tasks_capability_is_not_advertised() {
    let mut server = dual();
    server.feed(&request(1, "server/discover", json!({}), json!({})));
    assert_eq!(one(server.sent())["result"]["capabilities"].get("tasks"), None);
}

// req: M-META-005 M-META-006 M-META-007 M-VERS-002 M-VERS-003 M-VERS-004 M-DISC-012 M-DUAL-023 M-BASE-028
#[test]
fn invalid_requests_get_specific_error_codes() {
    let bad = |meta: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let table = [
        (bad(json!({VERSION: "2026-07-28"})), -32602),
        (bad(json!({VERSION: 5, CAPABILITIES: {}})), -32602),
        (bad(json!({VERSION: "2026-07-28", CAPABILITIES: []})), -32602),
        (bad(json!({CAPABILITIES: {}})), -32602),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), -32602),
        (bad(json!({VERSION: "2031-01-01", CAPABILITIES: {}})), -32022),
        (bad(json!({VERSION: "2025-11-25", CAPABILITIES: {}})), -32022),
        (request(1, "server/discover", json!({}), json!({VERSION: "x"})), -32022),
        (request(1, "initialize", initialize()["params"].clone(), json!({})), -32601),
        (request(1, "notifications/progress", json!({}), json!({})), -32600),
        (request(1, "tools/list", json!({}), json!({"io.modelcontextprotocol/logLevel": "loud"})), -32602),
    ];
    for (message, code) in table {
        let mut server = dual();
        server.feed(&message);
        let answer = one(server.sent());
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!(1)), "{message}");
        assert!(matches!(server.take_events()[..], [Event::Violation(_)]));
        assert_eq!(server.conn.usage(), mcp_proto::connection::ResourceUsage::default());
        if code == -32022 {
            let data = &answer["error"]["data"];
            assert_eq!(data["requested"], message["params"]["_meta"][VERSION]);
            assert!(data["supported"].as_array().expect("a list").contains(&json!("2026-07-28")));
        }
    }
}

// req: M-DISC-011
#[test]
fn unadvertised_methods_are_not_found() {
    let mut plain = ServerConfig::new(mcp_proto::schema::Implementation::new("s", "1"), 1);
    plain.settings.versions = VersionSet::ALL;
    let mut server = Harness::server(plain);
    for method in ["tools/list", "prompts/get", "resources/read", "completion/complete"] {
        server.feed(&request(1, method, json!({}), json!({})));
        assert_eq!(one(server.sent())["error"]["code"], -32601);
    }
}

// req: M-BASE-007 M-BASE-040 M-META-011 M-VERS-008 M-DUAL-019 M-DUAL-022 M-DUAL-039 M-DUAL-020
#[test]
fn both_eras_share_a_connection_independently() {
    let mut server = dual();
    server.feed(&initialize());
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}}));
    let set_level = server.take_events();
    let [Event::Ready, Event::Request { key: level, .. }] = &set_level[..] else { panic!("{set_level:?}") };
    server.conn.respond(*level, &mcp_proto::schema::EmptyResult::default()).expect("it is owed");
    server.sent();

    let info = json!({"name": "new", "version": "2"});
    let meta = json!({CAPABILITIES: {"sampling": {}}, "io.modelcontextprotocol/clientInfo": info});
    server.feed(&request("m", "tools/list", json!({}), meta));
    let modern = key(&server.take_events());
    server.feed(&json!({"jsonrpc": "2.0", "id": "l", "method": "tools/list"}));
    let legacy = key(&server.take_events());

    let context = server.conn.context(modern).expect("it is open");
    assert_eq!(context.version, ProtocolVersion::V2026_07_28);
    assert_eq!(context.client_info.map(|info| info.name.as_str()), Some("new"));
    assert!(context.client_capabilities.sampling.is_some() && context.client_capabilities.roots.is_none());
    assert_eq!(context.log_level, None);
    let context = server.conn.context(legacy).expect("it is open");
    assert_eq!(context.version, ProtocolVersion::V2025_06_18);
    assert_eq!(context.client_info.map(|info| info.name.as_str()), Some("old"));
    assert_eq!(context.log_level, Some(LoggingLevel::Error));

    for key in [modern, legacy] {
        server.conn.respond(key, &ListToolsResult::new(vec![])).expect("it is owed");
    }
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["result"]["resultType"]), (&json!("m"), &json!("complete")));
    assert_eq!(sent[1], json!({"jsonrpc": "2.0", "id": "l", "result": {"tools": []}}));
}

#[test]
fn only_cacheable_results_carry_cache_hints() {
    let mut server = dual();
    server.feed(&request(1, "tools/list", json!({}), json!({})));
    let list = key(&server.take_events());
    server.conn.respond(list, &ListToolsResult::new(vec![])).expect("it is owed");
    let result = one(server.sent())["result"].clone();
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));

    // A result that is passed on without hints gets the same ones.
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"] {
        server.feed(&request(1, method, json!({"uri": "a:b"}), json!({})));
        let passed_on = key(&server.take_events());
        server.conn.respond_raw(passed_on, &(&Json::parse("{}").expect("JSON")).into()).expect("it is owed");
        let result = one(server.sent())["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{method}");
    }

    server.feed(&request(2, "tools/call", json!({"name": "t"}), json!({})));
    let call = key(&server.take_events());
    server.conn.respond(call, &CallToolResult::text("x")).expect("it is owed");
    let result = one(server.sent())["result"].clone();
    assert_eq!((result.get("ttlMs"), &result["resultType"]), (None, &json!("complete")));

    server.feed(&request(3, "tools/call", json!({"name": "t"}), json!({})));
    let requires_input = key(&server.take_events());
    let text = r#"{"resultType":"input_required","requestState":"s"}"#;
    server.conn.respond_raw(requires_input, &(&Json::parse(text).expect("JSON")).into()).expect("it is owed");
    assert_eq!(one(server.sent())["result"]["resultType"], "input_required");
}

// req: M-LOG-003
#[test]
fn log_messages_respect_the_requested_level() {
    for requested in LoggingLevel::ALL {
        let mut server = dual();
        let meta = json!({"io.modelcontextprotocol/logLevel": requested.as_str()});
        server.feed(&request(1, "tools/call", json!({"name": "t"}), meta));
        let call = key(&server.take_events());
        for level in LoggingLevel::ALL {
            let message = LogMessageParams::new(level, Json::parse("1").expect("JSON"));
            server.conn.log(call, &message).expect("the request is open");
        }
        let sent: Vec<Value> = server.sent().iter().map(|message| message["params"]["level"].clone()).collect();
        let first = LEVELS.iter().position(|level| *level == requested.as_str()).expect("one of the eight");
        assert_eq!(sent, LEVELS[first..], "{requested:?}");
    }
}

// req: M-LOG-002 M-LOG-004 M-PROG-004 M-PROG-010 M-PROG-016
#[test]
fn progress_and_logs_are_opt_in_and_end_at_response() {
    let mut server = dual();
    let send_log = |server: &mut Server, key, level| {
        let message = LogMessageParams::new(level, Json::parse("\"hm\"").expect("JSON"));
        server.conn.log(key, &message).expect("it is open");
    };
    server.feed(&request(1, "tools/call", json!({"name": "t"}), json!({})));
    let silent = key(&server.take_events());
    send_log(&mut server, silent, LoggingLevel::Emergency);
    server.conn.progress(silent, 1.0, None, None).expect("without a token nothing happens");
    assert_eq!(server.sent(), Vec::<Value>::new());

    let meta = json!({"io.modelcontextprotocol/logLevel": "warning", "progressToken": "t"});
    server.feed(&request(2, "tools/call", json!({"name": "t"}), meta));
    let requested = key(&server.take_events());
    send_log(&mut server, requested, LoggingLevel::Info);
    send_log(&mut server, requested, LoggingLevel::Error);
    server.conn.progress(requested, 0.5, Some(1.0), Some("half")).expect("it grows");
    server.conn.respond(requested, &CallToolResult::text("x")).expect("it is owed");
    let sent = server.sent();
    assert_eq!(sent[0]["params"], json!({"level": "error", "data": "hm"}));
    assert_eq!(sent[1]["params"], json!({"progressToken": "t", "progress": 0.5, "total": 1, "message": "half"}));
    assert_eq!(sent[2]["id"], 2);
    assert_eq!(server.conn.progress(requested, 1.0, None, None), Err(SendError::Answered));
}

// req: M-BASE-023 M-STDIO-008 M-DUAL-040
#[test]
fn modern_servers_cannot_send_requests() {
    for versions in [VersionSet::only(ProtocolVersion::V2026_07_28), VersionSet::ALL] {
        let mut server = Harness::server(config(versions));
        let send_any_request = |server: &mut Server| {
            for method in Method::ALL.iter().map(|method| method.as_str()).chain(["vendor/own"]) {
                let requested = server.conn.request_raw(server.now, method, None, RequestOptions::default());
                assert_eq!(requested, Err(SendError::NotReady), "{method}");
            }
            let requested = server.conn.request(server.now, &ListRootsParams::default(), RequestOptions::default());
            assert_eq!(requested, Err(SendError::NotReady));
        };
        send_any_request(&mut server);
        server.feed(&request(1, "tools/call", json!({"name": "t"}), json!({CAPABILITIES: {"roots": {}}})));
        key(&server.take_events());
        send_any_request(&mut server);
        assert_eq!(server.sent(), Vec::<Value>::new());
    }
}

// req: M-DUAL-025
#[test]
fn modern_server_names_its_revision_to_old_clients() {
    let mut server = Harness::server(config(VersionSet::only(ProtocolVersion::V2026_07_28)));
    server.feed(&initialize());
    let answer = one(server.sent());
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().expect("text").contains("2026-07-28"));
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-06-18"}));
    server.feed(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(one(server.sent())["error"]["code"], -32602);
}

// req: M-STDIO-012 M-STDIO-014 M-DUAL-038 M-CANC-012
#[test]
fn cancelled_requests_send_nothing() {
    let mut server = dual();
    // Responses of the connection itself are removed as well.
    server.feed(&request("a", "server/discover", json!({}), json!({})));
    server.feed(&request(
        "b",
        "nothing/like/it",
        json!({}),
        json!({"io.modelcontextprotocol/protocolVersion": "2031-01-01"}),
    ));
    for id in ["a", "b"] {
        server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    assert_eq!(server.sent(), Vec::<Value>::new());
    server.take_events();
    server.feed(&request("a", "tools/call", json!({"name": "t"}), json!({"progressToken": 1})));
    let call = key(&server.take_events());
    server.conn.progress(call, 1.0, None, None).expect("it grows");
    server.conn.respond(call, &CallToolResult::text("x")).expect("it is owed");
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}));
    assert_eq!(server.sent(), Vec::<Value>::new());
    assert_eq!(server.conn.usage(), mcp_proto::connection::ResourceUsage::default());
}

fn listen(id: impl Into<Value>, filter: Value) -> Value {
    request(id, "subscriptions/listen", json!({"notifications": filter}), json!({}))
}

fn tagged(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

// req: M-SUBS-004 M-SUBS-005 M-SUBS-006 M-SUBS-008 M-SUBS-010 M-SUBS-013 M-SUBS-023 M-SUBS-029 M-BASE-054
#[test]
fn subscriptions_are_acknowledged_then_filtered() {
    let mut server = dual();
    server.feed(&listen("s", json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://a"]})));
    server.feed(&listen(7, json!({"promptsListChanged": true})));
    let sent = server.sent();
    assert_eq!(sent[0]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        sent[0]["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://a"]})
    );
    assert_eq!((tagged(&sent[0]), tagged(&sent[1])), (&json!("s"), &json!(7)));
    assert_eq!(server.take_events(), []);

    for _ in 0..500 {
        server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    }
    for uri in ["mem://a", "mem://a/part", "mem://b", "mem://ab"] {
        server.conn.notify(&ResourceUpdatedParams::new(uri)).expect("it is declared");
    }
    let sent = server.sent();
    let seen: Vec<_> = sent.iter().map(|m| (m["method"].as_str(), tagged(m), &m["params"]["uri"])).collect();
    let updated = Some("notifications/resources/updated");
    assert_eq!(
        seen,
        [
            (updated, &json!("s"), &json!("mem://a")),
            (updated, &json!("s"), &json!("mem://a/part")),
            (Some("notifications/tools/list_changed"), &json!("s"), &Value::Null),
        ]
    );
}

// req: M-SUBS-003 M-SUBS-028 M-SUBS-031
#[test]
fn only_declared_notifications_are_acknowledged() {
    let mut config = config(VersionSet::ALL);
    config.capabilities = serde_json::from_value(json!({"tools": {"listChanged": true}, "prompts": {}})).expect("fit");
    let mut server = Harness::server(config);
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a://b"]});
    server.feed(&listen(1, all));
    assert_eq!(one(server.sent())["params"]["notifications"], json!({"toolsListChanged": true}));
    server.feed(&listen("none", json!({"promptsListChanged": true})));
    assert_eq!(one(server.sent())["params"]["notifications"], json!({}));
    server.feed(&request(3, "subscriptions/listen", json!({}), json!({})));
    assert_eq!(one(server.sent())["error"]["code"], -32602);
    server.take_events();
    server.feed(&listen(2, json!({"toolsListChanged": "yes"})));
    assert_eq!(one(server.sent())["error"]["code"], -32602);
    assert_eq!(server.take_events(), [Event::Violation(Violation::BadParams(Method::Listen))]);
}

// req: M-CANC-007 M-CANC-008 M-BASE-005 M-SUBS-015 M-SUBS-017
#[test]
fn subscription_ids_stay_in_use_until_the_end() {
    let mut server = dual();
    server.feed(&listen(1, json!({"toolsListChanged": true})));
    server.feed(&listen(2, json!({"toolsListChanged": true})));
    server.sent();
    server.feed(&listen(1, json!({})));
    assert_eq!(one(server.sent())["error"]["code"], -32600);
    assert_eq!(server.take_events(), [Event::Violation(Violation::DuplicateId(RequestId::from(1)))]);

    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    assert_eq!(tagged(&one(server.sent())), &json!(2));

    server.conn.close(server.now);
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["result"]["resultType"]), (&json!(2), &json!("complete")));
    assert_eq!(sent[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    assert_eq!(sent[1]["method"], "notifications/cancelled");
    assert_eq!(sent[1]["params"]["requestId"], 2);
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Local)]);
    assert_eq!(server.conn.usage(), mcp_proto::connection::ResourceUsage::default());
    assert!(server.conn.is_drained());
}

// req: M-SUBS-015
#[test]
fn cancelled_subscriptions_send_nothing() {
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let mut server = dual();
    server.feed(&listen(1, json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://a"]})));
    server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    server.conn.notify(&ResourceUpdatedParams::new("mem://a")).expect("it is declared");
    server.feed(&cancelled);
    assert_eq!(server.sent(), Vec::<Value>::new());
    assert_eq!(server.conn.usage(), mcp_proto::connection::ResourceUsage::default());
}

// req: M-SUBS-015
#[test]
fn subscription_ended_by_both_sides_is_silent() {
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let mut server = dual();
    server.feed(&listen(1, json!({"toolsListChanged": true})));
    server.feed(&request(2, "tools/list", json!({}), json!({})));
    let list = key(&server.take_events());
    server.sent();
    server.conn.close(server.now);
    // The end of the subscription is not sent yet, and the connection waits for another response.
    server.feed(&cancelled);
    server.conn.respond(list, &ListToolsResult::new(vec![])).expect("it is owed");
    assert_eq!(one(server.sent())["id"], 2);
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Local)]);
    assert!(server.conn.is_drained());
}

#[test]
fn strict_legacy_session_refuses_modern_meta() {
    let mut config = full_server();
    config.settings.strict_meta = true;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::LATEST_LEGACY);
    server.feed(&request(1, "tools/list", json!({}), json!({})));
    assert_eq!(one(server.sent())["error"]["code"], -32602);
    assert_eq!(server.take_events(), [Event::Violation(Violation::BadMeta)]);
    server.feed(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {
        "_meta": {"progressToken": 1, "com.example/own": 1}}}));
    key(&server.take_events());
}

#[test]
fn legacy_session_ignores_modern_meta() {
    let mut server = Harness::ready_server(ProtocolVersion::LATEST_LEGACY);
    server.feed(&request(1, "tools/list", json!({}), json!({})));
    let list = key(&server.take_events());
    server.conn.respond(list, &ListToolsResult::new(vec![])).expect("it is owed");
    assert_eq!(one(server.sent())["result"], json!({"tools": []}));
}

/// A client cannot avoid sending a request while the server closes, in either era.
#[test]
fn closing_servers_refuse_without_violation() {
    let mut server = dual();
    server.feed(&request(1, "tools/list", json!({}), json!({})));
    let key = key(&server.take_events());
    server.conn.close(server.now);
    for message in [initialize(), request(2, "tools/list", json!({}), json!({}))] {
        server.feed(&message);
        let refused = one(server.sent());
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&message["id"], &json!(-32603)));
    }
    assert_eq!(server.take_events(), []);
    server.respond(key, &json!({"tools": []}));
    assert_eq!(one(server.sent())["id"], 1);
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Local)]);
}
