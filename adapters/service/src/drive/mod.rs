//! What every driver needs and no runtime decides: how a connection is run, which job comes next, what is known of a child
//! process and how it is brought to its end, when it is started again.
//!
//! Applications get these types from the adapter that they use. The rest is for whoever writes an adapter: an adapter has
//! the I/O, and nothing of what is here.

mod command;
mod duty;
mod error;
mod io;
mod jobs;
pub mod memory;
mod options;
#[cfg(all(unix, feature = "os"))]
pub mod os;
mod output;
mod process;
mod restart;
#[cfg(all(unix, feature = "signals"))]
pub mod signals;
mod supervisor;
pub mod threads;
mod watch;

pub use command::Command;
pub use duty::Duty;
pub use error::{Ending, Error};
pub use io::{Messages, Sink, Source};
pub use jobs::{Jobs, Slot, weight};
pub use options::Options;
pub use output::Output;
pub use process::{Exit, LAST_WORDS, Ladder, Process, Rung, Stderr};
pub use restart::{Restart, Restarts};
pub use supervisor::Supervisor;
pub use watch::Watch;
