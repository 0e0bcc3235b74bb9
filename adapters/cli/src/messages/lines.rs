//! Cuts the chunks of a record into lines.

use std::{collections::VecDeque, io::BufRead};

use mcp_proto::codec::{FrameEnd, LineDecoder};

use crate::{
    error::Failed,
    record::{Entry, Origin, Reader, What},
};

/// The longest message.
pub(super) const MAX_MESSAGE: usize = 16 << 20;

/// A line of one of the standard streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Microseconds since the start, when the last byte was read.
    pub(crate) at: u64,
    pub(crate) from: Origin,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: FrameEnd,
}

/// The next part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Line(Line),
    /// A line of the error output.
    Log {
        at: u64,
        text: String,
    },
    /// Another event.
    Event {
        at: u64,
        what: What,
    },
}

/// One of the standard streams.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Input,
    Output,
    Errors,
}

/// The unread part of an entry.
#[derive(Debug)]
enum Left {
    /// The complete lines of a stream.
    Lines(Stream),
    Event(What),
}

/// Reads a record as lines. Memory: the beginning of a line of each stream, one entry, and one line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: Reader<R>,
    client: LineDecoder,
    server: LineDecoder,
    log: LineDecoder,
    /// The unread part of the last entry: at most a few elements, because lines are cut when they are read.
    left: VecDeque<Left>,
    at: u64,
    is_over: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: Reader<R>) -> Result<Self, Failed> {
        if reader.header().transport != "stdio" {
            let why = format!("the record is one of {}, and this needs one of stdio", reader.header().transport);
            return Err(Failed::usage(why));
        }
        let decoder = || LineDecoder::new(MAX_MESSAGE);
        let (client, server, log) = (decoder(), decoder(), decoder());
        Ok(Self { reader, client, server, log, left: VecDeque::new(), at: 0, is_over: false })
    }

    pub(crate) const fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Returns the next item, or `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Failed> {
        loop {
            match self.left.pop_front() {
                Some(Left::Event(what)) => return Ok(Some(Item::Event { at: self.at, what })),
                Some(Left::Lines(stream)) => {
                    if let Some(item) = self.cut(stream) {
                        self.left.push_front(Left::Lines(stream));
                        return Ok(Some(item));
                    }
                    continue;
                }
                None => {}
            }
            match self.reader.next_entry()? {
                Some(Entry { at, what }) => self.take(at, what),
                None if self.is_over => return Ok(None),
                None => {
                    self.is_over = true;
                    for stream in [Stream::Input, Stream::Output, Stream::Errors] {
                        self.decoder(stream).end();
                        self.left.push_back(Left::Lines(stream));
                    }
                }
            }
        }
    }

    fn take(&mut self, at: u64, what: What) {
        self.at = at;
        match what {
            What::Bytes { from, stream, bytes } => {
                if let Some(stream) = Stream::of(from, &stream) {
                    self.decoder(stream).feed(&bytes);
                    self.left.push_back(Left::Lines(stream));
                }
            }
            What::End { from, stream } => {
                if let Some(stream) = Stream::of(from, &stream) {
                    self.decoder(stream).end();
                    self.left.push_back(Left::Lines(stream));
                }
                self.left.push_back(Left::Event(What::End { from, stream }));
            }
            what => self.left.push_back(Left::Event(what)),
        }
    }

    fn decoder(&mut self, stream: Stream) -> &mut LineDecoder {
        match stream {
            Stream::Input => &mut self.client,
            Stream::Output => &mut self.server,
            Stream::Errors => &mut self.log,
        }
    }

    /// Returns the next complete line of a stream.
    fn cut(&mut self, stream: Stream) -> Option<Item> {
        let at = self.at;
        let frame = self.decoder(stream).next_frame()?;
        let (bytes, end) = (frame.bytes().to_vec(), frame.end());
        let from = match stream {
            Stream::Input => Origin::Client,
            Stream::Output => Origin::Server,
            Stream::Errors => return Some(Item::Log { at, text: String::from_utf8_lossy(&bytes).into_owned() }),
        };
        Some(Item::Line(Line { at, from, bytes, end }))
    }
}

impl Stream {
    fn of(from: Origin, stream: &str) -> Option<Self> {
        match (from, stream) {
            (Origin::Client, "stdin") => Some(Self::Input),
            (Origin::Server, "stdout") => Some(Self::Output),
            (Origin::Server, "stderr") => Some(Self::Errors),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_chunk_are_cut_when_they_are_asked_for() {
        let chunk = "x\\n".repeat(100_000);
        let record = format!(
            "{{\"mcp_record\":1,\"transport\":\"stdio\"}}\n\
             {{\"t\":7,\"from\":\"server\",\"stream\":\"stdout\",\"text\":\"{chunk}\"}}\n"
        );
        let reader = Reader::new("a".into(), record.as_bytes()).expect("a record");
        let mut lines = Lines::new(reader).expect("one of stdio");
        let expected = Item::Line(Line { at: 7, from: Origin::Server, bytes: b"x".to_vec(), end: FrameEnd::Complete });
        for _ in 0..100_000 {
            assert_eq!(lines.next_item().expect("JSON").as_ref(), Some(&expected));
            assert!(lines.left.len() <= 1, "no line is cut before it is asked for");
        }
        assert_eq!(lines.next_item().expect("JSON"), None);
    }
}
