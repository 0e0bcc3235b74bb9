//! A server with a listener of its own.

use std::{
    future::{Future, poll_fn},
    io,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
    thread::{self, JoinHandle},
    time::Duration,
};

use mcp_proto::http::{
    Policy,
    server::{Options, Paths},
};
use mcp_service::{
    Service,
    drive::{
        Watch,
        bounds::LAST_JOBS,
        http,
        os::{self, SHORTAGE, is_passing, is_shortage},
    },
};

use super::{
    Endpoint,
    socket::{Stream, Wants, drive},
    threads::Threads,
};
use crate::{Error, Stopper, threads::spawn};

/// How long clients may take to read what was written before the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Listens on a TCP address, and serves whoever comes over HTTP/1.1, each connection on a thread. There is no encryption: that
/// is for a proxy in front.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    crowd: Arc<Crowd>,
    connections: usize,
    patience: Duration,
    endpoint: Options,
    options: crate::Options,
}

/// Those who are served.
#[derive(Debug, Default)]
struct Crowd {
    count: Watch<usize>,
    /// They are to leave when they have their answers.
    stopped: Watch<bool>,
    /// They are to leave.
    closed: Watch<bool>,
}

impl Listener {
    /// Listens on an address, such as `127.0.0.1:8000`. The endpoint is `/mcp`, for whoever comes over the loopback
    /// interface.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let socket = os::listen(address)?;
        let mut endpoint = Options::new(Policy::loopback());
        endpoint.paths = Paths::at("/mcp");
        Ok(Self {
            address: socket.local_addr()?,
            socket,
            crowd: Arc::default(),
            connections: 512,
            patience: Duration::from_secs(30),
            endpoint,
            options: crate::Options::default(),
        })
    }

    /// Under which names and paths the server is reached, by which web pages, and how much it may hold.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Options) -> Self {
        self.endpoint = endpoint;
        self
    }

    /// Serves the transport of 2024-11-05 as well: its stream at `/sse`, its messages at `/message`.
    #[must_use]
    pub fn with_old_transport(mut self) -> Self {
        self.endpoint.paths = self.endpoint.paths.with_old_transport("/sse", "/message");
        self
    }

    /// How many connections there may be at once, each of which takes a thread; further ones wait. Default 512. A client has
    /// several: one for each stream, and one for what it asks.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long the head of a request may take to come in, and then its body. Default 30 seconds.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How each session is run.
    #[must_use]
    pub fn options(mut self, options: crate::Options) -> Self {
        self.options = options;
        self
    }

    /// The address.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What another thread calls to have [`serve`](Self::serve) return.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        let crowd = self.crowd.clone();
        Box::new(move || crowd.stopped.change(|stopped| *stopped = true))
    }

    /// Serves whoever connects, until it is told to stop. Then it ends all sessions, as
    /// [`Endpoint::close`] does, and all connections, and their threads.
    ///
    /// # Errors
    /// If the socket fails, or there are no threads or descriptors to begin with. A connection that fails is nobody else's
    /// concern.
    pub fn serve(self, service: &Service) -> Result<(), Error> {
        let Self { socket, crowd, connections, patience, endpoint, options, .. } = self;
        let threads = Threads::new()?;
        let endpoint = Endpoint::on(service, endpoint, &options, threads.clone()).patience(patience);
        let mut guests: Vec<JoinHandle<()>> = Vec::new();
        let wants = Wants::nothing();
        let accept = accept(&socket, &wants, &crowd, connections.max(1), |stream| {
            guests.retain(|guest| !guest.is_finished());
            guests.extend(welcome(stream, &endpoint, &crowd));
        });
        let accepted = drive(&socket, &wants, accept).and_then(|accepted| accepted);
        // If the socket has failed, so it does for those who are served.
        crowd.stopped.change(|stopped| *stopped = true);
        drop(socket);
        endpoint.close().wait();
        // Whoever reads nothing is not waited for.
        crowd.count.wait_until(LAST_WORDS, |count| *count == 0);
        crowd.closed.change(|closed| *closed = true);
        crowd.count.wait_until(LAST_JOBS, |count| *count == 0);
        for guest in guests {
            if crowd.count.look(|count| *count == 0) || guest.is_finished() {
                let _ = guest.join();
            }
        }
        drop(endpoint);
        threads.leave(LAST_JOBS);
        Ok(accepted?)
    }
}

/// Accepts connections until it is told to stop.
async fn accept(
    socket: &TcpListener,
    wants: &Wants,
    crowd: &Crowd,
    connections: usize,
    mut welcome: impl FnMut(TcpStream),
) -> io::Result<()> {
    let mut stopped = pin!(crowd.stopped.until(|stopped| stopped.then_some(())));
    loop {
        let mut next = pin!(async {
            // One that ends makes room for another one.
            crowd.count.until(|count| (*count < connections).then_some(())).await;
            poll_fn(|_| wants.poll_accept(socket)).await
        });
        let accepted = poll_fn(|cx| match stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => next.as_mut().poll(cx).map(Some),
        });
        match accepted.await {
            None => return Ok(()),
            Some(Ok(stream)) => welcome(stream),
            Some(Err(error)) if is_passing(&error) => {}
            Some(Err(error)) if is_shortage(&error) => thread::sleep(SHORTAGE),
            Some(Err(error)) => return Err(error),
        }
    }
}

/// Serves one connection on a thread. Without one, it is hung up on.
fn welcome(stream: TcpStream, endpoint: &Endpoint, crowd: &Arc<Crowd>) -> Option<JoinHandle<()>> {
    let (endpoint, place) = (endpoint.clone(), Place::taken(crowd));
    let serve = move || {
        // How a connection fails is nobody's concern: what it carried hears of it.
        let _ = converse(stream, &endpoint, &place.0);
    };
    spawn("mcp-connection", serve).ok()
}

/// A place in the crowd.
struct Place(Arc<Crowd>);

impl Place {
    fn taken(crowd: &Arc<Crowd>) -> Self {
        crowd.count.change(|count| *count += 1);
        Self(crowd.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.count.change(|count| *count -= 1);
    }
}

fn converse(stream: TcpStream, endpoint: &Endpoint, crowd: &Crowd) -> io::Result<()> {
    let (stream, wants) = (Rc::new(stream), Wants::nothing());
    let io = Stream::new(stream.clone(), wants.clone())?;
    drive(&*stream, &wants, async {
        let mut served = pin!(http::serve(io, endpoint, &crowd.stopped));
        let mut closed = pin!(crowd.closed.until(|closed| closed.then_some(())));
        poll_fn(|cx| match closed.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => served.as_mut().poll(cx),
        })
        .await;
    })
}

/// Serves whoever connects to a TCP address, at `/mcp`, for as long as this process lives. See [`Listener`] for more to
/// choose.
///
/// # Errors
/// If the address cannot be had or the socket fails.
pub fn serve_http(service: &Service, address: impl ToSocketAddrs) -> Result<(), Error> {
    Listener::bind(address)?.serve(service)
}
