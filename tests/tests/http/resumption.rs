//! Streams that are lost and taken up again, as the server sees it.

use std::time::Duration;

use mcp_proto::{rpc::ReplyKey, schema::ResourceUpdatedParams};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web},
};
use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn call(web: &mut Web, id: &str, number: u64) -> (Asked, (usize, ReplyKey)) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let asked = web.say(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    (asked, web.asked())
}

fn progress(web: &mut Web, (session, key): (usize, ReplyKey), progress: u32) {
    let now = web.now;
    let session = web.sessions.get_mut(&session).expect("it is open");
    session.connection(now).progress(key, progress.into(), None, None).expect("it may report");
    web.settle();
}

fn updated(web: &mut Web, id: &str, number: usize) {
    let now = web.now;
    let params = ResourceUpdatedParams::new(format!("mem://{number}"));
    web.named(id).expect("it is open").connection(now).notify(&params).expect("declared");
    web.settle();
}

/// What a client reads in a reply: progress as numbers, the answer as -1.
fn read(web: &Web, asked: Asked) -> Vec<i64> {
    let number = |message: &Value| message["params"]["progress"].as_i64().unwrap_or(-1);
    web.reply(asked).messages().iter().map(number).collect()
}

// req: HTTP-047 HTTP-048 HTTP-050 HTTP-051 HTTP-052
#[test]
fn a_stream_is_taken_up_behind_every_event() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let listener = web.listen(&id, None);
        let (a, key_a) = call(&mut web, &id, 1);
        let (b, key_b) = call(&mut web, &id, 2);
        for number in 1..=3 {
            progress(&mut web, key_a, number);
            progress(&mut web, key_b, 10 * number);
            updated(&mut web, &id, 0);
        }
        web.answer(key_a, &json!({"content": []}));
        let ids = |web: &Web, asked| web.reply(asked).events().into_iter().map(|(_, _, id)| id).collect::<Vec<_>>();
        let all: Vec<_> =
            [a, b, listener].iter().flat_map(|asked| ids(&web, *asked)).filter(|id| !id.is_empty()).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "an id is that of one event");
        let whole = read(&web, a);
        assert_eq!(whole, [1, 2, 3, -1]);
        // From wherever it was lost, exactly the rest comes, of this stream only.
        for (index, last) in ids(&web, a).into_iter().enumerate() {
            let resumed = web.listen(&id, Some(&last));
            let primed = usize::from(version == "2025-11-25");
            assert_eq!(read(&web, resumed), whole[index + 1 - primed..], "behind {last}");
            assert!(web.reply(resumed).ended);
        }
        // A stream that is still carried is taken over: its client has lost it.
        let last = ids(&web, b).pop().expect("it has ids");
        let resumed = web.listen(&id, Some(&last));
        assert!(web.reply(b).ended);
        progress(&mut web, key_b, 40);
        web.answer(key_b, &json!({"content": []}));
        assert_eq!(read(&web, resumed), [40, -1]);
        assert!(web.reply(resumed).ended && !web.reply(listener).ended);
    }
}

#[test]
fn what_happens_while_nobody_reads_is_kept() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &id, 1);
    progress(&mut web, key, 1);
    web.hang_up(asked);
    progress(&mut web, key, 2);
    let last = web.reply(asked).events().pop().expect("there was one").2;
    let again = web.listen(&id, Some(&last));
    progress(&mut web, key, 3);
    web.hang_up(again);
    progress(&mut web, key, 4);
    web.answer(key, &json!({"content": []}));
    let last = web.reply(again).events().pop().expect("there was one").2;
    let end = web.listen(&id, Some(&last));
    let seen = [asked, again, end].map(|asked| read(&web, asked)).concat();
    assert_eq!(seen, [1, 2, 3, 4, -1]);
    assert!(web.reply(end).ended);
}

#[test]
fn a_stream_that_belongs_to_nobody_is_taken_up_too() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let stream = web.listen(&id, None);
        updated(&mut web, &id, 1);
        updated(&mut web, &id, 2);
        let first =
            web.reply(stream).events().into_iter().find(|(_, data, _)| !data.is_empty()).expect("it is there").2;
        web.hang_up(stream);
        updated(&mut web, &id, 3);
        let again = web.listen(&id, Some(&first));
        updated(&mut web, &id, 4);
        let uris: Vec<_> =
            web.reply(again).messages().into_iter().map(|message| message["params"]["uri"].clone()).collect();
        assert_eq!(uris, ["mem://2", "mem://3", "mem://4"]);
        assert!(!web.reply(again).ended);
        // Once nothing of it is known any more, any stream will do.
        web.hang_up(again);
        web.advance(Duration::from_secs(301));
        let fresh = web.listen(&id, Some(&first));
        assert_eq!(web.reply(fresh).status(), 200);
        updated(&mut web, &id, 5);
        assert_eq!(web.reply(fresh).messages().len(), 1);
    }
}

#[test]
fn ids_that_mean_nothing_are_refused() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let other = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &other, 1);
    progress(&mut web, key, 1);
    let foreign = web.reply(asked).events().pop().expect("there was one").2;
    let stream = web.listen(&id, None);
    updated(&mut web, &id, 1);
    let own = web.reply(stream).events().pop().expect("there was one").2;
    let (number, _) = own.strip_prefix('g').and_then(|own| own.split_once('-')).expect("it has two parts");
    let future = format!("g{number}-99");
    let no_listener = format!("{number}-1");
    let far = "g99-1".to_owned();
    let huge = format!("{}-{}", u64::MAX, u64::MAX);
    for last in ["", "x", "-", "1", "0-0", "-1--1", &foreign, &future, &no_listener, &far, &huge, "é"] {
        let asked = web.listen(&id, Some(last));
        assert_eq!(web.reply(asked).status(), 400, "{last:?}");
    }
    assert!(!web.reply(stream).ended);
}

#[test]
fn an_answer_is_kept_until_it_was_received_or_for_a_while() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &id, 1);
    progress(&mut web, key, 1);
    web.answer(key, &json!({"content": []}));
    assert!(web.reply(asked).ended);
    let ids: Vec<_> = web.reply(asked).events().into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(ids.len(), 3);
    for _ in 0..3 {
        let again = web.listen(&id, Some(&ids[1]));
        assert_eq!(read(&web, again), [-1]);
    }
    // A client that says that it has the last event needs nothing more.
    let again = web.listen(&id, Some(&ids[2]));
    assert_eq!((read(&web, again), web.reply(again).ended), (vec![], true));
    assert_eq!(web.named(&id).expect("it is open").usage().replay, 0);
    let (asked, key) = call(&mut web, &id, 2);
    progress(&mut web, key, 1);
    web.answer(key, &json!({"content": []}));
    let last = web.reply(asked).events()[0].2.clone();
    web.advance(Duration::from_secs(299));
    let again = web.listen(&id, Some(&last));
    assert_eq!(read(&web, again), [1, -1]);
    web.advance(Duration::from_secs(1));
    let again = web.listen(&id, Some(&last));
    assert_eq!(web.reply(again).status(), 400);
    web.assert_at_rest();
}

#[test]
fn what_is_kept_is_bounded() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.replay = 10;
    let mut web = Web::with(full_server(), options);
    let id = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &id, 1);
    progress(&mut web, key, 1);
    web.hang_up(asked);
    for number in 2..1000 {
        progress(&mut web, key, number);
    }
    let usage = web.named(&id).expect("it is open").usage();
    assert_eq!((usage.replay, usage.queued_bytes, usage.exchanges), (10, 0, 0));
    // What is left is the latest, which is what the answer is among.
    web.answer(key, &json!({"content": []}));
    let last = web.reply(asked).events()[1].2.clone();
    let again = web.listen(&id, Some(&last));
    assert_eq!(read(&web, again), [991, 992, 993, 994, 995, 996, 997, 998, 999, -1]);
    // Many calls leave nothing but what is bounded.
    for number in 0..1000 {
        let (asked, key) = call(&mut web, &id, number);
        progress(&mut web, key, 1);
        web.answer(key, &json!({"content": []}));
        assert!(web.reply(asked).ended);
        assert!(web.named(&id).expect("it is open").usage().streams <= 200);
    }
    web.advance(Duration::from_secs(301));
    web.assert_at_rest();
}
