//! Streams that are lost and resumed, on the side of the server.

use std::time::Duration;

use mcp_proto::{
    connection::RequestOptions,
    http::{Policy, server::EndpointOptions},
    rpc::ReplyKey,
    schema::ResourceUpdatedParams,
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef},
};
use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn call(server: &mut HttpServer, id: &str, number: u64) -> (RequestRef, (usize, ReplyKey)) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let requested =
        server.send_message(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    (requested, server.take_request())
}

fn progress(server: &mut HttpServer, (session, key): (usize, ReplyKey), progress: u32) {
    let now = server.now;
    let session = server.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress.into(), None, None).expect("it may report");
    server.settle();
}

fn updated(server: &mut HttpServer, id: &str, number: usize) {
    let now = server.now;
    let params = ResourceUpdatedParams::new(format!("mem://{number}"));
    server.session(id).expect("it is open").connection(now).notify(&params).expect("declared");
    server.settle();
}

/// Returns the messages of a reply: progress as numbers, the response as -1.
fn read(server: &HttpServer, requested: RequestRef) -> Vec<i64> {
    let number = |message: &Value| message["params"]["progress"].as_i64().unwrap_or(-1);
    server.reply(requested).messages().iter().map(number).collect()
}

// req: HTTP-047 HTTP-048 HTTP-050 HTTP-051 HTTP-052
#[test]
fn streams_resume_after_every_event() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let listener = server.listen(&id, None);
        let (a, key_a) = call(&mut server, &id, 1);
        let (b, key_b) = call(&mut server, &id, 2);
        for number in 1..=3 {
            progress(&mut server, key_a, number);
            progress(&mut server, key_b, 10 * number);
            updated(&mut server, &id, 0);
        }
        server.respond(key_a, &json!({"content": []}));
        let ids = |server: &HttpServer, requested| {
            server.reply(requested).events().into_iter().map(|(_, _, id)| id).collect::<Vec<_>>()
        };
        let all: Vec<_> = [a, b, listener]
            .iter()
            .flat_map(|requested| ids(&server, *requested))
            .filter(|id| !id.is_empty())
            .collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "an id is that of one event");
        let whole = read(&server, a);
        assert_eq!(whole, [1, 2, 3, -1]);
        // After each event, exactly the rest of this stream is replayed.
        for (index, last) in ids(&server, a).into_iter().enumerate() {
            let resumed = server.listen(&id, Some(&last));
            let primed = usize::from(version == "2025-11-25");
            assert_eq!(read(&server, resumed), whole[index + 1 - primed..], "behind {last}");
            assert!(server.reply(resumed).ended);
        }
        // Resuming an open stream ends its old exchange: the client has lost it.
        let last = ids(&server, b).pop().expect("it has ids");
        let resumed = server.listen(&id, Some(&last));
        assert!(server.reply(b).ended);
        progress(&mut server, key_b, 40);
        server.respond(key_b, &json!({"content": []}));
        assert_eq!(read(&server, resumed), [40, -1]);
        assert!(server.reply(resumed).ended && !server.reply(listener).ended);
    }
}

/// A request of the server that concerns a cancelled request comes too late for the stream of that request. It goes to
/// the stream of the session, and the responses of the complete stream stay the last messages that are kept.
#[test]
fn late_server_requests_use_the_session_stream() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.replay = 1;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-03-26");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "t", "_meta": {"progressToken": 1}}});
    let batch = server.send_message(&id, &json!([call, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]));
    let (session, key) = server.take_request();
    progress(&mut server, (session, key), 1);
    let last = server.reply(batch).events().pop().expect("there was one").2;
    server.disconnect(batch);
    server
        .send_message(&id, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let now = server.now;
    let related = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
    let open = server.sessions.get_mut(&session).expect("it is open");
    open.connection(now).request_raw(now, "ping", None, related).expect("any request may ping");
    server.settle();
    let resumed = server.listen(&id, Some(&last));
    let messages = server.reply(resumed).messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0].as_array().map_or(&messages[0]["id"], |all| &all[0]["id"]), 2);
    assert!(server.reply(resumed).ended);
    let listener = server.listen(&id, None);
    assert_eq!(server.reply(listener).messages()[0]["method"], "ping");
}

#[test]
fn messages_sent_while_disconnected_are_kept() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &id, 1);
    progress(&mut server, key, 1);
    server.disconnect(requested);
    progress(&mut server, key, 2);
    let last = server.reply(requested).events().pop().expect("there was one").2;
    let again = server.listen(&id, Some(&last));
    progress(&mut server, key, 3);
    server.disconnect(again);
    progress(&mut server, key, 4);
    server.respond(key, &json!({"content": []}));
    let last = server.reply(again).events().pop().expect("there was one").2;
    let end = server.listen(&id, Some(&last));
    let seen = [requested, again, end].map(|requested| read(&server, requested)).concat();
    assert_eq!(seen, [1, 2, 3, 4, -1]);
    assert!(server.reply(end).ended);
}

#[test]
fn session_streams_can_be_resumed() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        updated(&mut server, &id, 1);
        updated(&mut server, &id, 2);
        let first =
            server.reply(stream).events().into_iter().find(|(_, data, _)| !data.is_empty()).expect("it is there").2;
        server.disconnect(stream);
        updated(&mut server, &id, 3);
        let again = server.listen(&id, Some(&first));
        updated(&mut server, &id, 4);
        let uris: Vec<_> =
            server.reply(again).messages().into_iter().map(|message| message["params"]["uri"].clone()).collect();
        assert_eq!(uris, ["mem://2", "mem://3", "mem://4"]);
        assert!(!server.reply(again).ended);
        // When the stream has been dropped, its ids open the current stream.
        server.disconnect(again);
        server.advance(Duration::from_secs(301));
        let fresh = server.listen(&id, Some(&first));
        assert_eq!(server.reply(fresh).status(), 200);
        updated(&mut server, &id, 5);
        assert_eq!(server.reply(fresh).messages().len(), 1);
    }
}

#[test]
fn rejects_unknown_last_event_ids() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let other = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &other, 1);
    progress(&mut server, key, 1);
    let foreign = server.reply(requested).events().pop().expect("there was one").2;
    let stream = server.listen(&id, None);
    updated(&mut server, &id, 1);
    let own = server.reply(stream).events().pop().expect("there was one").2;
    let (number, _) = own.strip_prefix('g').and_then(|own| own.split_once('-')).expect("it has two parts");
    let future = format!("g{number}-99");
    let no_listener = format!("{number}-1");
    let far = "g99-1".to_owned();
    let huge = format!("{}-{}", u64::MAX, u64::MAX);
    for last in ["", "x", "-", "1", "0-0", "-1--1", &foreign, &future, &no_listener, &far, &huge, "é"] {
        let requested = server.listen(&id, Some(last));
        assert_eq!(server.reply(requested).status(), 400, "{last:?}");
    }
    assert!(!server.reply(stream).ended);
}

#[test]
fn keeps_responses_until_received_or_expired() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &id, 1);
    progress(&mut server, key, 1);
    server.respond(key, &json!({"content": []}));
    assert!(server.reply(requested).ended);
    let ids: Vec<_> = server.reply(requested).events().into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(ids.len(), 3);
    for _ in 0..3 {
        let again = server.listen(&id, Some(&ids[1]));
        assert_eq!(read(&server, again), [-1]);
    }
    // A client that has the last event gets an empty stream.
    let again = server.listen(&id, Some(&ids[2]));
    assert_eq!((read(&server, again), server.reply(again).ended), (vec![], true));
    assert_eq!(server.session(&id).expect("it is open").usage().replay, 0);
    let (requested, key) = call(&mut server, &id, 2);
    progress(&mut server, key, 1);
    server.respond(key, &json!({"content": []}));
    let last = server.reply(requested).events()[0].2.clone();
    server.advance(Duration::from_secs(299));
    let again = server.listen(&id, Some(&last));
    assert_eq!(read(&server, again), [1, -1]);
    server.advance(Duration::from_secs(1));
    let again = server.listen(&id, Some(&last));
    assert_eq!(server.reply(again).status(), 400);
    server.assert_idle();
}

#[test]
fn replay_buffer_is_bounded() {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.replay = 10;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &id, 1);
    progress(&mut server, key, 1);
    server.disconnect(requested);
    for number in 2..1000 {
        progress(&mut server, key, number);
    }
    let usage = server.session(&id).expect("it is open").usage();
    assert_eq!((usage.replay, usage.queued_bytes, usage.exchanges), (10, 0, 0));
    // The latest messages are kept, and the response is among them.
    server.respond(key, &json!({"content": []}));
    let last = server.reply(requested).events()[1].2.clone();
    let again = server.listen(&id, Some(&last));
    assert_eq!(read(&server, again), [991, 992, 993, 994, 995, 996, 997, 998, 999, -1]);
    // Many calls leave bounded state.
    for number in 0..1000 {
        let (requested, key) = call(&mut server, &id, number);
        progress(&mut server, key, 1);
        server.respond(key, &json!({"content": []}));
        assert!(server.reply(requested).ended);
        assert!(server.session(&id).expect("it is open").usage().streams <= 200);
    }
    server.advance(Duration::from_secs(301));
    server.assert_idle();
}
