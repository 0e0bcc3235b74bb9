//! The Model Context Protocol for programs with threads: clients and servers over standard input and output, child
//! processes, TCP, Unix sockets, HTTP, and anything else that can be read from and written to.
//!
//! The [guide](https://github.com/mcp-proto/mcp-proto/blob/main/docs/guide/src/introduction.md) has a tutorial, how-to
//! pages, and a section with code for each feature of the protocol.
//!
//! A server of one tool, over standard input and output:
//!
//! ```no_run
//! # #[cfg(feature = "schemas")] {
//! use mcp_blocking::mcp_service::{Service, Tool};
//!
//! /// Returns the message
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Echo {
//!     /// The message to return.
//!     message: String,
//! }
//!
//! let service = Service::builder("echo", "1.0.0")
//!     .tool(Tool::new("echo", |echo: Echo| echo.message))
//!     .build()?;
//! mcp_blocking::serve_stdio(&service)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client that starts it and calls the tool:
//!
//! ```no_run
//! use mcp_blocking::{Client, Command, mcp_service::Host};
//!
//! let host = Host::builder("my-client", "1.0.0").build();
//! let client = Client::spawn(Command::new("target/debug/echo"), &host)?;
//! let result = client.call_tool("echo", serde_json::json!({"message": "hello"}))?.wait()?;
//! assert_eq!(result.content[0].as_text(), Some("hello"));
//! client.close();
//! # Ok::<(), mcp_blocking::Error>(())
//! ```
//!
//! Services and hosts are written with [`mcp_service`], and are the same on every adapter. [`mcp_proto`] implements the
//! protocol. This crate moves the bytes and runs the handlers:
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
//!   handlers are busy or wait for the peer. Handlers run on a bounded number of threads ([`DriverOptions::handlers`]),
//!   notifications one after the other and before the requests that arrived after them.
//! - **A peer that does not read blocks nothing.** Calls time out, are cancelled and dropped without it, and its
//!   buffers are bounded by [`Limits`](mcp_proto::connection::Limits).
//! - **Shutdown is bounded.** [`Client::close`], [`Server::close`] and `drop` may be called from any thread, also from
//!   handlers. They take a bounded time: for pending responses ([`Limits::drain`]), for the peer, for a child.
//! - **No leaks.** Threads, descriptors and all processes of a child's group are cleaned up. If the transport cannot be
//!   interrupted (a plain [`Read`](std::io::Read)), the thread that waits in it stays, and delays nothing.
//! - **Errors carry the cause.** The error of a lost connection contains the error of the system, how the process
//!   ended, and the last lines that it wrote to standard error.
//!
//! [`Limits::drain`]: mcp_proto::connection::Limits::drain
//!
//! # Threads
//!
//! A connection has at most four threads as long as its handlers are quick. One reads messages and runs their jobs.
//! From the first handler on, a second one takes over when that waits or takes more than a millisecond. The third
//! writes what cannot be written at once. The fourth keeps deadlines and ends the connection, and responds to requests
//! that were made before the other threads started. A message is written by the thread that causes it, if that needs no
//! waiting, so a quick request costs no change of threads.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod child;
mod client;
mod configured;
mod fd;
mod handle;
#[cfg(feature = "http")]
pub mod http;
mod listener;
mod os;
mod server;
mod supervisor;
mod thread_driver;
mod transport;

pub use client::Client;
pub use configured::ConfiguredServer;
pub use handle::Handle;
#[cfg(unix)]
pub use listener::serve_unix;
pub use listener::{Listener, serve_tcp};
// The same in every adapter.
#[cfg(feature = "signals")]
pub use mcp_driver::signals::shutdown_on_signals;
pub use mcp_driver::{Command, Disconnected, DriverOptions, Error, Exit, RestartPolicy, StopHandle, WaitingThread};
pub use server::{Server, serve, serve_stdio, serve_with};
pub use supervisor::Supervisor;
pub use transport::{ByteReader, ByteWriter, MessageSink, MessageSource, Transport};

// The crates whose types are in the API of this crate, so that one dependency is enough.
pub use mcp_driver;
pub use mcp_proto;
pub use mcp_service;
