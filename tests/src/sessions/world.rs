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
    asking::Question,
    client::{Client, Kind, News, Say, Want},
};
use crate::{
    explore::{Fault, Rule, demand},
    solo::full_server,
    web::{Asked, Web, get, initialize, modern, post},
};

/// What a world begins with.
#[derive(Clone, Debug)]
pub struct Play {
    /// The revision of each client; 2024-11-05 is over its own transport.
    pub clients: Vec<&'static str>,
    /// How much sessions may hold.
    pub limits: Limits,
    /// Requests in flight at once, in a session.
    pub requests: usize,
    /// Bytes of a connection that wait to be written.
    pub outbox_bytes: usize,
    /// What is kept for clients that come back is enough for everything: nothing is lost but to time.
    pub roomy: bool,
}

/// A request that an application works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// In which session.
    pub session: usize,
    /// Its name there.
    pub key: ReplyKey,
    /// What its result repeats.
    pub number: u64,
    /// It was cancelled.
    pub cancelled: bool,
    /// Steps of progress that were reported.
    pub reports: u64,
    /// It was answered.
    pub answered: bool,
}

/// How it was to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is done.
    Done,
    /// There was no room.
    Busy,
}

/// Everything that there is.
pub struct World {
    /// The server's side, and what has come of it.
    pub web: Web,
    /// The clients.
    pub clients: Vec<Client>,
    /// What the applications were asked.
    pub jobs: Vec<Job>,
    /// What the clients were asked.
    pub questions: Vec<Question>,
    /// What the clients have learned since it was last taken: whose it is.
    pub news: Vec<(usize, News)>,
    /// What may be held.
    pub play: Play,
    /// The longest message so far.
    pub longest: usize,
    /// The bytes of all answers so far.
    answers: usize,
    pub(super) numbers: u64,
}

/// What a message takes beside what the application says.
pub(super) const ENVELOPE: usize = 400;

impl World {
    /// Clients whose handshakes are over.
    ///
    /// # Errors
    /// If a handshake breaks a rule.
    pub fn new(play: Play) -> Result<Self, Fault> {
        let mut config: ServerConfig = full_server();
        config.settings.versions = VersionSet::ALL;
        config.settings.limits.requests = play.requests;
        config.settings.limits.outbox_bytes = play.outbox_bytes;
        // What it does not have, the core refuses.
        config.capabilities.prompts = None;
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = mcp_proto::http::server::Paths::at("/mcp").with_http_sse("/sse", "/message");
        options.limits = play.limits.clone();
        let mut world = Self {
            web: Web::with(config, options),
            clients: Vec::new(),
            jobs: Vec::new(),
            questions: Vec::new(),
            news: Vec::new(),
            play,
            longest: 0,
            answers: 0,
            numbers: 0,
        };
        for version in world.play.clients.clone() {
            world.connect(version)?;
        }
        Ok(world)
    }

    fn connect(&mut self, version: &'static str) -> Result<(), Fault> {
        let client = match version {
            "2026-07-28" => Client::new(Kind::Alone, version),
            "2024-11-05" => return self.connect_old(version),
            _ => Client::new(Kind::Session(self.web.begin(version)), version),
        };
        self.clients.push(client);
        self.settle()
    }

    fn connect_old(&mut self, version: &'static str) -> Result<(), Fault> {
        let asked = self.web.send(get("/sse").body(Vec::new()).expect("a request"));
        let place = self.web.reply(asked).events().remove(0).1;
        let say = |message: Value| post(&place).body(message.to_string().into_bytes()).expect("a request");
        let accepted = |web: &mut Web, message| web.ask(say(message)).status() == 202;
        let begun = accepted(&mut self.web, initialize(version))
            && accepted(&mut self.web, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        demand(begun, Rule::Rest, || "the old transport does not begin".into())?;
        self.web.take_events();
        let (mut client, now) = (Client::new(Kind::Old(place.clone()), version), self.web.now);
        // The answer to `initialize`.
        let opening = Want::new("0");
        client.begin(now, asked, vec![opening], true);
        self.clients.push(client);
        self.settle()
    }

    /// Takes in everything that has happened.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn settle(&mut self) -> Result<(), Fault> {
        self.web.settle();
        for (session, event) in std::mem::take(&mut self.web.events) {
            self.hear(session, event)?;
        }
        let now = self.web.now;
        let mut news = Vec::new();
        let jobs = &self.jobs;
        let is_heard = |number| jobs.iter().any(|job| job.number == number);
        for (who, client) in self.clients.iter_mut().enumerate() {
            for at in 0..client.streams.len() {
                let Some(asked) = client.streams[at].carrier.as_ref().map(|carrier| carrier.asked) else { continue };
                let now = self.web.is_read(asked).then_some(now);
                client.read(now, at, self.web.reply(asked), &is_heard, &mut news)?;
            }
            self.news.extend(news.drain(..).map(|news| (who, news)));
        }
        for (who, news) in std::mem::take(&mut self.news) {
            match news {
                News::Asked(message) => self.arrived(who, message)?,
                news => self.news.push((who, news)),
            }
        }
        self.check_losses()?;
        self.check_limits()?;
        self.check_blocked()
    }

    fn hear(&mut self, session: usize, event: Event<'static>) -> Result<(), Fault> {
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
            Event::Response { call, outcome } => return self.ended(session, call, &outcome),
            _ => {}
        }
        Ok(())
    }

    // ---- what clients do ----

    /// A client says something, and reads the answer or does not: on which stream that is.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn say(&mut self, who: usize, said: &[Say], batch: bool, reads: bool) -> Result<usize, Fault> {
        let now = self.web.now;
        let client = &mut self.clients[who];
        let (messages, wants) = client.speak(said, &mut self.numbers);
        let cancelled = Client::cancelled(&messages);
        let body = if batch { Value::Array(messages) } else { messages.into_iter().next().unwrap_or_default() };
        self.longest = self.longest.max(body.to_string().len() + ENVELOPE);
        let request = match &client.kind {
            Kind::Alone => modern(&body["id"], body["method"].as_str().unwrap_or_default(), body["params"].clone()),
            Kind::Session(id) => {
                let id = id.clone();
                self.web.in_session(&id, &body)
            }
            Kind::Old(place) => post(place).body(body.to_string().into_bytes()).expect("a request"),
        };
        // Whether it was accepted has to be known.
        let is_old = matches!(client.kind, Kind::Old(_));
        let asked = self.send(request, reads || is_old || !cancelled.is_empty());
        let jobs = &self.jobs;
        let is_answered = |number| !jobs.iter().any(|job| job.number == number && !job.answered);
        let client = &mut self.clients[who];
        let accepted = self.web.reply(asked).head.as_ref().is_none_or(|head| head.status.is_success());
        if !client.over && accepted {
            client.cancel(&cancelled, is_answered);
        }
        let at = if is_old {
            if !client.over && accepted {
                client.streams[0].wants.extend(wants);
            }
            client.begin(now, asked, Vec::new(), false)
        } else {
            client.begin(now, asked, wants, false)
        };
        self.settle()?;
        Ok(at)
    }

    pub(super) fn send(&mut self, request: Request<Vec<u8>>, reads: bool) -> Asked {
        self.web.reads = reads;
        let asked = self.web.send(request);
        self.web.reads = true;
        asked
    }

    fn listening(&self, who: usize, last: Option<&str>) -> Option<Request<Vec<u8>>> {
        let Kind::Session(id) = &self.clients[who].kind else { return None };
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
    pub fn listen(&mut self, who: usize, reads: bool) -> Result<(), Fault> {
        let Some(request) = self.listening(who, None) else { return Ok(()) };
        let asked = self.send(request, reads);
        let now = self.web.now;
        self.clients[who].begin(now, asked, Vec::new(), true);
        self.settle()
    }

    /// A client takes up a stream, whether it has noticed that it was lost or not. Whether it can.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn resume(&mut self, who: usize, at: usize, reads: bool) -> Result<bool, Fault> {
        let stream = &self.clients[who].streams[at];
        if stream.over || stream.last_id.is_empty() {
            return Ok(false);
        }
        let last = stream.last_id.clone();
        let Some(request) = self.listening(who, Some(&last)) else { return Ok(false) };
        let asked = self.send(request, reads);
        self.clients[who].resume(at, asked);
        self.settle()?;
        Ok(true)
    }

    /// A client reads all that comes on a stream, from now on.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn read(&mut self, who: usize, at: usize) -> Result<(), Fault> {
        let Some(carrier) = &self.clients[who].streams[at].carrier else { return Ok(()) };
        let asked = carrier.asked;
        // What has waited was sent some time ago, and the stream may have been broken off since.
        let mut waited = !self.web.is_read(asked);
        while waited {
            waited = false;
            while self.web.read_once(asked) {
                waited = true;
            }
            self.settle()?;
        }
        self.web.read(asked, true);
        self.settle()
    }

    /// A client reads what there is on a stream, or so many pieces of it, and then nothing more.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn read_once(&mut self, who: usize, at: usize, pieces: usize) -> Result<(), Fault> {
        let Some(asked) = self.clients[who].streams[at].carrier.as_ref().map(|it| it.asked) else { return Ok(()) };
        self.web.read(asked, false);
        for _ in 0..pieces {
            if !self.web.read_once(asked) {
                break;
            }
        }
        self.settle()
    }

    /// A client hangs up.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn hang_up(&mut self, who: usize, at: usize) -> Result<(), Fault> {
        let client = &mut self.clients[who];
        let Some(asked) = client.hang_up(at) else { return Ok(()) };
        client.over |= matches!(client.kind, Kind::Old(_)) && at == 0;
        self.web.hang_up(asked);
        if self.clients[who].kind == Kind::Alone {
            for job in self.jobs.iter_mut().filter(|job| job.session == asked.session) {
                job.cancelled = true;
            }
        }
        self.settle()
    }

    /// What carries nothing any more is noticed to be gone.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn bury(&mut self, who: usize) -> Result<(), Fault> {
        for asked in std::mem::take(&mut self.clients[who].dead) {
            self.web.hang_up(asked);
        }
        self.settle()
    }

    /// A client ends its session.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn delete(&mut self, who: usize) -> Result<(), Fault> {
        let Kind::Session(id) = self.clients[who].kind.clone() else { return Ok(()) };
        let request = Request::delete("/mcp").header(header::HOST, "localhost").header("mcp-session-id", id);
        self.clients[who].over = true;
        self.send(request.body(Vec::new()).expect("a request"), true);
        self.settle()
    }

    // ---- what applications do ----

    /// An application answers with so many bytes more than it has to.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn answer(&mut self, job: usize, size: usize) -> Result<Answered, Fault> {
        let Job { session, key, number, .. } = self.jobs[job];
        let now = self.web.now;
        let text = json!({"content": [], "number": number, "pad": "x".repeat(size)});
        let result = Json::new(&text).map_err(|error| Fault::new(Rule::Rest, error))?;
        let answered = match self.web.sessions.get_mut(&session) {
            Some(open) => open.connection(now).respond_raw(key, &RawJson::from(&result)),
            None => Ok(()),
        };
        match answered {
            Ok(()) => {
                self.jobs[job].answered = true;
                // Answers of a batch are one message.
                self.answers += size + ENVELOPE;
                let batches = self.play.clients.contains(&"2025-03-26");
                self.longest = self.longest.max(if batches { self.answers } else { size + ENVELOPE });
            }
            Err(SendError::Busy) => {
                self.settle()?;
                let reason = self.is_held_up(session);
                demand(reason, Rule::Output, || "there is no room, and everything was read".into())?;
                return Ok(Answered::Busy);
            }
            Err(error) => return Err(Fault::new(Rule::Refusals, format!("{error}: {:?}", self.jobs[job]))),
        }
        self.settle()?;
        Ok(Answered::Done)
    }

    /// An application says how far it is, with so many bytes more than it has to.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn progress(&mut self, job: usize, size: usize) -> Result<(), Fault> {
        let Job { session, key, reports, .. } = self.jobs[job];
        let now = self.web.now;
        if let Some(open) = self.web.sessions.get_mut(&session) {
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

    /// An application lets the client come back for the answer.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn release_stream(&mut self, job: usize) -> Result<(), Fault> {
        let Job { session, key, .. } = self.jobs[job];
        let now = self.web.now;
        if let Some(open) = self.web.sessions.get_mut(&session) {
            open.connection(now).release_stream(key, Some(Duration::from_secs(1)));
        }
        self.settle()
    }

    /// A session sends a notification that belongs to no request.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn tell(&mut self, session: usize, size: usize) -> Result<(), Fault> {
        let now = self.web.now;
        let text = Json::new(&json!({"pad": "x".repeat(size)})).map_err(|error| Fault::new(Rule::Rest, error))?;
        if let Some(open) = self.web.sessions.get_mut(&session)
            && open.connection(now).notify_raw("notifications/vendor", Some(&RawJson::from(&text))).is_ok()
        {
            self.longest = self.longest.max(size + ENVELOPE);
        }
        self.settle()
    }

    // ---- time ----

    /// When something happens by itself.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.web.sessions.values().filter_map(|session| session.poll_timeout().map(|deadline| deadline.at)).min()
    }

    /// Time passes.
    ///
    /// # Errors
    /// If a rule is broken.
    pub fn pass(&mut self, time: Duration) -> Result<(), Fault> {
        self.web.advance(time);
        self.settle()
    }

    // ---- rules ----

    /// What is said to be lost is lost for a reason.
    fn check_losses(&mut self) -> Result<(), Fault> {
        let time = self.play.limits.replay_time;
        let now = self.web.now;
        for (who, news) in &self.news {
            let client = &mut self.clients[*who];
            let is_over = client.over;
            let at = match news {
                News::Gone(at) => at,
                News::Refused(at, status) => {
                    let stream = &client.streams[*at];
                    let answered = stream.wants.iter().all(|want| want.answered);
                    // Its client has read nothing for so long that the session gave the answer up.
                    let is_late = *status == 503 && now >= stream.since + self.play.limits.stalled;
                    demand(is_over || answered || is_late || !self.play.roomy, Rule::Refusals, || {
                        format!("refused with {status}: {stream:?}")
                    })?;
                    continue;
                }
                News::Asked(_) => continue,
            };
            let stream = &mut client.streams[*at];
            let open = stream.wants.iter().any(Want::is_open);
            let in_time = now < stream.since + time;
            demand(is_over || !open || !in_time || !self.play.roomy, Rule::Streams, || {
                format!("{who}: what is kept is said to be gone: {stream:?}")
            })?;
            stream.lose();
        }
        self.news.retain(|(_, news)| matches!(news, News::Asked(_)));
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Fault> {
        let limits = &self.play.limits;
        for session in self.web.sessions.values() {
            let usage = session.usage();
            // What is fed from the replay is not counted twice, and small answers of the core are always written.
            let kept = limits.replay_bytes.max(self.longest).min(64 << 10);
            let slack = self.longest + kept + 200 * (usage.exchanges + 1);
            let most = self.play.outbox_bytes.max(limits.queued_bytes) + slack;
            demand(usage.queued_bytes <= most, Rule::Limits, || {
                format!("{} bytes wait to be written, {most} may", usage.queued_bytes)
            })?;
            demand(usage.replay_bytes <= limits.replay_bytes.max(self.longest), Rule::Limits, || format!("{usage:?}"))?;
            demand(usage.replay <= limits.replay.max(1), Rule::Limits, || format!("{usage:?}"))?;
            demand(usage.waiting <= limits.waiting, Rule::Limits, || format!("{usage:?}"))?;
            // Refusals that are not read are beyond the limit.
            let unread = self.clients.iter().map(|client| client.streams.len() + client.dead.len()).sum::<usize>();
            demand(usage.exchanges - usage.waiting_requests <= limits.exchanges + unread, Rule::Limits, || {
                format!("{usage:?}")
            })?;
        }
        Ok(())
    }

    /// Whether a client of a session does not read something that it has asked for, and not asked for again.
    fn is_held_up(&self, session: usize) -> bool {
        let carriers = self.clients.iter().flat_map(|client| &client.streams).filter_map(|it| it.carrier.as_ref());
        let mut slow = carriers.filter(|carrier| carrier.asked.session == session);
        slow.any(|carrier| !self.web.is_read(carrier.asked) && !self.web.reply(carrier.asked).ended)
    }

    /// Where everything is read, what was answered has come.
    fn check_blocked(&self) -> Result<(), Fault> {
        for client in self.clients.iter().filter(|client| !client.over) {
            for stream in &client.streams {
                let Some(carrier) = stream.carrier.as_ref().filter(|carrier| self.web.is_read(carrier.asked)) else {
                    continue;
                };
                // A request that waits for room in its session has not been brought to anyone who could answer it.
                let session = self.web.sessions.get(&carrier.asked.session);
                let waits = session.is_some_and(|session| session.usage().waiting_requests > 0);
                let mut open = stream.wants.iter().filter(|want| want.is_open()).peekable();
                let due = open.peek().is_some() && open.all(|want| self.is_answered(want, waits));
                demand(!due, Rule::Output, || {
                    format!("everything is read, and what was answered has not come: {:?}", stream.wants)
                })?;
            }
        }
        Ok(())
    }

    /// Whether there is an answer to a request: that of the application, or of the core. The core answers those that the
    /// application has not heard of, unless requests of its session wait.
    fn is_answered(&self, want: &Want, waits: bool) -> bool {
        let mut jobs = self.jobs.iter().filter(|job| Some(job.number) == want.number).peekable();
        if jobs.peek().is_none() { !waits } else { jobs.all(|job| job.answered) }
    }
}
