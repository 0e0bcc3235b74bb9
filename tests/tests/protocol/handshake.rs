//! The handshake on both sides.

use mcp_proto::{
    connection::{CloseReason, Event, Outcome, RequestOptions, SendError, Violation},
    protocol::{Method, ProtocolVersion},
    schema::{ListToolsParams, PingParams},
    wire::ErrorCode,
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    link::LinkConfig,
    testbed::Testbed,
};
use serde_json::{Value, json};

#[test]
fn handshake_completes_over_a_one_byte_link() {
    let testbed = Testbed::ready_over(LinkConfig::one_byte());
    assert_eq!(testbed.client.conn.version(), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(testbed.server.conn.version(), Some(ProtocolVersion::LATEST_LEGACY));
    testbed.assert_idle();
}

// req: LIFE-001 LIFE-002 LIFE-003 LIFE-010 LIFE-011
#[test]
fn client_sends_initialize_with_newest_version() {
    let mut client = Harness::client(full_client());
    let sent = client.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["method"], "initialize");
    let params = &sent[0]["params"];
    assert_eq!(params["protocolVersion"], "2025-11-25");
    assert!(params["capabilities"].is_object());
    assert_eq!(params["clientInfo"], json!({"name": "client", "version": "1"}));
}

fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}})
}

// req: LIFE-004 LIFE-012 LIFE-013
#[test]
fn server_echoes_supported_version_or_offers_newest() {
    for (offered, expected) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
        ("junk", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut server = Harness::server(full_server());
        server.feed(&initialize(offered));
        let sent = server.sent();
        assert_eq!(sent[0]["result"]["protocolVersion"], expected);
        assert!(sent[0]["result"]["capabilities"].is_object());
        assert_eq!(sent[0]["result"]["serverInfo"], json!({"name": "server", "version": "1"}));
    }
}

// req: LIFE-015
#[test]
fn client_closes_on_unsupported_version() {
    let mut client = Harness::client(full_client());
    let id = client.sent()[0]["id"].clone();
    client.feed(&json!({"jsonrpc": "2.0", "id": id, "result": {
        "protocolVersion": "2031-01-01", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}}));
    assert_eq!(client.sent(), Vec::<Value>::new());
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::UnsupportedVersion("2031-01-01".into()))]);
    assert!(client.conn.is_drained());
}

// req: LIFE-006
#[test]
fn client_sends_initialized_first() {
    // The helper checks that this is the only message after `initialize`.
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        assert!(client.conn.is_ready());
        client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
        assert_eq!(client.sent()[0]["method"], "tools/list", "{version}");
    }
}

// req: LIFE-009
#[test]
fn only_pings_are_answered_during_the_handshake() {
    let mut server = Harness::server(full_server());
    server.feed(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(server.sent(), [json!({"jsonrpc": "2.0", "id": 9, "result": {}})]);
    server.feed(&json!({"jsonrpc": "2.0", "id": 10, "method": "tools/list"}));
    assert_eq!(server.sent()[0]["error"]["code"], ErrorCode::INVALID_REQUEST.0);
    assert_eq!(server.take_events(), [Event::Violation(Violation::NotReady(Method::ListTools.into()))]);

    let mut client = Harness::client(full_client());
    client.sent();
    client.feed(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    assert_eq!(client.sent(), [json!({"jsonrpc": "2.0", "id": "p", "result": {}})]);
    assert_eq!(
        client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()),
        Err(SendError::NotReady)
    );
    client.conn.request(client.now, &PingParams::default(), RequestOptions::default()).expect("pings are allowed");
}

#[test]
fn initialize_error_closes_the_connection() {
    let mut client = Harness::client(full_client());
    let id = client.sent()[0]["id"].clone();
    client.feed(
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no", "data": {"supported": []}}}),
    );
    let events = client.take_events();
    assert!(matches!(&events[..], [Event::Closed(CloseReason::Refused(error))] if error.data.is_some()), "{events:?}");
}

// req: CANC-005
#[test]
fn handshake_timeout_sends_no_cancellation() {
    let mut client = Harness::client(full_client());
    client.sent();
    client.advance(client.conn.settings().handshake_timeout);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    assert_eq!(client.sent(), Vec::<Value>::new());
}

#[test]
fn second_initialize_is_refused() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let mut again = initialize("2024-11-05");
    again["params"]["clientInfo"]["name"] = json!("other");
    server.feed(&again);
    assert_eq!(server.sent()[0]["error"]["code"], ErrorCode::INVALID_REQUEST.0);
    assert_eq!(server.take_events(), [Event::Violation(Violation::SecondInitialize)]);
    assert_eq!(server.conn.version(), Some(ProtocolVersion::V2025_06_18));
    assert_eq!(server.conn.client().map(|client| client.client_info.name.as_str()), Some("client"));
}

#[test]
fn a_call_completes_end_to_end() {
    let mut testbed = Testbed::ready();
    let call = testbed
        .client
        .conn
        .request(testbed.now, &ListToolsParams::default(), RequestOptions::default())
        .expect("ready");
    testbed.settle();
    let events = testbed.server.take_events();
    let [Event::Request { key, method, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(method.known(), Some(Method::ListTools));
    testbed.server.conn.respond(*key, &mcp_proto::schema::ListToolsResult::new(vec![])).expect("it is owed");
    testbed.settle();
    let events = testbed.client.take_events();
    let [Event::Response { call: ended, outcome: Outcome::Result(result) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*ended, result.get()), (call, r#"{"tools":[]}"#));
    testbed.assert_idle();
}
