//! Sessions whose clients do not read, disconnect, cancel and resume: every response is delivered, and memory is
//! bounded.

use std::time::Duration;

use mcp_proto::{
    connection::{Event, Failure, Outcome, RequestOptions, SendError},
    rpc::ReplyKey,
    schema::ResourceUpdatedParams,
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef},
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

fn call(server: &mut HttpServer, id: &str, number: u64) -> (RequestRef, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let requested =
        server.send_message(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    (requested, server.take_request().1)
}

fn progress(server: &mut HttpServer, id: &str, key: ReplyKey, progress: f64) {
    let now = server.now;
    server.session(id).expect("it is open").connection(now).progress(key, progress, None, None).expect("it may report");
    server.settle();
}

fn try_answer(server: &mut HttpServer, id: &str, key: ReplyKey, bytes: usize) -> Result<(), SendError> {
    let now = server.now;
    let result = Json::new(&json!({"content": [], "x": "x".repeat(bytes)})).expect("JSON");
    let answered = server.session(id).expect("it is open").connection(now).respond_raw(key, &RawJson::from(&result));
    server.settle();
    answered
}

#[track_caller]
fn answer(server: &mut HttpServer, id: &str, key: ReplyKey, bytes: usize) {
    try_answer(server, id, key, bytes).expect("an answer is owed");
}

/// Sends a notification of `bytes` bytes that belongs to no request.
fn notify(server: &mut HttpServer, id: &str, bytes: usize) -> Result<(), SendError> {
    let now = server.now;
    let params = ResourceUpdatedParams::new(format!("mem://{}", "x".repeat(bytes)));
    let told = server.session(id).expect("it is open").connection(now).notify(&params);
    server.settle();
    told
}

/// Opens a stream whose client is gone without notice, and fills its queue.
fn dead_stream(server: &mut HttpServer, id: &str) -> RequestRef {
    server.reads = false;
    let stream = server.listen(id, None);
    server.reads = true;
    for _ in 0..8 {
        if notify(server, id, MIB).is_err() {
            break;
        }
    }
    stream
}

fn queued(server: &mut HttpServer, id: &str) -> usize {
    server.session(id).expect("it is open").usage().queued_bytes
}

// req: HTTP-016 HTTP-017
#[test]
fn protocol_responses_bypass_unread_streams() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let stream = dead_stream(&mut server, &id);
        assert!(queued(&mut server, &id) >= 4 * MIB);
        let ping = server.send_message(&id, &request(1, "ping"));
        let foreign = server.send_message(&id, &request(2, "sampling/createMessage"));
        let (_, key) = call(&mut server, &id, 3);
        let duplicate = server.send_message(&id, &request(3, "tools/list"));
        let mut requested = vec![(ping, 1), (foreign, 2), (duplicate, 3)];
        if version == "2025-03-26" {
            let batch = server.send_message(&id, &json!([request(4, "ping"), request(5, "ping")]));
            assert_eq!(server.reply(batch).json().as_array().map(Vec::len), Some(2));
            let told = server.send_message(&id, &json!([cancel(77), cancel(78)]));
            assert_eq!((server.reply(told).status(), server.reply(told).body.len()), (202, 0));
        }
        for (requested, number) in requested.drain(..) {
            let reply = server.reply(requested);
            assert_eq!((reply.status(), &reply.json()["id"]), (200, &json!(number)), "{version}");
        }
        server.take_events();
        server.disconnect(stream);
        answer(&mut server, &id, key, 1);
    }
}

#[test]
fn an_unread_stream_does_not_block_others() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        dead_stream(&mut server, &id);
        let (requested, key) = call(&mut server, &id, 1);
        answer(&mut server, &id, key, 100);
        assert_eq!(server.reply(requested).json()["id"], json!(1));
    }
}

#[test]
fn resuming_frees_the_queue_of_the_old_stream() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let stream = server.listen(&id, None);
    let first = server.reply(stream).events()[0].2.clone();
    server.read(stream, false);
    while notify(&mut server, &id, 100 << 10).is_ok() && queued(&mut server, &id) < 4 * MIB {}
    let before = queued(&mut server, &id);
    let again = server.listen(&id, Some(&first));
    let (requested, key) = call(&mut server, &id, 1);
    answer(&mut server, &id, key, 100);
    assert_eq!(server.reply(requested).json()["id"], json!(1));
    assert_eq!(queued(&mut server, &id), 0, "{before} bytes before");
    // The messages that are still kept come first, then the new ones.
    let read = server.reply(again).messages().len();
    assert!((5..=12).contains(&read), "{read}");
    notify(&mut server, &id, 10).expect("there is room");
    assert_eq!(server.reply(again).messages().len(), read + 1);
    server.read(stream, true);
    assert!(server.reply(stream).ended);
}

// Replayed messages count against the limit, however often a client resumes.
#[test]
fn replayed_messages_are_counted() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &id, 1);
    progress(&mut server, &id, key, 1.0);
    answer(&mut server, &id, key, 15 * MIB);
    let last = server.reply(requested).events()[0].2.clone();
    server.reads = false;
    let mut most = 0;
    let again: Vec<_> = (0..64)
        .map(|_| {
            let again = server.listen(&id, Some(&last));
            most = most.max(queued(&mut server, &id));
            again
        })
        .collect();
    assert!(most <= 16 * MIB, "{} MiB for 64 that do not read", most / MIB);
    // The last stream has the messages. The client has abandoned the others.
    for (index, requested) in again.into_iter().enumerate() {
        server.read(requested, true);
        let reply = server.reply(requested);
        assert!(reply.ended);
        assert_eq!(reply.messages().len(), usize::from(index == 63));
    }
    assert_eq!(queued(&mut server, &id), 0);
}

/// A replay is queued incrementally: about one message at a time.
#[test]
fn replay_is_queued_incrementally() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let stream = server.listen(&id, None);
    let first = server.reply(stream).events()[0].2.clone();
    for _ in 0..10 {
        notify(&mut server, &id, 90 << 10).expect("there is room");
    }
    server.reads = false;
    let again = server.listen(&id, Some(&first));
    let held = queued(&mut server, &id);
    assert!(held < 200 << 10, "{held} bytes");
    // A new message waits until the replay has ended.
    notify(&mut server, &id, 10).expect("there is room");
    while server.read_once(again) {
        assert!(queued(&mut server, &id) < 200 << 10);
    }
    let lengths: Vec<_> = server
        .reply(again)
        .messages()
        .iter()
        .map(|message| message["params"]["uri"].as_str().map_or(0, str::len))
        .collect();
    assert_eq!(lengths, [[(90 << 10) + 6; 10].as_slice(), &[16]].concat());
}

#[test]
fn streams_of_cancelled_requests_are_removed() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let mut most = 0;
        for number in 1..=5_000 {
            let (requested, key) = call(&mut server, &id, number);
            progress(&mut server, &id, key, 1.0);
            let last = server.reply(requested).events().last().expect("there was one").2.clone();
            server.disconnect(requested);
            server.send_message(&id, &cancel(number));
            answer(&mut server, &id, key, 1);
            server.take_events();
            most = most.max(server.session(&id).expect("it is open").usage().streams);
            if number == 5_000 {
                // The resumed stream ends at once, since no message follows.
                let again = server.listen(&id, Some(&last));
                assert!(server.reply(again).ended);
            }
        }
        // At most twice the number of streams with kept messages.
        assert!(most <= 2 * 1024 + 64, "{most} streams");
        server.advance(Duration::from_secs(301));
        let left = server.session(&id).expect("it is open").usage().streams;
        assert!(left <= 1, "{left} streams are left");
    }
}

// req: HTTP-032
#[test]
fn cancelling_in_a_batch_ends_the_exchange() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-03-26");
    for streaming in [false, true] {
        let (requested, key) = call(&mut server, &id, 1);
        if streaming {
            progress(&mut server, &id, key, 1.0);
        }
        let batch = server.send_message(&id, &json!([cancel(1), cancel(2)]));
        assert_eq!(server.reply(batch).status(), 202);
        answer(&mut server, &id, key, 1);
        server.take_events();
        assert!(server.reply(requested).ended);
        assert_eq!(server.session(&id).expect("it is open").usage().exchanges, 0);
    }
    // A cancellation in the batch of its request, and beside another request.
    let batch = server.send_message(&id, &json!([request(3, "tools/list"), cancel(3)]));
    assert!(server.reply(batch).ended);
    let batch = server.send_message(&id, &json!([request(4, "tools/list"), cancel(4), request(5, "ping")]));
    assert_eq!(server.reply(batch).json().as_array().map(Vec::len), Some(1));
    server.advance(Duration::from_secs(3600));
    assert!(server.session(&id).is_none_or(|session| session.usage().exchanges == 0));
}

/// A request that was dropped from the replay buffer fails.
#[test]
fn requests_missing_from_a_replay_fail() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.replay = 3;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-11-25");
    let (requested, key) = call(&mut server, &id, 1);
    progress(&mut server, &id, key, 1.0);
    let last = server.reply(requested).events().last().expect("there was one").2.clone();
    server.disconnect(requested);
    let now = server.now;
    let send_request = |server: &mut HttpServer| {
        let conn = server.session(&id).expect("it is open").connection(now);
        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
        let call = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        server.settle();
        call
    };
    let lost = send_request(&mut server);
    for number in 2..4 {
        progress(&mut server, &id, key, f64::from(number));
    }
    let kept = send_request(&mut server);
    assert_eq!(server.take_events(), []);
    let again = server.listen(&id, Some(&last));
    let events = server.take_events();
    assert_eq!(events, [Event::Response { call: lost, outcome: Outcome::Failed(Failure::NoStream) }]);
    // The kept messages follow a comment that some are missing.
    let messages = server.reply(again).messages();
    assert_eq!(messages.iter().filter(|message| message["method"] == "roots/list").count(), 1);
    assert_eq!(messages.len(), 3);
    assert!(String::from_utf8_lossy(&server.reply(again).body).contains("\n: 1 message is not kept any more\n"));
    server.send_message(&id, &json!({"jsonrpc": "2.0", "id": kept.as_u64(), "result": {"roots": []}}));
    assert!(matches!(&server.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    answer(&mut server, &id, key, 1);
    assert!(server.reply(again).ended);
    // The stream of a dropped response no longer exists.
    let last = server.reply(again).events()[0].2.clone();
    for number in 2..6 {
        let (requested, key) = call(&mut server, &id, number);
        progress(&mut server, &id, key, 1.0);
        answer(&mut server, &id, key, 1);
        assert!(server.reply(requested).ended);
    }
    let again = server.listen(&id, Some(&last));
    assert_eq!(server.reply(again).status(), 400);
}

/// Data for clients that do not read blocks the others for a limited time only.
#[test]
fn stalled_streams_are_dropped_after_a_timeout() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let mut dead = Vec::new();
    let mut blocked = None;
    for number in 1..100 {
        server.reads = false;
        let (requested, key) = call(&mut server, &id, number);
        let now = server.now;
        let _ = server.session(&id).expect("it is open").connection(now).progress(key, 1.0, None, None);
        dead.push(requested);
        if try_answer(&mut server, &id, key, MIB) == Err(SendError::Busy) {
            blocked = Some(key);
            break;
        }
    }
    let blocked = blocked.expect("what waits is bounded");
    assert!(queued(&mut server, &id) <= 6 * MIB);
    server.reads = true;
    let (requested, key) = call(&mut server, &id, 1000);
    assert_eq!(try_answer(&mut server, &id, key, 1), Err(SendError::Busy));
    // Streams that are read slowly are kept. The others are dropped.
    let reader = dead[0];
    for _ in 0..8 {
        server.advance(Duration::from_secs(5));
        server.read_once(reader);
    }
    assert_eq!(try_answer(&mut server, &id, key, 1), Ok(()));
    assert_eq!(try_answer(&mut server, &id, blocked, 1), Ok(()));
    assert_eq!(server.reply(requested).messages()[0]["id"], json!(1000));
    server.read(reader, true);
    assert!(server.reply(reader).ended && server.reply(reader).messages().len() == 2);
    // Their messages are kept as after a disconnect.
    let session = server.session(&id).expect("it is open");
    assert!(session.usage().queued_bytes < MIB, "{:?}", session.usage());
    server.read(dead[1], true);
    assert!(server.reply(dead[1]).ended);
}

fn large_call(server: &mut HttpServer, id: &str, number: u64, bytes: usize) -> RequestRef {
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(bytes)}});
    server.send_message(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
}

/// Returns the requests that the application has received.
fn keys(server: &mut HttpServer) -> Vec<ReplyKey> {
    let key = |event| if let Event::Request { key, .. } = event { Some(key) } else { None };
    server.take_events().into_iter().filter_map(key).collect()
}

fn all_answered(server: &HttpServer, requested: &[RequestRef]) {
    for (number, requested) in requested.iter().enumerate() {
        let reply = server.reply(*requested);
        let id = if reply.header("content-type") == Some("application/json") {
            reply.json()["id"].clone()
        } else {
            reply.messages()[0]["id"].clone()
        };
        assert_eq!((reply.status(), id), (200, json!(number)));
    }
}

#[test]
fn calls_over_the_limit_are_queued() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let requested: Vec<_> = (0..100).map(|number| large_call(&mut server, &id, number, MIB)).collect();
    let usage = server.session(&id).expect("it is open").usage();
    assert_eq!((usage.exchanges, usage.waiting_requests), (100, 37));
    // A response to a request of the server does not wait behind them.
    let mut open = keys(&mut server);
    assert_eq!(open.len(), 63);
    let now = server.now;
    let conn = server.session(&id).expect("it is open").connection(now);
    let options = RequestOptions { related_request: Some(open[0]), ..RequestOptions::default() };
    let server_request = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
    server.settle();
    let told =
        server.send_message(&id, &json!({"jsonrpc": "2.0", "id": server_request.as_u64(), "result": {"roots": []}}));
    assert_eq!(server.reply(told).status(), 202);
    assert!(matches!(&server.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    while let Some(key) = open.pop() {
        answer(&mut server, &id, key, 1);
        open.extend(keys(&mut server));
    }
    for (number, requested) in requested.iter().enumerate() {
        let reply = server.reply(*requested);
        assert!(reply.status() == 200 && reply.ended, "{number}");
    }
    server.advance(Duration::from_secs(301));
    server.assert_idle();
}

#[test]
fn a_paused_reader_receives_every_response() {
    const CALLS: u64 = 40_000;
    const OPEN: usize = 8_192;
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let (mut requested, mut owed, mut read, mut number) = (Vec::new(), Vec::new(), 0, 0);
    server.reads = false;
    for pause in 0..usize::MAX {
        while number < CALLS && requested.len() - read < OPEN {
            requested.push(large_call(&mut server, &id, number, 0));
            number += 1;
        }
        owed.extend(keys(&mut server));
        owed.retain(|key| try_answer(&mut server, &id, *key, 4 << 10) == Err(SendError::Busy));
        let usage = server.session(&id).expect("it is open").usage();
        assert!(usage.queued_bytes < 5 * MIB, "{usage:?}");
        if read == requested.len() {
            break;
        }
        if pause == 0 {
            server.advance(Duration::from_secs(4));
        }
        // The client reads the queued output.
        while let Some(next) = requested.get(read) {
            server.read(*next, true);
            if !server.reply(*next).ended {
                break;
            }
            read += 1;
        }
    }
    assert_eq!(requested.len(), usize::try_from(CALLS).expect("few"));
    all_answered(&server, &requested);
}

#[test]
fn in_flight_requests_are_bounded_per_endpoint() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.request_bytes = 8 * MIB;
    let mut server = HttpServer::with(full_server(), options);
    let ids: Vec<_> = (0..4).map(|_| server.begin("2025-11-25")).collect();
    let mut requested = Vec::new();
    for number in 0..16_u64 {
        requested.push(large_call(&mut server, &ids[usize::try_from(number % 4).expect("few")], number, MIB));
    }
    let open = server.take_events().len();
    assert_eq!(open, 7, "the others are refused");
    let refused = requested.iter().filter(|requested| server.reply(**requested).head.is_some()).count();
    assert_eq!(refused, 9);
    // Cancelled requests count until their handlers are done.
    server.disconnect(requested[0]);
    server.send_message(&ids[0], &cancel(0));
    server.take_events();
    let more = large_call(&mut server, &ids[1], 99, MIB);
    assert_eq!(server.reply(more).status(), 503);
    // Notifications are not limited.
    let told = server.send_message(
        &ids[1],
        &json!({"jsonrpc": "2.0", "method": "vendor/news", "params": {"x": "x".repeat(2 * MIB)}}),
    );
    assert_eq!(server.reply(told).status(), 202);
    server.delete(&ids[0]);
    let more = large_call(&mut server, &ids[1], 99, MIB);
    assert!(server.reply(more).head.is_none());
}

// req: HTTP-016
#[test]
fn dropped_responses_are_aborted_or_503() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        server.reads = false;
        let mut calls = Vec::new();
        for number in 0..8 {
            let requested = server.send_message(&id, &request(number, "tools/list"));
            let Some(Event::Request { key, .. }) = server.take_events().pop() else { break };
            if try_answer(&mut server, &id, key, MIB).is_err() {
                break;
            }
            if number == 0 {
                assert!(server.read_once(requested), "the head is taken, and then nothing");
                assert_eq!(server.reply(requested).status(), 200);
            }
            calls.push(requested);
        }
        server.reads = true;
        assert!(calls.len() >= 4, "{version}: {} answers wait", calls.len());
        server.advance(Duration::from_secs(60));
        assert!(queued(&mut server, &id) < 1000, "{version}: {} bytes are held", queued(&mut server, &id));
        for (number, requested) in calls.into_iter().enumerate() {
            server.read(requested, true);
            let reply = server.reply(requested);
            assert!(reply.ended, "{version}: {number}");
            if number == 0 {
                assert!(reply.aborted && reply.body.is_empty(), "{version}: the body breaks off");
            } else {
                assert_eq!((reply.status(), reply.aborted), (503, false), "{version}: {number}");
            }
        }
    }
}
