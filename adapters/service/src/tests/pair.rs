//! Two connected peers in memory. Time is virtual, and a line is delivered only when the test moves it.

use std::{
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use mcp_proto::{
    codec::Frame,
    connection::{
        Arrival, Client, ClientConfig, ClientRole, Connection, Event, Principal, Server, ServerConfig, ServerRole, Wake,
    },
    protocol::{Capability, ProtocolVersion, VersionSet},
    rpc::Timestamp,
    wire::{ErrorObject, Json, RawJson},
};
use serde_json::Value;

use crate::{
    client::Host,
    driver_api::{
        connection_handle::{Application, ConnectionHandle},
        holder::Holder,
        job::{Job, Schedule},
        waiters::Waiters,
    },
    inbound::session::{ClientSession, ServerSession},
    outbound::{error::CallError, peer::Peer, subscriptions::Subscriptions},
    server::service::Service,
    util::lock::lock,
};

/// How long a test waits for other threads before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One side: a connection, its application, and every line that it has written.
pub(crate) struct End<E: 'static> {
    conn: Mutex<Connection<E>>,
    app: Arc<dyn Application<E>>,
    clock: Arc<AtomicU64>,
    pub(crate) lines: Mutex<Vec<String>>,
    /// Jobs that have not ended.
    jobs: Arc<AtomicUsize>,
    sequence: mpsc::Sender<Job>,
    pub(crate) waiters: Waiters,
    /// The client at the other end, as far as a driver identifies it.
    pub(crate) holder: OnceLock<Holder>,
    /// The connection ends as soon as its application has sent a line with this text.
    pub(crate) last: Mutex<Option<&'static str>>,
    this: OnceLock<Weak<Self>>,
}

impl<E: Send + 'static> End<E> {
    fn new(conn: Connection<E>, app: Arc<dyn Application<E>>, clock: Arc<AtomicU64>) -> Arc<Self> {
        let jobs = Arc::new(AtomicUsize::new(0));
        let (sequence, queue) = mpsc::channel::<Job>();
        let running = jobs.clone();
        thread::spawn(move || {
            for job in queue {
                job.run();
                running.fetch_sub(1, Ordering::SeqCst);
            }
        });
        let end = Arc::new(Self {
            conn: Mutex::new(conn),
            app,
            clock,
            lines: Mutex::default(),
            jobs,
            sequence,
            waiters: Waiters::new(),
            holder: OnceLock::new(),
            last: Mutex::default(),
            this: OnceLock::new(),
        });
        let _ = end.this.set(Arc::downgrade(&end));
        end
    }

    pub(crate) fn connection(&self) -> Arc<dyn ConnectionHandle<E>> {
        self.this.get().and_then(Weak::upgrade).expect("it is set")
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.load(Ordering::SeqCst))
    }

    pub(crate) fn with_conn<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        let (result, capacity) = {
            let mut conn = lock(&self.conn);
            (f(&mut conn), self.waiters.capacity(&conn))
        };
        self.waiters.notify(capacity);
        self.waiters.fire_timers(self.now());
        result
    }

    /// Passes events to the application, and its jobs to threads.
    fn events(&self, first: Option<Event<'_>>) -> bool {
        let mut any = false;
        let mut next = first.map(Event::into_owned);
        loop {
            let Some(event) = next.take().or_else(|| self.with_conn(Connection::poll_event)) else { return any };
            any = true;
            if let Some(job) = self.app.handle(&self.connection(), event) {
                self.start(job);
            }
        }
    }

    fn start(&self, job: Job) {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        match job.schedule() {
            Schedule::Serial => self.sequence.send(job).expect("the thread is there"),
            Schedule::Concurrent => {
                let jobs = self.jobs.clone();
                thread::spawn(move || {
                    job.run();
                    jobs.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    }

    /// Takes all lines that wait to be written.
    fn output(&self) -> Vec<Vec<u8>> {
        self.with_conn(|conn| {
            let mut lines = Vec::new();
            loop {
                let mut line = Vec::new();
                if conn.poll_transmit(&mut line).is_none() {
                    return lines;
                }
                assert_eq!(line.pop(), Some(b'\n'));
                lock(&self.lines).push(String::from_utf8(line.clone()).expect("JSON is UTF-8"));
                lines.push(line);
            }
        })
    }

    /// Advances the clock of this side only.
    pub(crate) fn elapse(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).expect("short");
        self.clock.fetch_add(nanos, Ordering::SeqCst);
        self.with_conn(|conn| conn.handle_timeout(self.now()));
        self.events(None);
    }

    /// Takes all output, without delivering it to the peer.
    pub(crate) fn flush(&self) {
        self.output();
    }

    fn input(&self, line: &[u8]) {
        let event = self.with_conn(|conn| conn.handle_frame(self.now(), Frame::new(line)).map(Event::into_owned));
        self.events(event);
    }

    /// Handles a line from another client than the peer, with a principal.
    pub(crate) fn input_from(&self, principal: &str, line: &[u8]) {
        self.input_of(Principal::new(principal), line);
    }

    /// Handles a line of a client with this principal.
    pub(crate) fn input_of(&self, principal: Principal, line: &[u8]) {
        self.input_with(Arrival { principal: Some(Arc::new(principal)), ..Arrival::default() }, line);
    }

    /// Handles a line that arrives in these circumstances.
    pub(crate) fn input_with(&self, arrival: Arrival, line: &[u8]) {
        let event =
            self.with_conn(|conn| conn.handle_frame_from(self.now(), Frame::new(line), arrival).map(Event::into_owned));
        self.events(event);
    }

    /// Returns the lines that were written since the last call, as JSON.
    pub(crate) fn take_lines(&self) -> Vec<Value> {
        let lines = std::mem::take(&mut *lock(&self.lines));
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl<E: Send + 'static> ConnectionHandle<E> for End<E> {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        self.with_conn(|conn| f(conn, self.now()));
        let is_sent = |text: &mut &str| {
            self.flush();
            lock(&self.lines).iter().any(|line| line.contains(*text))
        };
        let last = lock(&self.last).take_if(is_sent);
        if last.is_some() {
            self.with_conn(Connection::handle_disconnect);
            self.events(None);
        }
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>)) {
        self.with_conn(|conn| f(conn));
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn holder(&self) -> Holder {
        self.holder.get().cloned().unwrap_or(Holder::Unknown)
    }
}

/// A connected client and server.
pub(crate) struct Pair {
    pub(crate) client: Arc<End<ClientRole>>,
    pub(crate) server: Arc<End<ServerRole>>,
    pub(crate) client_session: Arc<ClientSession>,
    pub(crate) server_session: Arc<ServerSession>,
    clock: Arc<AtomicU64>,
}

/// The settings of a client and a server before they are connected.
pub(crate) struct Joining {
    /// The subscriptions of earlier connections of the client.
    pub(crate) subscriptions: Subscriptions,
    pub(crate) client: ClientConfig,
    pub(crate) server: ServerConfig,
}

impl Pair {
    /// Connects both and completes the handshake, in this revision.
    pub(crate) fn new(host: &Host, service: &Service, version: ProtocolVersion) -> Self {
        Self::with(host, service, |joining| joining.client.settings.versions = VersionSet::only(version))
    }

    pub(crate) fn with(host: &Host, service: &Service, f: impl FnOnce(&mut Joining)) -> Self {
        Self::join(host, service, None, f)
    }

    /// Connects a client to a scripted server, in the newest revision that the host supports and with all capabilities
    /// declared.
    pub(crate) fn scripted(
        host: &Host,
        script: impl FnMut(&str, Value) -> Result<Value, ErrorObject> + Send + 'static,
    ) -> Self {
        let service = Service::builder("script", "1").build().expect("nothing is wrong with nothing");
        let app = Arc::new(Script(Mutex::new(Box::new(script))));
        Self::join(host, &service, Some(app), |joining| {
            joining.server.capabilities = Capability::ALL.iter().copied().collect();
        })
    }

    fn join(
        host: &Host,
        service: &Service,
        script: Option<Arc<dyn Application<ServerRole>>>,
        f: impl FnOnce(&mut Joining),
    ) -> Self {
        let mut joining =
            Joining { subscriptions: Subscriptions::new(), client: (*host.config()).clone(), server: service.config() };
        f(&mut joining);
        let clock = Arc::new(AtomicU64::new(1_000_000_000));
        let now = Timestamp::from_nanos(1_000_000_000);
        let client_session = Arc::new(host.session_with(joining.subscriptions));
        let server_session = Arc::new(service.session());
        let pair = Self {
            client: End::new(Client::new(joining.client, now), client_session.clone(), clock.clone()),
            server: End::new(Server::new(joining.server, now), script.unwrap_or(server_session.clone()), clock.clone()),
            client_session,
            server_session,
            clock,
        };
        pair.client_session.begin(&pair.client.connection());
        pair.server_session.begin(&pair.server.connection());
        pair.settle();
        assert!(pair.client.with_conn(|conn| conn.is_ready()), "{:?}", pair.server.take_lines());
        pair.server.take_lines();
        pair.client.take_lines();
        pair
    }

    /// Connects a client without handlers, in the newest legacy revision.
    pub(crate) fn simple(service: &Service) -> Self {
        Self::new(&Host::builder("client", "1").build(), service, ProtocolVersion::LATEST_LEGACY)
    }

    /// The client's handle of the server.
    pub(crate) fn to_server(&self) -> Peer<ClientRole> {
        self.client_session.peer(&self.client.connection())
    }

    /// The server's handle of the client.
    pub(crate) fn to_client(&self) -> Peer<ServerRole> {
        self.server_session.peer(&self.server.connection())
    }

    /// Delivers every line that waits, once.
    pub(crate) fn step(&self) -> bool {
        let (up, down) = (self.client.output(), self.server.output());
        for line in &up {
            self.server.input(line);
        }
        for line in &down {
            self.client.input(line);
        }
        let events = self.client.events(None) | self.server.events(None);
        !up.is_empty() || !down.is_empty() || events
    }

    /// Delivers lines until none waits and no handler runs.
    pub(crate) fn settle(&self) {
        // A handler has queued its last line when it is counted as ended, so lines are delivered once more.
        let mut was_idle = false;
        self.until(|| {
            let idle = self.client.jobs.load(Ordering::SeqCst) + self.server.jobs.load(Ordering::SeqCst) == 0;
            let moved = self.step();
            !moved && std::mem::replace(&mut was_idle, idle) && idle
        });
    }

    /// Delivers lines until a condition holds.
    pub(crate) fn until(&self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            if !self.step() {
                // Other threads have to act.
                thread::yield_now();
            }
            assert!(start.elapsed() < PATIENCE, "what a test waits for does not happen");
        }
    }

    /// Waits until handlers of the server run, and all of them wait for room. Delivers no lines, which makes room.
    pub(crate) fn until_handlers_wait(&self) {
        let start = Instant::now();
        let runs = || self.server.jobs.load(Ordering::SeqCst);
        while runs() == 0 || runs() != self.server.waiters.waiting_for_room() {
            thread::yield_now();
            assert!(start.elapsed() < PATIENCE, "what a test waits for does not happen");
        }
    }

    /// Delivers lines from the client to the server only. Returns the lines of the server.
    pub(crate) fn only_upwards(&self) -> Vec<Value> {
        for line in self.client.output() {
            self.server.input(&line);
        }
        self.server.events(None);
        self.server.output().iter().map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }

    /// The same until the lines fulfil a condition. Appends the lines of the server to `lines`.
    pub(crate) fn only_upwards_until(&self, lines: &mut Vec<Value>, enough: impl Fn(&[Value]) -> bool) {
        let start = Instant::now();
        while !enough(lines) {
            lines.extend(self.only_upwards());
            thread::yield_now();
            assert!(start.elapsed() < PATIENCE, "what a test waits for does not happen");
        }
    }

    /// Advances the clock, and waits until all effects are complete.
    pub(crate) fn pass(&self, time: Duration) {
        self.advance(time);
        self.settle();
    }

    /// Advances the clock while handlers run.
    pub(crate) fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).expect("short");
        self.clock.fetch_add(nanos, Ordering::SeqCst);
        let now = self.client.now();
        self.client.with_conn(|conn| conn.handle_timeout(now));
        self.server.with_conn(|conn| conn.handle_timeout(now));
        while self.step() {}
    }

    /// Advances the clock a little if the client waits for time before it polls a task again. Responses come from
    /// threads, and a call must not time out because those are slow.
    pub(crate) fn tick(&self) {
        let deadline = self.client.with_conn(|conn| conn.poll_timeout());
        if deadline.is_some_and(|next| next.wake == Wake::Retry) || self.client.waiters.next_deadline().is_some() {
            self.advance(Duration::from_millis(100));
        }
    }

    /// Waits for a request, and advances the clock by `time` whenever a handler of the server sleeps. Time that passes
    /// while a slow thread does something else would not count for its sleep.
    pub(crate) fn sleep_through<T: Send + 'static>(
        &self,
        pending: crate::outbound::pending::Pending<T>,
        time: Duration,
    ) -> Result<T, CallError> {
        let waiting = thread::spawn(move || pending.wait());
        self.until(|| {
            if self.server.waiters.next_deadline().is_some_and(|at| at > self.server.now()) {
                self.advance(time);
            }
            waiting.is_finished()
        });
        self.finish(waiting)
    }

    /// Waits for a request of the client or of the server, and delivers lines until it completes.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        pending: crate::outbound::pending::Pending<T>,
    ) -> Result<T, CallError> {
        let result = self.finish(thread::spawn(move || pending.wait()));
        self.settle();
        result
    }

    /// Delivers lines until a thread has ended.
    pub(crate) fn finish<T>(&self, thread: thread::JoinHandle<T>) -> T {
        self.until(|| thread.is_finished());
        thread.join().expect("no panic")
    }

    /// Sends a request of the client by name. Returns its result, or the error as JSON.
    pub(crate) fn send_request(&self, method: &str, params: Value) -> Result<Value, Value> {
        let pending = self.send(method, params);
        answer(self.wait(pending))
    }

    /// Sends a request of the client by name, without waiting for the response.
    pub(crate) fn send(&self, method: &str, params: Value) -> crate::outbound::pending::Pending<RawJson<'static>> {
        let params = Json::new(&params).expect("JSON");
        self.to_server().request_raw(method, Some(&RawJson::from(&params))).expect("it can be sent")
    }

    /// Sends a request of the server by name. Returns its result, or the error as JSON.
    pub(crate) fn send_request_to_client(&self, method: &str, params: Value) -> Result<Value, Value> {
        let params = Json::new(&params).expect("JSON");
        let pending = self.to_client().request_raw(method, Some(&RawJson::from(&params))).expect("it can be sent");
        answer(self.wait(pending))
    }

    /// Delivers a line to the client that its server has not sent.
    pub(crate) fn input_to_client(&self, line: &str) {
        self.client.input(line.as_bytes());
    }

    /// Delivers a line to the server that its client has not sent.
    pub(crate) fn input_to_server(&self, line: &str) {
        self.server.input(line.as_bytes());
    }

    /// Sends a request as the client, bypassing its connection. Returns its id. Its response is only visible on the
    /// wire.
    pub(crate) fn send_line(&self, method: &str, params: Value) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let id = format!("own{}", NEXT.fetch_add(1, Ordering::SeqCst));
        self.input_to_server(
            &serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    /// Returns the response to a request of `send_line`, if there is one.
    pub(crate) fn answered(&self, id: &str) -> Option<Value> {
        let lines = lock(&self.server.lines);
        let mut lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.rfind(|line| line["id"] == id)
    }

    /// Waits for the response to a request of `send_line`.
    pub(crate) fn await_answer(&self, id: &str) -> Value {
        self.until(|| self.answered(id).is_some());
        self.answered(id).expect("it was there")
    }

    /// Sends a request as `send_line` does, and waits for the response while handlers run.
    pub(crate) fn answer_to(&self, method: &str, params: Value) -> Value {
        let id = self.send_line(method, params);
        self.await_answer(&id)
    }

    /// Waits for a request while handlers run.
    pub(crate) fn quick<T: Send + 'static>(
        &self,
        pending: crate::outbound::pending::Pending<T>,
    ) -> Result<T, CallError> {
        self.finish(thread::spawn(move || pending.wait()))
    }

    /// Delivers lines for 20 ms, while handlers run.
    pub(crate) fn run_for_a_while(&self) {
        let end = Instant::now() + Duration::from_millis(20);
        self.until(|| Instant::now() > end);
    }

    /// Disconnects both sides.
    pub(crate) fn cut(&self) {
        self.client.with_conn(Connection::handle_disconnect);
        self.server.with_conn(Connection::handle_disconnect);
        self.settle();
    }

    /// Asserts that no state is left on either side.
    pub(crate) fn assert_clean(&self) {
        self.settle();
        let (client, server) = (self.client_session.shared(), self.server_session.shared());
        assert_eq!((client.in_flight.len(), client.calls.len(), self.client.waiters.len()), (0, 0, 0));
        let watching = usize::from(server.watches_tasks());
        assert_eq!((server.in_flight.len(), server.calls.len(), self.server.waiters.len()), (0, 0, watching));
        let usage = self.server.with_conn(|conn| conn.usage());
        assert_eq!((usage.requests, usage.calls, usage.outbox_frames), (0, 0, 0), "{usage:?}");
        let usage = self.client.with_conn(|conn| conn.usage());
        assert_eq!((usage.requests, usage.calls, usage.outbox_frames), (0, 0, 0), "{usage:?}");
    }
}

/// The function of a script that returns the response of a request.
type Answers = Box<dyn FnMut(&str, Value) -> Result<Value, ErrorObject> + Send>;

/// A server that sends the responses of a test.
struct Script(Mutex<Answers>);

impl Application<ServerRole> for Script {
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
        if let Event::Request { key, method, params } = event {
            let params = params.map_or(Value::Null, |params| serde_json::from_str(params.get()).expect("JSON"));
            let answer = (lock(&self.0))(method.as_str(), params);
            connection
                .update(|conn, _| match answer {
                    Ok(result) => conn.respond_raw(key, &RawJson::from(&Json::new(&result).expect("JSON"))),
                    Err(error) => conn.respond_error(key, &error),
                })
                .expect("it can be answered");
        }
        None
    }
}

fn answer(result: Result<RawJson<'static>, CallError>) -> Result<Value, Value> {
    match result {
        Ok(result) => Ok(serde_json::from_str(result.get()).expect("JSON")),
        Err(CallError::Rpc(error)) => {
            let data = error.data.map(|data| serde_json::from_str::<Value>(data.get()).expect("JSON"));
            Err(serde_json::json!({ "code": error.code.0, "message": error.message, "data": data }))
        }
        Err(other) => Err(Value::from(other.to_string())),
    }
}

/// Returns the code of an error.
pub(crate) fn code(result: &Result<Value, Value>) -> i64 {
    result.as_ref().expect_err("an error")["code"].as_i64().expect("a code")
}
