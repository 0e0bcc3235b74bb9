//! The standard input and output of this process.

use std::{io, sync::Mutex};

use super::{
    process::{ReadPipe, WritePipe},
    system::stdio::{replace, share},
};
use crate::sync::lock;

/// Returns the standard input and output of this process. No other code may read from the one or write to the other
/// while they are in use.
///
/// With `take` it succeeds only once, and takes them away from other code where the system allows that: on Unix,
/// descriptor 0 becomes `/dev/null` and descriptor 1 a copy of standard error. The standard library cannot replace the
/// standard streams of Windows.
///
/// # Errors
/// If they were taken before, or the system has no descriptors left.
pub fn open_stdio(take: bool) -> io::Result<(ReadPipe, WritePipe)> {
    if !take {
        return share();
    }
    // The lock is held until the end, so that concurrent callers wait. The streams count as taken only if this
    // succeeds.
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let mut taken = lock(&TAKEN);
    if *taken {
        return Err(io::Error::other("standard input and output belong to a connection already"));
    }
    let streams = share()?;
    replace()?;
    *taken = true;
    Ok(streams)
}
