//! How a client detects the transport of its server: 2026-07-28, sessions, or HTTP+SSE of 2024-11-05.

use std::time::Duration;

use http::Response;
use mcp_proto::{
    connection::{CloseReason, Event, Failure, Opening},
    http::client::ExchangeId,
    protocol::{Era, ProtocolVersion, VersionSet},
};
use mcp_tests::harness::full_client_with;
use mcp_tests::http_client::{
    HttpClient, discovered, event, header, initialized, json_response, message, options, stream_response,
};
use serde_json::{Value, json};

fn both() -> HttpClient {
    HttpClient::new(full_client_with(VersionSet::ALL), options())
}

fn error(id: Option<&Value>, code: i64, data: &Value) -> String {
    let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": "no", "data": data}});
    if let Some(id) = id {
        error["id"] = id.clone();
    }
    error.to_string()
}

/// Returns the exchange and the id of the probe.
#[track_caller]
fn requested(caller: &mut HttpClient) -> (ExchangeId, Value) {
    let (exchange, request) = caller.posted("server/discover");
    assert_eq!(header(&request, "mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(header(&request, "mcp-method"), Some("server/discover"));
    (exchange, message(&request)["id"].clone())
}

/// Checks that the client falls back to a session.
#[track_caller]
fn falls_back(caller: &mut HttpClient) {
    let (exchange, request) = caller.posted("initialize");
    for name in ["mcp-protocol-version", "mcp-method", "mcp-session-id"] {
        assert_eq!(header(&request, name), None, "nothing is left of the other era");
    }
    assert_eq!(message(&request)["params"]["protocolVersion"], "2025-11-25");
    let id = message(&request)["id"].clone();
    caller.respond(exchange, json_response(200), initialized("2025-11-25", &id).to_string());
    let (exchange, request) = caller.posted("notifications/initialized");
    assert_eq!(header(&request, "mcp-protocol-version"), Some("2025-11-25"));
    caller.accept(exchange);
    assert_eq!(caller.take_events(), [Event::Ready]);
    assert_eq!(caller.core.connection(caller.now).version(), Some(ProtocolVersion::V2025_11_25));
}

// req: M-DUAL-010 M-DUAL-011 M-DUAL-013 M-DUAL-018 M-DUAL-037
#[test]
fn falls_back_when_discover_is_not_understood() {
    for named in [true, false] {
        for code in [-32600, -32601, -32602, -32000, -32700, 1] {
            for status in [200, 400, 404, 422, 406] {
                let mut caller = both();
                let (exchange, id) = requested(&mut caller);
                caller.respond(exchange, json_response(status), error(named.then_some(&id), code, &Value::Null));
                falls_back(&mut caller);
            }
        }
    }
    for (status, body) in
        [(400, ""), (400, "Bad Request"), (404, "<html>"), (405, ""), (406, ""), (415, ""), (422, "{}")]
    {
        let mut caller = both();
        let (exchange, _) = requested(&mut caller);
        caller.respond(exchange, Response::builder().status(status), body);
        falls_back(&mut caller);
    }
    // Some servers respond to any request, on a stream that ends.
    for body in [json!({}), json!({"tools": []})] {
        let mut caller = both();
        let (exchange, id) = requested(&mut caller);
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": body});
        caller.respond(exchange, stream_response(), event("", &answer));
        falls_back(&mut caller);
    }
    let mut caller = both();
    let (exchange, id) = requested(&mut caller);
    let answer = error(Some(&id), -32601, &Value::Null);
    caller.respond(exchange, stream_response(), format!("data: {answer}\n\n"));
    falls_back(&mut caller);
    let mut caller = both();
    let (exchange, _) = requested(&mut caller);
    caller.respond(exchange, Response::builder().status(200).header("content-type", "text/html"), "<html>");
    falls_back(&mut caller);
}

// req: M-DUAL-012 M-DUAL-014
#[test]
fn recognises_a_modern_server_by_its_errors() {
    for named in [true, false] {
        let mut caller = both();
        let (exchange, id) = requested(&mut caller);
        let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
        caller.respond(exchange, json_response(400), error(named.then_some(&id), -32022, &data));
        let (exchange, id) = requested(&mut caller);
        caller.answer(exchange, &discovered(&id));
        assert_eq!(caller.take_events(), [Event::Ready]);
        // An unknown method does not reveal the era.
        caller.call("tools/list", &json!({}));
        let (exchange, request) = caller.posted("tools/list");
        caller.respond(exchange, json_response(404), error(Some(&message(&request)["id"]), -32601, &Value::Null));
        assert!(matches!(&caller.take_events()[..], [Event::Response { .. }]));
        assert_eq!(caller.requests.len(), 0);
        for code in [-32020, -32021] {
            let mut caller = both();
            let (exchange, id) = requested(&mut caller);
            caller.respond(exchange, json_response(400), error(named.then_some(&id), code, &Value::Null));
            assert!(
                matches!(&caller.take_events()[..], [Event::Closed(CloseReason::Refused(error))] if error.code.0 == code)
            );
            assert_eq!(caller.requests.len(), 0, "there is no session to be had there");
        }
    }
    // The error may list revisions with sessions.
    let mut caller = both();
    let (exchange, id) = requested(&mut caller);
    let data = json!({"supported": ["2025-11-25"], "requested": "2026-07-28"});
    caller.respond(exchange, json_response(400), error(Some(&id), -32022, &data));
    falls_back(&mut caller);
}

// req: M-DUAL-035
#[test]
fn errors_unrelated_to_the_era_are_reported() {
    for status in [401, 403, 408, 421, 429, 500, 502, 503, 504] {
        let mut caller = both();
        let (exchange, _) = requested(&mut caller);
        caller.respond(exchange, Response::builder().status(status), "");
        let failure = Failure::Status { status, challenges: Vec::new(), retry_after: None, body: String::new() };
        assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Failed(failure))]);
        assert!(caller.core.is_over());
    }
    let mut caller = both();
    let (exchange, _) = requested(&mut caller);
    caller.respond(exchange, Response::builder().status(301).header("location", "http://other.example/"), "");
    let failure = Failure::Redirected("http://other.example/".to_owned());
    assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Failed(failure))]);
    let mut caller = both();
    let (exchange, _) = requested(&mut caller);
    caller.fail(exchange);
    let failure = Failure::Network("connection reset".to_owned());
    assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Failed(failure))]);
    // Neither does a timeout: over HTTP, a server refuses a request with an unknown method.
    let mut caller = both();
    let (exchange, _) = requested(&mut caller);
    caller.advance(Duration::from_secs(29));
    assert_eq!(caller.take_events(), []);
    caller.advance(Duration::from_secs(1));
    assert_eq!(caller.take_events(), [Event::Closed(CloseReason::HandshakeTimeout)]);
    assert_eq!(caller.aborted, [exchange]);
}

// req: M-DUAL-016 M-DUAL-017
#[test]
fn a_known_era_skips_the_probe() {
    let mut caller =
        HttpClient::with_opening(full_client_with(VersionSet::ALL), options(), Opening::known(Era::Legacy));
    falls_back(&mut caller);
    // The hint may be wrong.
    let mut caller =
        HttpClient::with_opening(full_client_with(VersionSet::ALL), options(), Opening::known(Era::Legacy));
    let (exchange, request) = caller.posted("initialize");
    let id = message(&request)["id"].clone();
    caller.respond(exchange, json_response(400), error(Some(&id), -32020, &Value::Null));
    // HTTP+SSE is tried first, as the status requires.
    let (exchange, request) = caller.request();
    assert_eq!(request.method(), "GET");
    caller.respond(exchange, Response::builder().status(405), "");
    let (exchange, id) = requested(&mut caller);
    caller.answer(exchange, &discovered(&id));
    assert_eq!(caller.take_events(), [Event::Ready]);
    assert_eq!(caller.core.connection(caller.now).version(), Some(ProtocolVersion::V2026_07_28));
}

/// Returns a client whose `initialize` is refused with this status.
fn refused(versions: VersionSet, status: u16) -> HttpClient {
    let mut caller = HttpClient::new(full_client_with(versions), options());
    let (exchange, _) = caller.posted("initialize");
    caller.respond(exchange, Response::builder().status(status), "what?");
    caller
}

// req: HTTP-070 HTTP-071 M-DUAL-015
#[test]
fn tries_http_sse_per_status_and_revision() {
    let november = VersionSet::LEGACY;
    let june = VersionSet::between(ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_06_18);
    let march = VersionSet::between(ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_03_26);
    for versions in [march, june, november] {
        for status in [400, 404, 405, 406, 409, 415, 422, 429, 401, 403, 500, 503] {
            let mut caller = refused(versions, status);
            let tries = match status {
                400 | 404 | 405 => true,
                401 | 403 | 500 | 503 => false,
                _ => versions != november,
            };
            let failure =
                Failure::Status { status, challenges: Vec::new(), retry_after: None, body: "what?".to_owned() };
            if tries {
                let (exchange, request) = caller.request();
                assert_eq!((request.method().as_str(), request.uri()), ("GET", &options().url), "{status}");
                assert_eq!(header(&request, "accept"), Some("text/event-stream"));
                // Without that transport either, the first failure is reported.
                caller.respond(exchange, Response::builder().status(405), "");
            }
            assert_eq!(caller.requests.len(), 0, "{status} in {versions:?}");
            assert_eq!(caller.take_events(), [Event::Closed(CloseReason::Failed(failure))]);
            assert!(caller.core.is_over());
        }
    }
    let mut quiet = options();
    quiet.http_sse = false;
    let mut caller = HttpClient::new(full_client_with(VersionSet::LEGACY), quiet);
    let (exchange, _) = caller.posted("initialize");
    caller.respond(exchange, Response::builder().status(404), "");
    assert!(matches!(&caller.take_events()[..], [Event::Closed(_)]));
}

/// The server may close the connection that carried the refusal without announcing it.
#[test]
fn lost_http_sse_probe_is_retried_once() {
    for lost in [1, 2] {
        let mut caller = refused(VersionSet::LEGACY, 405);
        for _ in 0..lost {
            let (exchange, request) = caller.request();
            assert_eq!(request.method(), "GET");
            caller.fail(exchange);
        }
        if lost == 1 {
            let (stream, _) = caller.request();
            caller.head(stream, stream_response());
            caller.body(stream, "event: endpoint\ndata: /messages\n\n");
            caller.posted("initialize");
        } else {
            assert_eq!(caller.requests.len(), 0);
            assert!(matches!(
                &caller.take_events()[..],
                [Event::Closed(CloseReason::Failed(Failure::Status { status: 405, .. }))]
            ));
        }
    }
}

/// Some servers redirect each `GET` to a page for people.
#[test]
fn a_redirected_http_sse_probe_reports_the_refusal() {
    for (status, location) in [(302, "/login"), (303, "/docs"), (307, "https://other.example/"), (301, "::")] {
        let mut caller = refused(VersionSet::LEGACY, 405);
        let (exchange, _) = caller.request();
        caller.respond(exchange, Response::builder().status(status).header("location", location), "");
        let events = caller.take_events();
        assert!(
            matches!(&events[..], [Event::Closed(CloseReason::Failed(Failure::Status { status: 405, .. }))]),
            "{status}: {events:?}"
        );
    }
}

/// Returns a client that has fallen back to HTTP+SSE, with its stream open.
fn old() -> (HttpClient, ExchangeId) {
    let mut caller = refused(VersionSet::LEGACY, 405);
    let (stream, _) = caller.request();
    caller.head(stream, stream_response());
    assert_eq!(caller.requests.len(), 0, "nothing goes before it is known where to");
    (caller, stream)
}

// req: HTTP-072 SSE-004 SSE-008
#[test]
fn http_sse_transport_carries_the_connection() {
    let (mut caller, stream) = old();
    caller.body(stream, "event: endpoint\ndata: /messages?sessionId=1\n\n");
    let (exchange, request) = caller.posted("initialize");
    assert_eq!(request.uri(), "http://server.example/messages?sessionId=1");
    caller.accept(exchange);
    caller.body(stream, event("", &initialized("2024-11-05", &message(&request)["id"])));
    let (exchange, request) = caller.posted("notifications/initialized");
    assert_eq!(request.uri(), "http://server.example/messages?sessionId=1");
    assert_eq!((header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")), (None, None));
    let call = caller.call("tools/list", &json!({}));
    assert_eq!(caller.requests.len(), 0);
    caller.accept(exchange);
    assert_eq!(caller.take_events(), [Event::Ready]);
    let (exchange, request) = caller.posted("tools/list");
    caller.respond(exchange, Response::builder().status(200), "Accepted");
    assert_eq!(caller.take_events(), []);
    let answer = json!({"jsonrpc": "2.0", "id": message(&request)["id"], "result": {"tools": []}});
    caller.body(stream, event("", &answer));
    assert!(matches!(&caller.take_events()[..], [Event::Response { call: ended, .. }] if *ended == call));
    // A message that is refused at its POST fails alone.
    let call = caller.call("tools/list", &json!({}));
    let (exchange, _) = caller.posted("tools/list");
    caller.respond(exchange, Response::builder().status(500), "");
    assert!(matches!(&caller.take_events()[..], [Event::Response { call: ended, .. }] if *ended == call));
    assert!(caller.core.is_listening());
}

// req: SSE-013 LIFE-040
#[test]
fn http_sse_connection_closes_with_its_stream() {
    for broken in [false, true] {
        let (mut caller, stream) = old();
        caller.body(stream, "event: endpoint\ndata: /messages\n\n");
        let (exchange, request) = caller.posted("initialize");
        caller.accept(exchange);
        caller.body(stream, event("", &initialized("2024-11-05", &message(&request)["id"])));
        let (exchange, _) = caller.posted("notifications/initialized");
        caller.accept(exchange);
        caller.take_events();
        if broken {
            caller.fail(stream);
        } else {
            caller.end(stream);
        }
        assert!(matches!(
            &caller.take_events()[..],
            [Event::Closed(CloseReason::Eof | CloseReason::TransportError(_))]
        ));
        assert_eq!(caller.requests.len(), 0, "there is nothing to come back to, and nothing to delete");
        assert!(caller.core.is_over());
    }
    let (mut caller, stream) = old();
    caller.body(stream, "event: endpoint\ndata: /messages\n\n");
    let (exchange, _) = caller.posted("initialize");
    let now = caller.now;
    caller.core.close(now);
    caller.settle();
    assert_eq!(caller.aborted, [stream, exchange]);
}

// req: SSE-003 SSE-005
#[test]
fn endpoint_event_must_be_first_and_same_origin() {
    // Any other first event is not HTTP+SSE.
    for first in ["data: {}\n\n", "event: ping\ndata: x\n\n", "event: message\ndata: {}\n\n"] {
        let (mut caller, stream) = old();
        caller.body(stream, first);
        assert!(matches!(
            &caller.take_events()[..],
            [Event::Closed(CloseReason::Failed(Failure::Status { status: 405, .. }))]
        ));
        assert_eq!(caller.aborted, [stream]);
    }
    let (mut caller, stream) = old();
    caller.end(stream);
    assert!(matches!(
        &caller.take_events()[..],
        [Event::Closed(CloseReason::Failed(Failure::Status { status: 405, .. }))]
    ));
    for (reference, expected) in [
        ("/messages", Some("http://server.example/messages")),
        ("messages/?a=b", Some("http://server.example/messages/?a=b")),
        ("?session=1", Some("http://server.example/mcp?session=1")),
        ("http://server.example:80/x", Some("http://server.example:80/x")),
        ("http://evil.example/x", None),
        ("https://server.example/x", None),
        ("//evil.example/x", None),
        ("http://server.example.evil.example/", None),
        ("http://user:pass@server.example/", None),
        ("file:///etc/passwd", None),
        ("", Some("http://server.example/mcp")),
    ] {
        let (mut caller, stream) = old();
        caller.body(stream, format!("event: endpoint\ndata: {reference}\n\n"));
        match expected {
            Some(expected) => assert_eq!(caller.posted("initialize").1.uri(), expected, "{reference:?}"),
            None => {
                assert_eq!(caller.requests.len(), 0, "{reference:?}: nothing goes there");
                assert!(matches!(
                    &caller.take_events()[..],
                    [Event::Closed(CloseReason::Failed(Failure::Redirected(_)))]
                ));
            }
        }
    }
}
