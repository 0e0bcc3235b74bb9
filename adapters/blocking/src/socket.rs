//! What all sockets have in common.

use std::{io, os::fd::OwnedFd, time::Duration};

use crate::{
    Transport,
    fd::{FdSink, FdSource},
};

/// How long a peer may take to close its end. If ours were closed while it still sends, the system would
/// call the connection reset, and what it has not read yet would be lost.
const LINGER: Duration = Duration::from_millis(500);

pub(crate) fn transport(reader: OwnedFd, writer: OwnedFd) -> io::Result<Transport> {
    Ok(Transport::new(FdSource::new(reader)?, FdSink::new(writer, true)?).linger(LINGER))
}
