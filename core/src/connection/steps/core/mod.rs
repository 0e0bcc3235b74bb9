//! What both roles do in both eras: receive, send, match responses, close.

mod backpressure;
mod closing;
mod expiry;
mod receive;
pub(crate) mod responses;
pub(crate) mod send;
