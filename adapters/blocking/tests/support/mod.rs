//! Two ends with as little in them as possible, and ways to wait that cannot hang.
#![allow(dead_code, unreachable_pub, reason = "each test file is a program of its own and uses some of it")]

pub mod raw;

use std::{
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use mcp_blocking::{Handle, Options, Transport};
use mcp_proto::{
    connection::{Client, ClientConfig, ClientEnd, Connection, Event, SendError, Server, ServerConfig, ServerEnd},
    rpc::ReplyKey,
    schema::Implementation,
    wire::RawJson,
};
use mcp_service::{Application, Calls, Job, Link, Order, Peer, Pending, block_on};

/// More than anything takes; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(20);

/// A request that an end was asked.
pub struct Asked<E> {
    pub link: Arc<dyn Link<E>>,
    pub key: ReplyKey,
    pub method: String,
    pub params: Option<RawJson<'static>>,
}

impl<E: 'static> Asked<E> {
    /// Answers with the params.
    pub fn echo(&self) {
        let params = self.params.as_ref().map_or("{}", |params| params.get());
        let _ = self.answer(params);
    }

    pub fn answer(&self, result: &str) -> Result<(), SendError> {
        let json = mcp_proto::wire::Json::parse(result.to_owned()).expect("a result is JSON");
        block_on(self.link.say(|| self.link.run(|conn, _| conn.respond_raw(self.key, &RawJson::from(&json)))))
    }
}

type Act<E> = Box<dyn Fn(Asked<E>) -> Option<Job> + Send + Sync>;

/// An end that asks through a [`Peer`], answers by a closure, and records all that it hears beside.
pub struct App<E> {
    pub calls: Arc<Calls<E>>,
    act: Act<E>,
    heard: Mutex<Sender<Event<'static>>>,
}

impl<E: Send + Sync + 'static> Application<E> for App<E> {
    fn handle(&self, link: &Arc<dyn Link<E>>, event: Event<'_>) -> Option<Job> {
        let event = self.calls.handle(event)?;
        if let Event::Request { key, method, params } = event {
            let params = params.map(RawJson::into_owned);
            return (self.act)(Asked { link: link.clone(), key, method: method.as_str().to_owned(), params });
        }
        let _ = self.heard.lock().expect("no test panics here").send(event.into_owned());
        None
    }
}

/// One end that runs.
pub struct End<E: Send + 'static> {
    pub handle: Handle<E>,
    pub peer: Peer<E>,
    pub events: Receiver<Event<'static>>,
}

impl<E: Send + Sync + 'static> End<E> {
    fn start(
        connection: impl FnOnce(mcp_proto::rpc::Timestamp) -> Connection<E>,
        transport: Transport,
        options: &Options,
        act: impl Fn(Asked<E>) -> Option<Job> + Send + Sync + 'static,
    ) -> Self {
        let (heard, events) = channel();
        let calls = Arc::new(Calls::default());
        let app = Arc::new(App { calls: calls.clone(), act: Box::new(act), heard: Mutex::new(heard) });
        let handle = Handle::start(connection, app, transport, options).expect("there are threads");
        let peer = Peer::new(handle.link(), calls);
        Self { handle, peer, events }
    }

    /// The next event.
    pub fn event(&self) -> Event<'static> {
        self.events.recv_timeout(LONG).expect("an event comes")
    }

    /// The events up to the end of the connection.
    pub fn rest(&self) -> Vec<Event<'static>> {
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

    /// Makes a request with params as text.
    pub fn ask(&self, method: &str, params: &str) -> Pending<RawJson<'static>> {
        ask(&self.peer, method, params)
    }

    /// What the connection holds.
    pub fn usage(&self) -> mcp_proto::connection::Usage {
        self.handle.link().run(|conn, _| conn.usage())
    }
}

pub fn ask<E: 'static>(peer: &Peer<E>, method: &str, params: &str) -> Pending<RawJson<'static>> {
    let json = mcp_proto::wire::Json::parse(params.to_owned()).expect("params are JSON");
    loop {
        match peer.request_raw(method, Some(&RawJson::from(&json))) {
            Ok(pending) => return pending,
            Err(SendError::Busy) => peer.room().wait(),
            Err(error) => panic!("{method} cannot be asked: {error}"),
        }
    }
}

pub fn client_config() -> ClientConfig {
    ClientConfig::new(Implementation::new("client", "1"))
}

pub fn server_config() -> ServerConfig {
    ServerConfig::new(Implementation::new("server", "1"))
}

/// A client that answers `act`.
pub fn client_with(
    config: ClientConfig,
    transport: Transport,
    act: impl Fn(Asked<ClientEnd>) -> Option<Job> + Send + Sync + 'static,
) -> End<ClientEnd> {
    End::start(|now| Client::new(config, now), transport, &Options::default(), act)
}

/// A client that answers nothing.
pub fn client(transport: Transport) -> End<ClientEnd> {
    client_with(client_config(), transport, |asked| panic!("nobody asks for {}", asked.method))
}

pub fn server_with(
    config: ServerConfig,
    transport: Transport,
    options: &Options,
    act: impl Fn(Asked<ServerEnd>) -> Option<Job> + Send + Sync + 'static,
) -> End<ServerEnd> {
    End::start(|now| Server::new(config, now), transport, options, act)
}

/// A server whose jobs are `act`.
pub fn server(transport: Transport, act: impl Fn(&Asked<ServerEnd>) + Clone + Send + Sync + 'static) -> End<ServerEnd> {
    server_with(server_config(), transport, &Options::default(), in_jobs(act))
}

/// Runs `act` as a concurrent job.
pub fn in_jobs<E: 'static>(
    act: impl Fn(&Asked<E>) + Clone + Send + Sync + 'static,
) -> impl Fn(Asked<E>) -> Option<Job> + Send + Sync + 'static {
    move |asked| {
        let act = act.clone();
        Some(Job::new(Order::Concurrent, move || act(&asked)))
    }
}

/// A server that answers every request with its params.
pub fn echo(transport: Transport) -> End<ServerEnd> {
    server(transport, |asked| asked.echo())
}

/// Both ends, after their handshake.
pub fn joined(
    (left, right): (Transport, Transport),
    act: impl Fn(&Asked<ServerEnd>) + Clone + Send + Sync + 'static,
) -> (End<ClientEnd>, End<ServerEnd>) {
    let (client, server) = (client(left), server(right, act));
    assert_eq!(client.event(), Event::Ready);
    assert_eq!(server.event(), Event::Ready);
    (client, server)
}

/// Something that is closed at first and opened once.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().expect("no test panics here") = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let guard = self.0.0.lock().expect("no test panics here");
        let (_guard, result) = self.0.1.wait_timeout_while(guard, LONG, |open| !*open).expect("no test panics here");
        assert!(!result.timed_out(), "the gate was never opened");
    }
}

/// Fails the test, rather than hanging, if `f` takes too long.
pub fn within<T: Send + 'static>(limit: Duration, f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    let thread = std::thread::Builder::new().name("within".into()).spawn(move || {
        let value = f();
        let _ = done.send(());
        value
    });
    let thread = thread.expect("there are threads");
    match result.recv_timeout(limit) {
        // Disconnected without a word: it has panicked, which `join` passes on.
        Ok(()) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        },
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("took longer than {limit:?}"),
    }
}
