//! A transport as the loop of a connection sees it.

use std::{
    io,
    task::{Context, Poll, ready},
};

use mcp_proto::codec::Frame;

use crate::{
    stream::{
        io::{ByteReader, ByteWriter, MessageTransport},
        line_reader::{LineReader, Sniffer},
    },
    tuning::READ_CHUNK,
};

/// A transport that reads frames and writes lines, each of which is one message.
pub(crate) trait FramedTransport: Send {
    /// Reads input and returns whether more may follow.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>>;

    /// Returns the next frame of the bytes that were read.
    fn next_frame(&mut self) -> Option<Frame<'_>>;

    /// Returns whether a part of a frame was read.
    fn has_begun(&self) -> bool;

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Flushes and closes the output.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Closes the output at once, without waiting for the peer.
    fn close_output(&mut self);
}

/// A transport for bytes.
pub(crate) struct ByteTransport<R, W> {
    source: R,
    /// `None` after the output was closed.
    sink: Option<W>,
    line_reader: LineReader,
    sniffer: Sniffer,
}

impl<R, W> ByteTransport<R, W> {
    /// Creates a transport whose lines have at most `limit` bytes.
    pub(crate) fn new(source: R, sink: W, limit: usize, sniffer: Sniffer) -> Self {
        Self { source, sink: Some(sink), line_reader: LineReader::new(limit), sniffer }
    }
}

impl<R: ByteReader, W: ByteWriter> FramedTransport for ByteTransport<R, W> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let spare_capacity = self.line_reader.spare_capacity();
        let len = ready!(self.source.poll_read(cx, spare_capacity))?;
        self.sniffer.check(&spare_capacity[..len])?;
        Poll::Ready(Ok(self.line_reader.advance(len)))
    }

    fn next_frame(&mut self) -> Option<Frame<'_>> {
        self.line_reader.next_frame()
    }

    fn has_begun(&self) -> bool {
        self.line_reader.has_begun()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.sink {
            Some(sink) => sink.poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sink.as_mut().map_or(Poll::Ready(Ok(())), |sink| sink.poll_flush(cx))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closed = self.sink.as_mut().map_or(Poll::Ready(Ok(())), |sink| sink.poll_close(cx));
        closed.map(|_| self.close_output())
    }

    fn close_output(&mut self) {
        self.sink = None;
    }
}

/// A transport for whole messages.
pub(crate) struct WholeMessages<M> {
    messages: M,
    message: Vec<u8>,
    is_there: bool,
    hung_up: bool,
}

impl<M> WholeMessages<M> {
    pub(crate) const fn new(messages: M) -> Self {
        Self { messages, message: Vec::new(), is_there: false, hung_up: false }
    }
}

impl<M: MessageTransport> FramedTransport for WholeMessages<M> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.message.clear();
        // The buffer does not keep the capacity of a large message.
        self.message.shrink_to(READ_CHUNK);
        self.messages.poll_receive(cx, &mut self.message).map_ok(|more| {
            self.is_there = more;
            more
        })
    }

    fn next_frame(&mut self) -> Option<Frame<'_>> {
        std::mem::take(&mut self.is_there).then(|| Frame::new(&self.message))
    }

    fn has_begun(&self) -> bool {
        // Messages are received whole.
        false
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // A message contains no line feed and is followed by one.
        let len = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        if self.hung_up {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.messages.poll_send(cx, &bytes[..len]).map_ok(|()| bytes.len().min(len + 1))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.hung_up { Poll::Ready(Ok(())) } else { self.messages.poll_flush(cx) }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.hung_up {
            return Poll::Ready(());
        }
        self.messages.poll_close(cx).map(|_| self.close_output())
    }

    fn close_output(&mut self) {
        self.hung_up = true;
    }
}
