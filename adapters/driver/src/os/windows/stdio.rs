//! The standard input and output of this process.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use super::process::{ReadPipe, WritePipe};

/// Returns the standard input and output of this process. No other code may read from the one or write to the other
/// while they are in use.
///
/// # Errors
/// It does not fail at present.
pub fn share_stdio() -> io::Result<(ReadPipe, WritePipe)> {
    Ok((ReadPipe::new(io::stdin()), WritePipe::new(io::stdout())))
}

/// Does what [`share_stdio`] does, once. The standard library cannot replace the standard streams of Windows, so they
/// are not taken away from other code of this process.
///
/// # Errors
/// If they were taken before.
pub fn take_stdio() -> io::Result<(ReadPipe, WritePipe)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(io::Error::other("standard input and output belong to a connection already"));
    }
    share_stdio()
}
