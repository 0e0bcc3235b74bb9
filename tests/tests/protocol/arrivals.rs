//! The interface between a binding with several streams and a connection: the arrival of each frame, and the route of
//! each output message.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    codec::Frame,
    connection::{Arrival, Event, Principal, RequestOptions, Route, Transmit, Violation},
    protocol::{HeaderParam, MirroredHeaders, MirroredValue, ProtocolVersion},
    schema::LogMessageParams,
    wire::{Json, RawJson},
};
use mcp_tests::harness::{Harness, full_server};
use serde_json::{Value, json};

type Server = Harness<mcp_proto::connection::ServerRole>;

fn session() -> Server {
    Harness::ready_server(ProtocolVersion::V2025_11_25)
}

fn stateless() -> Server {
    let mut config = full_server();
    config.settings.versions = mcp_proto::protocol::VersionSet::ALL;
    Harness::server(config)
}

fn on(stream: u64) -> Arrival {
    Arrival { stream: Some(stream), ..Arrival::default() }
}

/// Feeds a message with its arrival, and returns the events.
fn feed(server: &mut Server, message: &Value, arrival: Arrival) -> Vec<Event<'static>> {
    let text = message.to_string();
    let event = server.conn.handle_frame_from(server.now, Frame::new(text.as_bytes()), arrival);
    let mut events: Vec<_> = event.map(Event::into_owned).into_iter().collect();
    events.extend(server.take_events());
    events
}

fn sent(server: &mut Server) -> Vec<(Value, Transmit)> {
    let mut messages = Vec::new();
    let mut out = Vec::new();
    while let Some(transmit) = server.conn.poll_transmit(&mut out) {
        assert_eq!(transmit.len, out.len());
        messages.push((serde_json::from_slice(&out).unwrap_or_default(), transmit));
        out.clear();
    }
    messages
}

fn streams(server: &mut Server) -> Vec<Option<u64>> {
    sent(server).into_iter().map(|(_, transmit)| transmit.stream).collect()
}

fn key(events: &[Event<'_>]) -> mcp_proto::rpc::ReplyKey {
    let [Event::Request { key, .. }] = events else { panic!("this is no request: {events:?}") };
    *key
}

#[test]
fn related_messages_use_the_request_stream() {
    let mut server = session();
    let call = |id: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "t", "_meta": {"progressToken": id}}})
    };
    let first = key(&feed(&mut server, &call(1), on(10)));
    let second = key(&feed(&mut server, &call(2), on(20)));
    let third = key(&feed(&mut server, &call(3), Arrival::default()));
    server.conn.progress(second, 1.0, None, None).expect("it may report");
    let log = LogMessageParams::new(mcp_proto::schema::LoggingLevel::Alert, Json::parse("1").expect("JSON"));
    server.conn.log(first, &log).expect("it may log");
    server.conn.notify_raw("vendor/news", None).expect("it may tell");
    server.respond(first, &json!({"content": []}));
    server.respond(third, &json!({"content": []}));
    server.respond(second, &json!({"content": []}));
    assert_eq!(streams(&mut server), [Some(20), Some(10), None, Some(10), None, Some(20)]);
    let fourth = key(&feed(&mut server, &call(4), on(40)));
    let options = RequestOptions { related_request: Some(fourth), ..RequestOptions::default() };
    server.conn.request_raw(server.now, "roots/list", None, options).expect("it may ask");
    server.conn.request_raw(server.now, "roots/list", None, RequestOptions::default()).expect("it may ask");
    assert_eq!(streams(&mut server), [Some(40), None]);
}

#[test]
fn protocol_responses_use_the_request_stream() {
    let mut server = session();
    for (stream, method) in [(1, "ping"), (2, "initialize"), (3, "subscriptions/listen")] {
        feed(&mut server, &json!({"jsonrpc": "2.0", "id": stream, "method": method}), on(stream));
        let messages = sent(&mut server);
        let [(message, Transmit { route: Route::Connection, stream: Some(found), .. })] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!((&message["id"], *found), (&json!(stream), stream));
    }
    let mut server = Harness::ready_server(ProtocolVersion::V2025_03_26);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let key = key(&feed(&mut server, &json!([ping, call]), on(7)));
    assert_eq!(streams(&mut server), []);
    server.respond(key, &json!({"tools": []}));
    assert_eq!(streams(&mut server), [Some(7)]);
}

#[test]
fn streams_are_released_after_queued_messages() {
    let mut server = session();
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
    let first = key(&feed(&mut server, &call(1), on(10)));
    let retry = Some(Duration::from_millis(500));
    server.conn.release_stream(first, retry);
    server.conn.release_stream(first, None);
    let log = LogMessageParams::new(mcp_proto::schema::LoggingLevel::Alert, Json::parse("1").expect("JSON"));
    server.conn.log(first, &log).expect("it may log");
    let messages = sent(&mut server);
    let routes: Vec<_> = messages.iter().map(|(_, transmit)| (transmit.route, transmit.stream)).collect();
    let log = (Route::Reply { key: first, last: false }, Some(10));
    assert_eq!(routes, [log, (Route::StreamReleased { key: first, retry }, Some(10))]);
    server.respond(first, &json!({"content": []}));
    assert_eq!(sent(&mut server).len(), 1);
    // Without streams, or without a waiting call, there is nothing to release.
    let second = key(&feed(&mut server, &call(2), on(20)));
    server.conn.release_stream(second, None);
    server.respond(second, &json!({"content": []}));
    assert_eq!(sent(&mut server).len(), 1);
    server.conn.release_stream(second, None);
    let third = key(&feed(&mut server, &call(3), Arrival::default()));
    server.conn.release_stream(third, None);
    assert_eq!(sent(&mut server).len(), 0);
}

#[test]
fn requests_carry_the_principal() {
    let mut server = session();
    let ada = Arc::new(Principal::new("ada"));
    let arrival = Arrival { principal: Some(ada.clone()), ..Arrival::default() };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let hers = key(&feed(&mut server, &list, arrival));
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let nobodys = key(&feed(&mut server, &list, Arrival::default()));
    assert_eq!(server.conn.context(hers).expect("it is open").principal, Some(&*ada));
    assert_eq!(server.conn.context(nobodys).expect("it is open").principal, None);
}

fn modern(id: u64, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn with_headers(headers: MirroredHeaders) -> Arrival {
    Arrival { stream: Some(1), headers: Some(Arc::new(headers)), ..Arrival::default() }
}

fn mirrored(text: &str) -> MirroredValue {
    MirroredValue::Text(text.to_owned().into())
}

fn headers(method: &str, name: MirroredValue) -> MirroredHeaders {
    MirroredHeaders { version: mirrored("2026-07-28"), method: mirrored(method), name, params: Vec::new() }
}

/// Returns the error code of the refusal of a request.
#[track_caller]
fn refused(message: &Value, headers: MirroredHeaders) -> i64 {
    let mut server = stateless();
    let events = feed(&mut server, message, with_headers(headers));
    assert!(matches!(&events[..], [Event::Violation(_)]), "{events:?}");
    let messages = sent(&mut server);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0].0["id"], message["id"]);
    messages[0].0["error"]["code"].as_i64().expect("a code")
}

// req: M-HTTP-031 M-HTTP-040 M-HTTP-041 M-HTTP-042 M-HTTP-043 M-HTTP-045 M-HTTP-049
#[test]
fn headers_must_match_the_body() {
    let call = modern(1, "tools/call", &json!({"name": "tööl"}));
    let name = || mirrored("=?base64?dMO2w7Zs?=");
    let good = headers("tools/call", name());
    let mut server = stateless();
    let served = feed(&mut server, &call, with_headers(good.clone()));
    assert!(matches!(&served[..], [Event::Request { .. }]), "{served:?}");

    assert_eq!(refused(&call, MirroredHeaders { method: MirroredValue::Absent, ..good.clone() }), -32020);
    assert_eq!(refused(&call, headers("TOOLS/CALL", name())), -32020);
    assert_eq!(refused(&call, headers("tools/call", MirroredValue::Absent)), -32020);
    assert_eq!(refused(&call, headers("tools/call", mirrored("tool"))), -32020);
    assert_eq!(refused(&call, headers("tools/call", MirroredValue::Invalid)), -32020);
    assert_eq!(refused(&call, MirroredHeaders { version: mirrored("2031-01-01"), ..good.clone() }), -32020);
    let mut future = call.clone();
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(refused(&future, good.clone()), -32020);
    assert_eq!(
        refused(&future, MirroredHeaders { version: mirrored("2031-01-01"), ..MirroredHeaders::default() }),
        -32022
    );
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tööl"}});
    assert_eq!(refused(&bare, good), -32602);
    assert_eq!(
        refused(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), headers("ping", MirroredValue::Absent)),
        -32602
    );
    let unknown = modern(1, "initialize", &json!({}));
    assert_eq!(refused(&unknown, headers("initialize", MirroredValue::Absent)), -32601);
    assert_eq!(refused(&unknown, headers("tools/list", MirroredValue::Absent)), -32020);
}

// req: M-HTTP-096
#[test]
fn name_header_is_checked_only_when_params_have_one() {
    for (method, params) in [("tools/list", json!({})), ("completion/complete", json!({"name": "x"}))] {
        let mut server = stateless();
        let arrival = with_headers(headers(method, MirroredValue::Absent));
        let events = feed(&mut server, &modern(1, method, &params), arrival);
        assert!(matches!(&events[..], [Event::Request { .. }]), "{events:?}");
    }
    // The application refuses params without a name.
    let mut server = stateless();
    let arrival = with_headers(headers("tools/call", MirroredValue::Absent));
    let events = feed(&mut server, &modern(1, "tools/call", &json!({})), arrival);
    assert!(matches!(&events[..], [Event::Request { .. }]), "{events:?}");
}

#[test]
fn arguments_are_checked_against_headers() {
    let schema = Json::parse(r#"{"properties":{"row":{"type":"integer","x-mcp-header":"Row"}}}"#).expect("JSON");
    let params = HeaderParam::of_schema(&RawJson::from(&schema)).expect("a good schema");
    let call = modern(1, "tools/call", &json!({"name": "t", "arguments": {"row": 12}}));
    let arguments = Json::parse(r#"{"row":12}"#).expect("JSON");
    let arguments = RawJson::from(&arguments);
    let mut server = stateless();
    let right =
        MirroredHeaders { params: vec![("row".to_owned(), mirrored("12"))], ..headers("tools/call", mirrored("t")) };
    let received = key(&feed(&mut server, &call, with_headers(right)));
    assert_eq!(server.conn.verify_headers(received, &params, Some(&arguments)), Ok(()));
    let mut server = stateless();
    let received = key(&feed(&mut server, &call, with_headers(headers("tools/call", mirrored("t")))));
    let error = server.conn.verify_headers(received, &params, Some(&arguments)).expect_err("the header is missing");
    assert_eq!(error.code.0, -32020);
    let mut server = stateless();
    let received = key(&feed(&mut server, &call, Arrival::default()));
    assert_eq!(server.conn.verify_headers(received, &params, Some(&arguments)), Ok(()));
}

#[test]
fn header_mismatch_is_a_violation() {
    let mut server = stateless();
    let call = modern(1, "tools/call", &json!({"name": "t"}));
    let events = feed(&mut server, &call, with_headers(headers("tools/list", mirrored("t"))));
    assert_eq!(events, [Event::Violation(Violation::HeaderMismatch)]);
}

/// The headers of a subscription would be kept as long as it lasts.
#[test]
fn checked_headers_are_kept_for_tool_calls_only() {
    for (method, params, kept) in [
        ("tools/call", json!({"name": "t"}), 2),
        ("tools/list", json!({}), 1),
        ("prompts/get", json!({"name": "t"}), 1),
        ("subscriptions/listen", json!({"notifications": {}}), 1),
    ] {
        let mut server = stateless();
        let headers = Arc::new(headers(method, mirrored("t")));
        feed(
            &mut server,
            &modern(1, method, &params),
            Arrival { headers: Some(headers.clone()), ..Arrival::default() },
        );
        assert_eq!((Arc::strong_count(&headers), server.conn.usage().requests), (kept, 1), "{method}");
    }
}
