//! Reads and writes of sockets that do not wait. Sockets are the only handles that can be polled.

use std::io::{self, ErrorKind};

use rustix::{
    event::PollFlags,
    fd::AsFd,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use crate::os::interrupt::is_ready;

/// The most bytes of a write to a socket that is ready: a small part of its buffer, so that the write does not wait.
const SMALL: usize = 4096;

/// Reads from a socket without waiting.
#[derive(Debug)]
pub struct Reader;

impl Reader {
    /// Creates a reader.
    #[must_use]
    pub const fn new(_watched: bool) -> Self {
        Self
    }

    /// Reads available bytes.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if no bytes are available; otherwise the error of the system.
    pub fn try_read(&mut self, socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
        if is_ready(socket.as_fd(), PollFlags::IN)? { read(socket, buffer) } else { Err(ErrorKind::WouldBlock.into()) }
    }
}

/// Writes to a socket without waiting.
#[derive(Debug)]
pub struct Writer;

impl Writer {
    /// Creates a writer.
    #[must_use]
    pub const fn new(_watched: bool) -> Self {
        Self
    }

    /// Writes some bytes: as many as a socket takes that is not blocking, and a few of one that is.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if none can be written; otherwise the error of the system.
    pub fn try_write(&mut self, socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
        if !is_ready(socket.as_fd(), PollFlags::OUT)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        match send(socket, &bytes[..bytes.len().min(SMALL)], SendFlags::empty()) {
            Err(Errno::INTR | Errno::WOULDBLOCK) => Err(ErrorKind::WouldBlock.into()),
            written => Ok(written?),
        }
    }
}

/// Reads from a socket that was reported as ready.
pub(crate) fn read(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    match recv(socket, buffer, RecvFlags::empty()) {
        Err(Errno::INTR | Errno::WOULDBLOCK) => Err(ErrorKind::WouldBlock.into()),
        read => Ok(read?.0),
    }
}
