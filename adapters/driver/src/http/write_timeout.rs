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
