//! What every driver needs and no runtime decides: how a connection is run, which job comes next, what is known of a child
//! process and how it is brought to its end, when it is started again.
//!
//! Applications get these types from the adapter that they use. The rest is for whoever writes an adapter: an adapter has
//! the I/O, and nothing of what is here.

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
pub mod threads;
mod watch;
mod wire;

pub use crate::driver_api::{Duty, Holder, Jobs, Slot, on_wait, weight};
pub use crate::queue::Queue;
#[cfg(all(unix, feature = "os"))]
pub use child::Child;
#[cfg(all(unix, feature = "os"))]
pub use client::{Client, connect_knowing};
pub use command::Command;

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
