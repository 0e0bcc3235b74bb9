//! The standard input and output of this process.

use std::io;

use super::process::{ReadPipe, WritePipe};

/// Returns the standard input and output of this process.
pub(in crate::os) fn share() -> io::Result<(ReadPipe, WritePipe)> {
    Ok((ReadPipe::new(io::stdin()), WritePipe::new(io::stdout())))
}

/// Does nothing: the standard library cannot replace the standard streams.
pub(in crate::os) const fn replace() -> io::Result<()> {
    Ok(())
}
