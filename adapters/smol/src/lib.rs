//! The Model Context Protocol on smol: clients and servers over standard input and output, child processes, TCP, Unix
//! sockets, HTTP, and anything else that can be read from and written to.
//!
//! The [guide](https://github.com/mcp-proto/mcp-proto/blob/main/docs/guide/src/introduction.md) has a tutorial, how-to
//! pages, and a section with code for each feature of the protocol.
//!
//! A server of one tool, over standard input and output:
//!
//! ```no_run
//! # #[cfg(feature = "schemas")] {
//! use mcp_smol::mcp_service::{Service, Tool};
//!
//! /// Returns the message
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Echo {
//!     /// The message to return.
//!     message: String,
//! }
//!
//! let service = Service::builder("echo", "1.0.0")
//!     .tool(Tool::new_async("echo", async |echo: Echo| echo.message))
//!     .build()?;
//! smol::block_on(mcp_smol::serve_stdio(&service))?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client that starts it and calls the tool:
//!
//! ```no_run
//! # async fn client() -> Result<(), mcp_smol::Error> {
//! use mcp_smol::{Client, Command, mcp_service::Host};
//!
//! let host = Host::builder("my-client", "1.0.0").build();
//! let client = Client::spawn(Command::new("target/debug/echo"), &host).await?;
//! let result = client.call_tool("echo", serde_json::json!({"message": "hello"}))?.await?;
//! assert_eq!(result.content[0].as_text(), Some("hello"));
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Services and hosts are written with [`mcp_service`], and are the same on every adapter. [`mcp_proto`] implements the
//! protocol. This crate does the I/O and runs the handlers:
//!
//! | over | as a client | as a server |
//! | --- | --- | --- |
//! | standard input and output | [`Client::spawn`] a [`Command`] | [`serve_stdio`] |
//! | TCP | [`Client::connect_tcp`] | [`serve_tcp`], [`Listener::tcp`] |
//! | Unix domain sockets | [`Client::connect_unix`] | [`serve_unix`], [`Listener::unix`] |
//! | HTTP (feature `http`) | `Client::connect_http`, `http::Connector` | `http::serve_http`, `http::Listener`, `http::Endpoint` |
//! | any [`Transport`]: a reader and a writer, memory, whole messages, your own | [`Client::connect`] | [`serve`], [`Server::start`] |
//!
//! A [`Supervisor`] starts a server again when it has ended.
//!
//! # What can be relied on
//!
//! - **Handlers never block the connection.** Responses, progress, cancellations and pings are processed while all
//!   handlers are busy or wait for the peer. Handlers run in bounded numbers ([`DriverOptions::handlers`],
//!   [`DriverOptions::async_handlers`]), notifications one after the other and before the requests that arrived after
//!   them.
//! - **A peer that does not read blocks nothing.** Calls time out, are cancelled and dropped without it, and its
//!   buffers are bounded by [`Limits`](mcp_proto::connection::Limits).
//! - **Dropping a future loses nothing.** The connection owns its buffers, and its task reads and writes. Dropping the
//!   future of a call, of [`Client::close`] or of [`serve`] loses no data of other requests.
//! - **Shutdown is bounded.** [`Client::close`], [`Server::close`] and `drop` may be called anywhere, also in handlers.
//!   They take a bounded time: for pending responses ([`Limits::drain`]), for the peer, for a child.
//! - **No leaks.** Tasks, descriptors and all processes of a child's group are cleaned up. A handler that is a future
//!   is dropped if it is still pending a second after the end. A handler that is a function cannot be dropped, and
//!   delays nothing.
//! - **Errors carry the cause.** The error of a lost connection contains the error of the system, how the process
//!   ended, and the last lines that it wrote to standard error.
//!
//! [`Limits::drain`]: mcp_proto::connection::Limits::drain
//!
//! # Tasks
//!
//! A connection is one task. It reads, writes, fires timers and, on a server, polls each asynchronous handler once. A
//! handler that is ready then needs no other task, and its response is written together with those of other handlers.
//! Pending handlers, and all handlers of clients, become separate tasks. Handlers that are functions run on the threads
//! of [`blocking`](https://docs.rs/blocking). Other tasks run on threads of this crate, one for each processor, which
//! start with the first task. A server over the standard streams of this process has a thread of its own on Unix, which
//! waits for its pipes. So connections work on every executor, whether it runs or not. Requests that a client sent
//! before its server calls [`serve`] are processed by that call, before any thread starts.
//!
//! The tasks of a client, except for its handlers, also run in the tasks of the application that wait for responses of
//! its server. So a provider of credentials, an HTTP client, a reader or a writer of the application must not need a
//! lock that is held during such a wait. Calls are fastest in one `block_on` of smol, whose thread then waits for the
//! response and reads it. A request that no task waits for yet usually takes up to 4 ms longer to leave, and so does
//! what the server sends while the thread of a task that waits computes. Both can take 20 ms if no other thread is in
//! `block_on`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod client_tasks;
mod driver;
mod executor;
#[cfg(feature = "http")]
pub mod http;
mod io;
mod listener;
mod os;
mod server;
mod stream_runtime;
mod supervisor;
mod transport;

pub use client::Client;
#[cfg(unix)]
pub use listener::serve_unix;
pub use listener::{Listener, serve_tcp};
// The same in every adapter.
#[cfg(feature = "signals")]
pub use mcp_driver::signals::shutdown_on_signals;
pub use mcp_driver::{
    ByteReader, ByteWriter, Command, Disconnected, DriverOptions, Error, Exit, MessageTransport, RestartPolicy,
    StopHandle,
};
#[doc(inline)]
pub use mcp_driver::{Handle, Server, serve, serve_with};
pub use server::serve_stdio;
pub use supervisor::{ConfiguredServer, Supervisor};
pub use transport::Transport;

// The crates whose types are in the API of this crate, so that one dependency is enough.
pub use mcp_driver;
pub use mcp_proto;
pub use mcp_service;
