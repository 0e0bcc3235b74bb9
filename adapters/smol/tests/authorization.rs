//! Authorization over sockets, on smol.

use std::future::Future;

pub(crate) use mcp_smol as adapter;

#[path = "../../tests/authorization.rs"]
mod authorization;

pub(crate) fn run(future: impl Future<Output = ()>) {
    smol::block_on(future);
}

pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    smol::spawn(future)
}
