//! A client that is driven by the test.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::{Arrival, Client, ClientEnd, Principal, Server, ServerEnd},
    protocol::{ProtocolVersion, VersionSet},
    schema::{CallToolResult, GetPromptResult, ReadResourceResult},
};
use serde_core::Serialize;

use super::{
    end::{Clock, End},
    transcript::{Recorder, Side, Transcript},
    workers::Workers,
};
use crate::{
    client::Host,
    inbound::session::{ClientSession, ServerSession},
    outbound::{error::CallError, peer::Peer, pending::Pending},
    server::service::Service,
    util::lock::lock,
};

/// A client of a service, in memory and with time that only passes when it has to. See the [module](super).
///
/// What it does wrong, and what the service does wrong, panics with the transcript: this is for tests.
pub struct TestClient {
    client: Arc<End<ClientEnd>>,
    server: Arc<End<ServerEnd>>,
    session: Arc<ClientSession>,
    _server_session: Arc<ServerSession>,
    clock: Arc<Clock>,
    workers: Arc<Workers>,
    principal: Option<Arc<Principal>>,
    recorder: Mutex<Recorder>,
    /// Frames that have left the client, and those that have left the server, while the other side does not read.
    unread: [Mutex<VecDeque<Vec<u8>>>; 2],
}

/// How a [`TestClient`] is to connect.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Setup {
    service: Service,
    host: Host,
    version: Option<ProtocolVersion>,
    principal: Option<Principal>,
}

impl Setup {
    /// The client that connects: its handlers answer what the server asks. Default: one without any.
    pub fn host(mut self, host: &Host) -> Self {
        self.host = host.clone();
        self
    }

    /// The revision to speak. Default: the newest that both sides have.
    pub const fn version(mut self, version: ProtocolVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the principal of the client, as a binding that authenticates clients does. Default: none, as over a pipe.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Connects. What is said to find out what to speak is not part of the transcript.
    ///
    /// # Panics
    /// If the two do not come together.
    #[must_use]
    #[track_caller]
    pub fn connect(self) -> TestClient {
        let (clock, workers) = (Arc::new(Clock::new()), Arc::new(Workers::default()));
        let mut config = (*self.host.config()).clone();
        if let Some(version) = self.version {
            config.settings.versions = VersionSet::only(version);
        }
        let (session, server_session) = (Arc::new(self.host.session()), Arc::new(self.service.session()));
        let now = clock.now();
        let client = TestClient {
            client: End::new(Client::new(config, now), session.clone(), &clock, &workers),
            server: End::new(Server::new(self.service.config(), now), server_session.clone(), &clock, &workers),
            session,
            _server_session: server_session,
            clock,
            workers,
            principal: self.principal.map(Arc::new),
            recorder: Mutex::default(),
            unread: Default::default(),
        };
        client.settle();
        if !client.server().is_open() {
            client.fail("the two do not come together");
        }
        lock(&client.recorder).clear();
        client
    }
}

impl TestClient {
    /// A client without handlers of its own, connected to a service in the newest revision that it speaks.
    ///
    /// # Panics
    /// If the two do not come together.
    #[must_use]
    #[track_caller]
    pub fn new(service: &Service) -> Self {
        Self::of(service).connect()
    }

    /// A client of this service, of which there is more to be said.
    pub fn of(service: &Service) -> Setup {
        let host = Host::builder("test", "1.0.0").build();
        Setup { service: service.clone(), host, version: None, principal: None }
    }

    /// The server, to ask for whatever can be asked. Nothing moves before the test lets it: [`wait`](Self::wait) for the
    /// answer, [`advance`](Self::advance), or [`settle`](Self::settle).
    #[must_use]
    pub fn server(&self) -> Peer<ClientEnd> {
        self.session.peer(&self.client.link())
    }

    /// Calls a tool and waits for what comes of it. The arguments are written as a JSON object; `()` stands for none.
    ///
    /// # Errors
    /// How the call ended, if not with a result. A tool that fails is no error: see [`CallToolResult::is_error`].
    #[track_caller]
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<CallToolResult, CallError> {
        self.wait(self.server().call_tool(name, arguments)?)
    }

    /// Fills in a prompt and waits for it. The arguments are written as a JSON object of texts; `()` stands for none.
    ///
    /// # Errors
    /// How the request ended, if not with a result.
    #[track_caller]
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, CallError> {
        self.wait(self.server().get_prompt(name, arguments)?)
    }

    /// Reads a resource and waits for it.
    ///
    /// # Errors
    /// How the request ended, if not with a result.
    #[track_caller]
    pub fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, CallError> {
        self.wait(self.server().read_resource(uri)?)
    }

    /// Waits for a request. Where everything waits for time, time goes on.
    ///
    /// # Errors
    /// How the request ended, if not with a result.
    ///
    /// # Panics
    /// If nothing can happen any more.
    #[track_caller]
    pub fn wait<T>(&self, pending: Pending<T>) -> Result<T, CallError> {
        self.run(pending)
    }

    /// Waits for a future, such as all pages of a list. Where everything waits for time, time goes on.
    ///
    /// # Panics
    /// If nothing can happen any more.
    #[track_caller]
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            self.settle();
            // Whatever wakes it has happened by then.
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                self.settle();
                return output;
            }
            if self.turn() {
                continue;
            }
            match self.due() {
                Some(due) => self.pass_until(due.max(self.clock.now())),
                None => self.fail("nothing can happen any more, and what the test waits for has not"),
            }
        }
    }

    /// Moves what wants to move, and waits until all handlers have ended or wait for something. No time passes.
    ///
    /// # Panics
    /// If a handler is busy for half a minute of real time.
    #[track_caller]
    pub fn settle(&self) {
        loop {
            while self.turn() {}
            if !self.workers.wait() {
                self.fail("a handler is busy for so long, or waits for something else than its context");
            }
            if !self.turn() {
                return;
            }
        }
    }

    /// Lets this much time pass, and whatever becomes due meanwhile happen when it is due.
    ///
    /// # Panics
    /// As [`settle`](Self::settle).
    #[track_caller]
    pub fn advance(&self, time: Duration) {
        self.settle();
        let until = self.clock.now() + time;
        while let Some(due) = self.due().filter(|due| *due <= until) {
            self.pass_until(due.max(self.clock.now()));
        }
        self.pass_until(until);
    }

    /// How much time has passed since the client has connected.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Has the client say something by hand, whatever it is: a line that no client would send. What comes of it is in the
    /// transcript.
    #[track_caller]
    pub fn say(&self, line: &str) {
        self.deliver(Side::Client, line.as_bytes());
        self.settle();
    }

    /// Everything that was said since the client was ready.
    #[must_use]
    pub fn transcript(&self) -> Transcript {
        lock(&self.recorder).transcript().clone()
    }

    /// Everything that was said since the last time.
    pub fn take_transcript(&self) -> Transcript {
        let mut recorder = lock(&self.recorder);
        let transcript = recorder.transcript().clone();
        recorder.clear();
        transcript
    }

    /// Nothing is left over: no request waits for its answer on either side, and no handler runs.
    ///
    /// # Panics
    /// If something is.
    #[track_caller]
    pub fn assert_idle(&self) {
        self.settle();
        let (client, server) = (self.client.usage(), self.server.usage());
        let left = [
            (self.client.handlers() + self.server.handlers(), "handlers run"),
            (client.calls + server.requests, "requests of the client wait for their answers"),
            (server.calls + client.requests, "requests of the server wait for their answers"),
            (client.outbox_frames + server.outbox_frames, "messages wait to be sent"),
            (self.unread.iter().map(|frames| lock(frames).len()).sum(), "messages wait to be read"),
        ];
        if let Some((count, what)) = left.iter().find(|(count, _)| *count > 0) {
            self.fail(&format!("{count} {what}"));
        }
    }

    /// Moves every frame once, as far as the other side reads. Whether anything moved.
    fn turn(&self) -> bool {
        let [up, down] = &self.unread;
        // Output is taken only behind what was taken before has been read, as a pipe that is full does.
        let taken = [self.client.output_into(up), self.server.output_into(down)];
        let moved = [
            self.carry(Side::Client, up, || self.server.wants_input()),
            self.carry(Side::Server, down, || self.client.wants_input()),
        ];
        let turned = [self.client.turn(), self.server.turn()];
        [taken, moved, turned].concat().contains(&true)
    }

    /// Hands over frames while the other side reads. Whether there were any.
    fn carry(&self, from: Side, frames: &Mutex<VecDeque<Vec<u8>>>, wants_input: impl Fn() -> bool) -> bool {
        let mut moved = false;
        while !lock(frames).is_empty() && wants_input() {
            let frame = lock(frames).pop_front();
            moved |= frame.is_some();
            frame.into_iter().for_each(|frame| self.deliver(from, &frame));
        }
        moved
    }

    fn deliver(&self, from: Side, line: &[u8]) {
        lock(&self.recorder).add(self.clock.elapsed(), from, String::from_utf8_lossy(line).into_owned());
        match from {
            Side::Client => {
                let who = self.principal.clone();
                self.server.input(line, who.map(|who| Arrival { principal: Some(who), ..Arrival::default() }));
            }
            Side::Server => self.client.input(line, None),
        }
    }

    fn due(&self) -> Option<mcp_proto::rpc::Timestamp> {
        self.client.due().into_iter().chain(self.server.due()).min()
    }

    #[track_caller]
    fn pass_until(&self, now: mcp_proto::rpc::Timestamp) {
        self.clock.set(now);
        self.client.time_has_passed();
        self.server.time_has_passed();
        self.settle();
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        let said = self.transcript();
        panic!("{why}\nwhat was said:\n{said}");
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        self.client.cut();
        self.server.cut();
    }
}

impl fmt::Debug for TestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClient").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
