//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with its own listener:
//!
//! ```no_run
//! use mcp_blocking::{http::Listener, mcp_service::Service};
//!
//! let service = Service::builder("my-server", "1.0.0").build()?;
//! // At http://127.0.0.1:8000/mcp, for clients on this machine.
//! Listener::bind("127.0.0.1:8000")?.serve(&service)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An [`Endpoint`] is for another HTTP server, which passes requests to [`handle`]. A client is
//! [`Client::connect_http`](crate::Client::connect_http), or a [`Connector`] for more options:
//!
//! ```no_run
//! use mcp_blocking::{http::{Connector, Proxy}, mcp_service::Host};
//!
//! let host = Host::builder("my-client", "1.0.0").build();
//! let proxy = Proxy::new("http://proxy.example:3128")?;
//! let client = Connector::new("http://mcp.example/mcp")?.proxy(proxy).connect(&host)?;
//! # drop(client);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`mcp_driver::http`] describes access and limits. Clients encrypt (`https`) with the feature `tls`.
//!
//! # Threads
//!
//! Each connection of a listener has a thread, which reads, writes, dispatches requests to their sessions, and runs
//! their handlers. Most handlers end at once and need no switch of threads. Asynchronous handlers that stay pending
//! continue on a few threads that they all share, so they must not block. Functions may block. After one to two
//! milliseconds, another thread takes the connection over.
//!
//! A client has one thread for all of its requests and streams. A thread that waits for a response takes over this
//! work: it sends the request and reads the response itself. A lookup of a name, an attempt to connect, and credentials
//! other than a token take a thread each as long as they last. After a call that a thread has waited for, the thread of
//! the client does nothing for up to two milliseconds, because calls often follow each other. So a call that follows
//! directly, and for which a future waits instead of a thread, can take up to two milliseconds longer. A client of the
//! application ([`Connector::http_client`]) runs on a few threads instead.

#[cfg(feature = "auth")]
mod auth_transport;
mod body_reader;
mod client;
mod client_loop;
mod connection_io;
mod connector;
mod endpoint;
#[cfg(feature = "auth")]
mod fetch;
mod listener;
mod loop_socket;
mod loop_task;
mod net_client;
mod own_loop;
mod pool;
mod task;
mod threads;

#[cfg(feature = "auth")]
pub use auth_transport::NetTransport;
pub use body_reader::{BodyReader, handle};
pub use connector::Connector;
pub use endpoint::Endpoint;
#[cfg(feature = "auth")]
pub use fetch::FetchClient;
pub use listener::{Listener, serve_http};
#[cfg(feature = "auth")]
pub use mcp_driver::http::auth;
#[cfg(feature = "tls")]
pub use mcp_driver::http::rustls;
#[cfg(feature = "auth")]
pub use mcp_driver::http::{
    AccessToken, HttpFetch, IntrospectionVerifier, ResourceMetadata, ResourceServer, Scopes, TokenError, TokenVerifier,
};
#[cfg(feature = "jwt")]
pub use mcp_driver::http::{Algorithm, Dpop, JwtVerifier, KeySet, KeySetError, KeySource, NonceKey};
pub use mcp_driver::http::{
    AuthProvider, Bearer, Body, HttpClient, MemoryStore, Proxy, Refusal, ResponseHandler, ResponseSink, Store,
    StoreLimits, StoreUsage,
};
pub use mcp_proto::http::{
    Caller, Limits, Policy, Principal,
    client::ClientOptions,
    server::{EndpointOptions, ExposedHeads, Paths, RequestHead},
};
pub use net_client::NetClient;
pub use threads::Threads;

/// A provider of credentials with OAuth: see [`auth`].
#[cfg(feature = "auth")]
pub type OAuth = auth::OAuth<Threads>;
