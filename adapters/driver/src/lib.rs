//! Runs connections of the Model Context Protocol independent of any runtime: the event loop, streams, child processes,
//! restarts, HTTP.
//!
//! Applications use the adapter of their runtime, which re-exports the types that they need: `mcp-tokio`, `mcp-smol`,
//! or `mcp-blocking` for threads. An adapter implements [`Runtime`] and provides the I/O; one with child processes
//! and sockets implements `StreamRuntime`. This crate has no tasks, timers or sockets of its own.
//!
//! # Features
//!
//! - `os`: child processes, and listeners of sockets.
//! - `http`: services and hosts over HTTP, with an HTTP client that the adapter provides.
//! - `endpoint`: services as functions from requests to responses.
//! - `hyper`: HTTP/1.1 for servers.
//! - `net`: listeners and clients of HTTP over the sockets of a runtime.
//! - `tls`: encryption for them.
//! - `auth`: OAuth 2.1. Servers: access tokens, challenges, the metadata document. Clients: credentials, stores for
//!   them, redirects.
//! - `jwt`: servers whose access tokens are JSON Web Tokens.
//! - `signing`: clients that authenticate with keys of their own.
//! - `tower`: endpoints as services of tower.
//! - `signals`: ends the children of this process when it receives a signal.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(any(feature = "os", feature = "signals"), not(any(unix, windows))))]
compile_error!("the features `os` and `signals` of mcp-driver are for Unix and Windows: see docs/platforms.md");

#[cfg(any(feature = "http", feature = "os"))]
mod client;
#[cfg(feature = "os")]
mod configured;
#[cfg(any(feature = "http", feature = "os"))]
mod driven_connection;
mod error;
mod event_loop;
mod handle;
#[cfg(feature = "http")]
pub mod http;
mod limits;
#[cfg(feature = "os")]
mod listener;
mod options;
pub mod os;
mod process;
mod restarter;
mod runtime;
mod server;
mod stop;
mod stream;
#[cfg(feature = "os")]
mod supervisor;
mod sync;
pub mod tuning;
mod watched;

#[cfg(any(feature = "http", feature = "os"))]
pub use client::{Client, connect_with_hint};
#[cfg(all(feature = "os", feature = "http"))]
pub use configured::http_options;
#[cfg(feature = "os")]
pub use configured::{ConfiguredServer, ServerSource};
#[cfg(any(feature = "http", feature = "os"))]
pub use driven_connection::DrivenConnection;
pub use error::{Disconnected, Error};
pub use handle::{Handle, first_poll_waker};
pub use limits::quota::{Permit, Quota};
#[cfg(feature = "os")]
pub use listener::Listener;
#[cfg(all(unix, feature = "os"))]
pub use listener::SocketFile;
pub use mcp_service::driver_api::{
    HandlerScope, Holder, Interrupt, JobQueue, JobSlot, WaitQueue, WaitingThread, is_in_handler, job_cost, on_block,
};
pub use options::DriverOptions;
#[cfg(feature = "os")]
pub use os::blocking_fd::{FdReader, FdWriter};
pub use process::command::Command;
pub use process::restart::{RestartPolicy, RestartState};
#[cfg(feature = "signals")]
pub use process::signals;
#[cfg(any(feature = "os", feature = "signals"))]
pub use process::start::Start;
pub use process::state::{ChildState, Exit, ShutdownSequence, ShutdownStep, Stderr};
pub use restarter::Restarter;
#[cfg(feature = "http")]
pub use runtime::run_in_task;
pub use runtime::{CallerTasks, Runtime, Timer, TransportKind};
pub use server::{Server, serve, serve_with};
pub use stop::StopHandle;
pub use stream::io::{ByteReader, ByteWriter, MessageTransport};
pub use stream::line_reader::{LineReader, Sniffer};
pub use stream::memory;
#[cfg(feature = "os")]
pub use stream::stream_runtime::{Resolve, StreamRuntime};
#[cfg(all(windows, feature = "os"))]
pub use stream::thread_io::{ThreadReader, ThreadWriter};
pub use stream::transport::{IntoTransport, Transport};
pub use stream::write_buffer::WriteBuffer;
#[cfg(feature = "os")]
pub use supervisor::Supervisor;
pub use watched::Watched;
