//! Clients and servers over HTTP, with and without encryption, on smol.

use std::{future::Future, time::Duration};

pub(crate) use mcp_smol as adapter;
use smol::{Timer, future::or};

#[path = "../../tests/http.rs"]
mod http;
#[path = "../../tests/http_cors.rs"]
mod http_cors;
#[path = "../../tests/http_crowds.rs"]
mod http_crowds;
#[path = "../../tests/http_dpop.rs"]
mod http_dpop;
#[path = "../../tests/http_heads.rs"]
mod http_heads;
#[path = "../../tests/http_item_scopes.rs"]
mod http_item_scopes;
#[path = "../../tests/http_peers.rs"]
mod http_peers;
#[path = "../../tests/http_protected.rs"]
mod http_protected;
#[path = "../../tests/http_proxy.rs"]
mod http_proxy;
#[path = "../../tests/http_scopes.rs"]
mod http_scopes;
#[path = "../../tests/https.rs"]
mod https;

pub(crate) fn run(future: impl Future<Output = ()>) {
    smol::block_on(future);
}

pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    smol::spawn(future)
}

pub(crate) async fn timeout<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    or(async { Some(future.await) }, async {
        Timer::after(time).await;
        None
    })
    .await
}
