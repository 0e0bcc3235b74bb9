//! Sessions whose clients do not read, hang up, cancel and come back: what is owed all the same, and what is held meanwhile.

use std::time::Duration;

use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions, SendError},
    rpc::ReplyKey,
    schema::ResourceUpdatedParams,
    wire::{Json, RawJson},
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web},
};
use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

const MIB: usize = 1 << 20;

fn request(number: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": method})
}

fn cancel(number: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
}

fn call(web: &mut Web, id: &str, number: u64) -> (Asked, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let asked = web.say(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    (asked, web.asked().1)
}

fn progress(web: &mut Web, id: &str, key: ReplyKey, progress: f64) {
    let now = web.now;
    web.named(id).expect("it is open").connection(now).progress(key, progress, None, None).expect("it may report");
    web.settle();
}

fn try_answer(web: &mut Web, id: &str, key: ReplyKey, bytes: usize) -> Result<(), SendError> {
    let now = web.now;
    let result = Json::new(&json!({"content": [], "x": "x".repeat(bytes)})).expect("JSON");
    let answered = web.named(id).expect("it is open").connection(now).respond_raw(key, &RawJson::from(&result));
    web.settle();
    answered
}

#[track_caller]
fn answer(web: &mut Web, id: &str, key: ReplyKey, bytes: usize) {
    try_answer(web, id, key, bytes).expect("an answer is owed");
}

/// Says something of so many bytes that belongs to no request; whether there was room.
fn tell(web: &mut Web, id: &str, bytes: usize) -> Result<(), SendError> {
    let now = web.now;
    let params = ResourceUpdatedParams::new(format!("mem://{}", "x".repeat(bytes)));
    let told = web.named(id).expect("it is open").connection(now).notify(&params);
    web.settle();
    told
}

/// A stream whose client is there no more, though it is not noticed, and as much for it as there is room for.
fn dead_stream(web: &mut Web, id: &str) -> Asked {
    web.reads = false;
    let stream = web.listen(id, None);
    web.reads = true;
    for _ in 0..8 {
        if tell(web, id, MIB).is_err() {
            break;
        }
    }
    stream
}

fn queued(web: &mut Web, id: &str) -> usize {
    web.named(id).expect("it is open").usage().queued_bytes
}

// req: HTTP-016 HTTP-017
#[test]
fn what_the_core_answers_itself_is_owed_whoever_does_not_read() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let stream = dead_stream(&mut web, &id);
        assert!(queued(&mut web, &id) >= 4 * MIB);
        let ping = web.say(&id, &request(1, "ping"));
        let foreign = web.say(&id, &request(2, "sampling/createMessage"));
        let (_, key) = call(&mut web, &id, 3);
        let duplicate = web.say(&id, &request(3, "tools/list"));
        let mut asked = vec![(ping, 1), (foreign, 2), (duplicate, 3)];
        if version == "2025-03-26" {
            let batch = web.say(&id, &json!([request(4, "ping"), request(5, "ping")]));
            assert_eq!(web.reply(batch).json().as_array().map(Vec::len), Some(2));
            let told = web.say(&id, &json!([cancel(77), cancel(78)]));
            assert_eq!((web.reply(told).status(), web.reply(told).body.len()), (202, 0));
        }
        for (asked, number) in asked.drain(..) {
            let reply = web.reply(asked);
            assert_eq!((reply.status(), &reply.json()["id"]), (200, &json!(number)), "{version}");
        }
        web.take_events();
        web.hang_up(stream);
        answer(&mut web, &id, key, 1);
    }
}

#[test]
fn one_stream_that_is_not_read_holds_up_no_other() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        dead_stream(&mut web, &id);
        let (asked, key) = call(&mut web, &id, 1);
        answer(&mut web, &id, key, 100);
        assert_eq!(web.reply(asked).json()["id"], json!(1));
    }
}

#[test]
fn a_stream_that_is_taken_up_holds_nothing_of_what_its_client_has_lost() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let stream = web.listen(&id, None);
    let first = web.reply(stream).events()[0].2.clone();
    web.read(stream, false);
    while tell(&mut web, &id, 100 << 10).is_ok() && queued(&mut web, &id) < 4 * MIB {}
    let before = queued(&mut web, &id);
    let again = web.listen(&id, Some(&first));
    let (asked, key) = call(&mut web, &id, 1);
    answer(&mut web, &id, key, 100);
    assert_eq!(web.reply(asked).json()["id"], json!(1));
    assert_eq!(queued(&mut web, &id), 0, "{before} bytes before");
    // What is still kept comes, and then what is new.
    let read = web.reply(again).messages().len();
    assert!((5..=12).contains(&read), "{read}");
    tell(&mut web, &id, 10).expect("there is room");
    assert_eq!(web.reply(again).messages().len(), read + 1);
    web.read(stream, true);
    assert!(web.reply(stream).ended);
}

// What is sent again to a client that comes back is counted, however often it does.
#[test]
fn what_is_replayed_is_counted() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &id, 1);
    progress(&mut web, &id, key, 1.0);
    answer(&mut web, &id, key, 15 * MIB);
    let last = web.reply(asked).events()[0].2.clone();
    web.reads = false;
    let mut most = 0;
    let again: Vec<_> = (0..64)
        .map(|_| {
            let again = web.listen(&id, Some(&last));
            most = most.max(queued(&mut web, &id));
            again
        })
        .collect();
    assert!(most <= 16 * MIB, "{} MiB for 64 that do not read", most / MIB);
    // The one that came last has it; the others were given up by their client.
    for (index, asked) in again.into_iter().enumerate() {
        web.read(asked, true);
        let reply = web.reply(asked);
        assert!(reply.ended);
        assert_eq!(reply.messages().len(), usize::from(index == 63));
    }
    assert_eq!(queued(&mut web, &id), 0);
}

/// A replay is fed as it is read: one message and a little at a time.
#[test]
fn a_replay_is_fed_as_it_is_read() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let stream = web.listen(&id, None);
    let first = web.reply(stream).events()[0].2.clone();
    for _ in 0..10 {
        tell(&mut web, &id, 90 << 10).expect("there is room");
    }
    web.reads = false;
    let again = web.listen(&id, Some(&first));
    let held = queued(&mut web, &id);
    assert!(held < 200 << 10, "{held} bytes");
    // What is said meanwhile stays behind it.
    tell(&mut web, &id, 10).expect("there is room");
    while web.read_once(again) {
        assert!(queued(&mut web, &id) < 200 << 10);
    }
    let lengths: Vec<_> = web
        .reply(again)
        .messages()
        .iter()
        .map(|message| message["params"]["uri"].as_str().map_or(0, str::len))
        .collect();
    assert_eq!(lengths, [[(90 << 10) + 6; 10].as_slice(), &[16]].concat());
}

#[test]
fn streams_of_cancelled_requests_are_forgotten_whether_they_are_carried_or_not() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let mut most = 0;
        for number in 1..=5_000 {
            let (asked, key) = call(&mut web, &id, number);
            progress(&mut web, &id, key, 1.0);
            let last = web.reply(asked).events().last().expect("there was one").2.clone();
            web.hang_up(asked);
            web.say(&id, &cancel(number));
            answer(&mut web, &id, key, 1);
            web.take_events();
            most = most.max(web.named(&id).expect("it is open").usage().streams);
            if number == 5_000 {
                // Nothing follows, and a client that comes back is told so.
                let again = web.listen(&id, Some(&last));
                assert!(web.reply(again).ended);
            }
        }
        // As many as something is kept of, twice at most.
        assert!(most <= 2 * 1024 + 64, "{most} streams");
        web.advance(Duration::from_secs(301));
        let left = web.named(&id).expect("it is open").usage().streams;
        assert!(left <= 1, "{left} streams are left");
    }
}

// req: HTTP-032
#[test]
fn what_is_cancelled_in_a_batch_ends_its_exchange() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-03-26");
    for streaming in [false, true] {
        let (asked, key) = call(&mut web, &id, 1);
        if streaming {
            progress(&mut web, &id, key, 1.0);
        }
        let batch = web.say(&id, &json!([cancel(1), cancel(2)]));
        assert_eq!(web.reply(batch).status(), 202);
        answer(&mut web, &id, key, 1);
        web.take_events();
        assert!(web.reply(asked).ended);
        assert_eq!(web.named(&id).expect("it is open").usage().exchanges, 0);
    }
    // Together with what it cancels, and beside what it does not.
    let batch = web.say(&id, &json!([request(3, "tools/list"), cancel(3)]));
    assert!(web.reply(batch).ended);
    let batch = web.say(&id, &json!([request(4, "tools/list"), cancel(4), request(5, "ping")]));
    assert_eq!(web.reply(batch).json().as_array().map(Vec::len), Some(1));
    web.advance(Duration::from_secs(3600));
    assert!(web.named(&id).is_none_or(|session| session.usage().exchanges == 0));
}

/// A question that was lost with what could not be kept is not waited for.
#[test]
fn what_is_missing_in_a_replay_is_noticed() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.replay = 3;
    let mut web = Web::with(full_server(), options);
    let id = web.begin("2025-11-25");
    let (asked, key) = call(&mut web, &id, 1);
    progress(&mut web, &id, key, 1.0);
    let last = web.reply(asked).events().last().expect("there was one").2.clone();
    web.hang_up(asked);
    let now = web.now;
    let ask = |web: &mut Web| {
        let conn = web.named(&id).expect("it is open").connection(now);
        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
        let call = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        web.settle();
        call
    };
    let lost = ask(&mut web);
    for number in 2..4 {
        progress(&mut web, &id, key, f64::from(number));
    }
    let kept = ask(&mut web);
    assert_eq!(web.take_events(), []);
    let again = web.listen(&id, Some(&last));
    let events = web.take_events();
    assert_eq!(events, [Event::Response { call: lost, outcome: Outcome::Failed(Failure::NoStream) }]);
    // What is kept comes, behind a remark that something does not.
    let messages = web.reply(again).messages();
    assert_eq!(messages.iter().filter(|message| message["method"] == "roots/list").count(), 1);
    assert_eq!(messages.len(), 3);
    assert!(String::from_utf8_lossy(&web.reply(again).body).contains("\n: 1 message is not kept any more\n"));
    web.say(&id, &json!({"jsonrpc": "2.0", "id": kept.as_u64(), "result": {"roots": []}}));
    assert!(matches!(&web.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    answer(&mut web, &id, key, 1);
    assert!(web.reply(again).ended);
    // Of an answer that is not kept nothing can be said: its stream is not there any more.
    let last = web.reply(again).events()[0].2.clone();
    for number in 2..6 {
        let (asked, key) = call(&mut web, &id, number);
        progress(&mut web, &id, key, 1.0);
        answer(&mut web, &id, key, 1);
        assert!(web.reply(asked).ended);
    }
    let again = web.listen(&id, Some(&last));
    assert_eq!(web.reply(again).status(), 400);
}

/// What is held for clients that do not read holds up the others for a while only.
#[test]
fn whoever_does_not_read_gives_way() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let mut dead = Vec::new();
    let mut blocked = None;
    for number in 1..100 {
        web.reads = false;
        let (asked, key) = call(&mut web, &id, number);
        let now = web.now;
        let _ = web.named(&id).expect("it is open").connection(now).progress(key, 1.0, None, None);
        dead.push(asked);
        if try_answer(&mut web, &id, key, MIB) == Err(SendError::Busy) {
            blocked = Some(key);
            break;
        }
    }
    let blocked = blocked.expect("what waits is bounded");
    assert!(queued(&mut web, &id) <= 6 * MIB);
    web.reads = true;
    let (asked, key) = call(&mut web, &id, 1000);
    assert_eq!(try_answer(&mut web, &id, key, 1), Err(SendError::Busy));
    // Clients that read a little are kept; the others are given up.
    let reader = dead[0];
    for _ in 0..8 {
        web.advance(Duration::from_secs(5));
        web.read_once(reader);
    }
    assert_eq!(try_answer(&mut web, &id, key, 1), Ok(()));
    assert_eq!(try_answer(&mut web, &id, blocked, 1), Ok(()));
    assert_eq!(web.reply(asked).messages()[0]["id"], json!(1000));
    web.read(reader, true);
    assert!(web.reply(reader).ended && web.reply(reader).messages().len() == 2);
    // What they had is kept as if they had hung up.
    let session = web.named(&id).expect("it is open");
    assert!(session.usage().queued_bytes < MIB, "{:?}", session.usage());
    web.read(dead[1], true);
    assert!(web.reply(dead[1]).ended);
}

fn large_call(web: &mut Web, id: &str, number: u64, bytes: usize) -> Asked {
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(bytes)}});
    web.say(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
}

/// The requests that the applications were asked.
fn keys(web: &mut Web) -> Vec<ReplyKey> {
    let key = |event| if let Event::Request { key, .. } = event { Some(key) } else { None };
    web.take_events().into_iter().filter_map(key).collect()
}

fn all_answered(web: &Web, asked: &[Asked]) {
    for (number, asked) in asked.iter().enumerate() {
        let reply = web.reply(*asked);
        let id = if reply.header("content-type") == Some("application/json") {
            reply.json()["id"].clone()
        } else {
            reply.messages()[0]["id"].clone()
        };
        assert_eq!((reply.status(), id), (200, json!(number)));
    }
}

#[test]
fn calls_wait_for_room_instead_of_being_refused() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let asked: Vec<_> = (0..100).map(|number| large_call(&mut web, &id, number, MIB)).collect();
    let usage = web.named(&id).expect("it is open").usage();
    assert_eq!((usage.exchanges, usage.waiting_requests), (100, 37));
    // An answer to a question of the server is not behind them.
    let mut open = keys(&mut web);
    assert_eq!(open.len(), 63);
    let now = web.now;
    let conn = web.named(&id).expect("it is open").connection(now);
    let options = RequestOptions { related_request: Some(open[0]), ..RequestOptions::default() };
    let question = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
    web.settle();
    let told = web.say(&id, &json!({"jsonrpc": "2.0", "id": question.as_u64(), "result": {"roots": []}}));
    assert_eq!(web.reply(told).status(), 202);
    assert!(matches!(&web.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    while let Some(key) = open.pop() {
        answer(&mut web, &id, key, 1);
        open.extend(keys(&mut web));
    }
    for (number, asked) in asked.iter().enumerate() {
        let reply = web.reply(*asked);
        assert!(reply.status() == 200 && reply.ended, "{number}");
    }
    web.advance(Duration::from_secs(301));
    web.assert_at_rest();
}

#[test]
fn a_reader_that_pauses_loses_no_call() {
    const CALLS: u64 = 40_000;
    const OPEN: usize = 8_192;
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let (mut asked, mut owed, mut read, mut number) = (Vec::new(), Vec::new(), 0, 0);
    web.reads = false;
    for pause in 0..usize::MAX {
        while number < CALLS && asked.len() - read < OPEN {
            asked.push(large_call(&mut web, &id, number, 0));
            number += 1;
        }
        owed.extend(keys(&mut web));
        owed.retain(|key| try_answer(&mut web, &id, *key, 4 << 10) == Err(SendError::Busy));
        let usage = web.named(&id).expect("it is open").usage();
        assert!(usage.queued_bytes < 5 * MIB, "{usage:?}");
        if read == asked.len() {
            break;
        }
        if pause == 0 {
            web.advance(Duration::from_secs(4));
        }
        // The client reads what has come.
        while let Some(next) = asked.get(read) {
            web.read(*next, true);
            if !web.reply(*next).ended {
                break;
            }
            read += 1;
        }
    }
    assert_eq!(asked.len(), usize::try_from(CALLS).expect("few"));
    all_answered(&web, &asked);
}

#[test]
fn requests_in_flight_are_bounded_for_the_endpoint() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.request_bytes = 8 * MIB;
    let mut web = Web::with(full_server(), options);
    let ids: Vec<_> = (0..4).map(|_| web.begin("2025-11-25")).collect();
    let mut asked = Vec::new();
    for number in 0..16_u64 {
        asked.push(large_call(&mut web, &ids[usize::try_from(number % 4).expect("few")], number, MIB));
    }
    let open = web.take_events().len();
    assert_eq!(open, 7, "the others are refused");
    let refused = asked.iter().filter(|asked| web.reply(**asked).head.is_some()).count();
    assert_eq!(refused, 9);
    // A client that hangs up and cancels has them worked on all the same.
    web.hang_up(asked[0]);
    web.say(&ids[0], &cancel(0));
    web.take_events();
    let more = large_call(&mut web, &ids[1], 99, MIB);
    assert_eq!(web.reply(more).status(), 503);
    // What is no request goes through.
    let told =
        web.say(&ids[1], &json!({"jsonrpc": "2.0", "method": "vendor/news", "params": {"x": "x".repeat(2 * MIB)}}));
    assert_eq!(web.reply(told).status(), 202);
    web.delete(&ids[0]);
    let more = large_call(&mut web, &ids[1], 99, MIB);
    assert!(web.reply(more).head.is_none());
}

// req: HTTP-016
#[test]
fn an_answer_that_is_given_up_is_not_taken_for_a_complete_one() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        web.reads = false;
        let mut calls = Vec::new();
        for number in 0..8 {
            let asked = web.say(&id, &request(number, "tools/list"));
            let Some(Event::Request { key, .. }) = web.take_events().pop() else { break };
            if try_answer(&mut web, &id, key, MIB).is_err() {
                break;
            }
            if number == 0 {
                assert!(web.read_once(asked), "the head is taken, and then nothing");
                assert_eq!(web.reply(asked).status(), 200);
            }
            calls.push(asked);
        }
        web.reads = true;
        assert!(calls.len() >= 4, "{version}: {} answers wait", calls.len());
        web.advance(Duration::from_secs(60));
        assert!(queued(&mut web, &id) < 1000, "{version}: {} bytes are held", queued(&mut web, &id));
        for (number, asked) in calls.into_iter().enumerate() {
            web.read(asked, true);
            let reply = web.reply(asked);
            assert!(reply.ended, "{version}: {number}");
            if number == 0 {
                assert!(reply.aborted && reply.body.is_empty(), "{version}: the body breaks off");
            } else {
                assert_eq!((reply.status(), reply.aborted), (503, false), "{version}: {number}");
            }
        }
    }
}
