//! The same as in `windows`, with what Unix has.

pub(crate) mod child;
mod descriptor;

use std::{
    io,
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use mcp_driver::{
    ByteReader, ByteWriter,
    os::{
        process::{ReadPipe, WritePipe},
        stdio::open_stdio,
    },
};
use tokio::{
    io::Interest,
    net::{
        UnixListener, UnixStream,
        unix::pipe::{Receiver, Sender},
    },
};

use self::descriptor::Descriptor;
use crate::io::Stream;

/// A Unix domain socket that clients connect to.
pub(crate) type LocalListener = UnixListener;

/// A connection over it.
pub(crate) type LocalStream = UnixStream;

pub(crate) fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
    Ok(Stream::new(Receiver::from_owned_fd(pipe)?))
}

pub(crate) fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
    Ok(Stream::new(Sender::from_owned_fd(pipe)?))
}

/// Returns the standard input and output of this process, and with `take` replaces them for other code.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((Descriptor::new(input, Interest::READABLE), Descriptor::new(output, Interest::WRITABLE)))
}

pub(crate) async fn connect_local(path: PathBuf) -> io::Result<LocalStream> {
    UnixStream::connect(path).await
}

pub(crate) fn listen_local(path: &Path) -> io::Result<LocalListener> {
    UnixListener::bind(path)
}

pub(crate) fn poll_accept_local(listener: &LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<LocalStream>> {
    listener.poll_accept(cx).map_ok(|(stream, _)| stream)
}

/// Returns whether the peer has closed the connection.
#[cfg(feature = "http")]
pub(crate) fn is_closed_by_peer(stream: &tokio::net::TcpStream) -> io::Result<bool> {
    use rustix::{
        io::Errno,
        net::{RecvFlags, recv},
    };

    match recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        read => Ok(read?.0 == 0),
    }
}
