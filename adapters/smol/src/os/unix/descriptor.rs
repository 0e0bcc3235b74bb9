//! The descriptors of this process as transports.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_driver::{
    ByteReader, ByteWriter,
    os::descriptor::{Reader, Writer},
};

/// A descriptor that other processes may share, so it is not made non-blocking: its readiness is checked before each
/// read and each write.
pub(crate) struct Descriptor {
    fd: OwnedFd,
    /// The registration for readiness. Absent until it is first needed, since it starts the reactor's thread, and for
    /// files, which are always ready.
    watch: Option<Async<OwnedFd>>,
    reader: Reader,
    writer: Writer,
}

impl Descriptor {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self { fd, watch: None, reader: Reader::new(true), writer: Writer::new(true) }
    }

    /// Waits until the descriptor is ready for another try.
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&Async<OwnedFd>, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let watch = match &self.watch {
            Some(watch) => watch,
            None => match Async::new_nonblocking(self.fd.try_clone()?) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    (self.reader, self.writer) = (Reader::new(false), Writer::new(false));
                    return Poll::Ready(Ok(()));
                }
                watch => self.watch.insert(watch?),
            },
        };
        poll(watch, cx)
    }
}

impl ByteReader for Descriptor {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.reader.try_read(&self.fd, buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.poll_ready(cx, Async::poll_readable))?;
                }
                read => return Poll::Ready(read),
            }
        }
    }
}

impl ByteWriter for Descriptor {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.writer.try_write(&self.fd, bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.poll_ready(cx, Async::poll_writable))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }
}
