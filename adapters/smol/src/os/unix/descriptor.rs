//! The descriptors of a connection over pipes: the standard streams of this process, and those of a child process.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    sync::Arc,
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_driver::{
    ByteReader, ByteWriter, first_poll_waker,
    os::descriptor::{Reader, Writer},
};
use rustix::event::PollFlags;

use super::connection_thread::wait_for;

/// A descriptor that is not made non-blocking, since other processes may share it.
struct Descriptor {
    fd: Arc<OwnedFd>,
    /// Whether it is always ready, as a file is.
    is_always_ready: bool,
    /// The registration with the reactor, which is only used outside of the thread of a connection.
    watch: Option<Async<OwnedFd>>,
}

impl Descriptor {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let is_always_ready = File::from(fd.try_clone()?).metadata()?.is_file();
        Ok(Self { fd: Arc::new(fd), is_always_ready, watch: None })
    }

    /// Waits until the descriptor is ready for another try.
    fn poll_ready(&mut self, cx: &mut Context<'_>, flags: PollFlags) -> Poll<io::Result<()>> {
        // The first poll is repeated with another waker.
        if cx.waker().will_wake(first_poll_waker()) || !self.is_always_ready && wait_for(&self.fd, flags) {
            return Poll::Pending;
        }
        if self.watch.is_none() && !self.is_always_ready {
            match Async::new_nonblocking(self.fd.try_clone()?) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => self.is_always_ready = true,
                watch => self.watch = Some(watch?),
            }
        }
        if let Some(watch) = &self.watch {
            ready!(if flags == PollFlags::IN { watch.poll_readable(cx) } else { watch.poll_writable(cx) })?;
        }
        Poll::Ready(Ok(()))
    }
}

/// The input of a connection.
pub(crate) struct Input {
    descriptor: Descriptor,
    reader: Reader,
}

impl Input {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let descriptor = Descriptor::new(fd)?;
        Ok(Self { reader: Reader::new(!descriptor.is_always_ready), descriptor })
    }
}

impl ByteReader for Input {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.reader.try_read(&self.descriptor.fd, buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.descriptor.poll_ready(cx, PollFlags::IN))?;
                    if self.descriptor.is_always_ready {
                        self.reader = Reader::new(false);
                    }
                }
                read => return Poll::Ready(read),
            }
        }
    }
}

/// The output of a connection.
pub(crate) struct Output {
    descriptor: Descriptor,
    writer: Writer,
}

impl Output {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let descriptor = Descriptor::new(fd)?;
        Ok(Self { writer: Writer::new(!descriptor.is_always_ready), descriptor })
    }
}

impl ByteWriter for Output {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.writer.try_write(&self.descriptor.fd, bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.descriptor.poll_ready(cx, PollFlags::OUT))?;
                    if self.descriptor.is_always_ready {
                        self.writer = Writer::new(false);
                    }
                }
                written => return Poll::Ready(written),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_poll_registers_no_descriptor() {
        let (reader, _writer) = io::pipe().expect("there are descriptors");
        let mut input = Input::new(reader.into()).expect("a pipe");
        let mut read = |waker| input.poll_read(&mut Context::from_waker(waker), &mut [0]).is_pending();
        assert!(read(first_poll_waker()));
        assert!(input.descriptor.watch.is_none());
    }
}
