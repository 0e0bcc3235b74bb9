//! The transports of an asynchronous connection: bytes or messages, in and out.

use std::{
    io,
    task::{Context, Poll},
};

/// Reads bytes.
pub trait ByteReader: Send + 'static {
    /// Reads some bytes; `0` means that no more will come. As long as it is pending, nothing has been read.
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

    /// Flushes what was written.
    ///
    /// # Errors
    /// As [`poll_write`](Self::poll_write).
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = cx;
        Poll::Ready(Ok(()))
    }

    /// Tells the peer that no more will come. It is dropped after that.
    ///
    /// # Errors
    /// If the transport has failed, which makes no difference any more.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// A transport that carries whole messages, each one JSON text: WebSockets and the like.
///
/// As long as a method is pending, nothing has happened, and it is called again.
pub trait MessageTransport: Send + 'static {
    /// Puts the next message into `message`, which is empty; `false` means that no more will come.
    ///
    /// # Errors
    /// If the transport has failed. The connection ends then.
    fn poll_receive(&mut self, cx: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>>;

    /// Takes a message to be sent.
    ///
    /// # Errors
    /// As [`poll_receive`](Self::poll_receive).
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// Sees to it that the messages that were taken leave.
    ///
    /// # Errors
    /// As [`poll_receive`](Self::poll_receive).
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tells the peer that no more will come. Messages may still be received after that.
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
