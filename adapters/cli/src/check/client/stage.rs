//! The server of a check: what it receives, and when it answers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    answers::{self, claim},
    link::{Arrival, HttpReply, HttpRequest, Link},
    session::{Others, Session},
};
use crate::check::{
    definition::Row,
    era::Era,
    outcome::{Outcome, Verdict, failed, not_reachable},
    probe::{Entry, MODERN, Observed, brief},
    wire::header,
};

/// The most messages and bytes of a client in a check.
const MAX_MESSAGES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;

/// The most characters of the name of a method that are kept.
const MAX_NAME: usize = 100;

/// How long a client without a message is taken for idle.
const QUIET: Duration = Duration::from_secs(2);

/// How long a client that has closed its connection may take to end, or to open another one.
const LEAVE: Duration = Duration::from_secs(2);

/// How long messages that the client has sent before an answer may take.
const SETTLE: Duration = Duration::from_millis(200);

/// A message of the client.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub(super) value: Value,
    pub(super) text: String,
    /// The exchange over HTTP.
    pub(super) exchange: Option<u64>,
    pub(super) headers: Vec<(String, String)>,
    /// The session over HTTP.
    pub(super) session: u64,
    /// Whether it does not say of which session it is.
    pub(super) is_stray: bool,
}

impl Message {
    /// Returns the method, or an empty text for a response.
    pub(super) fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }

    pub(super) fn is_request(&self) -> bool {
        self.value.get("method").is_some() && self.value.get("id").is_some()
    }

    pub(super) fn is_response(&self) -> bool {
        self.value.get("method").is_none()
    }

    /// Returns whether it is a batch of requests of sessions, which no client of 2026-07-28 sends. Over HTTP, the
    /// header tells the revision of a batch whose requests have no `_meta`.
    pub(super) fn is_session_batch(&self) -> bool {
        let is_its = |one: &Value| one.get("method").is_some() && one.get("id").is_some() && claim(one).is_none();
        let is_modern = header(&self.headers, "mcp-protocol-version") == Some(MODERN);
        !is_modern && self.value.as_array().is_some_and(|batch| !batch.is_empty() && batch.iter().all(is_its))
    }

    /// Returns whether it is a request that belongs to no handshake. Another client of the program may send requests of
    /// 2026-07-28 to a server with sessions.
    pub(super) fn is_call(&self, era: Era) -> bool {
        self.is_request()
            && !matches!(self.method(), "initialize" | "server/discover" | "ping" | "subscriptions/listen")
            && (era == Era::Modern || claim(&self.value).is_none())
    }
}

/// The next event of a client.
#[derive(Debug)]
pub(super) enum Step {
    Message(Message),
    /// A request GET.
    Get(HttpRequest),
    /// A message that was handled already.
    Other,
    Silence,
    Ended(Option<i32>),
}

/// The result of waiting for a message.
#[derive(Debug)]
pub(super) enum Wait {
    Message(Box<Message>),
    Silence,
    /// The client has ended, or has closed its connection in order (`Some(0)`).
    Ended(Option<i32>),
}

/// How the server of a check behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Whether it speaks 2026-07-28 instead of sessions.
    pub(super) is_modern: bool,
    /// The revision that it answers `initialize` with, instead of that of the client.
    pub(super) version: Option<&'static str>,
    /// Changes an answer.
    pub(super) alter: Option<fn(&Value, &mut Value)>,
    /// Answers over HTTP are streams.
    pub(super) is_stream: bool,
    /// Requests GET are refused.
    pub(super) refuses_get: bool,
}

/// The facts that are known of the client.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The params of `initialize`, if the client has sessions.
    pub(super) legacy: Option<Value>,
    /// The metadata of a request, if the client speaks 2026-07-28.
    pub(super) modern: Option<Value>,
    /// The revisions that the client has gone on with.
    pub(super) accepted: BTreeSet<String>,
    /// The calls of a run in which nothing happens, for each era.
    pub(super) calls: BTreeMap<Era, Vec<String>>,
    /// How the client has ended in that run.
    pub(super) ends: BTreeMap<Era, Option<i32>>,
    pub(super) answers_ping: bool,
    /// How often each request of 2026-07-28 is sent when nothing happens, by its digest.
    pub(super) repeats: HashMap<u64, usize>,
    /// Whether `initialize` is sent to a server of 2026-07-28 that answers all.
    pub(super) tries_sessions: bool,
    /// Whether a session is deleted over HTTP.
    pub(super) deletes: bool,
    /// The reason why each missing era is missing.
    pub(super) notes: Vec<String>,
}

/// A client and the server that judges it.
pub(super) struct Stage {
    pub(super) link: Box<dyn Link>,
    pub(super) timeout: Duration,
    pub(super) facts: Facts,
    pub(super) script: Script,
    /// The session of the last message, or the connection.
    pub(super) session: Session,
    pub(super) others: Others,
    /// The responses of the client.
    pub(super) responses: Vec<Value>,
    pub(super) is_deleted: bool,
    /// How many requests were refused with 400, and how often the client has closed a connection.
    pub(super) refusals: usize,
    pub(super) ends: usize,
    pub(super) observed: Observed,
    /// The situations that checks need.
    pub(super) needed: Vec<&'static str>,
    /// Situations that any check has met.
    pub(super) seen: BTreeSet<(Era, &'static str)>,
    /// The rules of the check, and its era.
    pub(super) rules: &'static [&'static str],
    pub(super) era: Era,
    /// A request that has no answer yet.
    pub(super) held: Option<Message>,
    /// The calls of this run.
    pub(super) calls: Vec<String>,
    is_starting: bool,
    left: Option<Instant>,
    messages: usize,
    bytes: usize,
    next: u64,
}

impl Stage {
    pub(super) fn new(link: Box<dyn Link>, timeout: Duration) -> Self {
        Self {
            link,
            timeout,
            facts: Facts::default(),
            script: Script::default(),
            session: Session::default(),
            others: Others::default(),
            responses: Vec::new(),
            is_deleted: false,
            refusals: 0,
            ends: 0,
            observed: Observed::default(),
            needed: Vec::new(),
            seen: BTreeSet::new(),
            rules: &[],
            era: Era::Legacy,
            held: None,
            calls: Vec::new(),
            is_starting: false,
            left: None,
            messages: 0,
            bytes: 0,
            next: 0,
        }
    }

    pub(super) fn is_http(&self) -> bool {
        self.link.is_http()
    }

    /// Begins a check.
    pub(super) fn begin(&mut self, row: &Row) {
        (self.rules, self.era) = (row.rules, row.era);
        self.script = Script { is_modern: row.era == Era::Modern, ..Script::default() };
        (self.messages, self.bytes) = (0, 0);
        self.observed.begin();
    }

    /// Ends a check, and the client.
    pub(super) fn end(&mut self) -> Vec<Entry> {
        self.link.stop();
        self.held = None;
        self.observed.end()
    }

    /// Starts the client.
    pub(super) fn start(&mut self) -> Verdict {
        self.reset_sessions();
        (self.held, self.left) = (None, None);
        (self.is_deleted, self.refusals, self.ends) = (false, 0, 0);
        self.calls.clear();
        self.responses.clear();
        self.is_starting = true;
        self.link.start().or_else(|error| not_reachable(format!("the client cannot be started: {error}")))
    }

    pub(super) fn deadline(&self, timeout: Duration) -> Instant {
        self.link.now() + timeout
    }

    /// Returns how long a message may take: the first one of a process four times as long as the others.
    pub(super) fn patience(&self) -> Duration {
        if self.is_starting { self.timeout.saturating_mul(4) } else { self.timeout }
    }

    pub(super) fn quiet(&self) -> Duration {
        self.patience().min(if self.is_starting { self.patience() } else { QUIET })
    }

    pub(super) fn next_id(&mut self) -> Value {
        self.next += 1;
        json!(9000 + self.next)
    }

    /// Notes that a situation has been met.
    pub(super) fn see(&mut self, what: &str) {
        // Names that no check needs are those of the client, without a bound.
        if let Some(name) = self.needed.iter().find(|name| **name == what) {
            self.seen.insert((self.era, *name));
        }
    }

    pub(super) fn has_seen(&self, what: &str) -> bool {
        self.seen.iter().any(|(era, name)| *era == self.era && *name == what)
    }

    /// Takes what comes next.
    pub(super) fn step(&mut self, deadline: Instant) -> Result<Step, Outcome> {
        let now = self.link.now();
        let until = self.left.map_or(deadline, |at| deadline.min(at + LEAVE));
        let arrival = if now < deadline {
            self.link.next(until.saturating_duration_since(now))
        } else {
            // What came in time counts. A client that writes without an end does not extend the time.
            match self.link.arrived(deadline) {
                Some(arrival) => arrival,
                None => return Ok(Step::Silence),
            }
        };
        let len = match &arrival {
            Arrival::Line(line) => line.len(),
            Arrival::Request(request) => request.body.len(),
            _ => 0,
        };
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + len);
        if self.messages > MAX_MESSAGES || self.bytes > MAX_BYTES {
            return not_reachable(format!("the client sends more than {MAX_MESSAGES} messages or {MAX_BYTES} bytes"));
        }
        match arrival {
            Arrival::Connected => {
                self.reset_sessions();
                (self.held, self.left) = (None, None);
                Ok(Step::Other)
            }
            Arrival::Line(line) => Ok(self.take_line(&line)),
            Arrival::InputEnd { is_clean } => {
                self.take_end(is_clean);
                self.left = Some(self.link.now());
                self.ends += 1;
                self.end_server();
                Ok(Step::Other)
            }
            Arrival::Request(request) => {
                self.is_starting = false;
                Ok(self.take_request(request))
            }
            Arrival::Beyond(why) => not_reachable(why),
            Arrival::Silence if self.left.is_some() => Ok(Step::Ended(Some(0))),
            Arrival::Silence => Ok(Step::Silence),
            Arrival::Ended(code) => Ok(Step::Ended(code)),
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Step {
        self.is_starting = false;
        let text = String::from_utf8_lossy(line).into_owned();
        self.observed.add(false, &text);
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => self.take_message(Message { value, text, ..Message::default() }),
            Err(_) => {
                self.judge_noise(&text);
                Step::Other
            }
        }
    }

    /// Judges a message and returns it, unless it is a batch, which is answered.
    pub(super) fn take_message(&mut self, message: Message) -> Step {
        if !message.is_stray {
            self.judge(&message);
        }
        if let Value::Array(batch) = &message.value {
            self.serve_batch(&message, batch);
            return Step::Other;
        }
        if !message.value.is_object() {
            return Step::Other;
        }
        if message.is_call(self.era) {
            self.calls.push(message.method().chars().take(MAX_NAME).collect());
        }
        Step::Message(message)
    }

    fn serve_batch(&mut self, message: &Message, batch: &[Value]) {
        let requests = batch.iter().filter(|it| it.get("method").is_some() && it.get("id").is_some());
        let answers: Vec<Value> = requests.filter_map(|request| self.answer(request)).collect();
        for response in batch.iter().filter(|it| it.get("method").is_none()) {
            self.add_response(response.clone());
        }
        match (answers.is_empty(), message.exchange) {
            (true, Some(exchange)) => self.accept(exchange),
            (true, None) => {}
            (false, _) => self.send_answer(message, &Value::Array(answers)),
        }
    }

    /// Waits for a message, and answers all others.
    pub(super) fn wait(&mut self, deadline: Instant, mut pick: impl FnMut(&Message) -> bool) -> Result<Wait, Outcome> {
        loop {
            match self.step(deadline)? {
                Step::Message(message) if pick(&message) => return Ok(Wait::Message(Box::new(message))),
                Step::Message(message) => self.serve(&message),
                Step::Get(request) => self.serve_get(&request),
                Step::Other => {}
                Step::Silence => return Ok(Wait::Silence),
                Step::Ended(code) => return Ok(Wait::Ended(code)),
            }
        }
    }

    /// Starts the client, and waits for its `initialize`.
    pub(super) fn initialize(&mut self) -> Result<Message, Outcome> {
        self.start()?;
        let deadline = self.deadline(self.patience());
        match self.wait(deadline, |it| it.method() == "initialize" && it.is_request() && claim(&it.value).is_none())? {
            Wait::Message(message) => Ok(*message),
            Wait::Silence => not_reachable("the client does not send initialize"),
            Wait::Ended(code) => not_reachable(format!("the client ends before initialize{}", exit(code))),
        }
    }

    /// Answers what the client has sent before it has the answer that follows.
    pub(super) fn settle(&mut self) -> Verdict {
        let deadline = self.deadline(SETTLE);
        self.wait(deadline, |_| false).map(|_| ())
    }

    /// Opens a session.
    pub(super) fn open(&mut self) -> Verdict {
        let initialize = self.initialize()?;
        self.serve(&initialize);
        self.initialized()
    }

    /// Waits for `notifications/initialized`.
    pub(super) fn initialized(&mut self) -> Verdict {
        let deadline = self.deadline(self.timeout);
        match self.wait(deadline, |it| it.method() == "notifications/initialized")? {
            Wait::Message(message) => {
                self.serve(&message);
                self.facts.accepted.extend(self.session.version.clone());
                Ok(())
            }
            Wait::Silence => not_reachable("the client does not send notifications/initialized"),
            Wait::Ended(code) => not_reachable(format!("the client ends after the handshake{}", exit(code))),
        }
    }

    /// Opens a connection of the era of the check, and keeps the first call of the client without an answer.
    pub(super) fn hold(&mut self) -> Verdict {
        match self.era {
            Era::Legacy => self.open()?,
            Era::Modern => self.start()?,
        }
        self.hold_next()
    }

    /// Keeps the next call without an answer. Without one, messages are sent where they can be.
    pub(super) fn hold_next(&mut self) -> Verdict {
        let has_calls = self.facts.calls.get(&self.era).is_none_or(|calls| !calls.is_empty());
        let timeout = if has_calls { self.patience() } else { self.quiet() };
        let deadline = self.deadline(timeout);
        let era = self.era;
        match self.wait(deadline, |it| it.is_call(era))? {
            Wait::Message(message) => {
                if let Some(exchange) = message.exchange {
                    self.open_stream(exchange);
                }
                self.held = Some(*message);
                Ok(())
            }
            Wait::Silence if self.era == Era::Legacy && (!self.is_http() || self.session.get.is_some()) => Ok(()),
            Wait::Silence => not_reachable("the client does not call a method"),
            Wait::Ended(code) => not_reachable(format!("the client ends without a call{}", exit(code))),
        }
    }

    /// Answers the request that is kept.
    pub(super) fn release(&mut self) {
        if let Some(held) = self.held.take()
            && let Some(answer) = self.answer(&held.value)
        {
            self.finish_held(&held, &answer);
        }
    }

    /// Sends a message where one that belongs to no response may be sent.
    pub(super) fn tell(&mut self, message: &Value) -> Verdict {
        let text = message.to_string();
        if let Some(number) = self.held.as_ref().map(|held| held.session) {
            self.enter(number);
        }
        self.judge_own(&text);
        self.tell_text(&text)
    }

    /// Sends a request, and returns its response.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Outcome> {
        let id = self.next_id();
        self.ask_with(&id, method, params)
    }

    pub(super) fn ask_with(&mut self, id: &Value, method: &str, params: &Value) -> Result<Value, Outcome> {
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            request["params"] = params.clone();
        }
        self.tell(&request)?;
        self.response(id, method)
    }

    /// Waits for the response to a request.
    pub(super) fn response(&mut self, id: &Value, method: &str) -> Result<Value, Outcome> {
        let deadline = self.deadline(self.timeout);
        // An error without an id may be about something before.
        let is_it = |it: &Message| it.is_response() && !(it.value["id"].is_null() && it.value.get("error").is_some());
        match self.wait(deadline, is_it)? {
            Wait::Message(message) => {
                self.serve(&message);
                if message.value["id"] == *id {
                    return Ok(message.value);
                }
                failed(format!("{method} with the id {id} is answered with {}", brief(&message.value)))
            }
            Wait::Silence => failed(format!("the client does not respond to {method}")),
            Wait::Ended(code) => failed(format!("the client ends instead of responding to {method}{}", exit(code))),
        }
    }

    /// Fails unless the client goes on after what the check has sent.
    pub(super) fn goes_on(&mut self) -> Verdict {
        if self.era == Era::Legacy && self.facts.answers_ping {
            let response = self.ask("ping", &Value::Null)?;
            self.release();
            return match response["result"].is_object() {
                true => Ok(()),
                false => failed(format!("a ping afterwards is answered with {}", brief(&response))),
            };
        }
        if self.held.is_none() {
            return not_reachable("the client neither responds to a ping nor calls a method");
        }
        self.settle()?;
        self.release();
        self.goes_on_without_ping()
    }

    /// Fails unless the client does what it does otherwise after its first answer: another call, or its end.
    pub(super) fn goes_on_without_ping(&mut self) -> Verdict {
        // Calls that came before the answer do not show that it was read.
        let has_more = self.facts.calls.get(&self.era).map_or(0, Vec::len) > self.calls.len();
        let plain = self.facts.ends.get(&self.era).copied();
        let deadline = self.deadline(if has_more || plain.is_some() { self.timeout } else { self.quiet() });
        let era = self.era;
        match self.wait(deadline, |it| it.is_call(era))? {
            Wait::Message(message) => {
                self.serve(&message);
                Ok(())
            }
            Wait::Ended(code) if has_more => failed(format!("the client ends without its other calls{}", exit(code))),
            Wait::Ended(code) if plain.is_some_and(|plain| plain != code) => {
                failed(format!("the client ends otherwise than without it{}", exit(code)))
            }
            Wait::Ended(_) => Ok(()),
            Wait::Silence if has_more => failed("the client does not go on"),
            Wait::Silence => not_reachable("what the client does next is open"),
        }
    }
}

/// Returns how a client has ended, for texts.
pub(super) fn exit(code: Option<i32>) -> String {
    match code {
        Some(code) => format!(" (exit code {code})"),
        None => " (by a signal)".to_owned(),
    }
}

impl Stage {
    /// Returns the answer of the script to a request.
    pub(super) fn answer(&self, request: &Value) -> Option<Value> {
        let mut answer = if self.script.is_modern {
            answers::modern(request)?
        } else {
            answers::legacy(request, self.script.version)
        };
        if let Some(alter) = self.script.alter {
            alter(request, &mut answer);
        }
        Some(answer)
    }

    /// Ends the server, as if its process had ended.
    pub(super) fn end_server(&mut self) {
        self.session.is_over = true;
        self.link.end_server();
    }

    /// Accepts a message without an answer.
    pub(super) fn accept(&mut self, exchange: u64) {
        let reply = HttpReply { status: 202, headers: Vec::new(), body: Some(Vec::new()) };
        self.observed.add(true, "202");
        self.link.respond(exchange, reply);
    }
}
