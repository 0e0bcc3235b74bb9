//! The descriptors of this process as transports.

use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use mcp_driver::{
    ByteReader, ByteWriter,
    os::descriptor::{Reader, Writer},
};
use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor that other processes may share, so it is not made non-blocking: its readiness is checked before each
/// read and each write.
pub(crate) struct Descriptor {
    fd: OwnedFd,
    interest: Interest,
    /// The registration for readiness. Absent until it is first needed, and for files, which are always ready.
    watch: Option<AsyncFd<OwnedFd>>,
    reader: Reader,
    writer: Writer,
}

impl Descriptor {
    pub(crate) const fn new(fd: OwnedFd, interest: Interest) -> Self {
        Self { fd, interest, watch: None, reader: Reader::new(true), writer: Writer::new(true) }
    }

    fn watch(&mut self) -> io::Result<()> {
        #[allow(deprecated, reason = "what is watched owns its descriptor, and the other way to say so is unsafe")]
        match AsyncFd::with_interest(self.fd.try_clone()?, self.interest) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                (self.reader, self.writer) = (Reader::new(false), Writer::new(false));
            }
            watch => self.watch = Some(watch?),
        }
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
            match (self.reader.try_read(&self.fd, buffer), &mut ready) {
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
            match (self.writer.try_write(&self.fd, bytes), &mut ready) {
                (Err(error), Some(ready)) if error.kind() == ErrorKind::WouldBlock => ready.clear_ready(),
                (Err(error), None) if error.kind() == ErrorKind::WouldBlock => self.watch()?,
                (written, _) => return Poll::Ready(written),
            }
        }
    }
}
