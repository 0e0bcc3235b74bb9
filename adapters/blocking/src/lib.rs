//! The Model Context Protocol for programs with threads.
#![cfg(unix)]

mod child;
mod client;
mod command;
mod crew;
mod driver;
mod error;
mod fd;
mod handle;
mod io;
mod listener;
mod lock;
mod memory;
mod options;
mod server;
#[cfg(feature = "signals")]
mod signals;
mod socket;
mod stderr;
mod stdio;
mod tcp;
mod threads;
mod transport;
mod unix;

pub use child::Exit;
pub use client::Client;
pub use command::Command;
pub use error::{Ending, Error};
pub use handle::Handle;
pub use listener::{Listener, serve_tcp, serve_unix};
pub use options::Options;
pub use server::{Server, serve, serve_stdio, serve_with};
#[cfg(feature = "signals")]
pub use signals::shutdown_on_signals;
pub use transport::{Sink, Source, Stopper, Transport};
