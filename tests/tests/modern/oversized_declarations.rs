//! Peers whose declarations or promises are larger than a connection keeps.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, CloseReason, Event, Limits, Outcome, RequestOptions, ResourceUsage, Violation},
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::CallToolParams,
};
use mcp_tests::{
    harness::{Harness, full_client, full_client_with, full_server},
    modern::modern_only,
};
use serde_json::{Map, Value, json};

/// Returns an object with `count` members of the smallest size.
fn members(count: usize) -> Value {
    (0..count).map(|number| (format!("{number:x}"), json!({}))).collect::<Map<_, _>>().into()
}

fn limits(frame_bytes: usize) -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = frame_bytes;
    limits
}

fn request(id: u64, method: &str, capabilities: Value, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn request_metadata_counts_its_decoded_size() {
    let mut server = Harness::modern_server();
    server.receive_request(&request(1, "vendor/a", json!({}), json!({})));
    let plain = server.conn.usage().request_bytes;
    server.receive_request(&request(2, "vendor/a", json!({"experimental": members(1000)}), json!({})));
    let with_members = server.conn.usage().request_bytes - plain;
    // A name and a value for each, in a list with twice the capacity.
    assert!(with_members > 1000 * 80, "{with_members}");
    assert!(plain < 2000, "{plain}");
    // The subscription filter counts, too.
    let names: Vec<String> = (0..1000).map(|number| format!("{number:x}")).collect();
    server.feed(&request(
        3,
        "subscriptions/listen",
        json!({}),
        json!({"notifications": {"resourceSubscriptions": names}}),
    ));
    assert_eq!(server.conn.usage().subscriptions, 1);
    assert!(server.conn.usage().request_bytes - plain - with_members > 1000 * 48);
    // It counts until the subscription ends.
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}));
    assert_eq!(server.conn.usage().request_bytes, plain + with_members);
}

#[test]
fn oversized_client_declarations_are_refused() {
    let mut config = full_server();
    config.settings.limits = limits(64 << 10);
    config.settings.versions = VersionSet::ALL;
    let many = json!({"experimental": members(3000)});
    let names: Vec<String> = (0..3000).map(|number| format!("{number:x}")).collect();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": many, "clientInfo": {"name": "c", "version": "1"}}}),
        request(1, "vendor/a", many.clone(), json!({})),
        request(1, "server/discover", many, json!({})),
        request(1, "subscriptions/listen", json!({}), json!({"notifications": {"resourceSubscriptions": names}})),
    ];
    for message in messages {
        assert!(message.to_string().len() < 64 << 10, "it is no message that is too long");
        let mut server = Harness::server(config.clone());
        server.feed(&message);
        assert_eq!(server.take_events(), [Event::Violation(Violation::Oversized)]);
        let refusal = server.sent_one();
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(1), &json!(-32600)));
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

#[test]
fn oversized_server_capabilities_close_the_connection() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let mut config = full_client();
        config.settings.limits = limits(64 << 10);
        config.settings.versions = VersionSet::only(version);
        let mut client = Harness::client(config);
        let id = client.sent_one()["id"].clone();
        let capabilities = json!({"experimental": members(3000)});
        client.feed(&json!({"jsonrpc": "2.0", "id": id, "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "protocolVersion": "2025-11-25",
            "serverInfo": {"name": "s", "version": "1"}, "capabilities": capabilities}}));
        match &client.take_events()[..] {
            [Event::Closed(CloseReason::BadHandshake(why) | CloseReason::LegacyServer(why))] => {
                assert!(why.contains("larger than the limit"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

fn listening(requested: Value) -> (Harness<ClientRole>, Value) {
    let mut client = Harness::modern_client_with(full_client_with(modern_only()));
    let params = mcp_proto::wire::Json::new(&json!({"notifications": requested})).expect("it is JSON");
    let options = RequestOptions::default();
    let params = mcp_proto::wire::RawJson::from(&params);
    client.conn.request_raw(client.now, "subscriptions/listen", Some(&params), options).expect("it may be sent");
    let id = client.sent_one()["id"].clone();
    (client, id)
}

#[test]
fn acknowledgements_are_cut_to_the_requested_filter() {
    let (mut client, id) = listening(json!({"toolsListChanged": true, "resourceSubscriptions": ["test://a"]}));
    let before = client.conn.usage().call_bytes;
    let mut names: Vec<String> = (0..10_000).map(|number| format!("test://{number}")).collect();
    names.push("test://a".to_owned());
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
        "notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": names}}}));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]));
    let kept = client.conn.usage().call_bytes - before;
    assert!((1..100).contains(&kept), "{kept} bytes for one name");
}

/// Returns a client with messages of up to 2000 bytes, one of whose calls has become a task.
fn following(id: &str, status: &str) -> (Harness<ClientRole>, Vec<Event<'static>>) {
    let mut config = full_client();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    (config.settings.versions, config.settings.limits) = (modern_only(), limits(2000));
    let mut client = Harness::client(config);
    let probe = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}}));
    assert_eq!(client.take_events(), [Event::Ready]);
    client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("it may be sent");
    let requested = client.sent_one();
    let mut result = task(id, status);
    result["resultType"] = json!("task");
    client.feed(&json!({"jsonrpc": "2.0", "id": requested["id"], "result": result}));
    let events = client.take_events();
    (client, events)
}

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-08-01T10:00:00Z", "pollIntervalMs": 100,
        "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": null, "inputRequests": {"q": {"method": "roots/list"}}})
}

#[test]
fn task_events_stop_after_the_call_ends() {
    // A poll would exceed the message limit, so the call fails.
    let (client, events) = following(&"t".repeat(1700), "input_required");
    assert!(matches!(events[..], [Event::Response { outcome: Outcome::Error(_), .. }]), "{events:?}");
    assert_eq!(client.conn.usage(), ResourceUsage::default());

    // The response to the input request is too long. This shows when the server, which is not polled after its error,
    // sends the status.
    let (mut client, _) = following("t", "working");
    client.advance(Duration::from_millis(100));
    let poll = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": poll["id"], "result": task("t", "input_required")}));
    let Some(Event::Request { key, .. }) = client.take_events().first().cloned() else { panic!("an input request") };
    client.advance(Duration::from_millis(400));
    let poll = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": poll["id"], "error": {"code": -32603, "message": "not now"}}));
    client.respond(key, &json!({"roots": [], "pad": "x".repeat(1700)}));
    assert_eq!((client.take_events(), client.sent().len()), (vec![], 0));
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task("t", "input_required")}));
    let events = client.take_events();
    let [Event::Response { outcome: Outcome::Error(_), .. }, Event::Notification { .. }] = &events[..] else {
        panic!("{events:?}")
    };
    // The call is the only user of the task, so the task is cancelled.
    assert_eq!(client.sent_one()["method"], "tasks/cancel");
}
