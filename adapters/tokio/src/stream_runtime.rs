//! Child processes and sockets of tokio, for clients, supervisors and listeners. These are the same on every runtime
//! and are in `mcp_driver`.

use std::{
    io,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll, ready},
};

use mcp_driver::{ByteReader, ByteWriter, Resolve, StreamRuntime, unix::fd::keep_alive};
use tokio::net::{
    TcpListener, TcpStream, ToSocketAddrs, UnixListener, UnixStream, lookup_host,
    unix::pipe::{Receiver, Sender},
};

use crate::{child, driver::Tokio, io::Stream, transport::Transport};

impl StreamRuntime for Tokio {
    type Transport = Transport;
    type TcpListener = TcpListener;
    type UnixListener = UnixListener;

    fn wait_for_child(
        &self,
        started: Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Self::Task>> {
        child::wait(started, exited, self)
    }

    fn pipe_reader(pipe: OwnedFd) -> io::Result<impl ByteReader> {
        Ok(Stream::new(Receiver::from_owned_fd(pipe)?))
    }

    fn pipe_writer(pipe: OwnedFd) -> io::Result<impl ByteWriter> {
        Ok(Stream::new(Sender::from_owned_fd(pipe)?))
    }

    async fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<Transport> {
        Transport::tcp(TcpStream::connect(&*addresses).await?)
    }

    async fn connect_unix(path: PathBuf) -> io::Result<Transport> {
        Ok(Transport::unix(UnixStream::connect(path).await?))
    }

    async fn listen_tcp(addresses: Vec<SocketAddr>) -> io::Result<TcpListener> {
        TcpListener::bind(&*addresses).await
    }

    fn listen_unix(path: &Path) -> io::Result<UnixListener> {
        UnixListener::bind(path)
    }

    fn poll_accept_tcp(listener: &TcpListener, cx: &mut Context<'_>) -> Poll<io::Result<(Transport, SocketAddr)>> {
        loop {
            let (stream, address) = ready!(listener.poll_accept(cx))?;
            keep_alive(&stream);
            // An accepted connection that is lost is no failure of the socket.
            if let Ok(transport) = Transport::tcp(stream) {
                return Poll::Ready(Ok((transport, address)));
            }
        }
    }

    fn poll_accept_unix(listener: &UnixListener, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        listener.poll_accept(cx).map_ok(|(stream, _)| Transport::unix(stream))
    }

    fn local_addr(listener: &TcpListener) -> io::Result<SocketAddr> {
        listener.local_addr()
    }
}

impl<A: ToSocketAddrs> Resolve<A> for Tokio {
    async fn resolve(address: A) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host(address).await?.collect())
    }
}
