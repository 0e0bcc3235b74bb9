//! What sessions hold for clients that come and go: it is bounded, and what waits for room leaves when there is some.

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
    solo::full_server,
    web::{Asked, Web},
};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn request(number: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": method})
}

fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

fn streams(web: &mut Web, id: &str) -> usize {
    web.named(id).expect("it is open").usage().streams
}

#[test]
fn streams_that_are_opened_and_lost_are_forgotten() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let mut most = 0;
    for _ in 0..2000 {
        let stream = web.listen(&id, None);
        assert_eq!(web.reply(stream).status(), 200);
        web.hang_up(stream);
        most = most.max(streams(&mut web, &id));
    }
    assert!(most <= 2 * 64, "{most} streams");
    // Those that are open stay.
    let open: Vec<_> = (0..8).map(|_| web.listen(&id, None)).collect();
    let refused = web.listen(&id, None);
    assert_eq!(web.reply(refused).status(), 409);
    assert!(open.iter().all(|stream| !web.reply(*stream).ended));
}

/// Of which streams a store has to remember something.
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
fn a_store_may_forget_streams_that_are_forgotten() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let remembered = Remembered::default();
    web.last_session().set_replay(Box::new(remembered.clone()));
    let mut most = 0;
    for _ in 0..1000 {
        let stream = web.listen(&id, None);
        let now = web.now;
        let conn = web.named(&id).expect("it is open").connection(now);
        conn.notify_raw("notifications/tools/list_changed", None).expect("there is room");
        web.settle();
        assert_eq!(web.reply(stream).messages().len(), 1);
        web.hang_up(stream);
        most = most.max(remembered.streams().len());
    }
    assert!(most <= 2 * 64, "{most} streams");
}

/// The first id of a stream.
fn first_id(web: &Web, stream: Asked) -> String {
    web.reply(stream).events()[0].2.clone()
}

#[test]
fn streams_that_are_taken_up_count_as_those_that_are_opened() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let mut lost = Vec::new();
    for _ in 0..5 {
        let open: Vec<_> = (0..8).map(|_| web.listen(&id, None)).collect();
        for stream in open {
            lost.push(first_id(&web, stream));
            web.hang_up(stream);
        }
    }
    let again: Vec<_> = lost.iter().map(|last| web.listen(&id, Some(last))).collect();
    let open = again.iter().filter(|stream| web.reply(**stream).status() == 200).count();
    assert_eq!(open, 8, "of 40");
    assert!(again.iter().all(|stream| matches!(web.reply(*stream).status(), 200 | 409)));
    // Who takes up a stream that is open takes the place of the exchange that had it.
    let carried = again.iter().position(|stream| web.reply(*stream).status() == 200).expect("some are");
    let once_more = web.listen(&id, Some(&lost[carried]));
    assert_eq!((web.reply(once_more).status(), web.reply(again[carried]).ended), (200, true));
}

#[test]
fn streams_of_another_part_count_as_those_that_are_opened() {
    let mut web = Web::new(full_server());
    web.endpoint.share();
    let id = web.begin("2025-11-25");
    web.last_session().share();
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(web.listen(&id, Some("g4294967297-0")));
        while let Some(ReplayRequest { exchange, .. }) = web.last_session().poll_replay_request() {
            let now = web.now;
            web.last_session().handle_replay(now, exchange, Some(&ReplayChunk::default()));
        }
        web.settle();
    }
    let open = open.iter().filter(|stream| web.reply(**stream).status() == 200 && !web.reply(**stream).ended);
    assert_eq!(open.count(), 8, "of 40");
    // Those that are looked for count as well.
    let mut web = Web::new(full_server());
    web.endpoint.share();
    let id = web.begin("2025-11-25");
    web.last_session().share();
    for part in 1..20_u64 {
        web.listen(&id, Some(&format!("g{}-0", (part << 32) + 1)));
    }
    let refused = web.listen(&id, None);
    assert_eq!(web.reply(refused).status(), 409);
}

#[test]
fn a_list_that_changes_while_a_session_is_full_is_told_of_when_there_is_room() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let listener = web.listen(&id, None);
    web.reads = false;
    let mut full = Vec::new();
    for number in 0..4 {
        let asked = web.say(
            &id,
            &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": "t", "_meta": {"progressToken": number}}}),
        );
        let key = web.asked().1;
        let (now, text) = (web.now, "x".repeat(MIB));
        web.named(&id)
            .expect("it is open")
            .connection(now)
            .progress(key, 1.0, None, Some(&text))
            .expect("there is room");
        web.settle();
        full.push((asked, key));
    }
    web.reads = true;
    let now = web.now;
    let conn = web.named(&id).expect("it is open").connection(now);
    conn.notify_raw("notifications/tools/list_changed", None).expect("it is noted");
    web.settle();
    assert_eq!(web.reply(listener).messages(), Vec::<Value>::new(), "there is no room");
    for (asked, _) in &full {
        web.read(*asked, true);
    }
    let told = web.reply(listener).messages();
    assert_eq!(told.len(), 1, "it waits though there is room");
    assert_eq!(told[0]["method"], "notifications/tools/list_changed");
}

/// A session that has as many exchanges as it may have, and what the application owes there.
fn crowded(version: &str) -> (Web, String, Vec<(usize, ReplyKey)>) {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.exchanges = 4;
    let mut web = Web::with(full_server(), options);
    let id = web.begin(version);
    let mut owed = Vec::new();
    for number in 0..4 {
        web.say(&id, &request(1000 + number, "tools/list"));
        owed.push(web.asked());
    }
    (web, id, owed)
}

fn waiting(web: &mut Web, id: &str) -> usize {
    web.named(id).expect("it is open").usage().waiting_requests
}

#[test]
fn a_request_that_waits_is_cancelled_however_that_is_said() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (mut web, id, owed) = crowded(version);
        let ids = [json!(1), json!("two"), json!("3"), json!(4), json!(5), json!(6)];
        let asked: Vec<_> = ids
            .iter()
            .map(|number| web.say(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"})))
            .collect();
        assert_eq!(waiting(&mut web, &id), 6);
        // By the same id, and by one of the other type with the same text, as gateways make it.
        for named in [json!("two"), json!(3), json!("4")] {
            web.say(&id, &cancel(&named));
        }
        assert_eq!(waiting(&mut web, &id), 3, "{version}");
        assert!(asked[1..4].iter().all(|asked| web.reply(*asked).ended));
        if version == "2025-03-26" {
            web.say(&id, &json!([cancel(&json!(5)), cancel(&json!(77)), cancel(&json!(6))]));
            assert_eq!(waiting(&mut web, &id), 1, "cancelled in a batch");
        }
        for key in owed {
            web.answer(key, &json!({"tools": []}));
        }
        let begun = web.take_events().into_iter().filter(|event| matches!(event, Event::Request { .. })).count();
        assert_eq!(begun, if version == "2025-03-26" { 1 } else { 3 }, "what was cancelled is not done");
    }
}

/// One that is in flight under this very id is meant before one that waits under an id of the other type.
#[test]
fn a_cancellation_means_the_id_that_it_names_first() {
    let (mut web, id, _) = crowded("2025-11-25");
    let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": "1000", "method": "tools/list"}));
    web.say(&id, &cancel(&json!(1000)));
    // There is room for the other one now.
    assert!(matches!(web.take_events()[..], [Event::Cancelled { .. }, Event::Request { .. }]));
    assert_eq!(waiting(&mut web, &id), 0);
    web.advance(Duration::from_secs(1));
    assert!(web.reply(asked).head.is_none(), "it is not cancelled");
}
