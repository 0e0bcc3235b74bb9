//! Pipes of child processes, and the standard input and output of this process, on Unix.

use std::io;

use mcp_driver::{
    FdReader, FdWriter,
    os::{
        process::{ReadPipe, WritePipe},
        stdio::open_stdio,
    },
};

use crate::transport::{ByteReader, ByteWriter};

/// The reader of the output of a child process.
pub(crate) type ChildReader = FdReader;

pub(crate) fn child_reader(pipe: ReadPipe) -> ChildReader {
    FdReader::new(pipe)
}

pub(crate) fn child_writer(pipe: WritePipe) -> impl ByteWriter {
    FdWriter::new(pipe, false)
}

/// Returns a function that ends all waits for output. What is available can still be read: the end does not depend on
/// other processes that hold the pipe open.
pub(crate) fn release_handle(output: &ChildReader) -> impl FnOnce() + Send + use<> {
    let interrupt = output.interrupt().clone();
    move || interrupt.release()
}

/// Returns the standard input and output of this process, and with `take` replaces them for other code.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((FdReader::new(input), FdWriter::new(output, false)))
}
