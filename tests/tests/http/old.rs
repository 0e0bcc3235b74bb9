//! The transport of 2024-11-05: one stream for everything that the server says, and POSTs beside it.

use std::time::Duration;

use http::Request;
use mcp_proto::{
    connection::{CancelCause, CloseReason, Event, RequestOptions},
    schema::ToolsListChangedParams,
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web, get, initialize},
};
use serde_json::{Value, json};

fn open(web: &mut Web) -> (Asked, String) {
    let stream = web.send(get("/sse").body(Vec::new()).expect("a request"));
    let events = web.reply(stream).events();
    let [(kind, uri, _)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(kind, "endpoint");
    (stream, uri.clone())
}

fn say(web: &mut Web, uri: &str, message: &Value) -> u16 {
    let request = Request::post(uri).header("host", "localhost").header("content-type", "application/json");
    let reply = web.ask(request.body(message.to_string().into_bytes()).expect("a request"));
    if reply.status() == 202 {
        assert!(reply.ended && reply.body.is_empty(), "the answer travels elsewhere");
    }
    reply.status()
}

// req: SSE-001 SSE-002 SSE-003 SSE-006 SSE-007 SSE-009 HTTP-073
#[test]
fn a_session_is_a_stream_and_posts_beside_it() {
    for version in ["2024-11-05", "2025-11-25"] {
        let mut web = Web::new(full_server());
        let (a, uri_a) = open(&mut web);
        let (b, uri_b) = open(&mut web);
        assert_ne!(uri_a, uri_b);
        assert!(uri_a.starts_with("/message?sessionId="), "{uri_a}");
        for (stream, uri) in [(a, &uri_a), (b, &uri_b)] {
            assert_eq!(say(&mut web, uri, &initialize(version)), 202);
            assert_eq!(say(&mut web, uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), 202);
            assert_eq!(web.reply(stream).messages()[0]["result"]["protocolVersion"], version);
        }
        web.take_events();
        assert_eq!(say(&mut web, &uri_a, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})), 202);
        let key = web.asked();
        let now = web.now;
        let conn = web.sessions.get_mut(&key.0).expect("it is open").connection(now);
        conn.notify(&ToolsListChangedParams::default()).expect("declared");
        let options = RequestOptions { related_request: Some(key.1), ..RequestOptions::default() };
        conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        web.answer(key, &json!({"tools": []}));
        let kinds = |message: &Value| message["method"].as_str().unwrap_or("answer").to_owned();
        let seen: Vec<_> = web.reply(a).messages().iter().map(kinds).collect();
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert_eq!(web.reply(b).messages().len(), 1, "the other one hears nothing of it");
        assert!(web.reply(a).events()[1..].iter().all(|(kind, _, id)| kind == "message" && id.is_empty()));
    }
}

// req: SSE-013
#[test]
fn the_session_ends_with_its_stream() {
    let mut web = Web::new(full_server());
    let (stream, uri) = open(&mut web);
    say(&mut web, &uri, &initialize("2024-11-05"));
    say(&mut web, &uri, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    say(&mut web, &uri, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let events = web.take_events();
    let Some(Event::Request { key, .. }) = events.last() else { panic!("{events:?}") };
    let key = *key;
    web.hang_up(stream);
    let events = web.take_events();
    let cancelled = Event::Cancelled { key, cause: CancelCause::Closed };
    assert_eq!(events, [cancelled, Event::Closed(CloseReason::ConnectionLost)]);
    assert!(web.sessions.is_empty() && web.endpoint.is_empty());
    assert_eq!(say(&mut web, &uri, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), 404);
    let (stream, uri) = open(&mut web);
    let now = web.now;
    web.last_session().close(now);
    web.settle();
    assert!(web.reply(stream).ended);
    assert_eq!(say(&mut web, &uri, &json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})), 404);
}

#[test]
fn the_two_transports_do_not_share_sessions() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (_, uri) = open(&mut web);
    let old = uri.split_once('=').expect("it has an id").1;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(web.ask(web.in_session(old, &ping)).status(), 404);
    let asked = web.listen(old, None);
    assert_eq!(web.reply(asked).status(), 404);
    assert_eq!(web.delete(old).status(), 404);
    assert_eq!(say(&mut web, &format!("/message?sessionId={id}"), &ping), 404);
    for bad in ["/message", "/message?sessionId=", "/message?sessionId=x&sessionId=y", "/message?other=x"] {
        assert!(matches!(say(&mut web, bad, &ping), 400 | 404), "{bad}");
    }
    assert_eq!(web.endpoint.len(), 2);
}

#[test]
fn what_cannot_be_accepted_is_refused_where_it_was_sent() {
    let mut web = Web::new(full_server());
    let (stream, uri) = open(&mut web);
    say(&mut web, &uri, &initialize("2024-11-05"));
    assert_eq!(say(&mut web, &uri, &json!("junk")), 400);
    assert_eq!(say(&mut web, &uri, &json!({"jsonrpc": "2.0", "id": 99, "result": {}})), 400);
    // A request is answered on the stream, whatever is wrong with it.
    assert_eq!(say(&mut web, &uri, &json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"})), 202);
    assert_eq!(web.reply(stream).messages().last().expect("an answer")["error"]["code"], -32601);
}

#[test]
fn a_quiet_stream_is_kept_alive_and_the_session_with_it() {
    let mut web = Web::new(full_server());
    let (stream, _) = open(&mut web);
    let before = web.reply(stream).body.len();
    web.advance(Duration::from_secs(3600));
    assert_eq!(web.reply(stream).body.len() - before, 240 * 3);
    assert_eq!(web.endpoint.len(), 1);
    assert_eq!(web.reply(stream).header("x-accel-buffering"), Some("no"));
}
