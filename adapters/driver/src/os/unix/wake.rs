//! A pair of ends, one of which can be polled until the other one wakes it.

use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsFd, BorrowedFd},
};

/// The end that becomes readable: for good when the other end is dropped, and otherwise once for each
/// [`wake`](WakeWriter::wake).
#[derive(Debug)]
pub struct WakeReader(PipeReader);

/// The end that wakes the other one.
#[derive(Debug)]
pub struct WakeWriter(PipeWriter);

/// Creates a pair.
///
/// # Errors
/// If the system has no descriptors left.
pub fn wake_pair() -> io::Result<(WakeReader, WakeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((WakeReader(reader), WakeWriter(writer)))
}

impl WakeReader {
    /// Consumes one wake-up, and waits for it if there is none.
    ///
    /// # Errors
    /// If the other end was dropped.
    pub fn drain_one(&self) -> io::Result<()> {
        (&self.0).read_exact(&mut [0])
    }
}

impl AsFd for WakeReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl WakeWriter {
    /// Wakes the other end. It has room for more wake-ups than there can be threads that cause them.
    pub fn wake(&self) {
        let _ = (&self.0).write(&[1]);
    }
}
