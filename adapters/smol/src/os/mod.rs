//! The differences between Unix and Windows: the pipes and the exit of child processes, the standard streams, sockets
//! of this machine.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    LocalListener, LocalStream, connect_local, listen_local, pipe_reader, pipe_writer, poll_accept_local,
    run_over_pipes, stdio, wait_for_child,
};
#[cfg(windows)]
pub(crate) use windows::{
    LocalListener, LocalStream, connect_local, listen_local, pipe_reader, pipe_writer, poll_accept_local,
    run_over_pipes, stdio, wait_for_child,
};
