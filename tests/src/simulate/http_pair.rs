//! A client over HTTP and its server, over connections that break and with a server that loses its sessions, drawn from
//! the seed: a [`HttpPair`].
//!
//! - A call of either side ends once for its application, with its own result or without one, and has no events
//!   afterwards.
//! - An application receives a call of its peer once, whatever breaks or is resumed, and once more after each
//!   `input_required` response (2026-07-28).
//! - If nothing breaks, each call ends with its result, and no side reports a violation.
//! - After the client has closed, both sides are idle.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use mcp_proto::{
    connection::{Connection, Event, Outcome, RequestOptions, SendError},
    protocol::{Era, ProtocolVersion, Role, VersionSet},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::ToolsListChangedParams,
    wire::{ErrorObject, Json, RawJson},
};
use serde_json::{Value, json};

use super::{
    rng::Rng,
    trace::{PeerId, Trace},
};
use crate::{
    harness::full_client_with,
    harness::full_server,
    http_pair::{Cut, HttpPair},
    http_server::HttpServer,
};

const VERSIONS: &[(u64, ProtocolVersion)] = &[
    (1, ProtocolVersion::V2024_11_05),
    (2, ProtocolVersion::V2025_03_26),
    (2, ProtocolVersion::V2025_06_18),
    (3, ProtocolVersion::V2025_11_25),
    (3, ProtocolVersion::V2026_07_28),
];

#[derive(Clone, Copy, Debug)]
enum Action {
    Call,
    Cancel,
    RespondToClient,
    Progress,
    SendServerRequest,
    RespondToServer,
    ChangeTools,
    Restart,
    Advance,
}

const ACTIONS: &[(u64, Action)] = &[
    (6, Action::Call),
    (1, Action::Cancel),
    (5, Action::RespondToClient),
    (3, Action::Progress),
    (4, Action::SendServerRequest),
    (4, Action::RespondToServer),
    (1, Action::ChangeTools),
    (1, Action::Restart),
    (4, Action::Advance),
];

/// A request that an application has received and not answered.
#[derive(Clone, Copy, Debug)]
struct Job {
    session: usize,
    key: ReplyKey,
    number: u64,
}

/// A request of the server's application.
#[derive(Debug)]
struct ServerRequest {
    number: u64,
    ended: bool,
}

/// The application of the server.
#[derive(Debug, Default)]
struct ServerApp {
    jobs: Vec<Job>,
    /// How often the call with a number was delivered.
    deliveries: BTreeMap<u64, u64>,
    /// The progress of the call with a number. It continues after an `input_required` response.
    reports: BTreeMap<u64, u32>,
    /// The input requests of the call with a number, by number, if it was answered with `input_required`.
    rounds: BTreeMap<u64, Vec<u64>>,
    server_requests: BTreeMap<(usize, CallId), ServerRequest>,
    /// The requests of the server that the client has answered.
    answered_requests: BTreeSet<u64>,
    /// Nothing breaks.
    undisturbed: bool,
}

fn raw(value: &Value) -> Json {
    Json::new(value).expect("it is JSON")
}

fn number_of(value: Option<&RawJson<'_>>) -> Option<u64> {
    value?.member("number")?.decode().ok()
}

fn with_session<T>(
    server: &mut HttpServer,
    session: usize,
    f: impl FnOnce(&mut Connection<mcp_proto::connection::ServerRole>, Timestamp) -> T,
) -> Option<T> {
    let now = server.now;
    Some(f(server.sessions.get_mut(&session)?.connection(now), now))
}

impl ServerApp {
    fn handle_event(&mut self, server: &mut HttpServer, session: usize, event: Event<'static>) {
        match event {
            Event::Request { key, params, .. } => {
                let number = number_of(params.as_ref()).expect("calls have a number");
                let deliveries = self.deliveries.entry(number).or_default();
                *deliveries += 1;
                let rounds = self.rounds.get(&number);
                assert!(
                    *deliveries <= 1 + rounds.map_or(0, |rounds| rounds.len() as u64),
                    "call {number} is handed over {deliveries} times"
                );
                if *deliveries > 1 {
                    let answers = params.as_ref().and_then(|params| params.member("inputResponses"));
                    let answer: Option<Value> = answers.and_then(|answers| answers.member("a")?.decode().ok());
                    let last = rounds.and_then(|rounds| rounds.last());
                    let received = answer.as_ref().map(|answer| &answer["number"]);
                    assert_eq!(received, last.map(|last| json!(last)).as_ref(), "of call {number}: {answer:?}");
                }
                self.jobs.push(Job { session, key, number });
            }
            Event::Cancelled { key, .. } => {
                // The application stops working on it. The response frees the slot.
                if let Some(at) = self.jobs.iter().position(|job| (job.session, job.key) == (session, key)) {
                    self.jobs.remove(at);
                    with_session(server, session, |conn, _| {
                        drop(conn.respond_error(key, &ErrorObject::internal("no")))
                    });
                }
            }
            Event::Response { call, outcome } => {
                let request = self.server_requests.get_mut(&(session, call)).expect("it was asked");
                assert!(!std::mem::replace(&mut request.ended, true), "{request:?} has ended before");
                if let Outcome::Result(result) = &outcome {
                    let received = number_of(Some(result));
                    assert_eq!(received, Some(request.number), "the response to another request");
                    assert!(self.answered_requests.contains(&request.number), "{request:?} was not answered");
                }
            }
            Event::Violation(violation) if self.undisturbed => {
                panic!("a violation of the client without a disturbance: {violation}")
            }
            _ => {}
        }
    }
}

/// A call of the client.
#[derive(Debug)]
struct Call {
    number: u64,
    progress: f64,
}

/// The application of the client, and both sides.
struct Simulation<'t, 'r> {
    net: HttpPair,
    server_app: Rc<RefCell<ServerApp>>,
    rng: Rng,
    trace: &'t mut Trace<'r>,
    calls: BTreeMap<CallId, Call>,
    /// Requests of the server without a response.
    open_requests: Vec<(ReplyKey, u64)>,
    /// All requests of the server that the client has received.
    seen: BTreeSet<u64>,
    numbers: u64,
    undisturbed: bool,
    closed: bool,
}

/// Runs the client and the server of a seed. Returns the simulated time.
///
/// # Panics
/// If a rule is broken.
pub fn run(seed: u64, trace: &mut Trace<'_>) -> Duration {
    // A separate generator: other parts of the run have no influence on this one.
    let mut rng = Rng::new(seed ^ 0x6a6f_696e_6564);
    let version = rng.weighted(VERSIONS);
    let undisturbed = rng.percent(25);
    let server_app = Rc::new(RefCell::new(ServerApp { undisturbed, ..ServerApp::default() }));
    let events = server_app.clone();
    let mut server = full_server();
    server.settings.versions = VersionSet::ALL;
    let app = move |server: &mut HttpServer, session, event| events.borrow_mut().handle_event(server, session, event);
    let mut net = HttpPair::new(full_client_with(VersionSet::only(version)), server, Box::new(app));
    net.chunk = if rng.percent(50) { usize::MAX } else { rng.size(1..=200) };
    if !undisturbed {
        let (mut chance, often) = (Rng::new(rng.below(u64::MAX)), *rng.pick(&[5, 20, 50]));
        net.cut = Box::new(move |_| {
            let body = Cut::Body(usize::try_from(chance.log_uniform(1, 2000)).unwrap_or(1) - 1);
            chance.percent(often).then(|| if chance.percent(30) { Cut::Head } else { body })
        });
    }
    let steps = rng.log_uniform(4, 60);
    let (calls, open_requests, seen) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    let mut pair =
        Simulation { net, server_app, rng, trace, calls, open_requests, seen, numbers: 0, undisturbed, closed: false };
    pair.note("meets", format_args!("a server in {version}, calm {undisturbed}"));
    pair.settle();
    for _ in 0..steps {
        pair.step();
        pair.settle();
    }
    pair.wind_down();
    Duration::from_nanos(pair.net.client.now.as_nanos())
}

impl Simulation<'_, '_> {
    fn note(&mut self, what: &str, detail: impl std::fmt::Display) {
        let peer_id = PeerId { pair: 0, role: Role::Client };
        self.trace.note(self.net.client.now, peer_id, what, format_args!("joined over HTTP {detail}"));
    }

    /// Runs both sides until they are idle, and handles the events of the client.
    fn settle(&mut self) {
        loop {
            self.net.run();
            let events = self.net.client.take_events();
            if events.is_empty() {
                return;
            }
            events.into_iter().for_each(|event| self.handle_event(event));
        }
    }

    fn handle_event(&mut self, event: Event<'static>) {
        assert!(!self.closed, "an event after the last one: {event:?}");
        self.note("hears", format_args!("{event:.200?}"));
        match event {
            Event::Request { key, params, .. } => {
                let number = number_of(params.as_ref()).expect("requests of the server have a number");
                assert!(self.seen.insert(number), "request {number} arrives twice");
                self.open_requests.push((key, number));
            }
            Event::Cancelled { key, .. } => {
                let now = self.net.client.now;
                if let Some(at) = self.open_requests.iter().position(|(open, _)| *open == key) {
                    self.open_requests.remove(at);
                    let conn = self.net.client.core.connection(now);
                    drop(conn.respond_error(key, &ErrorObject::internal("no")));
                }
            }
            Event::Response { call, outcome } => {
                let Some(ended) = self.calls.remove(&call) else { panic!("{call:?} has ended before: {outcome:?}") };
                match &outcome {
                    Outcome::Result(result) => {
                        assert_eq!(number_of(Some(result)), Some(ended.number), "the result of another call");
                    }
                    _ => assert!(!self.undisturbed, "{ended:?} ends with {outcome:?} without a disturbance"),
                }
            }
            Event::Progress { call, progress } => {
                let call = self.calls.get_mut(&call).expect("progress of a call that has not ended");
                assert!(progress.progress > call.progress, "progress that does not grow");
                call.progress = progress.progress;
            }
            Event::Violation(violation) if self.undisturbed => {
                panic!("a violation of the server without a disturbance: {violation}")
            }
            Event::Closed(reason) => {
                assert!(!self.undisturbed, "the client ends without a disturbance: {reason:?}");
                assert!(self.calls.is_empty(), "calls have not ended: {:?}", self.calls);
                self.closed = true;
            }
            _ => {}
        }
    }

    /// Performs one action.
    fn step(&mut self) {
        let action = self.rng.weighted(ACTIONS);
        let size = usize::try_from(self.rng.log_uniform(1, 5000)).unwrap_or(1);
        let jobs = self.server_app.borrow().jobs.len();
        let job = if jobs == 0 { None } else { Some(self.rng.size(0..=jobs - 1)) };
        match (action, job) {
            (Action::Call, _) => self.call(size),
            (Action::Cancel, _) if !self.undisturbed && !self.calls.is_empty() => {
                let calls: Vec<_> = self.calls.keys().copied().collect();
                let call = *self.rng.pick(&calls);
                self.note("cancels", format_args!("{call:?}"));
                let now = self.net.client.now;
                drop(self.net.client.core.connection(now).cancel(call, None));
            }
            (Action::RespondToClient, Some(job)) => self.respond_to_client(job, size),
            (Action::Progress, Some(job)) => self.progress(job),
            (Action::SendServerRequest, Some(job)) => self.send_server_request(job),
            (Action::RespondToServer, _) if !self.open_requests.is_empty() => {
                let at = self.rng.size(0..=self.open_requests.len() - 1);
                self.respond_to_server(at);
            }
            (Action::ChangeTools, _) => {
                let now = self.net.server.now;
                for session in self.net.server.sessions.values_mut() {
                    drop(session.connection(now).notify(&ToolsListChangedParams::default()));
                }
            }
            (Action::Restart, _) if !self.undisturbed && self.rng.percent(50) => {
                self.note("loses", "its server, and meets another one");
                let mut server = full_server();
                server.settings.versions = VersionSet::ALL;
                self.net.restart(server);
                let server_app = &mut *self.server_app.borrow_mut();
                server_app.jobs.clear();
                server_app.server_requests.clear();
            }
            (Action::Advance, _) => {
                let most = if self.undisturbed { Duration::from_millis(500) } else { Duration::from_secs(100) };
                let pause = self.rng.duration(most);
                self.net.advance(pause);
            }
            _ => {}
        }
    }

    fn call(&mut self, size: usize) {
        self.numbers += 1;
        let (number, progress) = (self.numbers, self.rng.percent(60));
        let params = raw(&json!({"name": "t", "number": number, "pad": "x".repeat(size)}));
        let mut options = RequestOptions { progress, ..RequestOptions::default() };
        if self.undisturbed {
            (options.idle_timeout, options.total_timeout) = (None, None);
        }
        let now = self.net.client.now;
        let conn = self.net.client.core.connection(now);
        let called = conn.request_raw(now, "tools/call", Some(&RawJson::from(&params)), options);
        self.note("calls", format_args!("{number} with {size} bytes: {called:?}"));
        if let Ok(call) = called {
            self.calls.insert(call, Call { number, progress: 0.0 });
        }
    }

    fn respond_to_client(&mut self, at: usize, size: usize) {
        let Job { session, key, number } = self.server_app.borrow().jobs[at];
        let result = raw(&json!({"content": [], "number": number, "pad": "x".repeat(size)}));
        let answered =
            with_session(&mut self.net.server, session, |conn, _| conn.respond_raw(key, &RawJson::from(&result)));
        self.note("answers", format_args!("{number} with {size} bytes: {answered:?}"));
        if answered != Some(Err(SendError::Busy)) {
            self.server_app.borrow_mut().jobs.remove(at);
        }
    }

    fn progress(&mut self, at: usize) {
        let server_app = &mut *self.server_app.borrow_mut();
        let Job { session, key, number } = server_app.jobs[at];
        let reports = server_app.reports.entry(number).or_default();
        *reports += 1;
        let step = f64::from(*reports);
        with_session(&mut self.net.server, session, |conn, _| drop(conn.progress(key, step, None, Some("so far"))));
    }

    /// Requests input for a call of the client: with a request of the server, or with an `input_required` response
    /// (2026-07-28).
    fn send_server_request(&mut self, at: usize) {
        self.numbers += 1;
        let (number, Job { session, key, number: call }) = (self.numbers, self.server_app.borrow().jobs[at]);
        let method = *self.rng.pick(&["elicitation/create", "sampling/createMessage"]);
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let params = match method {
            "elicitation/create" => json!({"message": "m", "requestedSchema": schema, "number": number}),
            _ => json!({"messages": [], "maxTokens": 1, "number": number}),
        };
        let options = RequestOptions {
            related_request: Some(key),
            progress: false,
            total_timeout: Some(Duration::from_secs(60)),
            ..RequestOptions::default()
        };
        let input_required = raw(&json!({"resultType": "input_required", "requestState": "s",
            "inputRequests": {"a": {"method": method, "params": params}}}));
        let params = raw(&params);
        let sent = with_session(&mut self.net.server, session, |conn, now| {
            match conn.request_raw(now, method, Some(&RawJson::from(&params)), options) {
                Ok(call) => Some(Ok(call)),
                Err(_) if conn.context(key).is_some_and(|context| context.era() == Era::Modern) => {
                    conn.respond_raw(key, &RawJson::from(&input_required)).is_ok().then_some(Err(()))
                }
                Err(_) => None,
            }
        });
        self.note("asks", format_args!("{number} for {call} with {method}: {sent:?}"));
        let server_app = &mut *self.server_app.borrow_mut();
        match sent.flatten() {
            Some(Ok(call)) => {
                _ = server_app.server_requests.insert((session, call), ServerRequest { number, ended: false })
            }
            Some(Err(())) => {
                server_app.rounds.entry(call).or_default().push(number);
                server_app.jobs.remove(at);
            }
            None => {}
        }
    }

    fn respond_to_server(&mut self, at: usize) {
        let (key, number) = self.open_requests[at];
        let now = self.net.client.now;
        let result = raw(&json!({"action": "accept", "content": {"name": "x"}, "role": "assistant", "model": "m",
            "number": number}));
        let responded = self.net.client.core.connection(now).respond_raw(key, &RawJson::from(&result));
        self.note("replies", format_args!("{number}: {responded:?}"));
        if responded != Err(SendError::Busy) {
            self.server_app.borrow_mut().answered_requests.insert(number);
            self.open_requests.remove(at);
        }
    }

    /// Stops all disturbances, responds to all requests, and closes the client.
    fn wind_down(&mut self) {
        self.note("winds", "down");
        self.net.cut = Box::new(|_| None);
        for _ in 0..16 {
            while !self.open_requests.is_empty() {
                self.respond_to_server(0);
            }
            let jobs = self.server_app.borrow().jobs.len();
            for at in (0..jobs).rev() {
                self.respond_to_client(at, 1);
            }
            self.net.advance(Duration::from_secs(1));
            self.settle();
        }
        assert!(
            !self.undisturbed || self.calls.is_empty(),
            "calls without a response and without a disturbance: {:?}",
            self.calls
        );
        self.net.advance(Duration::from_secs(600));
        self.settle();
        assert!(self.calls.is_empty(), "these never end: {:?}", self.calls);
        let now = self.net.client.now;
        self.undisturbed = false;
        self.net.client.core.close(now);
        self.settle();
        self.net.advance(Duration::from_secs(3600));
        self.settle();
        let client = &self.net.client.core;
        assert!(client.is_over() && self.closed, "the client never ends");
        assert_eq!((client.usage().exchanges, client.usage().bytes, client.usage().queued), (0, 0, 0));
        assert!(self.net.server.sessions.is_empty() && self.net.server.endpoint.is_empty(), "sessions are left");
        let server_app = self.server_app.borrow();
        let open: Vec<_> = server_app.server_requests.values().filter(|request| !request.ended).collect();
        assert!(open.is_empty(), "these never end: {open:?}");
    }
}
