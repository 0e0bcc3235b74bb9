//! HTTP+SSE, the transport of 2024-11-05: one stream for everything that the server sends, and POSTs beside it.

use std::time::Duration;

use http::Request;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, RequestOptions},
    schema::ToolsListChangedParams,
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef, get, initialize},
};
use serde_json::{Value, json};

fn open(server: &mut HttpServer) -> (RequestRef, String) {
    let stream = server.send(get("/sse").body(Vec::new()).expect("a request"));
    let events = server.reply(stream).events();
    let [(kind, uri, _)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(kind, "endpoint");
    (stream, uri.clone())
}

fn post(server: &mut HttpServer, uri: &str, message: &Value) -> u16 {
    let request = Request::post(uri).header("host", "localhost").header("content-type", "application/json");
    let reply = server.request(request.body(message.to_string().into_bytes()).expect("a request"));
    if reply.status() == 202 {
        assert!(reply.ended && reply.body.is_empty(), "the answer travels elsewhere");
    }
    reply.status()
}

// req: SSE-001 SSE-002 SSE-003 SSE-006 SSE-007 SSE-009 HTTP-073
#[test]
fn http_sse_session_combines_stream_and_posts() {
    for version in ["2024-11-05", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        let (a, uri_a) = open(&mut server);
        let (b, uri_b) = open(&mut server);
        assert_ne!(uri_a, uri_b);
        assert!(uri_a.starts_with("/message?sessionId="), "{uri_a}");
        for (stream, uri) in [(a, &uri_a), (b, &uri_b)] {
            assert_eq!(post(&mut server, uri, &initialize(version)), 202);
            assert_eq!(post(&mut server, uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), 202);
            assert_eq!(server.reply(stream).messages()[0]["result"]["protocolVersion"], version);
        }
        server.take_events();
        assert_eq!(post(&mut server, &uri_a, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})), 202);
        let key = server.take_request();
        let now = server.now;
        let conn = server.sessions.get_mut(&key.0).expect("it is open").connection(now);
        conn.notify(&ToolsListChangedParams::default()).expect("declared");
        let options = RequestOptions { related_request: Some(key.1), ..RequestOptions::default() };
        conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        server.respond(key, &json!({"tools": []}));
        let kinds = |message: &Value| message["method"].as_str().unwrap_or("answer").to_owned();
        let seen: Vec<_> = server.reply(a).messages().iter().map(kinds).collect();
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert_eq!(server.reply(b).messages().len(), 1, "the other one hears nothing of it");
        assert!(server.reply(a).events()[1..].iter().all(|(kind, _, id)| kind == "message" && id.is_empty()));
    }
}

// req: SSE-013
#[test]
fn http_sse_session_closes_with_its_stream() {
    let mut server = HttpServer::new(full_server());
    let (stream, uri) = open(&mut server);
    post(&mut server, &uri, &initialize("2024-11-05"));
    post(&mut server, &uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    post(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let events = server.take_events();
    let Some(Event::Request { key, .. }) = events.last() else { panic!("{events:?}") };
    let key = *key;
    server.disconnect(stream);
    let events = server.take_events();
    let cancelled = Event::Cancelled { key, cause: CancelCause::Closed };
    assert_eq!(events, [cancelled, Event::Closed(CloseReason::ConnectionLost)]);
    assert!(server.sessions.is_empty() && server.endpoint.is_empty());
    assert_eq!(post(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), 404);
    let (stream, uri) = open(&mut server);
    let now = server.now;
    server.last_session().close(now);
    server.settle();
    assert!(server.reply(stream).ended);
    assert_eq!(post(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), 404);
}

#[test]
fn transports_do_not_share_sessions() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (_, uri) = open(&mut server);
    let old = uri.split_once('=').expect("it has an id").1;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(server.request(server.in_session(old, &ping)).status(), 404);
    let requested = server.listen(old, None);
    assert_eq!(server.reply(requested).status(), 404);
    assert_eq!(server.delete(old).status(), 404);
    assert_eq!(post(&mut server, &format!("/message?sessionId={id}"), &ping), 404);
    for bad in ["/message", "/message?sessionId=", "/message?sessionId=x&sessionId=y", "/message?other=x"] {
        assert!(matches!(post(&mut server, bad, &ping), 400 | 404), "{bad}");
    }
    assert_eq!(server.endpoint.len(), 2);
}

#[test]
fn invalid_messages_are_refused_on_the_post() {
    let mut server = HttpServer::new(full_server());
    let (stream, uri) = open(&mut server);
    post(&mut server, &uri, &initialize("2024-11-05"));
    assert_eq!(post(&mut server, &uri, &json!("junk")), 400);
    assert_eq!(post(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 99, "result": {}})), 400);
    // A request gets its response on the stream, also if it is invalid.
    assert_eq!(post(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"})), 202);
    assert_eq!(server.reply(stream).messages().last().expect("an answer")["error"]["code"], -32601);
}

#[test]
fn idle_http_sse_stream_is_kept_alive() {
    let mut server = HttpServer::new(full_server());
    let (stream, _) = open(&mut server);
    let before = server.reply(stream).body.len();
    server.advance(Duration::from_secs(3600));
    assert_eq!(server.reply(stream).body.len() - before, 240 * 3);
    assert_eq!(server.endpoint.len(), 1);
    assert_eq!(server.reply(stream).header("x-accel-buffering"), Some("no"));
}

/// Results that the application has returned cannot be bounded by the connection, so it gets no request for which there
/// is no room.
#[test]
fn posts_wait_while_the_http_sse_stream_is_not_read() {
    for batches in [false, true] {
        let mut config = full_server();
        config.settings.limits.outbox_bytes = 1 << 20;
        let mut server = HttpServer::new(config);
        let (stream, uri) = open(&mut server);
        post(&mut server, &uri, &initialize(if batches { "2025-03-26" } else { "2024-11-05" }));
        post(&mut server, &uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server.take_events();
        server.read(stream, false);
        let result = json!({"tools": [], "x": "x".repeat(900 << 10)});
        let send = |server: &mut HttpServer, number: u64| {
            let list = json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"});
            let message = if batches { json!([list]) } else { list };
            let request = Request::post(&uri).header("host", "localhost").header("content-type", "application/json");
            server.send(request.body(message.to_string().into_bytes()).expect("a request"))
        };
        let mut number = 0;
        let first_waiting = loop {
            number += 1;
            let sent = send(&mut server, number);
            let Ok([key]) = <[_; 1]>::try_from(server.take_requests()) else { break sent };
            assert_eq!(server.reply(sent).status(), 202);
            server.respond(key, &result);
            assert!(number < 8, "4 MiB wait on the exchange, and 1 MiB in the outbox");
        };
        // It waits for room, and cancelling a request needs none.
        let second_waiting = send(&mut server, 100);
        assert!(server.take_requests().is_empty());
        assert!(server.reply(first_waiting).head.is_none() && server.reply(second_waiting).head.is_none());
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 100}
        });
        assert_eq!(post(&mut server, &uri, &cancelled), 202);
        let head = server.reply(second_waiting).head.as_ref();
        assert_eq!(head.map(|it| it.status.as_u16()), (!batches).then_some(202));
        // Reading makes room.
        server.read(stream, true);
        let keys = server.take_requests();
        assert_eq!(server.reply(first_waiting).status(), 202);
        assert_eq!(keys.len(), if batches { 2 } else { 1 });
        keys.into_iter().for_each(|key| server.respond(key, &json!({"tools": []})));
        let ids: Vec<_> = server.reply(stream).messages().iter().map(|it| it.to_string()).collect();
        assert!(
            ids.last().expect("a response").contains(if batches { "\"id\":100" } else { "\"tools\":[]" }),
            "{ids:?}"
        );
        // A client that does not read is disconnected, and what waits is refused.
        server.read(stream, false);
        let waiting = loop {
            number += 1;
            let sent = send(&mut server, number);
            let Ok([key]) = <[_; 1]>::try_from(server.take_requests()) else { break sent };
            server.respond(key, &result);
        };
        server.advance(Duration::from_secs(20));
        assert_eq!(server.reply(waiting).status(), 404);
        server.read(stream, true);
        assert!(server.reply(stream).aborted && server.sessions.is_empty());
    }
}

/// Opens a session whose stream is not read, and fills it. Returns the stream, the URI, and a POST that waits.
fn open_full(version: &str) -> (HttpServer, RequestRef, String, RequestRef) {
    let mut config = full_server();
    config.settings.limits.outbox_bytes = 1 << 20;
    let mut server = HttpServer::new(config);
    let (stream, uri) = open(&mut server);
    post(&mut server, &uri, &initialize(version));
    post(&mut server, &uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.take_events();
    server.read(stream, false);
    let result = json!({"tools": [], "x": "x".repeat(900 << 10)});
    for number in 1..=8 {
        let sent = send(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"}));
        let Ok([key]) = <[_; 1]>::try_from(server.take_requests()) else { return (server, stream, uri, sent) };
        server.respond(key, &result);
    }
    panic!("4 MiB wait on the exchange, and 1 MiB in the outbox");
}

fn send(server: &mut HttpServer, uri: &str, message: &Value) -> RequestRef {
    let request = Request::post(uri).header("host", "localhost").header("content-type", "application/json");
    server.send(request.body(message.to_string().into_bytes()).expect("a request"))
}

/// A request that was accepted would never be answered.
#[test]
fn waiting_posts_are_refused_if_their_session_is_aborted() {
    let (mut server, stream, _, waiting) = open_full("2024-11-05");
    let now = server.now;
    server.last_session().abort(now, "it holds more than its client may hold");
    server.settle();
    assert_eq!(server.reply(waiting).status(), 503);
    server.read(stream, true);
    assert!(server.reply(stream).aborted && server.sessions.is_empty());
}

#[test]
fn abandoned_posts_do_not_wait() {
    let (mut server, stream, uri, waiting) = open_full("2024-11-05");
    let next = send(&mut server, &uri, &json!({"jsonrpc": "2.0", "id": 100, "method": "tools/list"}));
    assert_eq!(server.last_session().usage().waiting_requests, 2);
    server.disconnect(waiting);
    assert_eq!(server.last_session().usage().waiting_requests, 1);
    server.read(stream, true);
    assert_eq!((server.take_requests().len(), server.reply(next).status()), (1, 202));
}

/// Requests in flight may wait for the responses of a batch, and hold all slots.
#[test]
fn batches_with_responses_wait_for_no_slot() {
    let mut config = full_server();
    config.settings.limits.requests = 2;
    let mut server = HttpServer::new(config);
    let (stream, uri) = open(&mut server);
    post(&mut server, &uri, &initialize("2025-03-26"));
    post(&mut server, &uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.take_events();
    let list = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"});
    for number in [1, 2] {
        assert_eq!(post(&mut server, &uri, &list(number)), 202);
        let key = server.take_request();
        let now = server.now;
        let options = RequestOptions { related_request: Some(key.1), ..RequestOptions::default() };
        let conn = server.sessions.get_mut(&key.0).expect("it is open").connection(now);
        conn.request_raw(now, "roots/list", None, options).expect("it may ask");
    }
    server.settle();
    let asked = server.reply(stream).messages();
    let ids: Vec<_> = asked.iter().filter(|it| it["method"] == "roots/list").map(|it| &it["id"]).collect();
    let waiting = send(&mut server, &uri, &list(3));
    assert!(server.reply(waiting).head.is_none() && ids.len() == 2);
    let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}});
    assert_eq!(post(&mut server, &uri, &json!([answer(ids[0])])), 202);
    assert_eq!(server.take_events().len(), 1, "one response");
    // A request for which there is no slot is refused by itself.
    assert_eq!(post(&mut server, &uri, &json!([answer(ids[1]), list(4)])), 202);
    let is_request = |event: &Event<'_>| matches!(event, Event::Request { .. });
    assert!(!server.take_events().iter().any(is_request));
    let messages = server.reply(stream).messages();
    assert_eq!(messages.last().expect("a batch")[0]["id"], 4);
    assert!(server.reply(waiting).head.is_none(), "it still waits");
}
