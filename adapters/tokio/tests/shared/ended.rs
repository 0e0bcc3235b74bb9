//! Streams of a process that has ended, and streams that are left, in Redis.

use std::{future::Future, task::Poll};

use mcp_driver::{
    Holder,
    http::{EventStore, Retention, SessionRecord, SessionStore},
};
use mcp_proto::codec::SseDecoder;
use mcp_tokio::http::{RedisStore, Store};
use redis::{Client, aio::MultiplexedConnection, cmd};

use crate::{LONG, Stream, at, nowhere, two};
use serde_json::json;

/// The prefix of the keys of these tests.
const PREFIX: &str = "ended";

async fn connect(url: &str) -> MultiplexedConnection {
    let client = Client::open(url).expect("an address");
    client.get_multiplexed_async_connection().await.expect("Redis answers")
}

/// A client that resumes a stream gets what is kept of it, and then the status 400.
pub(super) async fn streams_of_an_ended_process_are_lost(url: String) {
    let mut keys = connect(&url).await;
    let store = async || Store::new(RedisStore::connect(&url).await.expect("Redis answers").prefix(PREFIX));
    let (a, b, gate) = two(&[store().await, store().await]);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count", "arguments": {},
        "_meta": {"progressToken": 1}}});
    let (head, body) = at(&a, &id).send("POST", None, Some(call)).await;
    assert_eq!(head.status, 200);
    let mut stream = Stream::new(body, SseDecoder::new(1 << 20));
    gate.add_permits(1);
    let (first, _) = stream.next().await.expect("progress");
    gate.add_permits(1);
    let (second, _) = stream.next().await.expect("progress");
    // As long as the process runs, its stream continues elsewhere.
    let (head, body) = at(&b, &id).send("GET", Some(&first), None).await;
    assert_eq!(head.status, 200);
    let mut resumed = Stream::new(body, SseDecoder::new(1 << 20));
    assert_eq!(resumed.next().await.expect("it is kept").0, second);
    // The part of the first process belongs to a process that has no entry.
    let owners = format!("{{{PREFIX}}}:o:{id}");
    let name: String = cmd("HGET").arg(&owners).arg(0).query_async(&mut keys).await.expect("it is recorded");
    let entry = format!("{{{PREFIX}}}:p:{name}");
    let left: i64 = cmd("PTTL").arg(&entry).query_async(&mut keys).await.expect("it answers");
    assert!((1..=30_000).contains(&left), "{left}");
    cmd("HSET").arg(&owners).arg(0).arg("ended").query_async::<()>(&mut keys).await.expect("it answers");
    // What is kept is still sent, and then the rest is lost.
    let (head, body) = at(&b, &id).send("GET", Some(&first), None).await;
    assert_eq!(head.status, 200);
    let mut resumed = Stream::new(body, SseDecoder::new(1 << 20));
    assert_eq!(resumed.next().await.expect("it is kept").0, second);
    assert_eq!(resumed.next().await, None, "nothing follows");
    let (head, _) = at(&b, &id).send("GET", Some(&second), None).await;
    assert_eq!(head.status, 400);
    // A stream that belongs to no request continues in this process.
    let (head, body) = at(&b, &id).send("GET", Some("g0-0"), None).await;
    assert_eq!(head.status, 200);
    drop(body);
    // The session continues.
    assert_eq!(at(&b, &id).call("client").await, "raw");
    // The entries are removed with the last clones of the stores, before they expire.
    drop((a, b, stream));
    let mut left = i64::MAX;
    while left > 0 {
        left = cmd("PTTL").arg(&entry).query_async(&mut keys).await.expect("it answers");
        assert!(left == -2 || left > 5_000, "it has expired, or is about to: {left}");
        tokio::task::yield_now().await;
    }
}

/// A response may be dropped by a thread without a runtime.
pub(super) async fn a_stream_is_left_outside_of_a_runtime(url: String) {
    let mut keys = connect(&url).await;
    let store = RedisStore::connect(&url).await.expect("Redis answers").prefix("left");
    let record = SessionRecord::from([("client".to_owned(), "x".to_owned())]);
    store.begin("id", &Holder::Unknown, record, LONG).await.expect("it begins");
    let within = Retention { max_messages: 1, bytes: 1 << 20, time: LONG };
    store.keep("id", 1, 1, b"message".to_vec(), within).await.expect("it is kept");
    let mut following = Box::pin(store.follow("id", 1, 1, true));
    let mut channels = async || -> Vec<String> {
        cmd("PUBSUB").arg("CHANNELS").arg("*left*").query_async(&mut keys).await.expect("it answers")
    };
    while channels().await.is_empty() {
        let polled = std::future::poll_fn(|cx| Poll::Ready(following.as_mut().poll(cx))).await;
        assert!(polled.is_pending(), "nothing follows");
    }
    std::thread::spawn(move || drop(following)).join().expect("no panic");
    while !channels().await.is_empty() {
        tokio::task::yield_now().await;
    }
}
