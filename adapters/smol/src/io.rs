//! Streams of smol, and descriptors, as transports.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::fd::{AsFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};
use mcp_driver::{
    ByteReader, ByteWriter,
    unix::fd::{Reader, Writer, end_output},
};

/// A stream of smol, for either direction.
pub(crate) struct Stream<T>(Pin<Box<T>>);

impl<T> Stream<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(Box::pin(stream))
    }
}

impl<T: AsyncRead + Send + 'static> ByteReader for Stream<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Send + 'static> ByteWriter for Stream<T> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_close(cx)
    }
}

/// A socket. Its output is shut down when writing ends, since the socket is still read from.
pub(crate) struct Socket<T>(pub(crate) Async<T>);

impl<T: AsFd + Send + Sync + 'static> ByteReader for Socket<T>
where
    for<'a> &'a T: Read,
{
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.get_ref().read(buffer) {
                Err(error) if is_transient(&error) => ready!(self.0.poll_readable(cx))?,
                read => return Poll::Ready(read),
            }
        }
    }
}

impl<T: AsFd + Send + Sync + 'static> ByteWriter for Socket<T>
where
    for<'a> &'a T: Write,
{
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.get_ref().write(bytes) {
                Err(error) if is_transient(&error) => ready!(self.0.poll_writable(cx))?,
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        end_output(self.0.get_ref());
        Poll::Ready(Ok(()))
    }
}

pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

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
