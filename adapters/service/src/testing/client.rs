//! A client for tests.

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
    connection::{Arrival, Client, ClientRole, Principal, Server, ServerRole},
    protocol::{ProtocolVersion, VersionSet},
    schema::{CallToolResult, GetPromptResult, ReadResourceResult},
};
use serde_core::Serialize;

use super::{
    test_driver::{Clock, TestDriver},
    transcript::{Recorder, Side, Transcript},
    workers::{HANDLER_TIMEOUT, Workers},
};
use crate::{
    client::Host,
    inbound::session::{ClientSession, ServerSession},
    outbound::{error::CallError, peer::Peer, pending::Pending},
    server::service::Service,
    util::lock::lock,
};

/// A client of a service, in memory and with virtual time. See the [module](super).
///
/// Every error of the client or the service panics with the transcript: it is only for tests.
pub struct TestClient {
    client: Arc<TestDriver<ClientRole>>,
    server: Arc<TestDriver<ServerRole>>,
    session: Arc<ClientSession>,
    server_session: Arc<ServerSession>,
    checks_side_effects: bool,
    clock: Arc<Clock>,
    workers: Arc<Workers>,
    principal: Option<Arc<Principal>>,
    recorder: Mutex<Recorder>,
    /// Frames that the client and the server have sent and that the other side has not read yet.
    unread: [Mutex<VecDeque<Vec<u8>>>; 2],
    /// Responds in place of the server.
    #[cfg(test)]
    stand_in: Mutex<Option<StandIn>>,
}

/// A function that gets the lines of the client, and returns those that the server would send. The server gets the
/// lines for which it returns none.
#[cfg(test)]
pub(crate) type StandIn = Box<dyn FnMut(&str) -> Vec<String> + Send>;

/// The configuration of a [`TestClient`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `connect`"]
pub struct Setup {
    service: Service,
    host: Host,
    version: Option<ProtocolVersion>,
    principal: Option<Principal>,
    checks_side_effects: bool,
}

impl Setup {
    /// Sets the host of the client: its handlers answer the requests of the server. Default: a host without handlers.
    pub fn host(mut self, host: &Host) -> Self {
        self.host = host.clone();
        self
    }

    /// Sets the only supported revision. Default: the newest one that both sides support.
    pub const fn version(mut self, version: ProtocolVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the principal of the client, as a binding that authenticates clients does. Default: none, as over a pipe.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Fails the test if a handler requests input after a [side effect](crate::Context::side_effect): without a session
    /// (2026-07-28) it runs again from its start then. This is checked in every revision.
    pub const fn check_side_effects(mut self) -> Self {
        self.checks_side_effects = true;
        self
    }

    /// Connects, and performs the handshake. Messages of the handshake are not part of the transcript.
    ///
    /// # Panics
    /// If the handshake fails.
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
            client: TestDriver::new(Client::new(config, now), session.clone(), &clock, &workers),
            server: TestDriver::new(Server::new(self.service.config(), now), server_session.clone(), &clock, &workers),
            session,
            server_session,
            checks_side_effects: self.checks_side_effects,
            clock,
            workers,
            principal: self.principal.map(Arc::new),
            recorder: Mutex::default(),
            unread: Default::default(),
            #[cfg(test)]
            stand_in: Mutex::default(),
        };
        client.settle();
        if !client.server().is_open() {
            client.fail("the handshake did not complete");
        }
        lock(&client.recorder).clear();
        client
    }
}

impl TestClient {
    /// Connects a client without handlers to a service, in the newest revision that the service supports.
    ///
    /// # Panics
    /// If the handshake fails.
    #[must_use]
    #[track_caller]
    pub fn new(service: &Service) -> Self {
        Self::of(service).connect()
    }

    /// Creates the configuration of a client of this service.
    pub fn of(service: &Service) -> Setup {
        let host = Host::builder("test", "1.0.0").build();
        Setup { service: service.clone(), host, version: None, principal: None, checks_side_effects: false }
    }

    /// Returns the peer with which the test sends requests to the server. Nothing is sent or processed until the test
    /// calls [`wait`](Self::wait), [`advance`](Self::advance) or [`settle`](Self::settle).
    #[must_use]
    pub fn server(&self) -> Peer<ClientRole> {
        self.session.peer(&self.client.connection())
    }

    /// Calls a tool and waits for its result. The arguments are serialized as a JSON object; `()` stands for none.
    ///
    /// # Errors
    /// How the call ended, if not with a result. A tool that fails is no error: see [`CallToolResult::is_error`].
    #[track_caller]
    pub fn call_tool(&self, name: &str, arguments: impl Serialize) -> Result<CallToolResult, CallError> {
        self.wait(self.server().call_tool(name, arguments)?)
    }

    /// Gets a prompt and waits for it. The arguments are serialized as a JSON object of texts; `()` stands for none.
    ///
    /// # Errors
    /// How the request ended, if not with a result.
    #[track_caller]
    pub fn get_prompt(&self, name: &str, arguments: impl Serialize) -> Result<GetPromptResult, CallError> {
        self.wait(self.server().get_prompt(name, arguments)?)
    }

    /// Reads a resource and waits for its contents.
    ///
    /// # Errors
    /// How the request ended, if not with a result.
    #[track_caller]
    pub fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, CallError> {
        self.wait(self.server().read_resource(uri)?)
    }

    /// Waits for a request. When nothing can happen without time, virtual time passes.
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

    /// Waits for a future, such as all pages of a list. When nothing can happen without time, virtual time passes.
    ///
    /// # Panics
    /// If nothing can happen any more.
    #[track_caller]
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            self.settle();
            // Everything that could wake the future has happened.
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                self.settle();
                return output;
            }
            if self.turn() {
                continue;
            }
            match self.due() {
                Some(due) => self.pass_until(due.max(self.clock.now())),
                None => self.fail("the connection is idle, and the condition of the test is not met"),
            }
        }
    }

    /// Moves all frames and runs all handlers until each has ended or waits. No virtual time passes.
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
                break;
            }
        }
        if self.checks_side_effects
            && let Some(effect) = self.server_session.shared().state.noted.repeated().first()
        {
            self.fail(&format!("the handler requests input after the side effect {effect:?}, which is repeated then"));
        }
    }

    /// Moves frames and lets handlers run until `condition` holds, without waiting for busy handlers. No virtual time
    /// passes. Then a test can cancel a request while its handler works in real time:
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    /// use mcp_service::{CallError, Context, Service, Tool, testing::TestClient};
    ///
    /// let started = Arc::new(AtomicBool::new(false));
    /// let starts = started.clone();
    /// let service = Service::builder("worker", "1.0.0")
    ///     .tool(Tool::new("work", move |context: Context| -> Result<&'static str, CallError> {
    ///         loop {
    ///             starts.store(true, Ordering::SeqCst);
    ///             context.check()?; // between two steps of real work
    ///         }
    ///     }))
    ///     .build()?;
    /// let client = TestClient::new(&service);
    /// let call = client.server().call_tool("work", ())?;
    /// client.run_until(|| started.load(Ordering::SeqCst));
    /// call.cancel(None);
    /// assert_eq!(client.wait(call), Err(CallError::Cancelled));
    /// client.assert_idle();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the condition does not hold within half a minute of real time.
    #[track_caller]
    pub fn run_until(&self, condition: impl Fn() -> bool) {
        let until = std::time::Instant::now() + HANDLER_TIMEOUT;
        loop {
            while self.turn() {}
            if condition() {
                return;
            }
            if std::time::Instant::now() >= until {
                self.fail("the condition of the test is not met");
            }
            self.workers.wait_for_change();
        }
    }

    /// Returns the number of log messages that the server has not sent, because the client did not ask for any of their
    /// level. A client of 2026-07-28 gets only those that it [asks](crate::Peer::logging) for.
    #[must_use]
    pub fn dropped_log_messages(&self) -> usize {
        self.server_session.shared().state.noted.dropped_logs()
    }

    /// Lets this much virtual time pass. Deadlines and timers within it fire at their time.
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

    /// Returns the virtual time since the client connected.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Sends a line from the client as it is, for example an invalid one. Responses to it appear in the transcript.
    #[track_caller]
    pub fn send_line(&self, line: &str) {
        self.deliver(Side::Client, line.as_bytes());
        self.settle();
    }

    /// Sends a line from the server as it is. Responses to it appear in the transcript.
    #[track_caller]
    pub fn send_server_line(&self, line: &str) {
        self.deliver(Side::Server, line.as_bytes());
        self.settle();
    }

    /// Returns all messages since the handshake, or since the last [`take_transcript`](Self::take_transcript).
    #[must_use]
    pub fn transcript(&self) -> Transcript {
        lock(&self.recorder).transcript().clone()
    }

    /// Returns all messages as [`transcript`](Self::transcript) does, and clears the transcript.
    pub fn take_transcript(&self) -> Transcript {
        let mut recorder = lock(&self.recorder);
        let transcript = recorder.transcript().clone();
        recorder.clear();
        transcript
    }

    /// Asserts that nothing is left over: neither side waits for a response, no message waits to be sent or read, and
    /// no handler runs.
    ///
    /// # Panics
    /// If anything is left.
    #[track_caller]
    pub fn assert_idle(&self) {
        self.settle();
        let (client, server) = (self.client.usage(), self.server.usage());
        let left = [
            (self.client.handlers() + self.server.handlers(), "handlers run"),
            (client.calls + server.requests, "requests of the client are still in flight"),
            (server.calls + client.requests, "requests of the server are still in flight"),
            (client.outbox_frames + server.outbox_frames, "messages wait to be sent"),
            (self.unread.iter().map(|frames| lock(frames).len()).sum(), "messages wait to be read"),
        ];
        if let Some((count, what)) = left.iter().find(|(count, _)| *count > 0) {
            self.fail(&format!("{count} {what}"));
        }
    }

    /// Moves each frame once, unless the other side does not read, and lets both sides run. Returns whether anything
    /// was done.
    fn turn(&self) -> bool {
        let [up, down] = &self.unread;
        // Output is taken only when earlier output has been read, like that of a full pipe.
        let taken = [self.client.output_into(up), self.server.output_into(down)];
        let moved = [
            self.carry(Side::Client, up, || self.server.wants_input()),
            self.carry(Side::Server, down, || self.client.wants_input()),
        ];
        let turned = [self.client.turn(), self.server.turn()];
        [taken, moved, turned].concat().contains(&true)
    }

    /// Delivers frames while the other side reads. Returns whether there were any.
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
        #[cfg(test)]
        if from == Side::Client && self.has_responded(line) {
            return;
        }
        match from {
            Side::Client => {
                let who = self.principal.clone();
                self.server.input(line, who.map(|who| Arrival { principal: Some(who), ..Arrival::default() }));
            }
            Side::Server => self.client.input(line, None),
        }
    }

    /// Sets the function that responds in place of the server.
    #[cfg(test)]
    pub(crate) fn respond_with(&self, stand_in: StandIn) {
        *lock(&self.stand_in) = Some(stand_in);
    }

    #[cfg(test)]
    fn has_responded(&self, line: &[u8]) -> bool {
        let lines = lock(&self.stand_in).as_mut().map(|stand_in| stand_in(&String::from_utf8_lossy(line)));
        let lines = lines.unwrap_or_default();
        lines.iter().for_each(|line| self.deliver(Side::Server, line.as_bytes()));
        !lines.is_empty()
    }

    /// Sends a line of the server on the stream of a request, as a session over Streamable HTTP does.
    #[cfg(test)]
    pub(crate) fn send_server_line_on(&self, call: mcp_proto::rpc::CallId, line: &str) {
        let arrival = Arrival { related_call: Some(call), ..Arrival::default() };
        self.client.input(line.as_bytes(), Some(arrival));
        self.settle();
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
        let transcript = self.transcript();
        let dropped = match self.dropped_log_messages() {
            0 => String::new(),
            count => format!("{count} log messages were dropped: the client has not asked for their level\n"),
        };
        panic!("{why}\n{dropped}transcript:\n{transcript}");
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
