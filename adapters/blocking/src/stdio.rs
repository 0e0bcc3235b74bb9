//! The standard input and output of this process.

use std::{
    fs::File,
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    io::fcntl_dupfd_cloexec,
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};

use crate::{
    Transport,
    fd::{FdSink, FdSource},
};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Numbers below are those of the standard streams.
const FIRST: i32 = 3;

impl Transport {
    /// Runs over this process's standard input and output, and keeps everybody else away from them: descriptor 0
    /// becomes `/dev/null` and descriptor 1 a copy of standard error. So whatever handlers print with `println!`, and
    /// whatever programs they start read and write, stays out of the connection.
    ///
    /// # Errors
    /// If they were taken before, or the system has no descriptors left.
    pub fn stdio() -> io::Result<Self> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            return Err(io::Error::other("standard input and output belong to a connection already"));
        }
        let transport = Self::stdio_shared()?;
        // Half a line that `print!` holds back goes to standard error as well, when it goes.
        dup2_stdin(File::open("/dev/null")?)?;
        dup2_stdout(stderr())?;
        Ok(transport)
    }

    /// Runs over this process's standard input and output without protecting them. Nothing else may read from standard
    /// input or write to standard output while the connection lasts, and standard output stays open after it.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn stdio_shared() -> io::Result<Self> {
        let source = FdSource::new(fcntl_dupfd_cloexec(stdin(), FIRST)?)?;
        let sink = FdSink::new(fcntl_dupfd_cloexec(stdout(), FIRST)?, false)?;
        Ok(Self::new(source, sink))
    }
}
