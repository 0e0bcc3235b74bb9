//! A stream that records whether its writes wait for the peer.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};

/// A stream that records whether a write is pending.
///
/// hyper writes as long as the stream accepts bytes. So while a connection is not polled, a write is pending if and
/// only if hyper has bytes that are not written.
pub(super) struct TrackedStream<S> {
    stream: S,
    pending: PendingWrite,
}

/// Whether a write of a stream is pending.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingWrite(Arc<AtomicBool>);

impl PendingWrite {
    pub(super) fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S> TrackedStream<S> {
    /// Wraps a stream, and returns with it whether one of its writes is pending.
    pub(super) fn new(stream: S) -> (Self, PendingWrite) {
        let pending = PendingWrite::default();
        (Self { stream, pending: pending.clone() }, pending)
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        // The lock of the connection, under which hyper is polled, orders this store before the response.
        self.pending.0.store(written.is_pending(), Ordering::Relaxed);
        written
    }
}

impl<S: Read + Unpin> Read for TrackedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: Write + Unpin> Write for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
