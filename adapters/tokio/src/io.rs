//! Streams of tokio as transports.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use mcp_driver::{ByteReader, ByteWriter};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of tokio, for either direction.
pub(crate) struct Stream<T>(Pin<Box<T>>);

impl<T> Stream<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self(Box::pin(stream))
    }
}

impl<T: AsyncRead + Send + 'static> ByteReader for Stream<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        self.0.as_mut().poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
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
        self.0.as_mut().poll_shutdown(cx)
    }
}
