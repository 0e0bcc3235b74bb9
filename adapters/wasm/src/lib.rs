//! The Model Context Protocol in WebAssembly.
//!
//! - On the event loop of JavaScript (`wasm32-unknown-unknown`): clients on `fetch` in pages and workers, and servers
//!   as `fetch` handlers.
//! - In WASI (`wasm32-wasip1`): servers over standard input and output. They are in the module `wasi`.
//!
//! A client in a page, or in a worker that calls other servers:
//!
//! ```no_run
//! # async fn client() -> Result<(), mcp_wasm::Error> {
//! use mcp_wasm::mcp_service::Host;
//!
//! let host = Host::builder("my-page", "1.0.0").build();
//! let client = mcp_wasm::connect("https://example.com/mcp", &host).await?;
//! let result = client.call_tool("greet", serde_json::json!({"name": "Ada"}))?.await?;
//! assert_eq!(result.content[0].as_text(), Some("Hello, Ada!"));
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A server is an [`Endpoint`], which turns each `Request` into a `Response`. The README of this crate has a worker.
//!
//! Services and hosts are written with [`mcp_service`], and are the same on every adapter. [`mcp_proto`] implements the
//! protocol. This crate does the I/O with the functions of the host: `fetch`, `setTimeout`, promises and streams. It
//! has no exports of its own; applications write these with `wasm-bindgen`.
//!
//! # Clients
//!
//! [`connect`] and [`Connector`] begin a connection: Streamable HTTP in both eras, or the transport of 2024-11-05. Lost
//! streams are resumed, and cancelled calls end their requests. Differences from other adapters:
//!
//! - **Other origins.** A browser asks the server whether a page may send its requests (CORS). Servers of this project
//!   answer by their [`Policy`]; others have to allow the headers of MCP and expose `Mcp-Session-Id`.
//! - **Redirects** are errors in browsers: see [`Fetch`].
//! - **Cookies** are sent as the host does by default, or as [`Fetch::credentials`] says.
//! - **Errors of `fetch`** have the text of the host. That of browsers names no reason.
//!
//! Handlers of a client, such as those for elicitation, often wait for promises, whose futures are not `Send`. The
//! crate `send_wrapper` makes them so: handlers run on the thread that created them.
//!
//! # Servers
//!
//! Requests of 2026-07-28 have no session, so any instance of a worker can respond to them. Sessions of earlier
//! revisions, streams to resume, and tasks are in the memory of one instance: a platform that starts several has to
//! route the requests of a session to the same one. A platform that ends timers and promises with the request that
//! created them, as Cloudflare Workers do, supports neither sessions nor tasks. There, set the
//! [revisions](mcp_service::ServiceBuilder::versions) of the service to 2026-07-28.
//!
//! # One thread
//!
//! - A handler that is a function blocks the page or worker while it runs. It must not wait: [`Pending::wait`] and
//!   [`Deferred::wait`] panic if the result is not there yet. Handlers that wait are futures.
//! - A panic is not caught, as on other systems, because the target does not unwind: the request whose handler panics
//!   gets no response, and what it holds is not released. Other requests go on.
//! - Deadlines are those of `setTimeout`. Browsers delay it in pages that are not visible, by up to a minute.
//! - Random numbers are those of `crypto.getRandomValues`, the time is that of `performance.now`.
//! - All values belong to the thread that created them. In another worker they panic.
//!
//! On other systems this crate compiles, and [`connect`] and [`Endpoint::new`] return an error of the kind
//! [`Unsupported`](std::io::ErrorKind::Unsupported).
//!
//! [`Pending::wait`]: mcp_service::Pending::wait
//! [`Deferred::wait`]: mcp_service::Deferred::wait

// WASI has no JavaScript. Every other system compiles the code for it, and none but `wasm32-unknown-unknown` runs it.
#[cfg(not(target_os = "wasi"))]
mod abort;
#[cfg(not(target_os = "wasi"))]
mod body;
#[cfg(not(target_os = "wasi"))]
mod connector;
#[cfg(not(target_os = "wasi"))]
mod endpoint;
#[cfg(not(target_os = "wasi"))]
mod fetch;
#[cfg(not(target_os = "wasi"))]
mod headers;
#[cfg(not(target_os = "wasi"))]
mod js;
#[cfg(not(target_os = "wasi"))]
mod response;
#[cfg(not(target_os = "wasi"))]
mod runtime;
#[cfg(not(target_os = "wasi"))]
mod task;
#[cfg(not(target_os = "wasi"))]
mod timer;
#[cfg(any(unix, target_os = "wasi"))]
pub mod wasi;

#[cfg(not(target_os = "wasi"))]
pub use connector::{Client, Connector, connect};
#[cfg(not(target_os = "wasi"))]
pub use endpoint::Endpoint;
#[cfg(not(target_os = "wasi"))]
pub use fetch::{CredentialsMode, Fetch};
#[cfg(not(target_os = "wasi"))]
pub use runtime::Wasm;

#[cfg(not(target_os = "wasi"))]
pub use mcp_driver::http::{AuthProvider, Bearer, HttpClient, Refusal, ResponseHandler};
pub use mcp_driver::{
    ByteReader, ByteWriter, Disconnected, DriverOptions, Error, Handle, MessageTransport, Server, serve, serve_with,
};
/// The time of day of the host, for [`Endpoint::timestamp`].
pub use mcp_service::driver_api::SystemTime;

#[cfg(not(target_os = "wasi"))]
pub use mcp_proto::http::{
    Caller, Limits, Policy, Principal,
    client::ClientOptions,
    server::{EndpointOptions, ExposedHeads, Paths, RequestHead},
};

// The crates whose types are in the API of this crate, so that one dependency is enough.
#[cfg(not(target_os = "wasi"))]
pub use js_sys;
pub use mcp_driver;
pub use mcp_proto;
pub use mcp_service;
#[cfg(not(target_os = "wasi"))]
pub use web_sys;
