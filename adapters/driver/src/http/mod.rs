//! HTTP on a runtime: connects the HTTP binding of the core, which makes all decisions, to a library that does the I/O.
//!
//! - [`HttpServer`] is a service behind an endpoint. An adapter passes it the heads and bodies of requests, and writes
//!   the responses: a [`ResponseStream`], or a refusal. For hyper there is an `Endpoint`, and a function that serves a
//!   connection (feature `hyper`).
//! - [`Handle::over_http`](crate::Handle::over_http) is a client. An adapter implements [`HttpClient`], and passes each
//!   response to its [`ResponseHandler`].
//! - `Listener` and `Connector` are the same on all runtimes with sockets, which implement `NetRuntime` (feature
//!   `net`).
//!
//! # Access
//!
//! A [`Policy`] lists the names under which a server is reached and the web pages that may use it. An endpoint has no
//! default for it. The default of a listener is [`Policy::loopback`] for every address: to be reached from elsewhere,
//! pass the names of the server to `Listener::endpoint`. Encryption is up to a proxy in front. It passes on `Host`,
//! does not buffer streams, and lets streams be quiet for longer than
//! [`keepalive`](mcp_proto::http::Limits::keepalive). Without a proxy, a listener can have certificates (feature
//! `tls`).
//!
//! The layer that routes a request (of tower, for example) authenticates its sender: it puts a
//! [`Caller`](mcp_proto::http::server::Caller) into the extensions of the request. Handlers find it in their context,
//! and a session belongs to the caller that began it. With the feature `auth` the endpoint does this itself, by OAuth
//! access tokens: see `ResourceServer`.
//!
//! Browsers learn from the endpoint what the pages of allowed origins may send and read (CORS). Nothing else has to
//! answer preflight requests.
//!
//! # Limits
//!
//! Requests wait for room in their session, for a while ([`admission`](mcp_proto::http::Limits::admission)). An idle
//! session is removed if there are too many. Further limits apply to connections (`Listener::connections`), to sessions
//! and all that they hold ([`Limits`]), to the heads of requests, to their bodies
//! ([`frame_bytes`](mcp_proto::connection::Limits::frame_bytes)), and to the time that these take to come in. A client
//! that does not read costs no more than its session may hold. Its connection ends when it has read nothing of pending
//! output for some time (`Listener::write_timeout`).
//!
//! All clients share a [`Quota`](crate::Quota). A client gets a share as long as it has less than seven times of what
//! is left. So a single client gets at most seven eighths, and a second one at most seven eighths of the rest. That is
//! no protection against many clients: a few of them together can take almost all of it.
//!
//! `Listener::memory_limit` returns the most bytes that all of these limits add up to, and [`memory_limit()`] does so
//! for an `Endpoint`.
//!
//! An `Endpoint` in another server gets its requests from that server, which has to limit the time of reading heads,
//! the number of connections, and the time in which a client reads nothing. `axum::serve` limits none of these;
//! `adapters/tokio/examples/axum-tokio.rs` contains a server of hyper that does.
//!
//! # Several processes
//!
//! Several processes that receive requests of one session share a [`Store`]: a [`SessionStore`] for the records of
//! sessions, and an [`EventStore`] for the messages that were sent on their streams. There is one in memory
//! ([`MemoryStore`]), and one in Redis in `mcp-tokio`. `docs/scaling.md` lists what is shared and what is not.
//!
//! [`Policy`]: mcp_proto::http::Policy
//! [`Policy::loopback`]: mcp_proto::http::Policy::loopback
//! [`Limits`]: mcp_proto::http::Limits

#[cfg(feature = "auth")]
pub mod auth;
mod bearer;
#[cfg(feature = "endpoint")]
mod body;
mod client;
mod client_shares;
mod connect;
#[cfg(feature = "hyper")]
mod connection_state;
mod detached_auth;
#[cfg(feature = "endpoint")]
mod endpoint;
#[cfg(feature = "auth")]
mod fetch;
#[cfg(feature = "hyper")]
mod lingering_close;
mod memory_limit;
#[cfg(feature = "net")]
mod net;
mod peer_addr;
mod protection;
mod refusals;
mod replication;
#[cfg(feature = "auth")]
mod resource_server;
mod response_slot;
mod response_stream;
#[cfg(feature = "hyper")]
mod serve;
#[cfg(all(test, feature = "hyper"))]
mod serve_tests;
mod server;
#[cfg(test)]
mod server_tests;
mod session;
#[cfg(feature = "hyper")]
mod shutdown;
mod store;
#[cfg(feature = "hyper")]
mod write_timeout;

#[cfg(feature = "endpoint")]
pub use body::Body;
#[cfg(feature = "endpoint")]
pub use endpoint::Endpoint;
#[cfg(feature = "auth")]
pub use fetch::HttpFetch;
#[cfg(feature = "auth")]
pub use mcp_proto::auth::{ResourceMetadata, Scopes, dpop::NonceKey};
#[cfg(feature = "net")]
pub use net::{ConnectRuntime, Connector, Http1Client, Listener, NetRuntime, Proxy, Recheck, ResponseSink, serve_http};
#[cfg(all(feature = "auth", feature = "net"))]
pub use net::{FetchClient, NetTransport};
#[cfg(feature = "auth")]
pub use resource_server::{AccessToken, IntrospectionVerifier, ResourceServer, TokenError, TokenVerifier};
#[cfg(feature = "jwt")]
pub use resource_server::{Algorithm, Dpop, JwtVerifier, KeySet, KeySetError, KeySource};
#[cfg(feature = "tls")]
pub use rustls;
#[cfg(feature = "hyper")]
pub use serve::serve;
#[cfg(feature = "hyper")]
pub use shutdown::{ARRIVAL_GRACE, Arrivals, Shutdown};
#[cfg(feature = "hyper")]
pub use write_timeout::WriteTimeout;

pub use bearer::Bearer;
pub use client::{AuthProvider, HttpClient, Refusal, ResponseHandler, seed};
pub use detached_auth::DetachedAuth;
pub use mcp_proto::http::server::ReplayChunk;
pub use memory_limit::memory_limit;
pub use peer_addr::PeerAddr;
pub use response_stream::ResponseStream;
pub use server::HttpServer;
pub use store::memory::MemoryStore;
pub use store::{EventStore, Retention, SessionRecord, SessionStore, Store, StoreLimits, StoreUsage};
