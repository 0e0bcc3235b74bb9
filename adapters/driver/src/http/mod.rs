//! HTTP on a runtime: what is between the binding of the core, which decides, and a library that moves the bytes.
//!
//! - [`HttpServer`] is a service behind an endpoint. An adapter shows it the heads and bodies of requests, and writes what comes of
//!   them: a [`ResponseStream`], or an answer that refuses them. Those on hyper have that in an `Endpoint`, and a function that serves
//!   a connection (feature `hyper`).
//! - [`Handle::over_http`](crate::Handle::over_http) is a client. An adapter brings something that makes
//!   [`HttpClient`], and tells what comes of each of them to its [`ResponseHandler`].
//! - What is the same on all runtimes that have sockets is in a `Listener` and a `Connector`; all that they ask for is what
//!   `NetRuntime` says (feature `net`).
//!
//! # Who may come
//!
//! A [`Policy`] says under which names a server is reached and which web pages may talk to it, and there is no default for
//! an endpoint. That of a listener is [`Policy::loopback`], whatever it listens on: to be reached from elsewhere takes
//! `Listener::endpoint` with the names that it has there. Encryption is for a proxy in front,
//! which passes on `Host`, does not collect what is streamed, and lets streams be quiet for longer than
//! [`keepalive`](mcp_proto::http::Limits::keepalive). Where there is none, a listener can have certificates of its own
//! (feature `tls`).
//!
//! The layer that routes a request (of tower, for example) authenticates its sender: it puts a
//! [`Caller`](mcp_proto::http::server::Caller) into the extensions of the request. Handlers find it in their context,
//! and a session belongs to the caller that began it.
//!
//! # What is bounded
//!
//! Requests wait for room in their session, for a while ([`admission`](mcp_proto::http::Limits::admission)). A session that is
//! not used gives way where there are too many. Beyond that there are bounds of connections (`Listener::connections`), sessions and all that they hold ([`Limits`]), the heads of requests, their bodies
//! ([`frame_bytes`](mcp_proto::connection::Limits::frame_bytes)) and how long they may take to come in. A client that
//! reads nothing costs no more than its session may hold, and its connection ends when it has read nothing of what waits for
//! it for some time (`Listener::write_timeout`).
//!
//! What all clients share is a [`Quota`](crate::Quota): a client gets a part as long as it has less than seven times of what
//! is left. So a single one gets at most seven eighths, and a second one at most seven eighths of
//! the rest. That is no protection against many clients: a few of them together take all but little.
//!
//! `Listener::memory_limit` returns the most bytes that all of these bounds add up to, and [`memory_limit`] does for an `Endpoint`.
//!
//! An `Endpoint` in a server of yours has what it is handed: how long heads may take to come in, how many connections there
//! are, and how long a client may read nothing is up to that server. `axum::serve` bounds none of these;
//! `adapters/tokio/examples/axum-tokio.rs` has a server of hyper that does.
//!
//! # Several processes
//!
//! Where requests of one session may come to several processes, these know of it together: [`SessionStore`] is where they look for
//! what is known of a session, [`EventStore`] for what was sent on its streams, and both of them are [`Store`]. There is one in
//! memory ([`MemoryStore`]), and one in Redis in `mcp-tokio`. What is shared and what is not is in `ARCHITECTURE.md`.
//!
//! [`Policy`]: mcp_proto::http::Policy
//! [`Policy::loopback`]: mcp_proto::http::Policy::loopback
//! [`Limits`]: mcp_proto::http::Limits

#[cfg(feature = "hyper")]
mod body;
mod client;
mod client_shares;
mod connect;
#[cfg(feature = "hyper")]
mod endpoint;
#[cfg(feature = "hyper")]
mod lingering_close;
mod memory_limit;
#[cfg(all(unix, feature = "net"))]
mod net;
mod peer_addr;
mod replication;
mod response_body;
#[cfg(feature = "hyper")]
mod serve;
mod server;
mod session;
mod store;
#[cfg(feature = "hyper")]
mod write_timeout;

#[cfg(feature = "hyper")]
pub use body::Body;
#[cfg(feature = "hyper")]
pub use endpoint::Endpoint;
#[cfg(all(unix, feature = "net"))]
pub use net::{Connector, Listener, NetRuntime, Proxy, serve_http};
#[cfg(all(unix, feature = "tls"))]
pub use rustls;
#[cfg(feature = "hyper")]
pub use serve::serve;
#[cfg(feature = "hyper")]
pub use write_timeout::WriteTimeout;

pub use client::{AuthProvider, HttpClient, ResponseHandler, seed};
pub use mcp_proto::http::server::ReplayChunk;
pub use memory_limit::memory_limit;
pub use peer_addr::PeerAddr;
pub use response_body::ResponseStream;
pub use server::HttpServer;
pub use store::memory::MemoryStore;
pub use store::{EventStore, Retention, SessionRecord, SessionStore, Store, StoreLimits, StoreUsage};
