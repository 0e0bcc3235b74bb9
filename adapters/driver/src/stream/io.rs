//! The traits that asynchronous transports implement, for bytes or for whole messages.

use std::{
    io,
    task::{Context, Poll},
};

/// Reads bytes.
pub trait ByteReader: Send + 'static {
    /// Reads some bytes and returns how many; `0` is the end of the input. While it is pending, nothing has been read.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
}

/// Writes bytes. Dropping it closes the stream for the peer.
pub trait ByteWriter: Send + 'static {
    /// Writes some of the bytes, and returns how many. While it is pending, nothing has been written.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Flushes the bytes that were written.
    ///
    /// # Errors
    /// As [`poll_write`](Self::poll_write).
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Signals the end of the output to the peer. The writer is dropped afterwards.
    ///
    /// # Errors
    /// If the transport has failed, which makes no difference any more.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// A transport that carries whole messages, each one JSON text: WebSockets and the like.
///
/// While a method is pending, it has had no effect, and it is called again.
pub trait MessageTransport: Send + 'static {
    /// Appends the next message to `message`, which is empty, and returns `true`; `false` is the end of the input.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn poll_receive(&mut self, cx: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>>;

    /// Sends a message, which may be buffered until it is flushed.
    ///
    /// # Errors
    /// As [`poll_receive`](Self::poll_receive).
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// Flushes the messages that were sent.
    ///
    /// # Errors
    /// As [`poll_receive`](Self::poll_receive).
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Signals the end of the output to the peer. Messages may still be received afterwards.
    ///
    /// # Errors
    /// If the transport has failed, which makes no difference any more.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl<T: ByteReader + ?Sized> ByteReader for Box<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        (**self).poll_read(cx, buffer)
    }
}

impl<T: ByteWriter + ?Sized> ByteWriter for Box<T> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        (**self).poll_write(cx, bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }
}

impl<T: MessageTransport + ?Sized> MessageTransport for Box<T> {
    fn poll_receive(&mut self, cx: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        (**self).poll_receive(cx, message)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        (**self).poll_send(cx, message)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }
}
