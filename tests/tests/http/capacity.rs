//! The state of sessions with many short-lived streams and queued requests is bounded, and queued messages are sent
//! when there is capacity.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use mcp_proto::{
    connection::Event,
    http::{
        Policy, ReplayBuffer,
        server::{EndpointOptions, ReplayChunk, ReplayRequest},
    },
    rpc::{ReplyKey, Timestamp},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef},
};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn request(number: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": method})
}

fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn streams(server: &mut HttpServer, id: &str) -> usize {
    server.session(id).expect("it is open").usage().streams
}

#[test]
fn lost_streams_are_removed() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let mut most = 0;
    for _ in 0..2000 {
        let stream = server.listen(&id, None);
        assert_eq!(server.reply(stream).status(), 200);
        server.disconnect(stream);
        most = most.max(streams(&mut server, &id));
    }
    assert!(most <= 2 * 64, "{most} streams");
    // Open streams are not removed.
    let open: Vec<_> = (0..8).map(|_| server.listen(&id, None)).collect();
    let refused = server.listen(&id, None);
    assert_eq!(server.reply(refused).status(), 409);
    assert!(open.iter().all(|stream| !server.reply(*stream).ended));
}

/// The streams of which a store has to keep messages.
#[derive(Clone, Debug, Default)]
struct Remembered(Arc<Mutex<BTreeSet<u64>>>);

impl Remembered {
    fn streams(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.0.lock().expect("no test has panicked")
    }
}

impl ReplayBuffer for Remembered {
    fn keep(&mut self, _: Timestamp, stream: u64, _: u64, _: &[u8]) {
        self.streams().insert(stream);
    }

    fn done(&mut self, stream: u64) {
        self.streams().remove(&stream);
    }

    fn forget(&mut self, stream: u64) {
        self.streams().remove(&stream);
    }

    fn after(&self, _: u64, _: u64, _: &mut dyn FnMut(u64, &[u8])) {}

    fn has(&self, _: u64) -> bool {
        false
    }

    fn received(&mut self, _: u64, _: u64) {}

    fn expiry(&self) -> Option<Timestamp> {
        None
    }

    fn expire(&mut self, _: Timestamp) {}

    fn usage(&self) -> (usize, usize) {
        (0, 0)
    }
}

#[test]
fn replay_store_drops_removed_streams() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let remembered = Remembered::default();
    server.last_session().set_replay(Box::new(remembered.clone()));
    let mut most = 0;
    for _ in 0..1000 {
        let stream = server.listen(&id, None);
        let now = server.now;
        let conn = server.session(&id).expect("it is open").connection(now);
        conn.notify_raw("notifications/tools/list_changed", None).expect("there is room");
        server.settle();
        assert_eq!(server.reply(stream).messages().len(), 1);
        server.disconnect(stream);
        most = most.max(remembered.streams().len());
    }
    assert!(most <= 2 * 64, "{most} streams");
}

/// Returns the id of the first event of a stream.
fn first_id(server: &HttpServer, stream: RequestRef) -> String {
    server.reply(stream).events()[0].2.clone()
}

#[test]
fn resumed_streams_count_against_the_stream_limit() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let mut lost = Vec::new();
    for _ in 0..5 {
        let open: Vec<_> = (0..8).map(|_| server.listen(&id, None)).collect();
        for stream in open {
            lost.push(first_id(&server, stream));
            server.disconnect(stream);
        }
    }
    let again: Vec<_> = lost.iter().map(|last| server.listen(&id, Some(last))).collect();
    let open = again.iter().filter(|stream| server.reply(**stream).status() == 200).count();
    assert_eq!(open, 8, "of 40");
    assert!(again.iter().all(|stream| matches!(server.reply(*stream).status(), 200 | 409)));
    // Resuming an open stream takes over its slot.
    let carried = again.iter().position(|stream| server.reply(*stream).status() == 200).expect("some are");
    let once_more = server.listen(&id, Some(&lost[carried]));
    assert_eq!((server.reply(once_more).status(), server.reply(again[carried]).ended), (200, true));
}

#[test]
fn foreign_streams_count_against_the_stream_limit() {
    let mut server = HttpServer::new(full_server());
    server.endpoint.share();
    let id = server.begin("2025-11-25");
    server.last_session().share();
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(server.listen(&id, Some("g4294967297-0")));
        while let Some(ReplayRequest { exchange, .. }) = server.last_session().poll_replay_request() {
            let now = server.now;
            server.last_session().handle_replay(now, exchange, Some(&ReplayChunk::default()));
        }
        server.settle();
    }
    let open = open.iter().filter(|stream| server.reply(**stream).status() == 200 && !server.reply(**stream).ended);
    assert_eq!(open.count(), 8, "of 40");
    // Streams that wait for a replay count as well.
    let mut server = HttpServer::new(full_server());
    server.endpoint.share();
    let id = server.begin("2025-11-25");
    server.last_session().share();
    for part in 1..20_u64 {
        server.listen(&id, Some(&format!("g{}-0", (part << 32) + 1)));
    }
    let refused = server.listen(&id, None);
    assert_eq!(server.reply(refused).status(), 409);
}

#[test]
fn list_change_waits_until_there_is_capacity() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let listener = server.listen(&id, None);
    server.reads = false;
    let mut full = Vec::new();
    for number in 0..4 {
        let requested = server.send_message(
            &id,
            &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": "t", "_meta": {"progressToken": number}}}),
        );
        let key = server.take_request().1;
        let (now, text) = (server.now, "x".repeat(MIB));
        server
            .session(&id)
            .expect("it is open")
            .connection(now)
            .progress(key, 1.0, None, Some(&text))
            .expect("there is room");
        server.settle();
        full.push((requested, key));
    }
    server.reads = true;
    let now = server.now;
    let conn = server.session(&id).expect("it is open").connection(now);
    conn.notify_raw("notifications/tools/list_changed", None).expect("it is noted");
    server.settle();
    assert_eq!(server.reply(listener).messages(), Vec::<Value>::new(), "there is no room");
    for (requested, _) in &full {
        server.read(*requested, true);
    }
    let told = server.reply(listener).messages();
    assert_eq!(told.len(), 1, "it waits though there is room");
    assert_eq!(told[0]["method"], "notifications/tools/list_changed");
}

/// Returns a session with all of its exchanges in use, and the requests that are open there.
fn crowded(version: &str) -> (HttpServer, String, Vec<(usize, ReplyKey)>) {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.exchanges = 4;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin(version);
    let mut owed = Vec::new();
    for number in 0..4 {
        server.send_message(&id, &request(1000 + number, "tools/list"));
        owed.push(server.take_request());
    }
    (server, id, owed)
}

fn waiting(server: &mut HttpServer, id: &str) -> usize {
    server.session(id).expect("it is open").usage().waiting_requests
}

#[test]
fn queued_requests_are_cancelled_by_any_id_type() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut server, id, owed) = crowded(version);
        let ids = [json!(1), json!("two"), json!("3"), json!(4), json!(5), json!(6)];
        let requested: Vec<_> = ids
            .iter()
            .map(|number| server.send_message(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"})))
            .collect();
        assert_eq!(waiting(&mut server, &id), 6);
        // Ids match exactly, or as the same text of the other type, as gateways rewrite them.
        for named in [json!("two"), json!(3), json!("4")] {
            server.send_message(&id, &cancel(&named));
        }
        assert_eq!(waiting(&mut server, &id), 3, "{version}");
        assert!(requested[1..4].iter().all(|requested| server.reply(*requested).ended));
        if version == "2025-03-26" {
            server.send_message(&id, &json!([cancel(&json!(5)), cancel(&json!(77)), cancel(&json!(6))]));
            assert_eq!(waiting(&mut server, &id), 1, "cancelled in a batch");
        }
        for key in owed {
            server.respond(key, &json!({"tools": []}));
        }
        let begun = server.take_events().into_iter().filter(|event| matches!(event, Event::Request { .. })).count();
        assert_eq!(begun, if version == "2025-03-26" { 1 } else { 3 }, "what was cancelled is not done");
    }
}

/// A request in flight with exactly this id is preferred to a queued one whose id has the other type.
#[test]
fn cancellation_prefers_the_exact_id() {
    let (mut server, id, _) = crowded("2025-11-25");
    let requested = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": "1000", "method": "tools/list"}));
    server.send_message(&id, &cancel(&json!(1000)));
    // The cancellation frees an exchange for the queued request.
    assert!(matches!(server.take_events()[..], [Event::Cancelled { .. }, Event::Request { .. }]));
    assert_eq!(waiting(&mut server, &id), 0);
    server.advance(Duration::from_secs(1));
    assert!(server.reply(requested).head.is_none(), "it is not cancelled");
}
