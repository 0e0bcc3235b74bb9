//! File descriptors as transports: reads that can be called off, writes that need not wait.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    sync::Arc,
};

use mcp_service::drive::os::{Latch, Writer, end_output};
use rustix::{event::PollFlags, io::Errno};

use crate::{Sink, Source, Stopper};

/// Reads from a file descriptor.
pub(crate) struct FdSource {
    fd: OwnedFd,
    pub(crate) latch: Arc<Latch>,
}

impl FdSource {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { fd, latch: Latch::new()? })
    }
}

impl Source for FdSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.latch.wait(&self.fd, PollFlags::IN)? {
            match rustix::io::read(&self.fd, &mut *buffer) {
                // Whoever shares the file may have made it non-blocking, and may have been faster.
                Err(Errno::INTR | Errno::AGAIN) => {}
                read => return Ok(read?),
            }
        }
        Ok(0)
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(Box::new(self.latch.stopper()))
    }
}

/// Writes to a file descriptor.
pub(crate) struct FdSink {
    fd: OwnedFd,
    writer: Writer,
    is_socket: bool,
    latch: Arc<Latch>,
}

impl FdSink {
    /// `is_socket` says that the end of this direction has to be said aloud, since the other one outlives it.
    pub(crate) fn new(fd: OwnedFd, is_socket: bool) -> io::Result<Self> {
        Ok(Self { fd, writer: Writer::default(), is_socket, latch: Latch::new()? })
    }
}

impl Sink for FdSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.writer.try_write(&self.fd, bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return written,
            }
            if !self.latch.wait(&self.fd, PollFlags::OUT)? {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.try_write(&self.fd, bytes)
    }

    fn stopper(&self) -> Option<Stopper> {
        Some(Box::new(self.latch.stopper()))
    }
}

impl Drop for FdSink {
    fn drop(&mut self) {
        if self.is_socket {
            end_output(&self.fd);
        }
    }
}
