//! The standard input and output of this process.

use std::{fs::File, io, os::fd::OwnedFd};

use rustix::{
    io::fcntl_dupfd_cloexec,
    stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout},
};

/// The first descriptor that is not a standard stream.
const FIRST: i32 = 3;

/// Returns copies of the standard input and output of this process, which keep their descriptors.
pub(in crate::os) fn share() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((fcntl_dupfd_cloexec(stdin(), FIRST)?, fcntl_dupfd_cloexec(stdout(), FIRST)?))
}

/// Takes standard input and output away from other code of this process.
pub(in crate::os) fn replace() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    // Text that `print!` has buffered goes to standard error too, when it is flushed.
    dup2_stdin(nothing)?;
    dup2_stdout(stderr())?;
    Ok(())
}
