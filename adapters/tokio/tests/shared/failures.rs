//! Stores that fail or are slow, or cannot represent a time.

use std::{future::Future, io, sync::Arc, time::Duration};

use mcp_driver::http::EventStore;
use mcp_proto::codec::SseDecoder;
use mcp_service::Deferred;
use mcp_tokio::http::{EndpointOptions, MemoryStore, Policy, Store};
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    Both, Stream, at, nowhere, process, process_with, run, set_level,
    stores::{Ending, FaultyStore, SlowEvents, broken},
    two,
};

/// Runs a test with two endpoints that share a store with faults.
pub(super) fn with_faults<F: Future<Output = ()> + 'static>(
    test: fn(FaultyStore, Both) -> F,
) -> Result<(), libtest_mimic::Failed> {
    let store = FaultyStore::default();
    let shared = Store::from_parts(store.clone(), store.store.clone());
    run(|both| Box::pin(test(store, both)), |_| [shared.clone(), shared])
}

/// A change that failed is not visible before its retry succeeds.
pub(super) async fn failed_write_is_visible_only_after_retry(store: FaultyStore, shared: Both) {
    let (a, b, _) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    store.wait_for(broken());
    assert_eq!(at(&a, &id).post(set_level("error")).await.0, 503);
    assert_eq!(at(&b, &id).call("level").await, "none");
    assert_eq!(at(&a, &id).post(set_level("error")).await.0, 200);
    assert_eq!(at(&b, &id).call("level").await, "error");
}

/// The last of two concurrent changes holds, even if storing the first one takes longer.
pub(super) async fn what_was_set_last_holds(store: FaultyStore, shared: Both) {
    let (a, b, gate) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    let opens = gate.clone();
    store.wait_for(Deferred::new(async move { opens.acquire().await.map(drop).map_err(io::Error::other) }));
    let site = at(&a, &id);
    let (first, second, ()) =
        tokio::join!(site.post(set_level("error")), site.post(set_level("debug")), async { gate.add_permits(1) });
    assert_eq!((first.0, second.0), (200, 200));
    assert_eq!(at(&b, &id).call("level").await, "debug");
}

/// The failure is not reported as an unknown session, since the client would begin a new one.
pub(super) async fn a_store_that_fails(shared: Both) {
    let (a, _, _) = two(&shared);
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let (head, _) = nowhere(&a).send("POST", None, Some(message)).await;
    assert_eq!((head.status.as_u16(), head.headers.contains_key("mcp-session-id")), (503, false));
    assert_eq!(at(&a, &"A".repeat(32)).post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.0, 503);
    a.close().await;
    assert_eq!(a.sessions(), 0);
}

/// A session that another process ends while it is resumed here is unknown, and the store has not failed.
pub(super) async fn a_session_that_ends_while_it_is_resumed() {
    let (store, gate) = (MemoryStore::default(), Arc::new(Semaphore::new(0)));
    let a = process(&Store::new(store.clone()), &gate);
    let b = process(&Store::from_parts(Ending(store.clone()), store), &gate);
    let id = nowhere(&a).initialize().await;
    assert_eq!(at(&b, &id).post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.0, 404);
}

/// A client that has lost its connection resumes its stream elsewhere after this process has ended.
pub(super) async fn a_close_waits_for_the_store() {
    let (store, gate, permits) = (MemoryStore::default(), Arc::new(Semaphore::new(3)), Arc::new(Semaphore::new(0)));
    let slow = Store::from_parts(store.clone(), SlowEvents(store.clone(), permits.clone()));
    let a = process(&slow, &gate);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count", "arguments": {},
        "_meta": {"progressToken": 1}}});
    let (_, body) = at(&a, &id).send("POST", None, Some(call)).await;
    let mut stream = Stream::new(body, SseDecoder::new(1 << 20));
    let (first, _) = stream.next().await.expect("progress");
    let number: u64 = first.split_once('-').expect("an id of an event").0.parse().expect("a number");
    while stream.next().await.is_some() {}
    let mut closing = a.close();
    assert!(timeout(Duration::from_millis(200), &mut closing).await.is_err(), "nothing is stored");
    assert_eq!(a.sessions(), 0);
    permits.add_permits(100);
    closing.await;
    let kept = store.follow(&id, number, 0, false).await.expect("it is stored");
    assert_eq!((kept.messages.len(), kept.done), (4, true));
}

/// The longest times are beyond what the clock of a store can represent.
pub(super) async fn sessions_may_last_forever([one, other]: Both) {
    let mut options = EndpointOptions::new(Policy::loopback());
    for time in [&mut options.limits.idle, &mut options.limits.abandoned, &mut options.limits.replay_time] {
        *time = Duration::MAX;
    }
    let gate = Arc::new(Semaphore::new(3));
    let [a, b] = [one, other].map(|shared| process_with(options.clone(), &shared, &gate));
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    assert_eq!(at(&b, &id).call("client").await, "raw");
}
