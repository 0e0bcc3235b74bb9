//! What differs between Unix and Windows: the pipes of child processes, the standard streams, how sockets are read and
//! written without a wait.

#[cfg(feature = "http")]
pub(crate) mod socket;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{ChildReader, child_reader, child_writer, release_handle, stdio};
#[cfg(windows)]
pub(crate) use windows::{ChildReader, child_reader, child_writer, release_handle, stdio};
