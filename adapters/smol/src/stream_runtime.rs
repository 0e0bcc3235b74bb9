//! Child processes and sockets of smol, for clients, supervisors and listeners. These are the same on every runtime and
//! are in `mcp_driver`.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    task::{Context, Poll, ready},
};

use async_io::Async;
use mcp_driver::{
    ByteReader, ByteWriter, Resolve, StreamRuntime,
    os::{
        net::{is_transient, keep_alive},
        process::{ReadPipe, WritePipe},
    },
};

use crate::{driver::Smol, executor, os, transport::Transport};

impl StreamRuntime for Smol {
    type Transport = Transport;
    type TcpListener = Async<TcpListener>;
    type LocalListener = os::LocalListener;

    fn start_threads(&self) -> io::Result<()> {
        executor::start()
    }

    fn wait_for_child(
        &self,
        started: Child,
        exited: impl FnOnce(Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Option<Self::Task>> {
        os::wait_for_child(started, exited)
    }

    fn pipe_reader(pipe: ReadPipe) -> io::Result<impl ByteReader> {
        os::pipe_reader(pipe)
    }

    fn pipe_writer(pipe: WritePipe) -> io::Result<impl ByteWriter> {
        os::pipe_writer(pipe)
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

    async fn connect_local(path: PathBuf) -> io::Result<Transport> {
        Ok(Transport::local(os::connect_local(path).await?))
    }

    async fn listen_tcp(addresses: Vec<SocketAddr>) -> io::Result<Self::TcpListener> {
        Async::new(TcpListener::bind(&*addresses)?)
    }

    fn listen_local(path: &Path) -> io::Result<Self::LocalListener> {
        os::listen_local(path)
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

    fn poll_accept_local(listener: &Self::LocalListener, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        os::poll_accept_local(listener, cx).map_ok(Transport::local)
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
