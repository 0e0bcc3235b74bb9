//! Messages beside requests and responses in 2026-07-28: progress, log messages, cancellations, list changes. They are
//! also tested at the end of the connection.

use std::time::Duration;

use mcp_proto::{
    connection::{
        ClientRole, CloseReason, Event, Outcome, RequestOptions, ResourceUsage, SendError, ServerConfig, ServerRole,
        Violation,
    },
    protocol::{Capability, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey},
    schema::{
        CallToolParams, ListToolsParams, LogMessageParams, LoggingLevel, PromptsListChangedParams,
        ResourceUpdatedParams, ResourcesListChangedParams, SubscriptionFilter, SubscriptionsListenParams,
        ToolsListChangedParams,
    },
    wire::Json,
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{
        cancelled, listen, modern, modern_with, notification, notification_with, progress, result, subscription_of,
    },
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

fn message(level: LoggingLevel) -> LogMessageParams {
    LogMessageParams::new(level, Json::parse("\"hm\"").expect("JSON"))
}

fn call_tool(client: &mut Harness<ClientRole>) -> (CallId, Value) {
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    (call.expect("it is ready"), one(client.sent()))
}

fn listen_for_tools(client: &mut Harness<ClientRole>) -> (CallId, Value) {
    let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
    let params = SubscriptionsListenParams::new(filter);
    let call = client.conn.request(client.now, &params, RequestOptions::default()).expect("it is ready");
    let id = one(client.sent())["id"].clone();
    client.feed(&notification_with(
        "notifications/subscriptions/acknowledged",
        json!({
        "notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}),
    ));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]));
    (call, id)
}

// req: M-PROG-001 M-PROG-003 M-MRTR-039
#[test]
fn progress_tokens_are_unique() {
    let mut client = Harness::modern_client();
    let mut tokens: Vec<Value> = (0..3)
        .map(|_| {
            let (_, request) = call_tool(&mut client);
            assert!(request["params"].get("progressToken").is_none(), "it is metadata");
            request["params"]["_meta"]["progressToken"].clone()
        })
        .collect();
    // The first request is retried. The others are still in flight.
    client.feed(&result(tokens[0].clone(), json!({"resultType": "input_required", "requestState": "s"})));
    tokens.push(one(client.sent())["params"]["_meta"]["progressToken"].clone());
    assert!(tokens.iter().all(|token| token.is_u64()), "{tokens:?}");
    tokens.sort_by_key(Value::as_u64);
    tokens.dedup();
    assert_eq!(tokens.len(), 4);
    // A caller without interest in progress sends no token.
    let options = RequestOptions { progress: false, ..RequestOptions::default() };
    client.conn.request(client.now, &ListToolsParams::default(), options).expect("it is ready");
    assert!(one(client.sent())["params"]["_meta"].get("progressToken").is_none());
}

// req: M-PROG-006 M-PROG-009 M-PROG-010
#[test]
fn progress_must_increase_until_the_response() {
    let mut server = Harness::modern_server();
    let token = |token: Value| json!({ "progressToken": token });
    let key = server.receive_request(&modern_with(1, "tools/call", json!({"name": "t"}), token(json!("t"))));
    server.conn.progress(key, -1.5, None, None).expect("the first is the first");
    for (next, total) in [(-1.5, None), (-2.0, None), (f64::NAN, None), (f64::INFINITY, Some(5.0))] {
        assert_eq!(server.conn.progress(key, next, total, None), Err(SendError::ProgressNotGrowing), "{next}");
    }
    server.conn.progress(key, -1.25, Some(-3.0), None).expect("it grows, whatever the total is");
    server.conn.progress(key, 2.0, None, None).expect("it grows");
    let seen: Vec<_> = server.sent().iter().map(|it| it["params"]["progress"].clone()).collect();
    assert_eq!(seen, [json!(-1.5), json!(-1.25), json!(2)]);

    server.respond(key, &json!({"content": []}));
    assert_eq!(server.conn.progress(key, 3.0, None, None), Err(SendError::Answered));
    one(server.sent());
    // Its slot is reused for another request.
    let other = server.receive_request(&modern_with(2, "tools/call", json!({"name": "t"}), token(json!("u"))));
    assert_eq!(server.conn.progress(key, 4.0, None, None), Err(SendError::Answered));
    server.feed(&cancelled(2));
    assert_eq!(server.conn.progress(other, 1.0, None, None), Ok(()), "no listener");
    assert_eq!(server.sent(), NOTHING);
}

// req: M-PROG-004
#[test]
fn progress_tokens_are_echoed_unchanged() {
    for token in [json!("t"), json!("7"), json!(7), json!(0), json!(""), json!(-1), json!(9_007_199_254_740_993_u64)] {
        let mut server = Harness::modern_server();
        let key = server.receive_request(&modern_with(
            1,
            "tools/call",
            json!({"name": "t"}),
            json!({"progressToken": token}),
        ));
        server.conn.progress(key, 0.5, None, None).expect("it grows");
        assert_eq!(one(server.sent())["params"], json!({"progressToken": token, "progress": 0.5}));
    }
}

// req: M-PROG-015 M-BASE-053
#[test]
fn clients_cannot_send_server_notifications() {
    let mut client = Harness::modern_client();
    let (_, request) = call_tool(&mut client);
    client.feed(&result(
        request["id"].clone(),
        json!({"resultType": "input_required",
        "inputRequests": {"r": {"method": "roots/list", "params": {"_meta": {"progressToken": 5}}}}}),
    ));
    let events = client.take_events();
    let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    assert_eq!(client.conn.progress(key, 1.0, None, None), Ok(()), "the server has not asked for it");
    assert_eq!(client.sent(), NOTHING);
    for method in ["notifications/progress", "notifications/initialized", "notifications/cancelled"] {
        assert!(client.conn.notify_raw(method, None).is_err(), "{method}");
    }
    for method in ["notifications/message", "notifications/tools/list_changed", "notifications/tasks/status"] {
        assert!(client.conn.notify_raw(method, None).is_err(), "{method}");
    }
    assert_eq!(client.sent(), NOTHING);
}

// req: M-CANC-003 M-CANC-004 M-STDIO-012 M-CANC-012
#[test]
fn client_cancels_only_in_flight_requests() {
    let mut client = Harness::modern_client();
    let (call, request) = call_tool(&mut client);
    client.conn.cancel(call, Some("enough")).expect("it is in flight");
    assert_eq!(
        one(client.sent()),
        notification_with("notifications/cancelled", json!({"requestId": request["id"], "reason": "enough"}))
    );
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
    assert_eq!(client.conn.cancel(call, None), Err(SendError::UnknownCall), "once is enough");
    // The response has crossed the cancellation.
    client.feed(&result(request["id"].clone(), json!({"content": []})));
    assert_eq!(client.take_events(), [Event::Late(call)]);

    let (answered, request) = call_tool(&mut client);
    client.feed(&result(request["id"].clone(), json!({"content": []})));
    assert_eq!(client.conn.cancel(answered, None), Err(SendError::UnknownCall));
    // A request that is not sent yet is removed, without a notification.
    let unsent = client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default());
    client.conn.cancel(unsent.expect("it is ready"), None).expect("it is queued");
    assert_eq!(client.sent(), NOTHING);
    // After a retry, the new request is cancelled.
    let (rounds, first) = call_tool(&mut client);
    client.feed(&result(first["id"].clone(), json!({"resultType": "input_required", "requestState": "s"})));
    let second = one(client.sent());
    client.conn.cancel(rounds, None).expect("it is in flight");
    assert_eq!(one(client.sent())["params"]["requestId"], second["id"]);
    // A timeout sends a cancellation, too.
    let (_, request) = call_tool(&mut client);
    client.advance(Duration::from_secs(60));
    assert_eq!(one(client.sent())["params"]["requestId"], request["id"]);
}

// req: M-LOG-001
#[test]
fn logging_requires_the_capability() {
    let mut config = full_server();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    config.capabilities.logging = None;
    let mut server = Harness::server(config);
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let key = server.receive_request(&modern_with(1, "tools/call", json!({"name": "t"}), meta));
    let refused = server.conn.log(key, &message(LoggingLevel::Emergency));
    assert_eq!(refused, Err(SendError::Undeclared(Capability::Logging)));
    assert!(server.conn.notify(&message(LoggingLevel::Emergency)).is_err());
    assert_eq!(server.sent(), NOTHING);
}

// req: M-LOG-005 M-SUBS-027 M-SUBS-025 M-STDIO-009
#[test]
fn request_and_subscription_messages_stay_separate() {
    let mut server = Harness::modern_server();
    let wants = json!({"io.modelcontextprotocol/logLevel": "debug", "progressToken": "sub"});
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]});
    server.feed(&modern_with("s", "subscriptions/listen", json!({"notifications": filter}), wants));
    one(server.sent());
    // Only one of these two requests sets a log level and a progress token.
    let silent = server.receive_request(&modern(1, "tools/call", json!({"name": "t"})));
    let loud = json!({"io.modelcontextprotocol/logLevel": "error", "progressToken": "p"});
    let loud = server.receive_request(&modern_with(2, "tools/call", json!({"name": "t"}), loud));
    for key in [silent, loud] {
        server.conn.log(key, &message(LoggingLevel::Alert)).expect("it is open");
        server.conn.progress(key, 1.0, None, None).expect("it grows");
    }
    server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    server.conn.notify(&ResourceUpdatedParams::new("a:b")).expect("it is declared");
    server.conn.notify(&ResourceUpdatedParams::new("a:other")).expect("it is declared");
    server.conn.notify(&PromptsListChangedParams::default()).expect("it is declared");
    // Without a session, other notifications cannot be sent.
    assert_eq!(server.conn.notify(&message(LoggingLevel::Alert)), Err(SendError::NotReady));
    assert_eq!(server.conn.notify_raw("vendor/news", None), Err(SendError::NotReady));
    let sent = server.sent();
    let seen: Vec<_> = sent.iter().map(|it| (it["method"].as_str().expect("a method"), subscription_of(it))).collect();
    let sub = json!("s");
    assert_eq!(
        seen,
        [
            ("notifications/message", None),
            ("notifications/progress", None),
            ("notifications/resources/updated", Some(&sub)),
            ("notifications/tools/list_changed", Some(&sub)),
        ]
    );
    assert_eq!((&sent[1]["params"]["progressToken"], &sent[2]["params"]["uri"]), (&json!("p"), &json!("a:b")));
}

// req: M-SUBS-025 M-STDIO-009
#[test]
fn changes_are_sent_only_to_subscribers() {
    for versions in [VersionSet::only(ProtocolVersion::V2026_07_28), VersionSet::ALL] {
        let mut server = Harness::with_versions(versions);
        let key =
            server.receive_request(&modern_with(1, "tools/call", json!({"name": "t"}), json!({"progressToken": 1})));
        change_everything(&mut server);
        assert_eq!(server.sent(), NOTHING);
        server.respond(key, &json!({"content": []}));
        assert_eq!(one(server.sent())["id"], 1);
        change_everything(&mut server);
        assert_eq!(server.sent(), NOTHING);
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

fn change_everything(server: &mut Harness<ServerRole>) {
    server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    server.conn.notify(&PromptsListChangedParams::default()).expect("it is declared");
    server.conn.notify(&ResourcesListChangedParams::default()).expect("it is declared");
    server.conn.notify(&ResourceUpdatedParams::new("a:b")).expect("it is declared");
}

// req: M-SUBS-025
#[test]
fn list_change_before_close_reaches_only_subscribers() {
    let filter = json!({"toolsListChanged": true});
    for open in [false, true] {
        let mut server = Harness::modern_server();
        server.feed(&listen("s", filter.clone()));
        let key = open.then(|| server.receive_request(&modern(1, "tools/call", json!({"name": "t"}))));
        server.sent();
        server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
        server.conn.close(server.now);
        for sent in server.sent() {
            let ours = subscription_of(&sent).is_some() || sent["id"] == "s" || sent["params"]["requestId"] == "s";
            assert!(ours, "{sent}");
        }
        if let Some(key) = key {
            server.respond(key, &json!({"content": []}));
            one(server.sent());
        }
        assert_eq!(server.conn.notify(&ToolsListChangedParams::default()), Err(SendError::Closed));
        server.take_events();
        assert!(server.conn.is_drained());
    }
}

// req: M-DUAL-039
#[test]
fn uninitialized_session_does_not_block_subscriptions() {
    let mut server = Harness::with_versions(VersionSet::ALL);
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}));
    server.feed(&listen("s", json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]})));
    server.sent();
    server.conn.notify(&ToolsListChangedParams::default()).expect("a listener");
    server.conn.notify(&ResourceUpdatedParams::new("a:b")).expect("a listener");
    let sent = server.sent();
    assert!(sent.len() == 2 && sent.iter().all(|it| subscription_of(it) == Some(&json!("s"))), "{sent:?}");
    server.feed(&notification("notifications/initialized"));
    assert_eq!(server.sent(), NOTHING);
    server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
    let sent = server.sent();
    let to: Vec<_> = sent.iter().map(subscription_of).collect();
    assert!(to.len() == 2 && to.contains(&None) && to.contains(&Some(&json!("s"))), "{sent:?}");
}

// req: M-DUAL-039
#[test]
fn uninitialized_session_gets_no_notifications() {
    let mut server = Harness::with_versions(VersionSet::ALL);
    server.feed(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}}));
    let key = server.receive_request(&modern(1, "tools/call", json!({"name": "t"})));
    server.sent();
    server.conn.handle_eof(server.now);
    // One request is still in progress.
    assert_eq!(server.conn.notify(&ToolsListChangedParams::default()), Err(SendError::Closed));
    assert_eq!(server.conn.notify_raw("vendor/news", None), Err(SendError::Closed));
    assert_eq!(server.sent(), NOTHING);
    server.respond(key, &json!({"content": []}));
    assert_eq!(one(server.sent())["id"], 1);
}

// req: M-SUBS-021 M-STDIO-021
#[test]
fn subscriptions_end_with_their_connection() {
    let config = std::sync::Arc::new({
        let mut config = full_server();
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        config
    });
    type Way = fn(&mut Harness<ServerRole>);
    let ways: [Way; 3] = [
        |server| server.conn.handle_eof(server.now),
        |server| server.conn.handle_disconnect(),
        |server| server.conn.close(server.now),
    ];
    for end in ways {
        let mut server = Harness::server(ServerConfig::clone(&config));
        server.feed(&listen("s", json!({"toolsListChanged": true})));
        server.sent();
        end(&mut server);
        server.sent();
        server.take_events();
        assert_eq!(server.conn.usage(), ResourceUsage::default());
        assert_eq!(server.conn.listeners("a:b"), []);
        // The next connection of the process has neither the subscription nor its id.
        let mut next = Harness::server(ServerConfig::clone(&config));
        next.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
        assert_eq!(next.sent(), NOTHING);
        next.feed(&listen("s", json!({"promptsListChanged": true})));
        assert_eq!(one(next.sent())["params"]["notifications"], json!({"promptsListChanged": true}));
    }
}

/// Returns a client with everything that can be in flight when a connection ends: a call, one with an open input
/// request, one that waits for its retry, and a subscription.
fn busy() -> (Harness<ClientRole>, Vec<CallId>, ReplyKey) {
    let mut client = Harness::modern_client();
    let (plain, _) = call_tool(&mut client);
    let (asking, request) = call_tool(&mut client);
    client.feed(&result(
        request["id"].clone(),
        json!({"resultType": "input_required",
        "inputRequests": {"r": {"method": "roots/list"}}}),
    ));
    let events = client.take_events();
    let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    let (again, request) = call_tool(&mut client);
    client.feed(&result(request["id"].clone(), json!({"resultType": "input_required", "requestState": "s"})));
    client.sent();
    let (listening, _) = listen_for_tools(&mut client);
    (client, vec![plain, asking, again, listening], key)
}

// req: M-STDIO-019 M-SUBS-018
#[test]
fn calls_end_when_the_server_disconnects() {
    type Way = fn(&mut Harness<ClientRole>);
    let ways: [(Way, CloseReason); 3] = [
        (|client| client.conn.handle_eof(client.now), CloseReason::Eof),
        (|client| client.conn.handle_disconnect(), CloseReason::ConnectionLost),
        (
            |client| client.conn.handle_transport_error("exit status 1"),
            CloseReason::TransportError("exit status 1".into()),
        ),
    ];
    for (end, reason) in ways {
        let (mut client, calls, input_request) = busy();
        end(&mut client);
        let events = client.take_events();
        for call in calls {
            let ended = Event::Response { call, outcome: Outcome::Closed(reason.clone()) };
            assert_eq!(events.iter().filter(|event| **event == ended).count(), 1, "{call:?} in {events:?}");
        }
        assert!(events.iter().any(|event| matches!(event, Event::Cancelled { key, .. } if *key == input_request)));
        assert_eq!(events.last(), Some(&Event::Closed(reason)));
        client.respond(input_request, &json!({"roots": []}));
        client.sent();
        assert_eq!(client.conn.usage(), ResourceUsage::default());
    }
    // A subscription that the server ends has a result.
    let mut client = Harness::modern_client();
    let (call, id) = listen_for_tools(&mut client);
    client.feed(&result(
        id.clone(),
        json!({"resultType": "complete",
        "_meta": {"io.modelcontextprotocol/subscriptionId": id}}),
    ));
    let events = client.take_events();
    assert!(matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call));
    client.conn.handle_eof(client.now);
    assert_eq!(client.take_events(), [Event::Closed(CloseReason::Eof)]);
}

// req: M-SUBS-032
#[test]
fn refused_subscription_keeps_the_connection() {
    let mut client = Harness::modern_client();
    let params = SubscriptionsListenParams::new(SubscriptionFilter::default());
    let call = client.conn.request(client.now, &params, RequestOptions::default()).expect("it is ready");
    let id = one(client.sent())["id"].clone();
    client.feed(&mcp_tests::message::error(id, -32601, "Method not found"));
    let events = client.take_events();
    let [Event::Response { call: ended, outcome: Outcome::Error(error) }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*ended, error.code.0), (call, -32601));
    assert!(client.conn.is_ready());
    call_tool(&mut client);
}

// req: M-STDIO-001 M-STDIO-003 M-STDIO-004
#[test]
fn every_message_is_one_line() {
    // `Harness::sent_text` checks every line that is sent.
    let odd = "a\nb\r\nc\u{2028}\u{85}\0";
    let mut server = Harness::modern_server();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
    let meta = json!({"progressToken": odd, "io.modelcontextprotocol/logLevel": "debug"});
    server.feed_text(&pretty(&modern_with(odd, "tools/call", json!({"name": odd}), meta)));
    let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("a request") };
    server.conn.progress(key, 1.0, None, Some(odd)).expect("it grows");
    let raw = Json::parse("{\n\"a\"\n:\n1\n}").expect("JSON");
    server.conn.log(key, &LogMessageParams::new(LoggingLevel::Info, raw)).expect("it is open");
    let spread = Json::parse(pretty(&json!({"content": [{"type": "text", "text": odd}]}))).expect("JSON");
    server.conn.respond_raw(key, &(&spread).into()).expect("an answer is owed");
    let mut sent = server.sent();
    server.feed_text(&pretty(&listen(odd, json!({"resourceSubscriptions": [odd]}))));
    server.conn.notify(&ResourceUpdatedParams::new(odd)).expect("it is declared");
    sent.extend(server.sent());
    assert_eq!(sent.len(), 5);
    assert_eq!((&sent[2]["id"], &sent[2]["result"]["content"][0]["text"]), (&json!(odd), &json!(odd)));
    assert_eq!(sent[4]["params"]["uri"], odd);

    let mut client = Harness::modern_client();
    let params = Json::parse(pretty(&json!({"name": odd, "arguments": {odd: odd}}))).expect("JSON");
    client
        .conn
        .request_raw(client.now, "tools/call", Some(&(&params).into()), RequestOptions::default())
        .expect("ready");
    let request = one(client.sent());
    assert_eq!(request["params"]["arguments"][odd], odd);
    let spread = pretty(&result(request["id"].clone(), json!({"resultType": "input_required", "requestState": odd})));
    client.feed_text(&spread);
    let again = one(client.sent());
    assert_eq!((&again["params"]["requestState"], &again["params"]["name"]), (&json!(odd), &json!(odd)));
}

#[test]
fn unknown_progress_tokens_are_violations() {
    let mut client = Harness::modern_client();
    let (call, request) = call_tool(&mut client);
    client.feed(&progress("unknown", 1));
    assert_eq!(client.take_events(), [Event::Violation(Violation::UnknownProgress)]);
    client.feed(&progress(request["params"]["_meta"]["progressToken"].clone(), 0.5));
    assert!(matches!(&client.take_events()[..], [Event::Progress { call: of, .. }] if *of == call));
}
