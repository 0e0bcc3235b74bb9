//! The event loop of a connection, for every kind of transport.
//!
//! A [`Binding`](binding::Binding) owns the connection, a [`SharedConnection`](shared::SharedConnection) shares it between the loop and its callers, and a
//! [`EventLoop`](run_loop::EventLoop) is the loop: it reads, dispatches events to the application, starts jobs, and writes.

pub(crate) mod binding;
pub(crate) mod run_loop;
pub(crate) mod shared;
