//! The descriptors of a connection over pipes: the standard streams of this process, and those of a child process.

use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use async_io::Async;
use mcp_driver::{
    ByteReader, ByteWriter,
    os::descriptor::{Reader, Writer},
};
use rustix::event::PollFlags;

use super::connection_thread::{Source, wait_for};

/// A descriptor that other processes may share, so it is not made non-blocking.
struct Descriptor {
    source: Arc<Source>,
    /// Whether it is always ready, as a file is.
    is_always_ready: bool,
    /// The registration with the reactor, which is only used outside of the thread of a connection.
    watch: Option<Async<OwnedFd>>,
}

impl Descriptor {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let is_always_ready = File::from(fd.try_clone()?).metadata()?.is_file();
        let source = Arc::new(Source { fd, is_ready: AtomicBool::new(true) });
        Ok(Self { source, is_always_ready, watch: None })
    }

    /// Waits until the descriptor is ready for another try.
    fn poll_ready(&mut self, cx: &mut Context<'_>, flags: PollFlags) -> Poll<io::Result<()>> {
        // A poll without a waker is repeated with one.
        if cx.waker().will_wake(Waker::noop()) || !self.is_always_ready && wait_for(&self.source, flags) {
            return Poll::Pending;
        }
        if self.watch.is_none() && !self.is_always_ready {
            match Async::new_nonblocking(self.source.fd.try_clone()?) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => self.is_always_ready = true,
                watch => self.watch = Some(watch?),
            }
        }
        if let Some(watch) = &self.watch {
            ready!(if flags == PollFlags::IN { watch.poll_readable(cx) } else { watch.poll_writable(cx) })?;
        }
        self.source.is_ready.store(true, Ordering::Release);
        Poll::Ready(Ok(()))
    }
}

/// The input of a connection.
pub(crate) struct Input {
    descriptor: Descriptor,
    reader: Reader,
    /// Whether it is only read after a wait has reported input, unless more is likely to be there.
    waits_first: bool,
}

impl Input {
    /// Creates the input of a server. After a read that has left room in its buffer, the next one waits for input
    /// first, since it would most likely find none.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Self::with(fd, true)
    }

    /// Creates the input of a client, from a child process. It is read each time, so that nothing is missed that the
    /// process has written before its exit.
    pub(crate) fn of_child(fd: OwnedFd) -> io::Result<Self> {
        Self::with(fd, false)
    }

    fn with(fd: OwnedFd, waits_first: bool) -> io::Result<Self> {
        let descriptor = Descriptor::new(fd)?;
        Ok(Self { reader: Reader::new(!descriptor.is_always_ready), descriptor, waits_first })
    }
}

impl ByteReader for Input {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let source = &self.descriptor.source;
            if source.is_ready.swap(false, Ordering::AcqRel) || !self.waits_first {
                match self.reader.try_read(&source.fd, buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => {
                        let is_full = read.as_ref().is_ok_and(|len| *len == buffer.len());
                        source.is_ready.store(is_full, Ordering::Release);
                        return Poll::Ready(read);
                    }
                }
            }
            ready!(self.descriptor.poll_ready(cx, PollFlags::IN))?;
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
            match self.writer.try_write(&self.descriptor.source.fd, bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(self.descriptor.poll_ready(cx, PollFlags::OUT))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }
}
