//! Pipes of child processes, and the standard input and output of this process, on Windows. Pipes cannot be polled
//! there, so their reads and writes cannot be cancelled. Those of a child process end with its job object.

use std::io;

use mcp_driver::os::{
    process::{ReadPipe, WritePipe},
    stdio::open_stdio,
};

use crate::transport::{ByteReader, ByteWriter, IoReader, IoWriter};

/// The reader of the output of a child process.
pub(crate) type ChildReader = IoReader<ReadPipe>;

pub(crate) fn child_reader(pipe: ReadPipe) -> ChildReader {
    IoReader(pipe)
}

pub(crate) fn child_writer(pipe: WritePipe) -> impl ByteWriter {
    IoWriter(pipe)
}

/// Returns a function that does nothing: when the process has exited, all that it has started is ended, so its output
/// ends.
pub(crate) fn release_handle(_output: &ChildReader) -> impl FnOnce() + Send + use<> {
    || {}
}

/// Returns the standard input and output of this process, with `take` only once.
pub(crate) fn stdio(take: bool) -> io::Result<(impl ByteReader, impl ByteWriter)> {
    let (input, output) = open_stdio(take)?;
    Ok((IoReader(input), IoWriter(output)))
}
