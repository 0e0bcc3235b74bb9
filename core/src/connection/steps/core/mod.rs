//! The steps of both roles in both eras: receiving, sending, responding, matching responses, closing.

mod backpressure;
mod closing;
mod expiry;
mod notifications;
mod receive;
mod requests;
pub(crate) mod respond;
pub(crate) mod responses;
pub(crate) mod send;
