//! The interface between HTTP and a runtime.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use hyper::rt::{Read, Write};

use crate::runtime::Runtime;

/// A runtime that connects to TCP sockets.
pub trait ConnectRuntime: Runtime {
    /// A connection, with the I/O traits of hyper. It has `TCP_NODELAY`, since clients wait for each of the small
    /// chunks of a stream.
    type Stream: Read + Write + Send + Unpin + 'static;

    /// Connects to an address.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;

    /// Returns the flag with which a client makes a stream check its socket. By default nothing reads the flag: a read
    /// has to return the end of such a stream as soon as the peer has closed the connection.
    fn recheck(stream: &Self::Stream) -> Recheck {
        let _ = stream;
        Recheck::default()
    }
}

/// Makes the next read of a stream check its socket, although the runtime has not reported it as readable.
///
/// A client requests this before each request on an open connection: the runtime reports only later that the server has
/// closed the connection, and then the request has to be sent on another one.
#[derive(Clone, Debug, Default)]
pub struct Recheck(Arc<AtomicBool>);

impl Recheck {
    /// Requests the check.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the check was requested since the last call.
    #[must_use]
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Acquire)
    }
}

/// A runtime with TCP sockets, also those that listen.
pub trait NetRuntime: ConnectRuntime {
    /// A listening socket.
    type Socket: fmt::Debug + Send + Sync + 'static;

    /// Registers a listening, non-blocking socket with the runtime.
    ///
    /// # Errors
    /// The error of the system.
    fn listen(&self, socket: TcpListener) -> io::Result<Self::Socket>;

    /// Accepts a connection, and returns it with the address of its peer.
    ///
    /// # Errors
    /// The error of the system. One that is not [fatal](crate::os::net::is_fatal) does not end the listener.
    fn poll_accept(socket: &Self::Socket, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Stream, SocketAddr)>>;
}
