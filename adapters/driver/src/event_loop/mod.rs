//! The event loop of a connection, over whatever its messages travel.
//!
//! A [`Carrier`](binding::Carrier) owns the connection, a [`Hub`](shared::Hub) shares it between the loop and its callers, and a
//! [`Desk`](run_loop::Desk) is the loop: it reads, dispatches events to the application, starts jobs, and writes.

pub(crate) mod binding;
pub(crate) mod run_loop;
pub(crate) mod shared;
