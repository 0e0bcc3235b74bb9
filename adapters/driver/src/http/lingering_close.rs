//! Closing connections so that their clients can read the last response.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::{
    http::{
        connection_state::{Activity, ConnectionState},
        shutdown::Shutdown,
    },
    runtime::Timer,
};

/// How long remaining input is read and discarded.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// How many bytes are discarded after a head was refused, or when a client disconnects.
const MAX_DRAINED: usize = 256 << 10;

/// How many bytes are discarded of a body that was refused before it was read. Many clients send the whole body before
/// they read.
const MAX_DRAINED_BODY: usize = 16 << 20;

/// The largest output that is copied into one buffer before it is written.
const SMALL: usize = 2 << 10;

/// Wraps a stream so that it is not closed while its client is still sending.
///
/// A client that is refused while it sends its body has not read the response yet. If the stream was closed now, the
/// system would answer the rest of the body with a reset, and the client would lose the response. So only the write
/// direction is closed first. Input is discarded until the client closes its direction, for a bounded time and number
/// of bytes. A server that stops does not wait for that: most of its clients are idle.
pub(super) struct LingeringClose<'a, S, T> {
    stream: S,
    state: &'a ConnectionState<T>,
    shutdown: &'a Shutdown,
    /// The end of the time in which input is discarded, once the write direction is closed.
    deadline: Option<Instant>,
    /// How many bytes may still be discarded.
    budget: usize,
}

impl<'a, S, T> LingeringClose<'a, S, T> {
    pub(super) const fn new(stream: S, state: &'a ConnectionState<T>, shutdown: &'a Shutdown) -> Self {
        Self { stream, state, shutdown, deadline: None, budget: MAX_DRAINED }
    }
}

impl<S: Read + Unpin, T> Read for LingeringClose<'_, S, T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Read + Write + Unpin, T: Timer> Write for LingeringClose<'_, S, T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        // A small response is copied behind its head, which costs less than a vectored write.
        let (mut whole, mut len) = ([0; SMALL], 0);
        for buf in bufs {
            let Some(place) = whole.get_mut(len..len + buf.len()) else { return stream.poll_write_vectored(cx, bufs) };
            place.copy_from_slice(buf);
            len += buf.len();
        }
        stream.poll_write(cx, &whole[..len])
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // hyper flushes when its buffer is empty.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.state.end_write();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, state, shutdown, deadline, budget } = &mut *self;
        let deadline = match *deadline {
            Some(deadline) => deadline,
            None => {
                // From here on, only this method waits for a deadline.
                state.set(Activity::Closing);
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                if shutdown.is_stopped() {
                    return Poll::Ready(Ok(()));
                }
                if state.is_unread() {
                    *budget = MAX_DRAINED_BODY;
                }
                *deadline.insert(Instant::now() + DRAIN_TIMEOUT)
            }
        };
        let mut bytes = [0; 4096];
        while state.poll_until(deadline, cx).is_pending() && *budget > 0 {
            let mut buf = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut *stream).poll_read(cx, buf.unfilled())) {
                Ok(()) if !buf.filled().is_empty() => *budget = budget.saturating_sub(buf.filled().len()),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Waker,
    };

    use super::*;

    /// A stream whose write direction can be closed, and whose client sends nothing more.
    #[derive(Default)]
    struct Quiet {
        reads: AtomicUsize,
        is_shut: bool,
    }

    impl Read for Quiet {
        fn poll_read(self: Pin<&mut Self>, _cx: &mut Context<'_>, _buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Poll::Pending
        }
    }

    impl Write for Quiet {
        fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    /// A timer that never fires.
    struct Never;

    impl Timer for Never {
        fn poll_until(&mut self, _at: Instant, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    /// A timer that has fired.
    struct Past;

    impl Timer for Past {
        fn poll_until(&mut self, _at: Instant, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    /// A stream whose client sends so many bytes, then closes its direction, fails, or sends nothing more.
    #[derive(Default)]
    struct Sending {
        bytes: usize,
        end: Option<Result<(), io::ErrorKind>>,
        read: usize,
        shut: usize,
        writes: Vec<Vec<u8>>,
    }

    impl Read for Sending {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            mut buf: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let len = buf.remaining().min(self.bytes);
            buf.put_slice(&vec![b'x'; len]);
            self.bytes -= len;
            self.read += len;
            match self.end {
                _ if len > 0 => Poll::Ready(Ok(())),
                Some(end) => Poll::Ready(end.map_err(Into::into)),
                None => Poll::Pending,
            }
        }
    }

    impl Write for Sending {
        fn poll_write(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.writes.push(buf.to_vec());
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            bufs: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.writes.extend(bufs.iter().map(|buf| buf.to_vec()));
            Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.shut += 1;
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn input_is_discarded_until_its_end_or_the_limit() {
        let (much, closes, fails) = (64 << 20, Some(Ok(())), Some(Err(io::ErrorKind::ConnectionReset)));
        for (unread, bytes, end, is_over, read) in [
            (false, 0, None, false, 0),
            (false, 5000, None, false, 5000),
            (false, 5000, closes, true, 5000),
            (false, 5000, fails, true, 5000),
            (false, much, None, true, MAX_DRAINED),
            (false, MAX_DRAINED - 1, None, false, MAX_DRAINED - 1),
            (true, MAX_DRAINED, None, false, MAX_DRAINED),
            (true, much, None, true, MAX_DRAINED_BODY),
        ] {
            let (shutdown, state) = (Shutdown::default(), ConnectionState::new(Never));
            state.set_unread(unread);
            let stream = Sending { bytes, end, ..Sending::default() };
            let mut linger = LingeringClose::new(stream, &state, &shutdown);
            for _ in 0..2 {
                let shut = Pin::new(&mut linger).poll_shutdown(&mut Context::from_waker(Waker::noop()));
                assert_eq!((shut.is_ready(), linger.stream.read), (is_over, read), "{unread:?} {bytes} {end:?}");
                if is_over {
                    break;
                }
            }
            assert_eq!(linger.stream.shut, 1, "the write direction is closed once");
        }
        let (shutdown, state) = (Shutdown::default(), ConnectionState::new(Past));
        let mut linger = LingeringClose::new(Sending { bytes: much, ..Sending::default() }, &state, &shutdown);
        assert!(Pin::new(&mut linger).poll_shutdown(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!((linger.stream.shut, linger.stream.read), (1, 0), "the time is over");
    }

    #[test]
    fn small_output_is_written_in_one_piece() {
        let cx = &mut Context::from_waker(Waker::noop());
        let (shutdown, state) = (Shutdown::default(), ConnectionState::new(Never));
        for (head, body, writes) in [(10, 0, 1), (10, SMALL - 10, 1), (10, SMALL - 9, 2), (SMALL + 1, 0, 2)] {
            let mut linger = LingeringClose::new(Sending::default(), &state, &shutdown);
            let (head, body) = (vec![b'h'; head], vec![b'b'; body]);
            let slices = [io::IoSlice::new(&head), io::IoSlice::new(&body)];
            let written = Pin::new(&mut linger).poll_write_vectored(cx, &slices);
            assert!(matches!(written, Poll::Ready(Ok(len)) if len == head.len() + body.len()));
            assert_eq!((linger.stream.writes.len(), linger.stream.writes.concat()), (writes, [head, body].concat()));
            assert!(matches!(Pin::new(&mut linger).poll_write(cx, b"abc"), Poll::Ready(Ok(3))));
            assert!(Pin::new(&mut linger).poll_flush(cx).is_pending());
            let mut bytes = [0; 4];
            assert!(Pin::new(&mut linger).poll_read(cx, ReadBuf::new(&mut bytes).unfilled()).is_pending());
        }
    }

    #[test]
    fn stopped_server_does_not_linger() {
        for stops in [false, true] {
            let (shutdown, state) = (Shutdown::default(), ConnectionState::new(Never));
            if stops {
                shutdown.stop();
            }
            let mut linger = LingeringClose::new(Quiet::default(), &state, &shutdown);
            let shut = Pin::new(&mut linger).poll_shutdown(&mut Context::from_waker(Waker::noop()));
            assert_eq!((shut.is_ready(), linger.stream.is_shut), (stops, true));
            assert_eq!(linger.stream.reads.load(Ordering::Relaxed), usize::from(!stops));
        }
    }
}
