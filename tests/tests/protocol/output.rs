//! Output is JSON-RPC as the specification requires: one message on one line.

use std::collections::BTreeMap;

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError},
    protocol::{Method, MethodKind, ProtocolVersion},
    schema::{CallToolParams, CallToolResult, ContentBlock, LogMessageParams, LoggingLevel},
    wire::{ErrorObject, Json, JsonObject, RawJson},
};
use mcp_tests::{
    harness::Harness,
    message::{cancelled, error, request, request_with_token, result},
};
use serde_json::{Value, json};

fn raw(text: &str) -> RawJson<'static> {
    let json = Json::parse(text).expect("it is JSON");
    RawJson::from(&json).into_owned()
}

/// Checks that an object is one of the four kinds of message, and returns the kind.
#[track_caller]
fn kind_of(message: &Value) -> &'static str {
    let has = |name: &str| message.get(name).is_some();
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    if has("method") {
        assert!(message["method"].is_string() && !has("result") && !has("error"), "{message}");
        assert!(!has("params") || message["params"].is_object(), "{message}");
        assert!(!has("id") || message["id"].is_string() || message["id"].is_u64(), "{message}");
        let is_notification = message["method"].as_str().is_some_and(|method| method.starts_with("notifications/"));
        assert_eq!(has("id"), !is_notification, "{message}");
        return if has("id") { "request" } else { "notification" };
    }
    assert!(has("result") != has("error"), "{message}");
    if has("result") {
        assert!(has("id") && message["result"].is_object(), "{message}");
        return "result";
    }
    assert!(message["error"]["code"].is_i64() && message["error"]["message"].is_string(), "{message}");
    "error"
}

/// Sends every kind of message, and returns the output.
fn send_everything<E>(harness: &mut Harness<E>) -> Vec<Value> {
    let empty = raw("{}");
    for method in Method::ALL.iter().copied() {
        for params in [None, Some(&empty)] {
            match method.kind() {
                MethodKind::Request => {
                    let _ = harness.conn.request_raw(harness.now, method.as_str(), params, RequestOptions::default());
                }
                MethodKind::Notification => {
                    let _ = harness.conn.notify_raw(method.as_str(), params);
                }
            }
        }
    }
    let cancelled =
        harness.conn.request_raw(harness.now, "vendor/call", None, RequestOptions::default()).expect("ready");
    let mut sent = harness.sent();
    harness.conn.cancel(cancelled, Some("why not")).expect("it is in flight");
    harness.take_events();
    let send_request = |id: u8| request_with_token(id, "vendor/ask", "t");
    let answered = harness.receive_request(&send_request(1));
    harness.conn.progress(answered, 0.5, Some(1.0), Some("half")).expect("it was requested");
    harness.respond(answered, &json!({}));
    let failed = harness.receive_request(&send_request(2));
    harness.conn.respond_error(failed, &ErrorObject::internal("no")).expect("an answer is owed");
    for bad in [r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#, r#"{"jsonrpc":"2.0","id":4}"#, "{}", "[]", "["] {
        harness.feed_text(bad);
    }
    sent.extend(harness.sent());
    sent
}

// req: BASE-001 BASE-003 BASE-004 BASE-009 BASE-010 BASE-011 BASE-017 BASE-019 BASE-021
#[test]
fn every_message_is_one_of_four_kinds() {
    for version in ProtocolVersion::LEGACY {
        for sent in
            [send_everything(&mut Harness::ready_client(version)), send_everything(&mut Harness::ready_server(version))]
        {
            let mut seen: BTreeMap<_, usize> = BTreeMap::new();
            for message in &sent {
                *seen.entry(kind_of(message)).or_default() += 1;
            }
            assert_eq!(seen.len(), 4, "{seen:?}");
        }
    }
}

// req: BATCH-004 BATCH-012 BATCH-014
#[test]
fn arrays_are_sent_only_as_batch_responses() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "vendor/noted"}
    ]);
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let mut sent = send_everything(&mut server);
        assert!(sent.iter().all(Value::is_object), "{version}");
        server.feed(&batch);
        server.call("vendor/call");
        sent = server.sent();
        server.feed(&batch);
        sent.extend(server.sent());
        let arrays: Vec<_> = sent.iter().filter_map(Value::as_array).collect();
        assert_eq!(!arrays.is_empty(), version == ProtocolVersion::V2025_03_26);
        for message in arrays.into_iter().flatten() {
            assert!(matches!(kind_of(message), "result" | "error"), "{message}");
        }
    }
}

// req: STDIO-004 STDIO-005 STDIO-006 STDIO-007 STDIO-008
#[test]
fn every_message_is_one_line() {
    let pretty = "{\r\n  \"text\": \"line\\nbreak\",\n\n\t\"list\": [\n1,\r2\n]\n}";
    let value: Value = serde_json::from_str(pretty).expect("it is JSON");
    let object = || JsonObject::parse(pretty).expect("an object");
    let text = "line\nbreak\r\u{2028}";

    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let call = CallToolParams { arguments: Some(object()), ..CallToolParams::new(text) };
    client.conn.request(client.now, &call, RequestOptions::default()).expect("it is ready");
    client.conn.request_raw(client.now, "vendor/x", Some(&raw(pretty)), RequestOptions::default()).expect("ready");
    client.conn.notify_raw("vendor/y", Some(&raw(pretty))).expect("it is ready");
    let sent = one_line_each(&mut client);
    assert!(sent.iter().any(|message| message["params"]["arguments"] == value), "{sent:?}");
    assert!(sent.iter().any(|message| message["params"] == value), "{sent:?}");

    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let log = LogMessageParams::new(LoggingLevel::Error, Json::from(object()));
        server.conn.notify(&log).expect("it is ready");
        let send_request = |id: &str| request_with_token(text.to_owned() + id, "vendor/x", text);
        let key = server.receive_request(&send_request("a"));
        server.conn.progress(key, 1.0, None, Some(text)).expect("it was requested");
        server.conn.respond_raw(key, &raw(pretty)).expect("an answer is owed");
        let key = server.receive_request(&send_request("b"));
        server.conn.respond(key, &CallToolResult::new(vec![ContentBlock::text(text)])).expect("an answer is owed");
        let key = server.receive_request(&send_request("c"));
        let error = ErrorObject::internal(text).with_data(object().into());
        server.conn.respond_error(key, &error).expect("an answer is owed");
        let sent = one_line_each(&mut server);
        assert!(sent.iter().any(|message| message["result"] == value), "{sent:?}");
        assert!(sent.iter().any(|message| message["error"]["data"] == value), "{sent:?}");
    }

    let mut server = Harness::ready_server(ProtocolVersion::V2025_03_26);
    server.feed(&json!([{"jsonrpc": "2.0", "id": 1, "method": "vendor/x"}]));
    let [mcp_proto::connection::Event::Request { key, .. }] = server.take_events()[..] else { panic!("it is one") };
    server.conn.respond_raw(key, &raw(pretty)).expect("an answer is owed");
    assert_eq!(one_line_each(&mut server)[0][0]["result"], value);
}

/// Returns the output messages, after checking that each is on one line by every definition of a line break.
#[track_caller]
fn one_line_each<E>(harness: &mut Harness<E>) -> Vec<Value> {
    let sent = harness.sent_text();
    for text in &sent {
        assert!(!text.contains(['\n', '\r']), "{text}");
    }
    sent.iter().map(|text| serde_json::from_str(text).expect("output is JSON")).collect()
}

// req: BASE-017 BASE-021
#[test]
fn non_object_params_and_results_are_not_sent() {
    for version in ProtocolVersion::LEGACY {
        for text in ["[1]", "[]", "\"x\"", "7", "null"] {
            let mut server = Harness::ready_server(version);
            let refused = |outcome: Result<(), SendError>| matches!(outcome, Err(SendError::Encode(_)));
            for progress in [true, false] {
                let options = RequestOptions { progress, ..RequestOptions::default() };
                let call = server.conn.request_raw(server.now, "vendor/x", Some(&raw(text)), options);
                assert!(refused(call.map(|_| ())), "{text}");
            }
            assert!(refused(server.conn.notify_raw("vendor/x", Some(&raw(text)))), "{text}");
            let key = server.receive_request(&request(1, "vendor/x"));
            assert!(refused(server.conn.respond_raw(key, &raw(text))), "{text}");
            assert_eq!(server.sent(), [Value::Null; 0], "nothing has changed");
            server.respond(key, &json!({}));
            assert_eq!(server.sent().len(), 1, "the answer is still owed");
        }
    }
}

// req: BASE-012 BASE-026
#[test]
fn error_responses_keep_the_session_open() {
    fn check<E>(mut harness: Harness<E>) {
        let key = harness.receive_request(&request(1, "vendor/x"));
        harness.conn.respond_error(key, &ErrorObject::internal("out of paper")).expect("an answer is owed");
        assert_eq!(harness.sent(), [error(1, -32603, "out of paper")]);
        assert!(Connection::is_ready(&harness.conn));
        harness.feed(&request(2, "ping"));
        assert_eq!(harness.sent(), [result(2, json!({}))]);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

#[test]
fn poll_transmit_appends_and_reports_its_length() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    server.feed(&request(1, "ping"));
    let mut out = b"what was there before".to_vec();
    let before = out.len();
    let sent = server.conn.stats().frames_sent;
    let transmit = server.conn.poll_transmit(&mut out).expect("an answer");
    assert_eq!(server.conn.stats().frames_sent, sent + 1);
    assert_eq!(out[before..], *b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    assert_eq!(transmit.len, out.len() - before);
    assert_eq!(out[..before], *b"what was there before");
}

#[test]
fn is_open_ends_with_response_or_cancellation() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    let [first, second] = [1, 2].map(|id| server.receive_request(&request(id, "vendor/a")));
    assert!(server.conn.is_open(first) && server.conn.is_open(second));
    server.respond(first, &json!({}));
    server.feed(&cancelled(2));
    assert!(!server.conn.is_open(first) && !server.conn.is_open(second));
}
