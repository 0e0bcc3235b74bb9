//! tokio: a runtime with one worker, so that a blocked thread would block all tasks.

use std::{
    future::Future,
    io,
    net::TcpStream,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        LazyLock,
        mpsc::{Receiver, Sender},
    },
};

use mcp_service::Deferred;
use mcp_tokio::Transport;
use tokio::{
    net::unix::pipe,
    runtime::{Builder, EnterGuard, Runtime},
};

use super::post::Post;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"));

pub(crate) fn enter() -> EnterGuard<'static> {
    RUNTIME.enter()
}

pub(crate) fn done<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

pub(crate) fn wait<T>(deferred: Deferred<T>) -> T {
    deferred.wait()
}

pub(crate) fn tasks() -> usize {
    RUNTIME.metrics().num_alive_tasks()
}

pub(crate) fn tcp(stream: TcpStream) -> Transport {
    stream.set_nonblocking(true).expect("a socket");
    Transport::tcp(tokio::net::TcpStream::from_std(stream).expect("a socket")).expect("a socket")
}

pub(crate) fn unix(stream: UnixStream) -> Transport {
    stream.set_nonblocking(true).expect("a socket");
    Transport::unix(tokio::net::UnixStream::from_std(stream).expect("a socket"))
}

pub(crate) fn from_io(reader: io::PipeReader, writer: io::PipeWriter) -> Transport {
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).expect("a pipe");
    Transport::from_io(reader, pipe::Sender::from_owned_fd(OwnedFd::from(writer)).expect("a pipe"))
}

pub(crate) fn messages(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Transport {
    Transport::messages(Post::new(incoming, outgoing))
}
