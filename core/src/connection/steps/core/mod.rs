//! What both roles do in both eras: receive, send, match responses, close.

mod backpressure;
mod closing;
mod expiry;
mod notifications;
mod receive;
mod requests;
pub(crate) mod responses;
pub(crate) mod send;
