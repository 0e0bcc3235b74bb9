//! Stores that fail or are slow.

use std::{future::Future, io};

use mcp_service::Deferred;
use mcp_tokio::http::Store;
use serde_json::json;

use crate::{
    Both, at, nowhere, run, set_level,
    stores::{FaultyStore, broken},
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
