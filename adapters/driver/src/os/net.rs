//! TCP sockets.

use std::{
    io::{self, ErrorKind},
    net::{TcpListener, ToSocketAddrs},
    time::Duration,
};

use rustix::{fd::AsFd, io::Errno, net::Shutdown};

pub use super::system::limits::most_connections;

/// Shuts down the write direction of a socket, which can still be read.
pub fn end_output(socket: impl AsFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Binds a non-blocking listener to the first of these TCP addresses that is available.
///
/// # Errors
/// If none is available.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    // The backlog of the standard library is too small for many simultaneous connections.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// How many connections may wait to be accepted.
pub const BACKLOG: i32 = 1024;

/// How long to wait when no connection could be accepted and the socket has not [failed](is_fatal).
pub const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Returns whether a connection could not be accepted only because its client has left or another process accepted it.
#[must_use]
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Returns whether a socket that failed to accept a connection will never accept another one: it is not open, not a
/// socket, or does not listen, or the error is not one of the system. All other errors are those of one connection, of
/// a firewall, or of a shortage of descriptors or memory, and pass: accept(2) also returns network errors of a
/// connection that was not accepted yet.
#[must_use]
pub fn is_fatal(error: &io::Error) -> bool {
    let errnos = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    error.raw_os_error().map_or(!is_transient(error), |raw| errnos.iter().any(|errno| raw == errno.raw_os_error()))
}

/// The keep-alive settings of TCP connections: the idle time before the first probe, the interval of probes, and their
/// number.
#[cfg(not(target_os = "openbsd"))]
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 4);

/// Enables keep-alive probes for a TCP connection: after a minute of silence, four within another minute. They end the
/// connection of a peer that has vanished. Errors are ignored: they mean that the connection has ended, which its
/// reader notices.
///
/// OpenBSD has these settings for the whole system only.
pub fn keep_alive(socket: impl AsFd) {
    let socket = socket.as_fd();
    let enabled = rustix::net::sockopt::set_socket_keepalive(socket, true);
    #[cfg(not(target_os = "openbsd"))]
    {
        use rustix::net::sockopt::{set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};

        let (idle, interval, count) = KEEPALIVE;
        let _ = enabled
            .and_then(|()| set_tcp_keepidle(socket, idle))
            .and_then(|()| set_tcp_keepintvl(socket, interval))
            .and_then(|()| set_tcp_keepcnt(socket, count));
    }
    #[cfg(target_os = "openbsd")]
    let _ = enabled;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_is_broken_ends_a_listener() {
        let of = |errno: Errno| io::Error::from(errno);
        for errno in [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT] {
            assert!(is_fatal(&of(errno)), "{errno}");
        }
        // Errors of accept(2) that concern a connection, a firewall, or a shortage.
        for errno in [
            Errno::NETDOWN,
            #[cfg(unix)]
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::OPNOTSUPP,
            Errno::NETUNREACH,
            Errno::CONNABORTED,
            #[cfg(unix)]
            Errno::PERM,
            Errno::TIMEDOUT,
            Errno::MFILE,
            #[cfg(unix)]
            Errno::NFILE,
            Errno::NOBUFS,
            #[cfg(unix)]
            Errno::NOMEM,
            Errno::AGAIN,
            Errno::INTR,
        ] {
            assert!(!is_fatal(&of(errno)), "{errno}");
        }
        assert!(is_fatal(&io::Error::other("the runtime has ended")));
    }
}
