//! The differences between Unix and Windows: the pipes and the exit of child processes, the standard streams, sockets
//! of this machine.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(all(unix, feature = "http"))]
pub(crate) use unix::is_closed_by_peer;
#[cfg(unix)]
pub(crate) use unix::{
    LocalListener, LocalStream, child, connect_local, listen_local, pipe_reader, pipe_writer, poll_accept_local, stdio,
};
#[cfg(all(windows, feature = "http"))]
pub(crate) use windows::is_closed_by_peer;
#[cfg(windows)]
pub(crate) use windows::{
    LocalListener, LocalStream, child, connect_local, listen_local, pipe_reader, pipe_writer, poll_accept_local, stdio,
};
