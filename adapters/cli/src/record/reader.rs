//! Reads a record line by line, so that its size does not matter.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use super::{Entry, Header};
use crate::error::Failed;

/// The longest line of a record. The recorder writes at most 64 KiB of bytes into one, which grow to 384 KiB if all are
/// control characters.
const MAX_LINE: usize = 16 << 20;

/// A record that is being read.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    name: String,
    source: R,
    line: Vec<u8>,
    number: u64,
    header: Header,
    is_cut: bool,
}

impl Reader<BufReader<File>> {
    /// Opens a file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failed> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failed::usage(format!("{name} cannot be read: {error}")))?;
        Self::new(name, BufReader::with_capacity(1 << 16, file))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line of a record with this name.
    pub(crate) fn new(name: String, source: R) -> Result<Self, Failed> {
        let header = Header { started: String::new(), transport: String::new(), server: String::new(), masked: false };
        let mut reader = Self { name, source, line: Vec::new(), number: 0, header, is_cut: false };
        if !reader.next_line()? {
            return Err(Failed::usage(format!("{} is empty: it is no record", reader.name)));
        }
        reader.header = Header::parse(&reader.line)
            .map_err(|why| Failed::usage(format!("{} is no record of `mcp record`: {why}", reader.name)))?;
        Ok(reader)
    }

    /// Returns the first line.
    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns whether the last line was incomplete: the recorder was ended while it wrote it. The bytes of that line
    /// were not forwarded.
    pub(crate) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the next entry, or `None` at the end.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Failed> {
        while self.next_line()? {
            if !self.line.ends_with(b"\n") {
                self.is_cut = true;
                return Ok(None);
            }
            if self.line == b"\n" {
                continue;
            }
            match Entry::parse(&self.line) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {}
                Err(why) => return Err(Failed::usage(format!("line {} of {} {why}", self.number, self.name))),
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<bool, Failed> {
        self.line.clear();
        self.number += 1;
        let limit = MAX_LINE as u64 + 1;
        let read = self.source.by_ref().take(limit).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| Failed::usage(format!("{} cannot be read: {error}", self.name)))?;
        if self.line.len() > MAX_LINE {
            return Err(Failed::usage(format!("line {} of {} is longer than 16 MiB", self.number, self.name)));
        }
        Ok(read > 0)
    }
}
