//! The descriptors of this process as transports.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use mcp_driver::{ByteReader, ByteWriter, os::descriptor::SharedFd};
use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor that other processes may share.
pub(crate) struct Descriptor {
    fd: SharedFd,
    interest: Interest,
    /// The registration for readiness. Absent until it is first needed, and for files, which are always ready.
    watch: Option<AsyncFd<OwnedFd>>,
}

impl Descriptor {
    pub(crate) const fn new(fd: OwnedFd, interest: Interest) -> Self {
        Self { fd: SharedFd::new(fd), interest, watch: None }
    }

    fn watch(&mut self) -> io::Result<()> {
        #[allow(deprecated, reason = "what is watched owns its descriptor, and the other way to say so is unsafe")]
        let watch = self.fd.watch(|fd| AsyncFd::with_interest(fd, self.interest));
        self.watch = watch?;
        Ok(())
    }
}

impl ByteReader for Descriptor {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = match &self.watch {
                Some(watch) => Some(ready!(watch.poll_read_ready(cx))?),
                None => None,
            };
            match (self.fd.try_read(buffer), &mut ready) {
                (Err(error), Some(ready)) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                (Err(error), None) if error.kind() == ErrorKind::WouldBlock => self.watch()?,
                (read, _) => return Poll::Ready(read),
            }
        }
    }
}

impl ByteWriter for Descriptor {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = match &self.watch {
                Some(watch) => Some(ready!(watch.poll_write_ready(cx))?),
                None => None,
            };
            match (self.fd.try_write(bytes), &mut ready) {
                (Err(error), Some(ready)) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                (Err(error), None) if error.kind() == ErrorKind::WouldBlock => self.watch()?,
                (written, _) => return Poll::Ready(written),
            }
        }
    }
}
