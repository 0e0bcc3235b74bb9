//! Authorization over sockets, on tokio.

use std::future::Future;

pub(crate) use mcp_tokio as adapter;

#[path = "../../tests/authorization.rs"]
mod authorization;

pub(crate) fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime").block_on(future);
}

pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    let task = tokio::spawn(future);
    async { task.await.expect("no panic") }
}
