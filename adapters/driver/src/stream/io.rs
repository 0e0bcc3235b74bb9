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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A transport that records what is called. Each operation has a result of its own.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl ByteReader for Log {
        fn poll_read(&mut self, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            buffer[0] = b'r';
            Poll::Ready(Ok(1))
        }
    }

    impl ByteWriter for Log {
        fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.push(format!("write {}", bytes.len()));
            Poll::Ready(Ok(2))
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl MessageTransport for Log {
        fn poll_receive(&mut self, _: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>> {
            message.push(b'm');
            Poll::Ready(Ok(self.0.is_empty()))
        }

        fn poll_send(&mut self, _: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
            self.0.push(format!("send {}", message.len()));
            if message.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
    }

    /// A writer without methods of its own for flushing and closing.
    struct Plain;

    impl ByteWriter for Plain {
        fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }

    fn kind<T>(polled: Poll<io::Result<T>>) -> Poll<Result<T, io::ErrorKind>> {
        polled.map_err(|error| error.kind())
    }

    #[test]
    fn boxed_transports_do_what_their_contents_do() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut buffer = [0; 2];
        assert_eq!(kind(Box::<Log>::default().poll_read(cx, &mut buffer)), Poll::Ready(Ok(1)));
        assert_eq!(buffer, [b'r', 0]);
        let mut writer = Box::<Log>::default();
        assert_eq!(kind(ByteWriter::poll_write(&mut writer, cx, b"abc")), Poll::Ready(Ok(2)));
        assert_eq!(kind(ByteWriter::poll_flush(&mut writer, cx)), Poll::Ready(Err(io::ErrorKind::WriteZero)));
        assert_eq!(kind(ByteWriter::poll_close(&mut writer, cx)), Poll::Pending);
        assert_eq!(writer.0, ["write 3"]);
        let (mut messages, mut message) = (Box::<Log>::default(), Vec::new());
        assert_eq!(kind(messages.poll_receive(cx, &mut message)), Poll::Ready(Ok(true)));
        assert_eq!(kind(messages.poll_send(cx, b"")), Poll::Pending);
        assert_eq!(kind(messages.poll_send(cx, b"abc")), Poll::Ready(Ok(())));
        assert_eq!(kind(messages.poll_receive(cx, &mut message)), Poll::Ready(Ok(false)));
        assert_eq!(kind(MessageTransport::poll_flush(&mut messages, cx)), Poll::Ready(Err(io::ErrorKind::WriteZero)));
        assert_eq!(kind(MessageTransport::poll_close(&mut messages, cx)), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
        assert_eq!((&message[..], &messages.0[..]), (&b"mm"[..], &["send 0".to_owned(), "send 3".to_owned()][..]));
    }

    #[test]
    fn writers_without_a_buffer_have_nothing_to_flush() {
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!(kind(Plain.poll_flush(cx)), Poll::Ready(Ok(())));
        assert_eq!(kind(Plain.poll_close(cx)), Poll::Ready(Ok(())));
    }
}
