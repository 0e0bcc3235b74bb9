//! What the engine does, one file for each topic. Each adds methods to [`Engine`](super::engine::Engine).

pub(crate) mod client;
pub(crate) mod core;
mod session;
pub(crate) mod stateless;
