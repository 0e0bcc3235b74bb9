//! Child processes and sockets of tokio, for clients, supervisors and listeners. These are the same on every runtime
//! and are in `mcp_driver`.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll, ready},
};

use mcp_driver::{
    ByteReader, ByteWriter, Resolve, StreamRuntime,
    os::{
        net::keep_alive,
        process::{ReadPipe, WritePipe},
    },
};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs, lookup_host};

use crate::{driver::Tokio, os, transport::Transport};

impl StreamRuntime for Tokio {
    type Transport = Transport;
    type TcpListener = TcpListener;
    type LocalListener = os::LocalListener;

    fn wait_for_child(
        &self,
        started: Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Self::Task>> {
        os::child::wait(started, exited, self)
    }

    fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
        os::pipe_reader(pipe)
    }

    fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
        os::pipe_writer(pipe)
    }

    async fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<Transport> {
        Transport::tcp(TcpStream::connect(&*addresses).await?)
    }

    async fn connect_local(path: PathBuf) -> io::Result<Transport> {
        Ok(Transport::local(os::connect_local(path).await?))
    }

    async fn listen_tcp(addresses: Vec<SocketAddr>) -> io::Result<TcpListener> {
        TcpListener::bind(&*addresses).await
    }

    fn listen_local(path: &Path) -> io::Result<os::LocalListener> {
        os::listen_local(path)
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

    fn poll_accept_local(listener: &os::LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        os::poll_accept_local(listener, cx).map_ok(Transport::local)
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
