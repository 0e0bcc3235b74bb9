//! A server of 2026-07-28 that refuses a request because of its revision, after it has announced that revision.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, CloseReason, Event, Keepalive, Outcome, RequestOptions, ResourceUsage, SendError, Wake},
    protocol::{Method, ProtocolVersion, VersionSet},
    rpc::CallId,
    schema::{CallToolParams, ListToolsParams, SubscriptionFilter, SubscriptionsListenParams},
    wire::{ErrorObject, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client_with, full_server},
    modern::{answer, discovered, refuse},
};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const NOTHING: [Value; 0] = [];

/// Returns a client of both eras, connected to a server of 2026-07-28.
fn client() -> Client {
    let mut config = full_client_with(VersionSet::ALL);
    config.settings.keepalive = Some(Keepalive { interval: Duration::from_secs(1000), max_missed: 3 });
    let mut client = Harness::client(config);
    let probe = client.sent_one();
    let mut found = discovered(&probe["id"], &["2026-07-28"]);
    found["result"]["ttlMs"] = json!(3_600_000);
    client.feed(&found);
    assert_eq!(client.take_events(), [Event::Ready]);
    assert_eq!(client.conn.cache().len(), 1);
    client
}

fn call(client: &mut Client) -> (CallId, Value) {
    let options =
        RequestOptions { log_level: Some(mcp_proto::schema::LoggingLevel::Info), ..RequestOptions::default() };
    let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it is ready");
    (call, client.sent_one())
}

fn unsupported(request: &Value, supported: Value) -> Value {
    refuse(request, -32022, json!({"supported": supported, "requested": "2026-07-28"}))
}

#[track_caller]
fn ended(client: &mut Client) -> (CallId, ErrorObject) {
    match &client.take_events()[..] {
        [Event::Response { call, outcome: Outcome::Error(error) }] => (*call, error.clone()),
        events => panic!("{events:?}"),
    }
}

// req: M-VERS-005 M-VERS-015
#[test]
fn version_errors_retry_the_request_once() {
    let mut client = client();
    let (requested, first) = call(&mut client);
    client.feed(&unsupported(&first, json!(["2031-01-01", "2025-11-25", "2026-07-28"])));
    assert_eq!(client.take_events(), []);
    let second = client.sent_one();
    assert_ne!(second["id"], first["id"]);
    let mut expected = first.clone();
    expected["id"] = second["id"].clone();
    expected["params"]["_meta"]["progressToken"] = second["id"].clone();
    assert_eq!(second, expected);
    client.feed(&unsupported(&second, json!(["2026-07-28"])));
    let (call_id, error) = ended(&mut client);
    assert_eq!((call_id, error.code.0), (requested, -32022));
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));
    // Each request can be retried once.
    let (_, third) = call(&mut client);
    client.feed(&unsupported(&third, json!(["2026-07-28"])));
    let fourth = client.sent_one();
    client.feed(&answer(&fourth, json!({"content": []})));
    assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
}

// req: M-VERS-006
#[test]
fn unresolvable_version_errors_reach_the_caller() {
    for supported in [json!(["2031-01-01"]), json!([]), json!(5)] {
        let mut client = client();
        let (requested, request) = call(&mut client);
        client.feed(&unsupported(&request, supported.clone()));
        let (call, error) = ended(&mut client);
        assert_eq!((call, error.code.0), (requested, -32022), "{supported}");
        assert_eq!(client.sent(), NOTHING);
        assert!(client.conn.is_ready(), "another request may be luckier");
    }
    // In a session the code has no special meaning.
    let mut session = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let (_, request) = call(&mut session);
    session.feed(&unsupported(&request, json!(["2025-11-25"])));
    ended(&mut session);
}

// req: M-MRTR-025 M-VERS-005
#[test]
fn version_retry_keeps_input_responses_and_state() {
    let mut client = client();
    let (_, first) = call(&mut client);
    client.feed(&answer(
        &first,
        json!({
        "resultType": "input_required", "requestState": "s", "inputRequests": {"r": {"method": "roots/list"}}}),
    ));
    let [Event::Request { key, .. }] = client.take_events()[..] else { panic!("an input request") };
    client
        .conn
        .respond_raw(key, &(&mcp_proto::wire::Json::parse("{\"roots\":[]}").expect("JSON")).into())
        .expect("owed");
    let second = client.sent_one();
    client.feed(&unsupported(&second, json!(["2026-07-28"])));
    let third = client.sent_one();
    assert_eq!(third["params"]["inputResponses"], json!({"r": {"roots": []}}));
    assert_eq!(third["params"]["requestState"], "s");
    // Sessions have no input responses, so the client does not fall back.
    client.feed(&unsupported(&third, json!(["2025-11-25"])));
    ended(&mut client);
    assert_eq!(client.sent(), NOTHING);
}

// req: M-DUAL-030
#[test]
fn no_fallback_after_input_required() {
    let mut client = client();
    let (requested, first) = call(&mut client);
    client.feed(&answer(&first, json!({"resultType": "input_required", "requestState": "s"})));
    let second = client.sent_one();
    client.feed(&unsupported(&second, json!(["2025-11-25"])));
    assert_eq!(ended(&mut client).0, requested);
    assert_eq!(client.sent(), NOTHING);
    assert!(client.conn.is_ready());
}

/// Returns a client that falls back to a session, the call that caused it, and its `initialize`.
fn begins_session(version: &str) -> (Client, CallId, Value) {
    let mut client = client();
    let (requested, request) = call(&mut client);
    client.feed(&unsupported(&request, json!(["2031-01-01", version])));
    let hello = client.sent_one();
    assert_eq!(
        (hello["method"].as_str(), hello["params"]["protocolVersion"].as_str()),
        (Some("initialize"), Some(version))
    );
    assert_eq!(client.take_events(), []);
    (client, requested, hello)
}

fn welcome(hello: &Value, capabilities: &Value) -> Value {
    answer(
        hello,
        json!({
        "protocolVersion": hello["params"]["protocolVersion"], "capabilities": capabilities,
        "serverInfo": {"name": "old", "version": "1"}}),
    )
}

fn everything() -> Value {
    serde_json::to_value(full_server().capabilities).expect("JSON")
}

// req: M-DUAL-037 M-DUAL-030 M-VERS-005
#[test]
fn version_error_falls_back_to_a_session() {
    for version in ProtocolVersion::LEGACY {
        let (mut client, requested, hello) = begins_session(version.as_str());
        assert!(!client.conn.is_ready());
        let early = client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default());
        assert_eq!(early, Err(SendError::NotReady));
        client.feed(&welcome(&hello, &everything()));
        assert_eq!(client.take_events(), [Event::Ready]);
        assert_eq!(client.conn.version(), Some(version));
        let sent = client.sent();
        let [initialized, again] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(initialized["method"], "notifications/initialized");
        assert_eq!((again["method"].as_str(), &again["params"]["name"]), (Some("tools/call"), &json!("t")));
        let meta = again["params"]["_meta"].as_object().expect("a progress token");
        assert_eq!(meta.keys().collect::<Vec<_>>(), ["progressToken"], "nothing of 2026-07-28");
        client.feed(&answer(again, json!({"content": []})));
        let events = client.take_events();
        assert!(
            matches!(events[..], [Event::Response { call, outcome: Outcome::Result(_) }] if call == requested),
            "{events:?}"
        );
        assert_eq!(client.conn.usage().calls, 0);
        assert!(client.conn.cache().is_empty(), "what was good without a session is not in one");
        // Keepalive pings are active in the session.
        assert_eq!(client.conn.poll_timeout().map(|deadline| deadline.wake), Some(Wake::Keepalive));
    }
}

#[test]
fn failed_fallback_ends_the_call() {
    // The session lacks the requested capability.
    let (mut client, requested, hello) = begins_session("2025-11-25");
    client.feed(&welcome(&hello, &json!({})));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Ready, Event::Response { call, outcome: Outcome::Error(error) }]
            if *call == requested && error.code.0 == -32022),
        "{events:?}"
    );
    // The server refuses the handshake, does not answer it, or disconnects.
    type Act = fn(&mut Client, &Value);
    let ways: [(&str, Act); 3] = [
        ("refuses", |client, hello| client.feed(&refuse(hello, -32602, json!(null)))),
        ("is silent", |client, _| client.advance(Duration::from_secs(30))),
        ("leaves", |client, _| client.conn.handle_eof(client.now)),
    ];
    for (way, act) in ways {
        let (mut client, requested, hello) = begins_session("2025-11-25");
        act(&mut client, &hello);
        let events = client.take_events();
        assert!(
            matches!(&events[..], [Event::Response { call, outcome: Outcome::Closed(_) }, Event::Closed(_)] if *call == requested),
            "{way}: {events:?}"
        );
        assert_eq!(client.sent(), NOTHING, "{way}");
        assert_eq!(client.conn.usage(), ResourceUsage::default(), "{way}");
    }
    // The caller cancels the call.
    let (mut client, requested, hello) = begins_session("2025-11-25");
    client.conn.cancel(requested, None).expect("it is in flight");
    assert_eq!(client.take_events(), [Event::Response { call: requested, outcome: Outcome::Cancelled }]);
    client.feed(&welcome(&hello, &everything()));
    assert_eq!(client.take_events(), [Event::Ready]);
    assert_eq!(client.sent().len(), 1, "only that the session has begun");
}

/// The refusal is kept until the session is there.
#[test]
fn long_refusals_are_shortened_during_the_handshake() {
    let mut client = client();
    let (_, request) = call(&mut client);
    let mut refusal = unsupported(&request, json!(["2025-11-25", "x".repeat(10_000)]));
    refusal["error"]["message"] = json!("x".repeat(1 << 20));
    client.feed(&refusal);
    let hello = client.sent_one();
    client.feed(&welcome(&hello, &json!({})));
    let events = client.take_events();
    let [Event::Ready, Event::Response { outcome: Outcome::Error(error), .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((error.code.0, &error.data), (-32022, &None));
    assert!((10..10_000).contains(&error.message.len()), "{} bytes", error.message.len());
}

// req: M-DUAL-018
#[test]
fn no_fallback_while_other_calls_are_in_flight() {
    let mut client = client();
    let (other, _) = call(&mut client);
    let (requested, request) = call(&mut client);
    client.feed(&unsupported(&request, json!(["2025-11-25"])));
    assert_eq!(ended(&mut client).0, requested);
    assert_eq!(client.sent(), NOTHING);
    client.conn.cancel(other, None).expect("it is in flight");
    client.take_events();
    client.sent();
    let (_, request) = call(&mut client);
    client.feed(&unsupported(&request, json!(["2025-11-25"])));
    assert_eq!(client.sent_one()["method"], "initialize");
}

#[test]
fn no_fallback_without_session_support() {
    let mut dual = client();
    let params = SubscriptionsListenParams::new(SubscriptionFilter::default());
    dual.conn.request(dual.now, &params, RequestOptions::default()).expect("it is ready");
    let listen = dual.sent_one();
    dual.feed(&unsupported(&listen, json!(["2025-11-25"])));
    ended(&mut dual);
    assert_eq!(dual.sent(), NOTHING);

    let mut alone = Harness::modern_client();
    let (_, request) = call(&mut alone);
    alone.feed(&unsupported(&request, json!(["2025-11-25"])));
    ended(&mut alone);
    assert_eq!(alone.sent(), NOTHING);
    assert!(alone.conn.is_ready());
}

#[test]
fn vendor_methods_are_renegotiated() {
    let mut client = client();
    let raw = mcp_proto::wire::Json::parse("{\"a\":[1]}").expect("JSON");
    let options = RequestOptions { progress: false, ..RequestOptions::default() };
    client.conn.request_raw(client.now, "vendor/a", Some(&RawJson::from(&raw)), options).expect("it is ready");
    let first = client.sent_one();
    client.feed(&unsupported(&first, json!(["2024-11-05"])));
    let hello = client.sent_one();
    client.feed(&welcome(&hello, &json!({})));
    let again = client.sent().pop().expect("it goes again");
    assert_eq!((again["method"].as_str(), &again["params"]), (Some("vendor/a"), &json!({"a": [1]})));
    assert!(Method::parse("vendor/a").is_none());
    client.conn.close(client.now);
    assert!(client.take_events().contains(&Event::Closed(CloseReason::Local)));
}
