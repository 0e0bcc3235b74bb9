//! The same as in `unix`, with what Windows has.

use std::{
    convert::Infallible,
    future::Future,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll},
};

use async_task::Task;
use mcp_driver::{
    ByteReader, ByteWriter, ThreadReader, ThreadWriter,
    os::{
        process::{ReadPipe, WritePipe},
        stdio::open_stdio,
        thread,
    },
};

use crate::executor;

/// There are no named pipes: the reactor of smol waits for sockets.
pub(crate) type LocalListener = Infallible;

/// A connection over one.
pub(crate) type LocalStream = Infallible;

/// Waits for the exit of a process on a thread.
pub(crate) fn wait_for_child(
    mut started: Child,
    exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
) -> io::Result<Option<Task<()>>> {
    thread::spawn("mcp-child", move || exited(started.wait().ok()))?;
    Ok(None)
}

/// Pipes of child processes cannot be polled, so each has a thread.
pub(crate) fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
    ThreadReader::new(pipe)
}

pub(crate) fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
    ThreadWriter::new(pipe)
}

/// Runs a connection over pipes as other tasks: their threads wake it.
pub(crate) fn run_over_pipes(connection: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    executor::spawn_without_reactor(connection).detach();
    Ok(())
}

/// Returns the standard input and output of this process, with `take` only once.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((ThreadReader::new(input)?, ThreadWriter::new(output)?))
}

fn unsupported() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "smol has no named pipes: use mcp-tokio, or a transport over TCP or HTTP")
}

pub(crate) async fn connect_local(_name: PathBuf) -> io::Result<LocalStream> {
    Err(unsupported())
}

pub(crate) fn listen_local(_name: &Path) -> io::Result<LocalListener> {
    Err(unsupported())
}

pub(crate) fn poll_accept_local(listener: &LocalListener, _: &mut Context<'_>) -> Poll<io::Result<LocalStream>> {
    match *listener {}
}
