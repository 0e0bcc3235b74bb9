//! The same as in `unix`, with what Windows has.

pub(crate) mod child;
mod named_pipe;

use std::io;

use mcp_driver::{
    ByteReader, ByteWriter, ThreadReader, ThreadWriter,
    os::{
        process::{ReadPipe, WritePipe},
        stdio::open_stdio,
    },
};

pub(crate) use self::named_pipe::{LocalListener, LocalStream, connect_local, listen_local, poll_accept_local};

/// Pipes of child processes cannot be polled, so each has a thread.
pub(crate) fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
    ThreadReader::new(pipe)
}

pub(crate) fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
    ThreadWriter::new(pipe)
}

/// Returns the standard input and output of this process, with `take` only once.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((ThreadReader::new(input)?, ThreadWriter::new(output)?))
}

/// Returns whether the peer has closed the connection. The socket of the runtime does not block.
#[cfg(feature = "http")]
pub(crate) fn is_closed_by_peer(stream: &tokio::net::TcpStream) -> io::Result<bool> {
    use rustix::{
        io::Errno,
        net::{RecvFlags, recv},
    };

    match recv(stream, &mut [0; 1], RecvFlags::PEEK) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        read => Ok(read?.0 == 0),
    }
}
