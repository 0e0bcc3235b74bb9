//! The interface of the system beyond the standard library, without `unsafe` in this workspace: child processes and
//! their descendants, sockets and waits that can be cancelled, the standard streams of this process, and threads.
//!
//! The interface is the same on Unix and on Windows. Only this room, and the room `os` of an adapter, knows the
//! difference: `docs/platforms.md` lists what users can see of it.

#[cfg(feature = "os")]
pub(crate) mod blocking_fd;
pub(crate) mod command;
#[cfg(feature = "os")]
pub mod interrupt;
#[cfg(feature = "os")]
pub mod net;
#[cfg(feature = "os")]
pub mod process;
#[cfg(any(windows, test))]
mod program_search;
#[cfg(feature = "os")]
pub mod stdio;
pub mod thread;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(all(unix, any(feature = "os", feature = "signals")))]
use unix as system;
#[cfg(all(windows, any(feature = "os", feature = "signals")))]
use windows as system;

#[cfg(feature = "signals")]
pub(crate) use system::signals;
#[cfg(feature = "os")]
pub use system::{descriptor, wake};
