//! The descriptors of this process as transports.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_driver::{ByteReader, ByteWriter, os::descriptor::SharedFd};

/// A descriptor that other processes may share.
pub(crate) struct Descriptor {
    fd: SharedFd,
    /// The registration for readiness. Absent until it is first needed, since it starts the reactor's thread, and for
    /// files, which are always ready.
    watch: Option<Async<OwnedFd>>,
}

impl Descriptor {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self { fd: SharedFd::new(fd), watch: None }
    }

    /// Waits until the descriptor is ready for another try.
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&Async<OwnedFd>, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if self.watch.is_none() {
            self.watch = self.fd.watch(Async::new_nonblocking)?;
        }
        self.watch.as_ref().map_or(Poll::Ready(Ok(())), |watch| poll(watch, cx))
    }
}

impl ByteReader for Descriptor {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.fd.try_read(buffer) {
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
            match self.fd.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.poll_ready(cx, Async::poll_writable))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }
}
