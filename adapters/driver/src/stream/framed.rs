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

    /// Returns whether [`next_frame`](Self::next_frame) can return a frame before more is read.
    fn may_have_frame(&self) -> bool;

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

    fn may_have_frame(&self) -> bool {
        self.line_reader.has_begun()
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

    fn may_have_frame(&self) -> bool {
        self.is_there
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

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, task::Waker};

    use super::*;
    use crate::stream::memory::pipe;

    /// A transport for messages, and the messages that were sent. It closes at the second attempt.
    #[derive(Default)]
    struct Messages {
        incoming: VecDeque<Vec<u8>>,
        sent: Vec<Vec<u8>>,
        flushes: usize,
        closes: usize,
    }

    impl MessageTransport for Messages {
        fn poll_receive(&mut self, _: &mut Context<'_>, message: &mut Vec<u8>) -> Poll<io::Result<bool>> {
            let next = self.incoming.pop_front();
            message.extend(next.iter().flatten());
            Poll::Ready(Ok(next.is_some()))
        }

        fn poll_send(&mut self, _: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
            self.sent.push(message.to_vec());
            Poll::Ready(Ok(()))
        }

        fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            Poll::Pending
        }

        fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.closes += 1;
            if self.closes < 2 { Poll::Pending } else { Poll::Ready(Ok(())) }
        }
    }

    fn frame(transport: &mut impl FramedTransport) -> Option<Vec<u8>> {
        transport.next_frame().map(|frame| frame.bytes().to_vec())
    }

    #[test]
    fn received_messages_are_frames() {
        let cx = &mut Context::from_waker(Waker::noop());
        let large = vec![b'x'; 4 * READ_CHUNK];
        let incoming = [b"one".to_vec(), large.clone(), Vec::new(), b"two".to_vec()].into();
        let mut transport = WholeMessages::new(Messages { incoming, ..Messages::default() });
        for expected in [&b"one"[..], &large, b"", b"two"] {
            assert_eq!(frame(&mut transport), None);
            assert!(matches!(transport.poll_fill(cx), Poll::Ready(Ok(true))));
            assert!(!transport.has_begun());
            assert_eq!(frame(&mut transport).as_deref(), Some(expected));
        }
        assert!(transport.message.capacity() <= READ_CHUNK, "{}", transport.message.capacity());
        assert!(matches!(transport.poll_fill(cx), Poll::Ready(Ok(false))));
        assert_eq!(frame(&mut transport), None);
    }

    #[test]
    fn lines_are_sent_as_messages_until_the_close() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut transport = WholeMessages::new(Messages::default());
        for (bytes, len) in [("one\ntwo\n", 4), ("two\n", 4), ("\n", 1), ("three", 5)] {
            let written = transport.poll_write(cx, bytes.as_bytes()).map_err(|error| error.kind());
            assert_eq!(written, Poll::Ready(Ok(len)), "{bytes:?}");
        }
        assert_eq!(transport.messages.sent, ["one", "two", "", "three"].map(|text| text.as_bytes().to_vec()));
        assert!(transport.poll_flush(cx).is_pending());
        assert!(transport.poll_close(cx).is_pending());
        assert!(matches!(transport.poll_write(cx, b"four\n"), Poll::Ready(Ok(5))), "it is not closed yet");
        assert!(transport.poll_close(cx).is_ready() && transport.poll_close(cx).is_ready());
        let written = transport.poll_write(cx, b"five\n").map_err(|error| error.kind());
        assert_eq!(written, Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
        assert!(matches!(transport.poll_flush(cx), Poll::Ready(Ok(()))));
        let Messages { sent, flushes, closes, .. } = transport.messages;
        assert_eq!((sent.len(), flushes, closes), (5, 1, 2));
    }

    #[test]
    fn bytes_are_written_until_the_close() {
        let cx = &mut Context::from_waker(Waker::noop());
        let ((source, mut other_sink), (mut other_source, sink)) = (pipe(64), pipe(64));
        let mut transport = ByteTransport::new(source, sink, 64, Sniffer::off());
        assert!(other_sink.poll_write(cx, b"{}\n[").is_ready());
        assert!(matches!(transport.poll_fill(cx), Poll::Ready(Ok(true))));
        assert_eq!(frame(&mut transport).as_deref(), Some(&b"{}"[..]));
        assert_eq!((frame(&mut transport), transport.has_begun()), (None, true));
        let write = |transport: &mut ByteTransport<_, _>, cx: &mut Context<'_>| {
            transport.poll_write(cx, b"abc").map_err(|error| error.kind())
        };
        assert_eq!(write(&mut transport, cx), Poll::Ready(Ok(3)));
        assert!(transport.poll_close(cx).is_ready());
        assert_eq!(write(&mut transport, cx), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
        assert!(matches!(transport.poll_flush(cx), Poll::Ready(Ok(()))));
        assert!(transport.poll_close(cx).is_ready());
        let mut buffer = [0; 8];
        for len in [3, 0] {
            assert!(matches!(other_source.poll_read(cx, &mut buffer), Poll::Ready(Ok(read)) if read == len), "{len}");
        }
    }
}
