//! TCP.

use std::{io, net::TcpStream};

use crate::{Transport, socket};

impl Transport {
    /// Runs over a TCP connection. There is no encryption and no authentication in it: anything that can connect is
    /// served.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        // A message is written in one go, and the next one waits for its answer.
        stream.set_nodelay(true)?;
        socket::transport(stream.try_clone()?.into(), stream.into())
    }
}
