//! Streams and sockets of smol as transports.

use std::{
    io::{self, ErrorKind, Read, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};
use mcp_driver::{ByteReader, ByteWriter, os::net::end_output};
use rustix::fd::AsFd;

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
        end_output(self.0.get_ref().as_fd());
        Poll::Ready(Ok(()))
    }
}

pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
