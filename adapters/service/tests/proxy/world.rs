//! Backends, the service in front of them, and its clients, all in memory.

use std::{
    fmt,
    future::Future,
    ops::Deref,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use mcp_proto::{
    connection::ClientRole,
    protocol::ProtocolVersion::{self, V2025_11_25, V2026_07_28},
};
use mcp_service::{
    Host, Peer, Service,
    proxy::{Backend, BackendBuilder},
    testing::TestClient,
};

/// Revisions of the client and of the backend: one of each era.
pub(crate) const ERAS: [(ProtocolVersion, ProtocolVersion); 4] =
    [(V2025_11_25, V2025_11_25), (V2025_11_25, V2026_07_28), (V2026_07_28, V2025_11_25), (V2026_07_28, V2026_07_28)];

/// A client, as a driver returns it.
pub(crate) struct Link(Peer<ClientRole>);

impl Deref for Link {
    type Target = Peer<ClientRole>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The reason for which a backend is not connected again.
#[derive(Debug, PartialEq)]
pub(crate) struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("given up")
    }
}

/// The code that runs a backend. It is polled only when it was woken, as by an executor.
struct Run {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Run {
    fn new(future: impl Future<Output = ()> + 'static) -> Self {
        Self { future: Box::pin(future), woken: Arc::new(Woken(AtomicBool::new(true))) }
    }

    /// Returns whether it goes on.
    fn poll(&mut self) -> bool {
        let waker = Waker::from(self.woken.clone());
        while self.woken.0.swap(false, Ordering::SeqCst) {
            if self.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                return false;
            }
        }
        true
    }
}

/// A backend, and the connections that are prepared for it.
pub(crate) struct Server {
    pub(crate) backend: Backend,
    /// The current connection.
    pub(crate) connection: Option<TestClient>,
    next: Arc<Mutex<Vec<Link>>>,
    /// Whether attempts to connect wait without an end if no connection is prepared.
    pub(crate) waits: Arc<AtomicBool>,
}

/// A service, its backends and its clients.
pub(crate) struct World {
    pub(crate) service: Service,
    pub(crate) servers: Vec<Server>,
    pub(crate) clients: Vec<TestClient>,
    runs: Vec<Run>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Service::builder("front", "1.0.0").enable_backends().build().expect("a service"))
    }

    pub(crate) fn with(service: Service) -> Self {
        Self { service, servers: Vec::new(), clients: Vec::new(), runs: Vec::new() }
    }

    /// Adds a backend and connects to it.
    pub(crate) fn serve(&mut self, builder: BackendBuilder, service: &Service, version: ProtocolVersion) -> usize {
        let backend = builder.join(&self.service).expect("a backend");
        let next = Arc::new(Mutex::new(Vec::new()));
        let waits = Arc::new(AtomicBool::new(false));
        let server = Server { backend: backend.clone(), connection: None, next: next.clone(), waits: waits.clone() };
        self.servers.push(server);
        self.connect(self.servers.len() - 1, service, version);
        self.runs.push(Run::new(async move {
            let connect = || async {
                let link = next.lock().expect("no panic").pop();
                match link {
                    None if waits.load(Ordering::SeqCst) => std::future::pending().await,
                    link => link.ok_or(GivenUp),
                }
            };
            let _ = backend.run(connect).await;
        }));
        self.settle();
        self.servers.len() - 1
    }

    /// Ends the code that runs the backends. Their connections stay open.
    pub(crate) fn stop(&mut self) {
        self.runs.clear();
        self.settle();
    }

    /// Prepares a new connection to a backend.
    pub(crate) fn connect(&mut self, number: usize, service: &Service, version: ProtocolVersion) {
        let server = &mut self.servers[number];
        let connection = TestClient::of(service).host(server.backend.host()).version(version).connect();
        server.next.lock().expect("no panic").push(Link(connection.server()));
        // The former one is cut.
        server.connection = Some(connection);
    }

    /// Adds a client of the service.
    pub(crate) fn client(&mut self, host: &Host, version: ProtocolVersion) -> usize {
        self.clients.push(TestClient::of(&self.service).host(host).version(version).connect());
        self.clients.len() - 1
    }

    /// Lets everything happen that can happen without time.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        let mut before = 0;
        while quiet < 3 {
            self.runs.retain_mut(Run::poll);
            let connections = self.servers.iter().filter_map(|server| server.connection.as_ref()).chain(&self.clients);
            let mut after = 0;
            for connection in connections {
                connection.settle();
                after += connection.transcript().lines().len();
            }
            quiet = if after == before { quiet + 1 } else { 0 };
            before = after;
        }
    }

    /// Waits for a future.
    #[track_caller]
    pub(crate) fn wait<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        for _ in 0..100 {
            self.settle();
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                self.settle();
                return output;
            }
        }
        let clients: Vec<_> = self.clients.iter().map(|client| client.transcript().to_string()).collect();
        panic!("nothing happens any more:\n{}", clients.join("\n"));
    }

    /// Asserts that no request of a client is in flight at a backend.
    #[track_caller]
    pub(crate) fn assert_idle(&self, server: usize, version: ProtocolVersion) {
        assert_eq!(self.servers[server].backend.calls(), 0);
        // A subscription of 2026-07-28 is a request that stays in flight.
        if version == V2025_11_25 {
            self.back(server).assert_idle();
        }
    }

    /// Returns the peer of a client.
    pub(crate) fn peer(&self, client: usize) -> Peer<ClientRole> {
        self.clients[client].server()
    }

    /// Returns the connection to a backend.
    pub(crate) fn back(&self, server: usize) -> &TestClient {
        self.servers[server].connection.as_ref().expect("it is connected")
    }
}
