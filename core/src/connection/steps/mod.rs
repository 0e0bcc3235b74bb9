//! The steps of the engine, one file per topic. Each adds methods to [`Engine`](super::engine::Engine).

pub(crate) mod client;
pub(crate) mod core;
mod session;
pub(crate) mod stateless;
