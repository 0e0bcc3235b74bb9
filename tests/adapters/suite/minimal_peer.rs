//! A minimal client and server, and functions that wait with a timeout.

use std::sync::{
    Arc, Condvar, Mutex,
    mpsc::{Receiver, Sender, channel},
};

use mcp_driver::DriverOptions;
use mcp_proto::{
    connection::{
        Client, ClientConfig, ClientRole, Connection, Event, ResourceUsage, SendError, Server, ServerConfig, ServerRole,
    },
    rpc::{ReplyKey, Timestamp},
    schema::Implementation,
    wire::{Json, RawJson},
};
use mcp_service::{
    Calls, Peer, Pending, block_on,
    driver_api::{Application, ConnectionHandle, Job, Schedule},
};

use crate::{
    LONG,
    adapter::{Adapter, Handle, Pair},
};

/// A received request.
pub(crate) struct ReceivedRequest<E> {
    pub(crate) connection: Arc<dyn ConnectionHandle<E>>,
    pub(crate) key: ReplyKey,
    pub(crate) method: String,
    pub(crate) params: Option<RawJson<'static>>,
}

impl<E: 'static> ReceivedRequest<E> {
    /// Responds with the params.
    pub(crate) fn echo(&self) {
        let params = self.params.as_ref().map_or("{}", |params| params.get());
        let _ = self.answer(params);
    }

    pub(crate) fn answer(&self, result: &str) -> Result<(), SendError> {
        let json = Json::parse(result.to_owned()).expect("a result is JSON");
        block_on(
            self.connection
                .when_writable(|| self.connection.update(|conn, _| conn.respond_raw(self.key, &RawJson::from(&json)))),
        )
    }
}

type Act<E> = Box<dyn Fn(ReceivedRequest<E>) -> Option<Job> + Send + Sync>;

/// An application with a [`Peer`] for calls. A closure handles its requests, and all other events are recorded.
pub(crate) struct App<E> {
    pub(crate) calls: Arc<Calls<E>>,
    act: Act<E>,
    events: Mutex<Sender<Event<'static>>>,
}

impl<E: Send + Sync + 'static> Application<E> for App<E> {
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<E>>, event: Event<'_>) -> Option<Job> {
        let event = self.calls.handle(event)?;
        if let Event::Request { key, method, params } = event {
            let params = params.map(RawJson::into_owned);
            return (self.act)(ReceivedRequest {
                connection: connection.clone(),
                key,
                method: method.as_str().to_owned(),
                params,
            });
        }
        let _ = self.events.lock().expect("no test panics here").send(event.into_owned());
        None
    }
}

/// One side of a connection.
pub(crate) struct End<A: Adapter, E: Send + 'static> {
    pub(crate) handle: A::Handle<E>,
    pub(crate) peer: Peer<E>,
    pub(crate) events: Receiver<Event<'static>>,
}

impl<A: Adapter, E: Send + Sync + 'static> End<A, E> {
    fn start(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        transport: A::Transport,
        options: &DriverOptions,
        act: impl Fn(ReceivedRequest<E>) -> Option<Job> + Send + Sync + 'static,
    ) -> Self {
        let (sender, events) = channel();
        let calls = Arc::new(Calls::default());
        let app = Arc::new(App { calls: calls.clone(), act: Box::new(act), events: Mutex::new(sender) });
        let handle = A::start(connection, app, transport, options);
        let peer = Peer::new(handle.connection(), calls);
        Self { handle, peer, events }
    }

    /// Waits for the next event.
    pub(crate) fn event(&self) -> Event<'static> {
        self.events.recv_timeout(LONG).expect("an event comes")
    }

    /// Waits for all events until the end of the connection.
    pub(crate) fn rest(&self) -> Vec<Event<'static>> {
        let mut events = Vec::new();
        while let Ok(event) = self.events.recv_timeout(LONG) {
            let last = matches!(event, Event::Closed(_));
            events.push(event);
            if last {
                break;
            }
        }
        events
    }

    /// Sends a request with params as text.
    pub(crate) fn send_request(&self, method: &str, params: &str) -> Pending<RawJson<'static>> {
        send_request(&self.peer, method, params)
    }

    /// Returns the resource usage of the connection.
    pub(crate) fn usage(&self) -> ResourceUsage {
        self.handle.connection().update(|conn, _| conn.usage())
    }
}

pub(crate) fn send_request<E: 'static>(peer: &Peer<E>, method: &str, params: &str) -> Pending<RawJson<'static>> {
    let json = Json::parse(params.to_owned()).expect("params are JSON");
    loop {
        match peer.request_raw(method, Some(&RawJson::from(&json))) {
            Ok(pending) => return pending,
            Err(SendError::Busy) => peer.wait_for_request_slot().wait(),
            Err(error) => panic!("{method} cannot be asked: {error}"),
        }
    }
}

pub(crate) fn client_config() -> ClientConfig {
    ClientConfig::new(Implementation::new("client", "1"), 1)
}

pub(crate) fn server_config() -> ServerConfig {
    ServerConfig::new(Implementation::new("server", "1"), 1)
}

/// A client that handles requests with `act`.
pub(crate) fn client_with<A: Adapter>(
    config: ClientConfig,
    transport: A::Transport,
    act: impl Fn(ReceivedRequest<ClientRole>) -> Option<Job> + Send + Sync + 'static,
) -> End<A, ClientRole> {
    End::start(|now| Client::new(config, now), transport, &DriverOptions::default(), act)
}

/// A client that expects no requests.
pub(crate) fn client<A: Adapter>(transport: A::Transport) -> End<A, ClientRole> {
    client_with::<A>(client_config(), transport, |received| panic!("unexpected {}", received.method))
}

pub(crate) fn server_with<A: Adapter>(
    config: ServerConfig,
    transport: A::Transport,
    options: &DriverOptions,
    act: impl Fn(ReceivedRequest<ServerRole>) -> Option<Job> + Send + Sync + 'static,
) -> End<A, ServerRole> {
    End::start(|now| Server::new(config, now), transport, options, act)
}

/// A server that runs `act` as a job for each request.
pub(crate) fn server<A: Adapter>(
    transport: A::Transport,
    act: impl Fn(&ReceivedRequest<ServerRole>) + Clone + Send + Sync + 'static,
) -> End<A, ServerRole> {
    server_with::<A>(server_config(), transport, &DriverOptions::default(), in_jobs(act))
}

/// Runs `act` as a concurrent job.
pub(crate) fn in_jobs<E: 'static>(
    act: impl Fn(&ReceivedRequest<E>) + Clone + Send + Sync + 'static,
) -> impl Fn(ReceivedRequest<E>) -> Option<Job> + Send + Sync + 'static {
    move |requested| {
        let act = act.clone();
        Some(Job::new(Schedule::Concurrent, move || act(&requested)))
    }
}

/// A server that responds to every request with its params.
pub(crate) fn echo<A: Adapter>(transport: A::Transport) -> End<A, ServerRole> {
    server::<A>(transport, |received| received.echo())
}

/// Returns a client and a server, after their handshake.
pub(crate) fn joined<A: Adapter>(
    (left, right): Pair<A>,
    act: impl Fn(&ReceivedRequest<ServerRole>) + Clone + Send + Sync + 'static,
) -> (End<A, ClientRole>, End<A, ServerRole>) {
    let (client, server) = (client::<A>(left), server::<A>(right, act));
    assert_eq!(client.event(), Event::Ready);
    assert_eq!(server.event(), Event::Ready);
    (client, server)
}

/// A gate that is closed until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("no test panics here") = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub(crate) fn pass(&self) {
        let guard = self.0.0.lock().expect("no test panics here");
        let (_guard, result) = self.0.1.wait_timeout_while(guard, LONG, |open| !*open).expect("no test panics here");
        assert!(!result.timed_out(), "the gate was never opened");
    }
}
