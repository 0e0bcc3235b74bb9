//! A stream whose writes time out.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::runtime::{Runtime, Timer};

/// A stream whose writes fail if none of them makes progress within a timeout.
///
/// Without it, a peer that is alive but keeps its TCP window closed would hold its connection, and the output that
/// waits for it, for ever. It wraps the socket itself, below TLS: bytes count as progress when the system has accepted
/// them, including those that close the TLS session.
#[derive(Debug)]
pub struct WriteTimeout<T, M> {
    stream: T,
    timer: M,
    timeout: Duration,
    /// The deadline of a pending write.
    until: Option<Instant>,
}

impl<T, M: Timer> WriteTimeout<T, M> {
    /// Wraps a stream whose writes fail after `timeout` without progress.
    pub fn new(stream: T, runtime: &impl Runtime<Timer = M>, timeout: Duration) -> Self {
        Self { stream, timer: runtime.timer(), timeout, until: None }
    }

    fn note<U>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<U>>) -> Poll<io::Result<U>> {
        if done.is_ready() {
            self.until = None;
            return done;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.timeout);
        self.timer
            .poll_until(until, cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<T: Read + Unpin, M: Unpin> Read for WriteTimeout<T, M> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin, M: Timer + Unpin> Write for WriteTimeout<T, M> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.note(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, sync::Arc, sync::Mutex, task::Waker};

    use super::*;
    use crate::sync::lock;

    /// A stream that is ready or not.
    struct Gate {
        is_ready: bool,
    }

    impl Gate {
        fn result<T>(&self, value: T) -> Poll<io::Result<T>> {
            if self.is_ready { Poll::Ready(Ok(value)) } else { Poll::Pending }
        }
    }

    impl Read for Gate {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
            self.result(())
        }
    }

    impl Write for Gate {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.result(bytes.len())
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.result(slices.len())
        }

        fn is_write_vectored(&self) -> bool {
            self.is_ready
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.result(())
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.result(())
        }
    }

    /// A runtime without tasks. Its timers record their deadlines, and fire if the flag is set.
    #[derive(Clone, Default)]
    struct Clock(Arc<Mutex<(Vec<Instant>, bool)>>);

    impl Runtime for Clock {
        type Task = ();
        type Timer = Self;

        fn current() -> io::Result<Self> {
            Ok(Self::default())
        }

        fn spawn(&self, _: impl Future<Output = ()> + Send + 'static) {}

        fn detach((): ()) {}

        fn spawn_blocking(&self, _: impl FnOnce() + Send + 'static) {}

        fn timer(&self) -> Self {
            self.clone()
        }
    }

    impl Timer for Clock {
        fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
            let (deadlines, fires) = &mut *lock(&self.0);
            deadlines.push(at);
            if *fires { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    #[test]
    fn writes_fail_without_progress_within_the_timeout() {
        type Operation = fn(Pin<&mut WriteTimeout<Gate, Clock>>, &mut Context<'_>) -> Poll<io::Result<usize>>;
        let timeout = Duration::from_secs(30);
        let operations: [(Operation, usize); 4] = [
            (|stream, cx| stream.poll_write(cx, b"abc"), 3),
            (|stream, cx| stream.poll_write_vectored(cx, &[io::IoSlice::new(b"abc")]), 1),
            (|stream, cx| stream.poll_flush(cx).map_ok(|()| 0), 0),
            (|stream, cx| stream.poll_shutdown(cx).map_ok(|()| 0), 0),
        ];
        let cx = &mut Context::from_waker(Waker::noop());
        for (operation, done) in operations {
            let clock = Clock::default();
            let mut stream = WriteTimeout::new(Gate { is_ready: true }, &clock, timeout);
            let mut poll = |is_ready, fires| {
                lock(&clock.0).1 = fires;
                stream.stream.is_ready = is_ready;
                let polled = operation(Pin::new(&mut stream), cx).map_err(|error| error.kind());
                assert_eq!(stream.is_write_vectored(), is_ready);
                assert_eq!(
                    Pin::new(&mut stream).poll_read(cx, hyper::rt::ReadBuf::new(&mut []).unfilled()).is_ready(),
                    is_ready
                );
                polled
            };
            let start = Instant::now();
            assert_eq!(poll(true, true), Poll::Ready(Ok(done)), "the timer does not count");
            assert_eq!([poll(false, false), poll(false, false)], [Poll::Pending; 2]);
            assert_eq!(poll(true, false), Poll::Ready(Ok(done)));
            // A coarse clock may have the same time twice.
            let now = Instant::now();
            while Instant::now() <= now {}
            assert_eq!(poll(false, false), Poll::Pending);
            assert_eq!(poll(false, true), Poll::Ready(Err(io::ErrorKind::TimedOut)));
            let deadlines = &lock(&clock.0).0;
            let [first, second, third, fourth] = deadlines[..] else { panic!("{deadlines:?}") };
            assert!(first >= start + timeout && first == second, "the time of one wait does not start anew");
            assert!(third > second && third == fourth, "progress starts it anew");
        }
    }
}
