//! The differences between Unix and Windows: the pipes of child processes, the standard streams, how sockets are read
//! and written without a wait.

#[cfg(feature = "http")]
pub(crate) mod socket;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

use crate::transport::Transport;

#[cfg(unix)]
use unix::stdio;
#[cfg(unix)]
pub(crate) use unix::{ChildReader, child_reader, child_writer, release_handle};
#[cfg(windows)]
use windows::stdio;
#[cfg(windows)]
pub(crate) use windows::{ChildReader, child_reader, child_writer, release_handle};

impl Transport {
    /// Creates a transport over this process's standard input and output, and replaces them for other code: descriptor
    /// 0 becomes `/dev/null` and descriptor 1 a copy of standard error. So handlers that print with `println!`, and
    /// programs that they start, do not disturb the connection.
    ///
    /// On Windows they cannot be replaced: handlers must not print with `println!`, and programs that they start must
    /// get an input and an output of their own.
    ///
    /// # Errors
    /// If they were taken before, or the system has no free descriptors.
    pub fn stdio() -> io::Result<Self> {
        let (input, output) = stdio(true)?;
        Ok(Self::new(input, output))
    }

    /// Creates a transport over this process's standard input and output without protecting them. Nothing else may read
    /// from standard input or write to standard output while the connection lasts, and standard output stays open after
    /// it.
    ///
    /// # Errors
    /// If the system has no free descriptors.
    pub fn stdio_shared() -> io::Result<Self> {
        let (input, output) = stdio(false)?;
        Ok(Self::new(input, output))
    }
}
