//! The same as in `windows`, with what Unix has.

mod child;
mod connection_thread;
mod descriptor;

use std::{
    future::Future,
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll, ready},
};

use async_io::Async;
use async_task::Task;
use mcp_driver::{
    ByteReader, ByteWriter,
    os::{
        net::is_transient,
        process::{ReadPipe, WritePipe},
        stdio::open_stdio,
    },
};

use self::descriptor::{Input, Output};
use crate::executor;

/// A Unix domain socket that clients connect to.
pub(crate) type LocalListener = Async<UnixListener>;

/// A connection over it.
pub(crate) type LocalStream = Async<UnixStream>;

pub(crate) fn wait_for_child(
    started: Child,
    exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
) -> io::Result<Option<Task<()>>> {
    Ok(Some(executor::spawn_without_reactor(async move { exited(child::wait(started).await.ok()) })))
}

pub(crate) fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
    Input::new(pipe)
}

pub(crate) fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
    Output::new(pipe)
}

/// Runs a connection over pipes to its end.
pub(crate) fn run_over_pipes(connection: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    connection_thread::spawn(connection)
}

/// Returns the standard input and output of this process, and with `take` replaces them for other code.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((Input::new(input)?, Output::new(output)?))
}

pub(crate) async fn connect_local(path: PathBuf) -> io::Result<LocalStream> {
    Async::<UnixStream>::connect(path).await
}

pub(crate) fn listen_local(path: &Path) -> io::Result<LocalListener> {
    Async::<UnixListener>::bind(path)
}

pub(crate) fn poll_accept_local(listener: &LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<LocalStream>> {
    loop {
        match listener.get_ref().accept() {
            Err(error) if is_transient(&error) => ready!(listener.poll_readable(cx))?,
            accepted => {
                // An accepted connection that is lost is no failure of the socket.
                if let Ok(stream) = Async::new(accepted?.0) {
                    return Poll::Ready(Ok(stream));
                }
            }
        }
    }
}
