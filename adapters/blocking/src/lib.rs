//! The Model Context Protocol for programs with threads.
#![cfg(unix)]

mod child;
mod command;
mod crew;
mod driver;
mod fd;
mod handle;
mod io;
mod lock;
mod memory;
mod options;
mod socket;
mod stderr;
mod stdio;
mod tcp;
mod threads;
mod transport;
mod unix;

pub use child::Exit;
pub use command::Command;
pub use handle::Handle;
pub use options::Options;
pub use transport::{Sink, Source, Stopper, Transport};
