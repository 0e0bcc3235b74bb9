//! One endpoint, its clients and the applications of its sessions.

use std::time::Duration;

use http::{Request, header};
use mcp_proto::{
    connection::{Event, SendError, ServerConfig},
    http::{Limits, Policy, server::EndpointOptions},
    protocol::VersionSet,
    rpc::{ReplyKey, Timestamp},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use super::{
    client::{Client, ClientEvent, ClientMessage, Exchange, ExpectedResponse, TransportKind},
    server_requests::ServerRequest,
};
use crate::{
    explore::{Rule, Violation, ensure},
    harness::full_server,
    http_server::{HttpServer, RequestRef, get, initialize, modern, post},
};

/// The configuration of a system.
#[derive(Clone, Debug)]
pub struct SystemConfig {
    /// The revision of each client. A client of 2024-11-05 uses HTTP+SSE.
    pub clients: Vec<&'static str>,
    /// The limits of sessions.
    pub limits: Limits,
    /// The limit of requests in flight in a session.
    pub requests: usize,
    /// The limit of the outbox of a connection, in bytes.
    pub outbox_bytes: usize,
    /// The limits of the replay suffice for all messages: messages are lost only by time.
    pub lossless: bool,
}

/// A request that an application works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its session.
    pub session: usize,
    /// Its key in the session.
    pub key: ReplyKey,
    /// The number that its result repeats.
    pub number: u64,
    /// It was cancelled.
    pub cancelled: bool,
    /// The number of progress reports.
    pub reports: u64,
    /// The application has responded.
    pub answered: bool,
}

/// The outcome of an attempt to respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespondOutcome {
    /// The response was accepted.
    Done,
    /// The outbox was full.
    Busy,
}

/// The system under test and the state of its checks.
pub struct System {
    /// The server, and the responses to all requests.
    pub server: HttpServer,
    /// The clients.
    pub clients: Vec<Client>,
    /// The requests that the applications received.
    pub jobs: Vec<Job>,
    /// The requests of the server.
    pub server_requests: Vec<ServerRequest>,
    /// The pending events of the clients, with the index of the client.
    pub events: Vec<(usize, ClientEvent)>,
    /// The configuration.
    pub config: SystemConfig,
    /// The size of the largest message so far.
    pub longest: usize,
    /// The bytes of all responses so far.
    answers: usize,
    pub(super) numbers: u64,
}

/// The bytes of a message in addition to the padding.
pub(super) const ENVELOPE: usize = 400;

impl System {
    /// Returns a system after the handshakes of all clients.
    ///
    /// # Errors
    /// If a handshake breaks a rule.
    pub fn new(config: SystemConfig) -> Result<Self, Violation> {
        let mut server: ServerConfig = full_server();
        server.settings.versions = VersionSet::ALL;
        server.settings.limits.requests = config.requests;
        server.settings.limits.outbox_bytes = config.outbox_bytes;
        // The core refuses methods of capabilities that are not declared.
        server.capabilities.prompts = None;
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = mcp_proto::http::server::Paths::at("/mcp").with_http_sse("/sse", "/message");
        options.limits = config.limits.clone();
        let mut system = Self {
            server: HttpServer::with(server, options),
            clients: Vec::new(),
            jobs: Vec::new(),
            server_requests: Vec::new(),
            events: Vec::new(),
            config,
            longest: 0,
            answers: 0,
            numbers: 0,
        };
        for version in system.config.clients.clone() {
            system.connect(version)?;
        }
        Ok(system)
    }

    fn connect(&mut self, version: &'static str) -> Result<(), Violation> {
        let client = match version {
            "2026-07-28" => Client::new(TransportKind::Stateless, version),
            "2024-11-05" => return self.connect_http_sse(version),
            _ => Client::new(TransportKind::Session(self.server.begin(version)), version),
        };
        self.clients.push(client);
        self.settle()
    }

    fn connect_http_sse(&mut self, version: &'static str) -> Result<(), Violation> {
        let sent = self.server.send(get("/sse").body(Vec::new()).expect("a request"));
        let path = self.server.reply(sent).events().remove(0).1;
        let request = |message: Value| post(&path).body(message.to_string().into_bytes()).expect("a request");
        let accepted = |server: &mut HttpServer, message| server.request(request(message)).status() == 202;
        let begun = accepted(&mut self.server, initialize(version))
            && accepted(&mut self.server, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        ensure(begun, Rule::Rest, || "the old transport does not begin".into())?;
        self.server.take_events();
        let (mut client, now) = (Client::new(TransportKind::HttpSse(path.clone()), version), self.server.now);
        // The response to `initialize`.
        let opening = ExpectedResponse::new("0");
        client.begin(now, sent, vec![opening], true);
        self.clients.push(client);
        self.settle()
    }

    /// Handles all pending events and responses, and checks the rules.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn settle(&mut self) -> Result<(), Violation> {
        self.server.settle();
        for (session, event) in std::mem::take(&mut self.server.events) {
            self.handle(session, event)?;
        }
        let now = self.server.now;
        let mut events = Vec::new();
        let jobs = &self.jobs;
        let is_delivered = |number| jobs.iter().any(|job| job.number == number);
        for (client_index, client) in self.clients.iter_mut().enumerate() {
            for at in 0..client.streams.len() {
                let Some(sent) = client.streams[at].exchange.as_ref().map(|exchange| exchange.sent) else { continue };
                let now = self.server.is_reading(sent).then_some(now);
                client.read(now, at, self.server.reply(sent), &is_delivered, &mut events)?;
            }
            self.events.extend(events.drain(..).map(|events| (client_index, events)));
        }
        for (client_index, events) in std::mem::take(&mut self.events) {
            match events {
                ClientEvent::ServerRequest(message) => self.on_server_request(client_index, message)?,
                events => self.events.push((client_index, events)),
            }
        }
        self.check_losses()?;
        self.check_limits()?;
        self.check_blocked()
    }

    fn handle(&mut self, session: usize, event: Event<'static>) -> Result<(), Violation> {
        match event {
            Event::Request { key, params, .. } => {
                let number = params.and_then(|params| params.member("number")?.decode().ok()).unwrap_or(0);
                self.jobs.push(Job { session, key, number, cancelled: false, reports: 0, answered: false });
            }
            Event::Cancelled { key, .. } => {
                for job in self.jobs.iter_mut().filter(|job| (job.session, job.key) == (session, key)) {
                    job.cancelled = true;
                }
            }
            Event::Response { call, outcome } => return self.on_response(session, call, &outcome),
            _ => {}
        }
        Ok(())
    }

    // ---- actions of clients ----

    /// Sends messages of a client. Returns the index of the stream of the response.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn send_messages(
        &mut self,
        client_index: usize,
        kinds: &[ClientMessage],
        batch: bool,
        reads: bool,
    ) -> Result<usize, Violation> {
        let now = self.server.now;
        let client = &mut self.clients[client_index];
        let (messages, expected) = client.build_messages(kinds, &mut self.numbers);
        let cancelled = Client::cancelled(&messages);
        let body = if batch { Value::Array(messages) } else { messages.into_iter().next().unwrap_or_default() };
        self.longest = self.longest.max(body.to_string().len() + ENVELOPE);
        let request = match &client.kind {
            TransportKind::Stateless => {
                modern(&body["id"], body["method"].as_str().unwrap_or_default(), body["params"].clone())
            }
            TransportKind::Session(id) => {
                let id = id.clone();
                self.server.in_session(&id, &body)
            }
            TransportKind::HttpSse(path) => post(path).body(body.to_string().into_bytes()).expect("a request"),
        };
        // The status must be known: it decides whether the messages were accepted.
        let is_old = matches!(client.kind, TransportKind::HttpSse(_));
        let sent = self.send(request, reads || is_old || !cancelled.is_empty());
        let jobs = &self.jobs;
        let is_answered = |number| !jobs.iter().any(|job| job.number == number && !job.answered);
        let client = &mut self.clients[client_index];
        let accepted = self.server.reply(sent).head.as_ref().is_none_or(|head| head.status.is_success());
        if !client.over && accepted {
            client.cancel(&cancelled, is_answered);
        }
        // Over HTTP+SSE the responses belong to the stream of the session once the messages are accepted.
        let expected = if is_old && client.over { Vec::new() } else { expected };
        let at = client.begin(now, sent, expected, false);
        self.settle()?;
        Ok(at)
    }

    pub(super) fn send(&mut self, request: Request<Vec<u8>>, reads: bool) -> RequestRef {
        self.server.reads = reads;
        let sent = self.server.send(request);
        self.server.reads = true;
        sent
    }

    fn stream_request(&self, client_index: usize, last: Option<&str>) -> Option<Request<Vec<u8>>> {
        let TransportKind::Session(id) = &self.clients[client_index].kind else { return None };
        let mut request = get("/mcp").header("mcp-session-id", id);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Some(request.body(Vec::new()).expect("a request"))
    }

    /// A client opens a stream of its session.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn listen(&mut self, client_index: usize, reads: bool) -> Result<(), Violation> {
        let Some(request) = self.stream_request(client_index, None) else { return Ok(()) };
        let sent = self.send(request, reads);
        let now = self.server.now;
        self.clients[client_index].begin(now, sent, Vec::new(), true);
        self.settle()
    }

    /// Resumes a stream, whether the client has noticed the disconnection or not. Returns whether it is resumable.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn resume(&mut self, client_index: usize, at: usize, reads: bool) -> Result<bool, Violation> {
        let stream = &self.clients[client_index].streams[at];
        if stream.over || stream.last_id.is_empty() {
            return Ok(false);
        }
        let last = stream.last_id.clone();
        let Some(request) = self.stream_request(client_index, Some(&last)) else { return Ok(false) };
        let sent = self.send(request, reads);
        self.clients[client_index].resume(at, sent);
        self.settle()?;
        Ok(true)
    }

    /// Makes a client read a stream from now on.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn read(&mut self, client_index: usize, at: usize) -> Result<(), Violation> {
        let Some(exchange) = &self.clients[client_index].streams[at].exchange else { return Ok(()) };
        let sent = exchange.sent;
        // Output that waited was sent some time ago. The server may have ended the stream since.
        let mut waited = !self.server.is_reading(sent);
        while waited {
            waited = false;
            while self.server.read_once(sent) {
                waited = true;
            }
            self.settle()?;
        }
        self.server.read(sent, true);
        self.settle()
    }

    /// Makes a client read this many pieces of a stream, and then stop.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn read_once(&mut self, client_index: usize, at: usize, pieces: usize) -> Result<(), Violation> {
        let client = &self.clients[client_index];
        let Some(sent) = client.streams[at].exchange.as_ref().map(|it| it.sent) else { return Ok(()) };
        // Over HTTP+SSE the status of a message must be known: it decides whether the message was accepted.
        if matches!(client.kind, TransportKind::HttpSse(_)) && !client.streams[at].listens {
            return Ok(());
        }
        self.server.read(sent, false);
        for _ in 0..pieces {
            if !self.server.read_once(sent) {
                break;
            }
        }
        self.settle()
    }

    /// Disconnects a client from a stream.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn disconnect(&mut self, client_index: usize, at: usize) -> Result<(), Violation> {
        let client = &mut self.clients[client_index];
        let Some(sent) = client.disconnect(at) else { return Ok(()) };
        client.over |= matches!(client.kind, TransportKind::HttpSse(_)) && at == 0;
        self.server.disconnect(sent);
        if self.clients[client_index].kind == TransportKind::Stateless {
            for job in self.jobs.iter_mut().filter(|job| job.session == sent.session) {
                job.cancelled = true;
            }
        }
        self.settle()
    }

    /// Closes the exchanges that the client has abandoned.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn close_abandoned(&mut self, client_index: usize) -> Result<(), Violation> {
        for abandoned in std::mem::take(&mut self.clients[client_index].abandoned) {
            self.server.disconnect(abandoned.sent);
        }
        self.settle()
    }

    /// Deletes the session of a client.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn delete(&mut self, client_index: usize) -> Result<(), Violation> {
        let TransportKind::Session(id) = self.clients[client_index].kind.clone() else { return Ok(()) };
        let request = Request::delete("/mcp").header(header::HOST, "localhost").header("mcp-session-id", id);
        self.clients[client_index].over = true;
        self.send(request.body(Vec::new()).expect("a request"), true);
        self.settle()
    }

    // ---- actions of applications ----

    /// Sends the result of an application, with this many bytes of padding.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn respond(&mut self, job: usize, size: usize) -> Result<RespondOutcome, Violation> {
        let Job { session, key, number, .. } = self.jobs[job];
        let now = self.server.now;
        let text = json!({"content": [], "number": number, "pad": "x".repeat(size)});
        let result = Json::new(&text).map_err(|error| Violation::new(Rule::Rest, error))?;
        let answered = match self.server.sessions.get_mut(&session) {
            Some(open) => open.connection(now).respond_raw(key, &RawJson::from(&result)),
            None => Ok(()),
        };
        match answered {
            Ok(()) => {
                self.jobs[job].answered = true;
                // The responses of a batch are one message.
                self.answers += size + ENVELOPE;
                let batches = self.config.clients.contains(&"2025-03-26");
                self.longest = self.longest.max(if batches { self.answers } else { size + ENVELOPE });
            }
            Err(SendError::Busy) => {
                self.settle()?;
                let reason = self.is_blocked_by_reader(session);
                ensure(reason, Rule::Output, || "no capacity, although all output was read".into())?;
                return Ok(RespondOutcome::Busy);
            }
            Err(error) => return Err(Violation::new(Rule::Refusals, format!("{error}: {:?}", self.jobs[job]))),
        }
        self.settle()?;
        Ok(RespondOutcome::Done)
    }

    /// Reports progress of a request, with this many bytes of padding.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn progress(&mut self, job: usize, size: usize) -> Result<(), Violation> {
        let Job { session, key, reports, .. } = self.jobs[job];
        let now = self.server.now;
        if let Some(open) = self.server.sessions.get_mut(&session) {
            #[expect(clippy::cast_precision_loss, reason = "they are small")]
            let progress = (reports + 1) as f64;
            let reported = open.connection(now).progress(key, progress, None, Some(&"x".repeat(size)));
            if reported == Ok(()) {
                self.jobs[job].reports += 1;
                self.longest = self.longest.max(size + ENVELOPE);
            }
        }
        self.settle()
    }

    /// Releases the stream of a request, so that the client polls for the response.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn release_stream(&mut self, job: usize) -> Result<(), Violation> {
        let Job { session, key, .. } = self.jobs[job];
        let now = self.server.now;
        if let Some(open) = self.server.sessions.get_mut(&session) {
            open.connection(now).release_stream(key, Some(Duration::from_secs(1)));
        }
        self.settle()
    }

    /// Sends a notification of a session that belongs to no request.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn notify(&mut self, session: usize, size: usize) -> Result<(), Violation> {
        let now = self.server.now;
        let text = Json::new(&json!({"pad": "x".repeat(size)})).map_err(|error| Violation::new(Rule::Rest, error))?;
        if let Some(open) = self.server.sessions.get_mut(&session)
            && open.connection(now).notify_raw("notifications/vendor", Some(&RawJson::from(&text))).is_ok()
        {
            self.longest = self.longest.max(size + ENVELOPE);
        }
        self.settle()
    }

    // ---- time ----

    /// Returns when the next timer of a session is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.server.sessions.values().filter_map(|session| session.poll_timeout().map(|deadline| deadline.at)).min()
    }

    /// Advances the clock.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn advance(&mut self, time: Duration) -> Result<(), Violation> {
        self.server.advance(time);
        self.settle()
    }

    // ---- rules ----

    /// Checks that each reported loss has a cause.
    fn check_losses(&mut self) -> Result<(), Violation> {
        let time = self.config.limits.replay_time;
        let now = self.server.now;
        for (client_index, events) in &self.events {
            let client = &mut self.clients[*client_index];
            // The stream of HTTP+SSE is its session: the server ends both if the stream is not read for too long.
            let ended = |exchange: &Exchange| {
                self.server.sessions.get(&exchange.sent.session).is_none_or(|session| session.is_closed())
            };
            let is_over = client.over
                || matches!(client.kind, TransportKind::HttpSse(_))
                    && client.streams[0].exchange.as_ref().is_none_or(ended);
            let at = match events {
                ClientEvent::StreamGone(at) => at,
                ClientEvent::Refused(at, status) => {
                    let stream = &client.streams[*at];
                    let answered = stream.expected.iter().all(|response| response.answered);
                    // The client has not read for so long that the session dropped the response.
                    let is_late = *status == 503 && now >= stream.since + self.config.limits.stalled;
                    ensure(is_over || answered || is_late || !self.config.lossless, Rule::Refusals, || {
                        format!("refused with {status}: {stream:?}")
                    })?;
                    continue;
                }
                ClientEvent::ServerRequest(_) => continue,
            };
            let stream = &mut client.streams[*at];
            let open = stream.expected.iter().any(ExpectedResponse::is_open);
            let in_time = now < stream.since + time;
            ensure(is_over || !open || !in_time || !self.config.lossless, Rule::Streams, || {
                format!("client {client_index}: a retained stream is reported as lost: {stream:?}")
            })?;
            stream.mark_lost();
        }
        self.events.retain(|(_, events)| matches!(events, ClientEvent::ServerRequest(_)));
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Violation> {
        let limits = &self.config.limits;
        for session in self.server.sessions.values() {
            let usage = session.usage();
            // Messages from the replay buffer are not counted twice, and small responses of the core are always
            // written.
            let kept = limits.replay_bytes.max(self.longest).min(64 << 10);
            let slack = self.longest + kept + 200 * (usage.exchanges + 1);
            let most = self.config.outbox_bytes.max(limits.queued_bytes) + slack;
            ensure(usage.queued_bytes <= most, Rule::Limits, || {
                format!("{} bytes are queued, the limit is {most}", usage.queued_bytes)
            })?;
            ensure(usage.replay_bytes <= limits.replay_bytes.max(self.longest), Rule::Limits, || format!("{usage:?}"))?;
            ensure(usage.replay <= limits.replay.max(1), Rule::Limits, || format!("{usage:?}"))?;
            ensure(usage.waiting <= limits.waiting, Rule::Limits, || format!("{usage:?}"))?;
            // Rejections that are not read are counted beyond the limit.
            let unread = self.clients.iter().map(|client| client.streams.len() + client.abandoned.len()).sum::<usize>();
            ensure(usage.exchanges - usage.waiting_requests <= limits.exchanges + unread, Rule::Limits, || {
                format!("{usage:?}")
            })?;
        }
        Ok(())
    }

    /// Returns whether a client of a session has an exchange that it does not read and has not replaced.
    fn is_blocked_by_reader(&self, session: usize) -> bool {
        let carriers = self.clients.iter().flat_map(|client| {
            let abandoned = client.abandoned.iter().filter(|it| it.carries_stream).map(|it| it.sent);
            client.streams.iter().filter_map(|it| it.exchange.as_ref()).map(|it| it.sent).chain(abandoned)
        });
        let mut slow = carriers.filter(|sent| sent.session == session);
        slow.any(|sent| !self.server.is_reading(sent) && !self.server.reply(sent).ended)
    }

    /// Checks that a client that reads everything has received all available responses.
    fn check_blocked(&self) -> Result<(), Violation> {
        for client in self.clients.iter().filter(|client| !client.over) {
            for stream in &client.streams {
                let Some(exchange) = stream.exchange.as_ref().filter(|exchange| self.server.is_reading(exchange.sent))
                else {
                    continue;
                };
                // A request that waits for capacity of its session has not reached the application.
                let session = self.server.sessions.get(&exchange.sent.session);
                let waits = session.is_some_and(|session| session.usage().waiting_requests > 0);
                let mut open = stream.expected.iter().filter(|response| response.is_open()).peekable();
                let due = open.peek().is_some() && open.all(|response| self.is_answered(response, waits));
                ensure(!due, Rule::Output, || {
                    format!("all output is read, but available responses are missing: {:?}", stream.expected)
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether a request has a response: of the application, or of the core. The core responds to requests that
    /// the application has not received, unless requests of the session wait for capacity.
    fn is_answered(&self, response: &ExpectedResponse, waits: bool) -> bool {
        let mut jobs = self.jobs.iter().filter(|job| Some(job.number) == response.number).peekable();
        if jobs.peek().is_none() { !waits } else { jobs.all(|job| job.answered) }
    }
}
