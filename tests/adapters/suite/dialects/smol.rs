//! smol: tasks run on threads of the adapter, and the test blocks on futures.

use std::{
    future::Future,
    io,
    net::TcpStream,
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, Sender},
};

use mcp_service::Deferred;
use mcp_smol::Transport;
use smol::Async;

use super::post::Post;

pub(crate) fn enter() {}

pub(crate) fn done<T>(future: impl Future<Output = T>) -> T {
    smol::block_on(future)
}

pub(crate) fn wait<T>(deferred: Deferred<T>) -> T {
    deferred.wait()
}

/// smol does not count its tasks. The tests count handlers instead.
pub(crate) const fn tasks() -> usize {
    0
}

pub(crate) fn tcp(stream: TcpStream) -> Transport {
    Transport::tcp(Async::new(stream).expect("a socket")).expect("a socket")
}

pub(crate) fn unix(stream: UnixStream) -> Transport {
    Transport::unix(Async::new(stream).expect("a socket"))
}

pub(crate) fn from_io(reader: io::PipeReader, writer: io::PipeWriter) -> Transport {
    Transport::from_io(Async::new(reader).expect("a pipe"), Async::new(writer).expect("a pipe"))
}

pub(crate) fn messages(incoming: Receiver<Vec<u8>>, outgoing: Sender<Vec<u8>>) -> Transport {
    Transport::messages(Post::new(incoming, outgoing))
}
