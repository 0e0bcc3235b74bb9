//! Runs connections of the Model Context Protocol independent of any runtime: the event loop, streams, child processes,
//! restarts, HTTP.
//!
//! Applications use the adapter of their runtime, which re-exports the types that they need: `mcp-tokio`, `mcp-smol`, or
//! `mcp-blocking` for threads. An adapter implements [`Runtime`] and brings the I/O. This crate has no tasks, timers or sockets
//! of its own.
//!
//! # Features
//!
//! - `os`: child processes, descriptors and listeners of a Unix system.
//! - `http`: services and hosts over HTTP, with a client that the adapter brings.
//! - `hyper`: HTTP/1.1 for servers.
//! - `net`: listeners and clients of HTTP over the sockets of a runtime.
//! - `tls`: encryption for them.
//! - `tower`: endpoints as services of tower.
//! - `signals`: ends the children of this process when it receives a signal.

pub mod bounds;
mod carrier;
#[cfg(all(unix, feature = "os"))]
mod child;
#[cfg(all(unix, feature = "os"))]
mod client;
mod command;
mod conversation;
mod desk;
mod error;
#[cfg(all(unix, feature = "os"))]
mod fd;
mod functions;
mod handle;
#[cfg(feature = "http")]
pub mod http;
mod hub;
mod io;
mod lines;
#[cfg(all(unix, feature = "os"))]
mod listener;
pub mod memory;
mod options;
#[cfg(all(unix, feature = "os"))]
pub mod os;
mod output;
mod process;
mod quota;
mod restart;
mod runtime;
mod server;
#[cfg(all(unix, feature = "signals"))]
pub mod signals;
mod supervisor;
mod sync;
pub mod threads;
mod watch;
mod wire;

#[cfg(all(unix, feature = "os"))]
pub use child::Child;
#[cfg(all(unix, feature = "os"))]
pub use client::{Client, connect_knowing};
pub use command::Command;
pub use mcp_service::driver_api::{Duty, Holder, Jobs, Queue, Slot, on_wait, weight};

/// Calls something off. May be called more than once.
pub type Stopper = Box<dyn Fn() + Send>;
pub use error::{Ending, Error};
#[cfg(all(unix, feature = "os"))]
pub use fd::{FdReader, FdWriter};
pub use handle::{Handle, Medium, Transport};
pub use io::{Messages, Sink, Source};
pub use lines::{Lines, Sniffer};
#[cfg(all(unix, feature = "os"))]
pub use listener::{Listener, Socket, SocketFile};
pub use options::Options;
pub use output::Output;
pub use process::{Exit, Ladder, Process, Rung, Stderr};
pub use quota::{Permit, Quota};
pub use restart::{Restart, Restarts};
pub use runtime::{Runtime, Timer};
pub use server::{Server, serve, serve_with};
pub use supervisor::Supervisor;
pub use watch::Watch;
