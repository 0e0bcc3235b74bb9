//! The handshake, from both ends.

use mcp_proto::{
    connection::{CloseReason, Event, Outcome, RequestOptions, SendError, Violation},
    protocol::{Method, ProtocolVersion},
    schema::{ListToolsParams, PingParams},
    wire::ErrorCode,
};
use mcp_tests::{
    bed::Bed,
    link::LinkConfig,
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

#[test]
fn two_ends_agree_over_a_link_of_one_byte() {
    let bed = Bed::ready_over(LinkConfig::one_byte());
    assert_eq!(bed.client.conn.version(), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(bed.server.conn.version(), Some(ProtocolVersion::LATEST_LEGACY));
    bed.assert_at_rest();
}

// req: LIFE-001 LIFE-002 LIFE-003 LIFE-010 LIFE-011
#[test]
fn a_client_opens_with_initialize_and_the_newest_version() {
    let mut client = Solo::client(full_client());
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
fn a_server_repeats_a_version_that_it_serves_and_offers_its_newest_otherwise() {
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
        let mut server = Solo::server(full_server());
        server.feed(&initialize(offered));
        let sent = server.sent();
        assert_eq!(sent[0]["result"]["protocolVersion"], expected);
        assert!(sent[0]["result"]["capabilities"].is_object());
        assert_eq!(sent[0]["result"]["serverInfo"], json!({"name": "server", "version": "1"}));
    }
}

// req: LIFE-015
#[test]
fn a_client_leaves_when_the_server_chooses_a_version_that_it_does_not_speak() {
    let mut client = Solo::client(full_client());
    let id = client.sent()[0]["id"].clone();
    client.feed(&json!({"jsonrpc": "2.0", "id": id, "result": {
        "protocolVersion": "2031-01-01", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}}));
    assert_eq!(client.sent(), Vec::<Value>::new());
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::UnsupportedVersion("2031-01-01".into()))]);
    assert!(client.conn.is_drained());
}

// req: LIFE-006
#[test]
fn a_client_says_initialized_before_anything_else() {
    // The handshake itself demands that this is the one message that leaves behind `initialize`.
    for version in ProtocolVersion::LEGACY {
        let mut client = Solo::ready_client(version);
        assert!(client.conn.is_ready());
        client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
        assert_eq!(client.sent()[0]["method"], "tools/list", "{version}");
    }
}

// req: LIFE-009
#[test]
fn both_ends_answer_pings_during_the_handshake_and_refuse_other_requests() {
    let mut server = Solo::server(full_server());
    server.feed(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
    assert_eq!(server.sent(), [json!({"jsonrpc": "2.0", "id": 9, "result": {}})]);
    server.feed(&json!({"jsonrpc": "2.0", "id": 10, "method": "tools/list"}));
    assert_eq!(server.sent()[0]["error"]["code"], ErrorCode::INVALID_REQUEST.0);
    assert_eq!(server.take_events(), [Event::Violation(Violation::NotReady(Method::ListTools.into()))]);

    let mut client = Solo::client(full_client());
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
fn a_refused_handshake_ends_the_connection_with_the_error() {
    let mut client = Solo::client(full_client());
    let id = client.sent()[0]["id"].clone();
    client.feed(
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no", "data": {"supported": []}}}),
    );
    let events = client.take_events();
    assert!(matches!(&events[..], [Event::Closed(CloseReason::Refused(error))] if error.data.is_some()), "{events:?}");
}

// req: CANC-005
#[test]
fn the_handshake_times_out_without_a_word_and_cannot_be_cancelled() {
    let mut client = Solo::client(full_client());
    client.sent();
    client.advance(client.conn.settings().handshake_timeout);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    assert_eq!(client.sent(), Vec::<Value>::new());
}

#[test]
fn a_second_initialize_is_refused_and_changes_nothing() {
    let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
    let mut again = initialize("2024-11-05");
    again["params"]["clientInfo"]["name"] = json!("other");
    server.feed(&again);
    assert_eq!(server.sent()[0]["error"]["code"], ErrorCode::INVALID_REQUEST.0);
    assert_eq!(server.take_events(), [Event::Violation(Violation::SecondInitialize)]);
    assert_eq!(server.conn.version(), Some(ProtocolVersion::V2025_06_18));
    assert_eq!(server.conn.client().map(|client| client.client_info.name.as_str()), Some("client"));
}

#[test]
fn a_call_goes_both_ways() {
    let mut bed = Bed::ready();
    let call = bed.client.conn.request(bed.now, &ListToolsParams::default(), RequestOptions::default()).expect("ready");
    bed.settle();
    let events = bed.server.take_events();
    let [Event::Request { key, method, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(method.known(), Some(Method::ListTools));
    bed.server.conn.respond(*key, &mcp_proto::schema::ListToolsResult::new(vec![])).expect("it is owed");
    bed.settle();
    let events = bed.client.take_events();
    let [Event::Response { call: ended, outcome: Outcome::Result(result) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*ended, result.get()), (call, r#"{"tools":[]}"#));
    bed.assert_at_rest();
}
