//! Cuts the chunks of a record into lines.

use std::{collections::VecDeque, io::BufRead};

use mcp_proto::codec::{FrameEnd, LineDecoder};

use crate::{
    error::Failed,
    record::{Entry, Origin, Reader, What},
};

/// The longest message.
const MAX_MESSAGE: usize = 16 << 20;

/// A line of one of the standard streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Microseconds since the start, when the last byte was read.
    pub(crate) at: u64,
    pub(crate) from: Origin,
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: FrameEnd,
}

/// What comes next in a record.
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

/// Reads a record as lines. Memory: at most three lines and one chunk.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: Reader<R>,
    client: LineDecoder,
    server: LineDecoder,
    log: LineDecoder,
    /// The items of the last chunk.
    ready: VecDeque<Item>,
    at: u64,
    is_over: bool,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: Reader<R>) -> Result<Self, Failed> {
        if reader.header().transport != "stdio" {
            let why =
                format!("the record is one of {}: only those of stdio can be read so far", reader.header().transport);
            return Err(Failed::usage(why));
        }
        let decoder = || LineDecoder::new(MAX_MESSAGE);
        let (client, server, log) = (decoder(), decoder(), decoder());
        Ok(Self { reader, client, server, log, ready: VecDeque::new(), at: 0, is_over: false })
    }

    pub(crate) const fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Returns the next item, or `None` at the end.
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Failed> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            match self.reader.next_entry()? {
                Some(Entry { at, what }) => self.take(at, what),
                None if self.is_over => return Ok(None),
                None => {
                    self.is_over = true;
                    for (from, stream) in
                        [(Origin::Client, "stdin"), (Origin::Server, "stdout"), (Origin::Server, "stderr")]
                    {
                        self.end(self.at, from, stream);
                    }
                }
            }
        }
    }

    fn take(&mut self, at: u64, what: What) {
        self.at = at;
        match what {
            What::Bytes { from, stream, bytes } => {
                if let Some(decoder) = self.decoder(from, &stream) {
                    decoder.feed(&bytes);
                    self.cut(at, from, &stream);
                }
            }
            What::End { from, stream } => {
                self.end(at, from, &stream);
                self.ready.push_back(Item::Event { at, what: What::End { from, stream } });
            }
            what => self.ready.push_back(Item::Event { at, what }),
        }
    }

    fn end(&mut self, at: u64, from: Origin, stream: &str) {
        if let Some(decoder) = self.decoder(from, stream) {
            decoder.end();
            self.cut(at, from, stream);
        }
    }

    fn decoder(&mut self, from: Origin, stream: &str) -> Option<&mut LineDecoder> {
        match (from, stream) {
            (Origin::Client, "stdin") => Some(&mut self.client),
            (Origin::Server, "stdout") => Some(&mut self.server),
            (Origin::Server, "stderr") => Some(&mut self.log),
            _ => None,
        }
    }

    fn cut(&mut self, at: u64, from: Origin, stream: &str) {
        let is_log = stream == "stderr";
        loop {
            let Some(decoder) = self.decoder(from, stream) else { return };
            let Some(frame) = decoder.next_frame() else { return };
            let (bytes, end) = (frame.bytes().to_vec(), frame.end());
            self.ready.push_back(if is_log {
                Item::Log { at, text: String::from_utf8_lossy(&bytes).into_owned() }
            } else {
                Item::Line(Line { at, from, bytes, end })
            });
        }
    }
}
