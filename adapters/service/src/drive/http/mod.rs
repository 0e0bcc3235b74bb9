//! HTTP on a runtime: what is between the binding of the core, which decides, and a library that moves the bytes.
//!
//! - [`Web`] is a service behind an endpoint. An adapter shows it the heads and bodies of requests, and writes what comes of
//!   them: a [`Reply`], or an answer that refuses them. Those on hyper have that in an `Endpoint`, and a function that serves
//!   a connection (feature `hyper`).
//! - [`Handle::over_http`](super::Handle::over_http) is a client. An adapter brings something that makes
//!   [`Requests`], and tells what comes of each of them to its [`Response`].

#[cfg(feature = "hyper")]
mod body;
mod client;
#[cfg(feature = "hyper")]
mod endpoint;
mod reply;
#[cfg(feature = "hyper")]
mod serve;
mod server;
mod visit;

#[cfg(feature = "hyper")]
pub use body::Body;
#[cfg(feature = "hyper")]
pub use endpoint::Endpoint;
#[cfg(feature = "hyper")]
pub use serve::serve;

pub use client::{Credentials, Requests, Response};
pub use reply::Reply;
pub use server::Web;

/// Random bits, for what should differ between clients and need not be a secret.
#[must_use]
pub fn seed() -> u64 {
    crate::random::Random::default().seed()
}

pub(super) use client::{Errands, Messenger};
