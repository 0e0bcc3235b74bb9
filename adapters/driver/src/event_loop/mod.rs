//! The event loop of a connection, for every kind of transport.
//!
//! A [`Binding`](binding::Binding) owns the connection, a [`SharedConnection`](shared::SharedConnection) shares it
//! between the event loop and its callers, and an [`EventLoop`](run_loop::EventLoop) reads, dispatches events to the
//! application, starts jobs, and writes.

pub(crate) mod binding;
pub(crate) mod dispatching;
pub(crate) mod jobs;
pub(crate) mod run_loop;
pub(crate) mod shared;
#[cfg(test)]
mod tests;
