//! Child processes and sockets of smol, for clients, supervisors and listeners. These are the same on every runtime and
//! are in `mcp_driver`.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, ExitStatus},
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_driver::{
    ByteReader, ByteWriter, Resolve, Runtime, StreamRuntime,
    unix::fd::{is_transient, keep_alive},
};

use crate::{child, driver::Smol, executor, io::Stream, transport::Transport};

impl StreamRuntime for Smol {
    type Transport = Transport;
    type TcpListener = Async<TcpListener>;
    type UnixListener = Async<UnixListener>;

    fn start_threads(&self) -> io::Result<()> {
        executor::start()
    }

    fn wait_for_child(
        &self,
        started: Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Self::Task>> {
        Ok(Some(self.spawn(async move { exited(child::wait(started).await.ok()) })))
    }

    fn pipe_reader(pipe: OwnedFd) -> io::Result<impl ByteReader> {
        Ok(Stream::new(Async::new(ChildStdout::from(pipe))?))
    }

    fn pipe_writer(pipe: OwnedFd) -> io::Result<impl ByteWriter> {
        Ok(Stream::new(Async::new(ChildStdin::from(pipe))?))
    }

    async fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<Transport> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match Async::<TcpStream>::connect(address).await {
                Ok(stream) => return Transport::tcp(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_unix(path: PathBuf) -> io::Result<Transport> {
        Ok(Transport::unix(Async::<UnixStream>::connect(path).await?))
    }

    async fn listen_tcp(addresses: Vec<SocketAddr>) -> io::Result<Self::TcpListener> {
        Async::new(TcpListener::bind(&*addresses)?)
    }

    fn listen_unix(path: &Path) -> io::Result<Self::UnixListener> {
        Async::<UnixListener>::bind(path)
    }

    fn poll_accept_tcp(
        listener: &Self::TcpListener,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Transport, SocketAddr)>> {
        loop {
            match listener.get_ref().accept() {
                Err(error) if is_transient(&error) => ready!(listener.poll_readable(cx))?,
                accepted => {
                    let (stream, address) = accepted?;
                    keep_alive(&stream);
                    // An accepted connection that is lost is no failure of the socket.
                    if let Ok(transport) = Async::new(stream).and_then(Transport::tcp) {
                        return Poll::Ready(Ok((transport, address)));
                    }
                }
            }
        }
    }

    fn poll_accept_unix(listener: &Self::UnixListener, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        loop {
            match listener.get_ref().accept() {
                Err(error) if is_transient(&error) => ready!(listener.poll_readable(cx))?,
                accepted => {
                    // An accepted connection that is lost is no failure of the socket.
                    if let Ok(stream) = Async::new(accepted?.0) {
                        return Poll::Ready(Ok(Transport::unix(stream)));
                    }
                }
            }
        }
    }

    fn local_addr(listener: &Self::TcpListener) -> io::Result<SocketAddr> {
        listener.get_ref().local_addr()
    }
}

impl<A: ToSocketAddrs + Send + 'static> Resolve<A> for Smol {
    async fn resolve(address: A) -> io::Result<Vec<SocketAddr>> {
        // Finding a name's addresses can take its time.
        blocking::unblock(move || address.to_socket_addrs().map(Iterator::collect)).await
    }
}
