//! HTTP on a runtime: what is between the binding of the core, which decides, and a library that moves the bytes.
//!
//! - [`Web`] is a service behind an endpoint. An adapter shows it the heads and bodies of requests, and writes what comes of
//!   them: a [`Reply`], or an answer that refuses them.
//! - [`Handle::over_http`](super::Handle::over_http) is a client. An adapter brings something that makes
//!   [`Requests`], and tells what comes of each of them to its [`Response`].

mod client;
mod reply;
mod server;
mod visit;

pub use client::{Credentials, Requests, Response};
pub use reply::Reply;
pub use server::Web;

/// Random bits, for what should differ between clients and need not be a secret.
#[must_use]
pub fn seed() -> u64 {
    crate::random::Random::default().seed()
}

pub(super) use client::{Errands, Messenger};
