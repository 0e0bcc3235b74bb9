//! A client of a server of 2026-07-28. How it finds out the era is tested in `probe.rs`.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientConfig, ClientRole, Event, Outcome, RequestOptions, SendError, Violation},
    protocol::{Method, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey},
    schema::{CallToolParams, ListToolsParams, PingParams, ToolsListChangedParams},
    wire::{ErrorObject, Json, RequestId},
};
use mcp_tests::harness::{Harness, full_client};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const META: &str = "io.modelcontextprotocol/";

fn config(versions: VersionSet) -> ClientConfig {
    let mut config = full_client();
    config.settings.versions = versions;
    config
}

fn modern_only() -> VersionSet {
    VersionSet::only(ProtocolVersion::V2026_07_28)
}

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

/// Returns a client that has sent its first message, and that message.
fn opened(versions: VersionSet) -> (Client, Value) {
    let mut client = Harness::client(config(versions));
    let first = one(client.sent());
    (client, first)
}

fn discovered(id: &Value, versions: &[&str]) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {
        "resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {}}, "ttlMs": 0,
        "cacheScope": "public", "instructions": "Ask me", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "1"}}}})
}

fn modern() -> Client {
    let (mut client, probe) = opened(modern_only());
    client.feed(&discovered(&probe["id"], &["2026-07-28"]));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

// req: M-BASE-052 M-BASE-053 M-BASE-057 M-BASE-024 M-STDIO-007
#[test]
fn modern_client_sends_meta_and_never_responds() {
    let mut client = modern();
    let server = client.conn.server().expect("it has said who it is");
    assert_eq!((server.server_info.name.as_str(), server.instructions.as_deref()), ("new", Some("Ask me")));
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
    let request = one(client.sent());
    let meta = &request["params"]["_meta"];
    assert_eq!(meta[format!("{META}protocolVersion")], "2026-07-28");
    assert_eq!(meta["progressToken"], request["id"]);
    let ping = client.conn.request(client.now, &PingParams::default(), RequestOptions::default());
    assert!(matches!(ping, Err(SendError::NotInRevision { method: Method::Ping, .. })));
    let changed = client.conn.notify(&mcp_proto::schema::RootsListChangedParams::default());
    assert!(matches!(changed, Err(SendError::NotInRevision { .. })));

    for message in [
        json!({"jsonrpc": "2.0", "id": 9, "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}),
        json!({"id": 9, "method": "ping"}),
    ] {
        client.feed(&message);
        assert!(matches!(client.take_events()[..], [Event::Violation(_)]));
    }
    assert_eq!(client.sent(), Vec::<Value>::new());
}

fn call(client: &mut Client) -> (CallId, Value) {
    let params = CallToolParams {
        arguments: Some(mcp_proto::wire::JsonObject::parse(r#"{"a":1}"#).expect("an object")),
        ..CallToolParams::new("t")
    };
    let call = client.conn.request(client.now, &params, RequestOptions::default()).expect("it is ready");
    (call, one(client.sent()))
}

fn result(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn respond(client: &mut Client, key: ReplyKey, answer: &str) {
    client.conn.respond_raw(key, &(&Json::parse(answer).expect("JSON")).into()).expect("it is owed");
}

// req: M-BASE-011 M-BASE-012 M-BASE-014 M-DUAL-027
#[test]
fn result_type_determines_the_outcome() {
    let content = json!([]);
    let table = [
        (json!({"content": content}), true),
        (json!({"resultType": "complete", "content": content}), true),
        (json!({"resultType": "something", "content": content}), false),
        (json!({"resultType": 5, "content": content}), false),
        (json!({"resultType": "task", "taskId": "t"}), false),
        (json!({"resultType": "input_required"}), false),
    ];
    for (value, good) in table {
        let mut client = modern();
        let (requested, request) = call(&mut client);
        client.feed(&result(&request, value.clone()));
        let events = client.take_events();
        match &events[..] {
            [Event::Response { call, outcome: Outcome::Result(_) }] if good => assert_eq!(*call, requested),
            [Event::Response { call, outcome: Outcome::Malformed }] if !good => assert_eq!(*call, requested),
            _ => panic!("{value}: {events:?}"),
        }
        assert_eq!(client.conn.usage(), mcp_proto::connection::ResourceUsage::default());
    }
}

// req: M-TOOL-024 M-MRTR-019 M-MRTR-021 M-MRTR-024 M-MRTR-025 M-MRTR-026 M-MRTR-027 M-MRTR-034 M-MRTR-036 M-MRTR-038 M-MRTR-039
#[test]
fn input_responses_are_sent_with_the_retry() {
    let mut client = modern();
    let (requested, first) = call(&mut client);
    client.feed(&result(&first, json!({
        "resultType": "input_required", "requestState": "st\"ate",
        "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}},
            "b": {"method": "roots/list"}
        }
    })));
    let events = client.take_events();
    let [Event::Request { key: who, method, params }, Event::Request { key: roots, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(method.known(), Some(Method::Elicit));
    assert_eq!(
        params.as_ref().and_then(|params| params.member("message")?.decode::<String>().ok()).as_deref(),
        Some("Name?")
    );
    // The timeouts of the call do not run while the user thinks.
    client.advance(Duration::from_secs(600));
    assert_eq!(client.take_events(), []);
    respond(&mut client, *roots, r#"{"roots":[]}"#);
    assert_eq!(client.sent(), Vec::<Value>::new());
    respond(&mut client, *who, r#"{"action":"accept","content":{"name":"Ann"}}"#);

    let second = one(client.sent());
    assert_ne!(second["id"], first["id"]);
    let params = &second["params"];
    assert_eq!((&params["name"], &params["arguments"]), (&json!("t"), &json!({"a": 1})));
    assert_eq!(params["requestState"], "st\"ate");
    assert_eq!(
        params["inputResponses"],
        json!({"a": {"action": "accept", "content": {"name": "Ann"}}, "b": {"roots": []}})
    );
    assert_eq!(params["_meta"]["progressToken"], second["id"]);

    // The next round has no state and no input responses of the one before.
    client.feed(&result(&second, json!({"resultType": "input_required", "requestState": "2"})));
    let third = one(client.sent());
    assert_eq!((&third["params"]["requestState"], third["params"].get("inputResponses")), (&json!("2"), None));
    client.feed(&result(&third, json!({"resultType": "complete", "content": []})));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call, outcome: Outcome::Result(_) }] if *call == requested),
        "{events:?}"
    );
    assert_eq!(client.conn.usage(), mcp_proto::connection::ResourceUsage::default());
}

#[test]
fn undeclared_input_requests_end_the_call() {
    let mut config = config(modern_only());
    config.capabilities = serde_json::from_value(json!({"elicitation": {"form": {}}})).expect("capabilities");
    for input_request in [
        json!({"method": "roots/list"}),
        json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a"}}),
        json!({"method": "tools/list"}),
        json!({"params": {}}),
    ] {
        let mut client = Harness::client(config.clone());
        let probe = one(client.sent());
        client.feed(&discovered(&probe["id"], &["2026-07-28"]));
        client.take_events();
        let (requested, request) = call(&mut client);
        client.feed(&result(&request, json!({"resultType": "input_required", "inputRequests": {"q": input_request}})));
        let events = client.take_events();
        assert_eq!(events, [Event::Response { call: requested, outcome: Outcome::Malformed }]);
        assert_eq!(client.conn.usage(), mcp_proto::connection::ResourceUsage::default());
    }
}

const INPUT_REQUIRED: &str = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;

// req: M-MRTR-035
#[test]
fn calls_with_open_input_requests_end_once() {
    type Act = fn(&mut Client, CallId, ReplyKey);
    let ways: [(&str, Act); 4] = [
        ("cancelled", |client, call, _| client.conn.cancel(call, None).expect("it is in flight")),
        ("closed", |client, _, _| client.conn.close(client.now)),
        ("refused", |client, _, key| {
            client.conn.respond_error(key, &ErrorObject::internal("no")).expect("it is owed");
        }),
        ("timed out", |client, _, _| client.advance(Duration::from_secs(1800))),
    ];
    for (way, act) in ways {
        let mut client = modern();
        let (requested, request) = call(&mut client);
        client.feed(&result(&request, serde_json::from_str(INPUT_REQUIRED).expect("JSON")));
        let events = client.take_events();
        let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
        act(&mut client, requested, key);
        let events = client.take_events();
        let ended = events.iter().filter(|event| matches!(event, Event::Response { call, .. } if *call == requested));
        assert_eq!(ended.count(), 1, "{way}: {events:?}");
        if way != "refused" {
            assert!(events.iter().any(|event| matches!(event, Event::Cancelled { .. })), "{way}: {events:?}");
            respond(&mut client, key, "{}");
        }
        client.sent();
        assert_eq!(client.conn.usage(), mcp_proto::connection::ResourceUsage::default(), "{way}");
    }
}

// req: M-MRTR-003
#[test]
fn rejects_input_required_for_other_methods() {
    let mut client = modern();
    let requested =
        client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
    let request = one(client.sent());
    client.feed(&result(&request, serde_json::from_str(INPUT_REQUIRED).expect("JSON")));
    assert_eq!(client.take_events(), [Event::Response { call: requested, outcome: Outcome::Malformed }]);
}

fn listening() -> (Client, CallId, Value) {
    let mut client = modern();
    let filter = mcp_proto::schema::SubscriptionFilter { tools_list_changed: Some(true), ..Default::default() };
    let params = mcp_proto::schema::SubscriptionsListenParams::new(filter);
    let call = client.conn.request(client.now, &params, RequestOptions::default()).expect("it is ready");
    let id = one(client.sent())["id"].clone();
    (client, call, id)
}

fn acknowledge(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
}

// req: M-SUBS-014 M-SUBS-022 M-SUBS-030
#[test]
fn acknowledged_subscriptions_never_time_out() {
    let (mut client, call, id) = listening();
    client.feed(&acknowledge(&id));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]));
    client.advance(Duration::from_secs(100_000));
    assert_eq!(client.take_events(), []);
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
    client.feed(&result(&json!({"id": id}), json!({"resultType": "complete"})));
    assert_eq!(client.take_events(), [Event::Late(call)]);

    let (mut client, call, id) = listening();
    client.feed(&acknowledge(&id));
    client.take_events();
    client.conn.cancel(call, None).expect("it is in flight");
    let sent = one(client.sent());
    assert_eq!((sent["method"].as_str(), &sent["params"]["requestId"]), (Some("notifications/cancelled"), &id));

    let (mut client, call, _) = listening();
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: false } }]);
}

fn changed(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
}

// req: M-SUBS-011
#[test]
fn ended_subscriptions_deliver_nothing() {
    let (mut client, call, id) = listening();
    client.feed(&acknowledge(&id));
    client.feed(&changed(&id));
    assert_eq!(client.take_events().len(), 2);
    client.conn.cancel(call, None).expect("it is in flight");
    client.take_events();
    for crossed in [acknowledge(&id), changed(&id)] {
        client.feed(&crossed);
        assert_eq!(client.take_events(), []);
    }
    assert_eq!((client.conn.stats().late_responses, client.conn.stats().violations), (2, 0));
    for never in [json!(99), json!("s")] {
        let id: RequestId = serde_json::from_value(never.clone()).expect("an id");
        let violation = Violation::UnknownSubscription(id);
        client.feed(&changed(&never));
        assert_eq!(client.take_events(), [Event::Violation(violation)]);
    }
    // A notification without a subscription id is delivered to the application.
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]));
}

#[test]
fn acknowledgement_does_not_lift_other_deadlines() {
    let mut client = modern();
    let call =
        client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
    let id = one(client.sent())["id"].clone();
    client.feed(&acknowledge(&id));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownSubscription(_))]));
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: false } }]);
}

/// The methods that a peer may call depend on its role, also in 2026-07-28.
#[test]
fn clients_cannot_act_as_servers() {
    let refused = modern().conn.notify(&ToolsListChangedParams::default());
    assert_eq!(refused, Err(SendError::WrongDirection(Method::ToolsListChanged)));

    let (mut client, probe) = opened(VersionSet::ALL);
    client.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": -32601, "message": "what?"}}));
    assert_eq!(one(client.sent())["method"], "initialize");
    client.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    assert_eq!(one(client.sent())["error"]["code"], -32600);
}
