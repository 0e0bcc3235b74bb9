//! A stream that ends when its peer does not read.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::runtime::{Runtime, Timer};

/// A stream whose writes fail when none of them makes progress for some time.
///
/// A peer whose window stays closed is alive as far as TCP knows, and would hold its connection, and all that waits to be
/// written to it, without end. It goes around a socket itself, below encryption: so bytes count as progress when the system
/// has taken them, also those that end the encryption.
#[derive(Debug)]
pub struct WriteTimeout<T, M> {
    stream: T,
    timer: M,
    timeout: Duration,
    /// The deadline of a pending write.
    until: Option<Instant>,
}

impl<T, M: Timer> WriteTimeout<T, M> {
    /// Bounds how long a write may make no progress on this stream.
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
