//! MCP over HTTP: Streamable HTTP in all revisions that have it, and the transport of 2024-11-05.
//!
//! A server with a listener of its own:
//!
//! ```no_run
//! use mcp_tokio::{http::Listener, mcp_service::Service};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let service = Service::builder("my-server", "1.0.0").build()?;
//!     // At http://127.0.0.1:8000/mcp, for whoever comes from this machine.
//!     Listener::bind("127.0.0.1:8000").await?.serve(&service).await?;
//!     Ok(())
//! }
//! ```
//!
//! Or an [`Endpoint`] in an application of axum, or whatever else takes a service of tower: see
//! `adapters/tokio/examples/axum-tokio.rs`. A client is [`Client::connect_http`](crate::Client::connect_http), or a
//! [`Connector`] where there is more to choose.
//!
//! # Who may come
//!
//! A [`Policy`] says under which names a server is reached and which web pages may talk to it, and there is no default for
//! an [`Endpoint`]. That of a [`Listener`] is [`Policy::loopback`], whatever it listens on: to be reached from elsewhere
//! takes [`Listener::endpoint`] with the names that it has there. There is no encryption here: that is for a proxy in front,
//! which passes on `Host`, does not collect what is streamed, and lets streams be quiet for longer than
//! [`keepalive`](Limits::keepalive).
//!
//! Who sends a request is for whoever routes it to find out (a layer of tower): it puts a
//! [`Caller`](mcp_proto::http::server::Caller) into the extensions of the request. Handlers find it in their context,
//! and a session belongs to whoever has begun it.
//!
//! # What is bounded
//!
//! Connections ([`Listener::connections`]), sessions and all that they hold ([`Limits`]), the heads of requests, their bodies
//! ([`frame_bytes`](mcp_proto::connection::Limits::frame_bytes)) and how long they may take to come in. A client that
//! reads nothing costs no more than its session may hold.

mod connector;
mod endpoint;
mod listener;

pub use connector::Connector;
pub use endpoint::Endpoint;
pub use listener::{Listener, serve_http};
pub use mcp_proto::http::{
    Limits, Policy,
    client::Options as Address,
    server::{Options, Paths},
};
pub use mcp_service::drive::http::{Body, Credentials, Requests, Response};
