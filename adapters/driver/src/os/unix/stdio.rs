//! The standard input and output of this process.

use std::{fs::File, io, os::fd::OwnedFd, sync::Mutex};

use rustix::{
    io::fcntl_dupfd_cloexec,
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};

use crate::sync::lock;

/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;

/// Returns copies of the standard input and output of this process, which keep their descriptors. No other code may
/// read from the one or write to the other while the copies are in use.
///
/// # Errors
/// If the system has no descriptors left.
pub fn share_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((fcntl_dupfd_cloexec(stdin(), FIRST)?, fcntl_dupfd_cloexec(stdout(), FIRST)?))
}

/// Takes standard input and output away from other code of this process: descriptor 0 becomes `/dev/null` and
/// descriptor 1 a copy of standard error.
///
/// # Errors
/// If they were taken before, or the system has no descriptors left.
pub fn take_stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    // The lock is held until the end, so that concurrent callers wait. The streams count as taken only if this
    // succeeds.
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = lock(&TAKEN);
    if *taken {
        return Err(io::Error::other("standard input and output belong to a connection already"));
    }
    let (streams, nothing) = (share_stdio()?, File::open("/dev/null")?);
    // Text that `print!` has buffered goes to standard error too, when it is flushed.
    dup2_stdin(nothing)?;
    dup2_stdout(stderr())?;
    *taken = true;
    Ok(streams)
}
