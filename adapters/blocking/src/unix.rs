//! Unix domain sockets.

use std::{io, os::unix::net::UnixStream};

use crate::{Transport, socket};

impl Transport {
    /// Runs over a Unix domain socket. Who may connect is decided by the permissions of its path.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        socket::transport(stream.try_clone()?.into(), stream.into())
    }
}
