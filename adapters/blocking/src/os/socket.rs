//! Reads and writes of a socket that blocks, without a wait.

use std::{
    io::{self, ErrorKind, IoSlice},
    net::TcpStream,
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};

/// Whether a connection without a request is waited for in a read, which the shutdown of its socket ends. On Windows
/// that may not end it, so the wait is always one for the socket and for other threads.
pub(crate) const READS_BLOCK: bool = cfg!(unix);

/// Reads, and waits for the timeout of the socket.
pub(crate) fn read(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    done(recv(socket, buffer, RecvFlags::empty()).map(|read| read.0))
}

/// Reads from a socket that was reported as ready.
pub(crate) fn read_now(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    #[cfg(unix)]
    let flags = RecvFlags::DONTWAIT;
    // There is no such flag, and the socket is ready.
    #[cfg(windows)]
    let flags = RecvFlags::empty();
    done(recv(socket, buffer, flags).map(|read| read.0))
}

/// Writes as much as is possible without a wait.
#[cfg(unix)]
pub(crate) fn write_now(socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

    loop {
        match sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), SendFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            sent => return done(sent),
        }
    }
}

/// Writes a part without a wait.
#[cfg(windows)]
pub(crate) fn write_now(socket: &TcpStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let first = parts.iter().find(|part| !part.is_empty());
    first.map_or(Ok(0), |first| mcp_driver::os::descriptor::Writer::new(true).try_write(socket, first))
}

fn done(result: Result<usize, Errno>) -> io::Result<usize> {
    match result {
        Err(Errno::AGAIN | Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
        done => Ok(done?),
    }
}
