//! Any reader and any writer.

use std::io::{self, ErrorKind, Read, Write};

use crate::{Sink, Source, Transport};

impl Transport {
    /// Runs over anything that can be read from and written to.
    ///
    /// What is written is flushed. A plain reader cannot be told to stop reading: when the connection ends first, the
    /// thread that waits in it stays until it returns, and nobody waits for it.
    pub fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self::new(Reader(reader), Writer(writer))
    }
}

struct Reader<R>(R);

impl<R: Read + Send + 'static> Source for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

struct Writer<W>(W);

impl<W: Write + Send + 'static> Sink for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        self.0.flush()?;
        Ok(bytes.len())
    }
}
