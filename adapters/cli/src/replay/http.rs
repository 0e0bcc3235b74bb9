//! Plays a record of HTTP: each session has the state machines of both roles, and so has each exchange of 2026-07-28.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    io::BufRead,
    rc::Rc,
};

use mcp_proto::{
    codec::FrameEnd,
    protocol::ProtocolVersion,
    wire::{Message, RequestId},
};

use super::{
    finding::Finding,
    headers::{self, Content},
    judge::Judge,
    player::{Played, PlayedMessage, Scope, Unanswered, unanswered},
    roles::Setup,
    routes::{Route, Router, Survey, message},
};
use crate::{
    error::Failed,
    messages::{ExchangeEnd, Exchanges, HttpItem, Line, MAX_OPEN, RequestHead, ResponseHead},
    record::{Origin, Reader},
    text::beginning,
};

/// The most sessions that are played at once. The one that was not used for the longest time is given up.
const MAX_SESSIONS: usize = 1024;

/// The most ids of events of a session that are known.
const MAX_EVENTS: usize = 1 << 16;

/// The longest method and the longest id that are kept until the end of an exchange, in bytes.
const MAX_METHOD: usize = 256;

/// The most requests without a response that are told.
const MAX_UNANSWERED: usize = 10_000;

#[derive(Debug)]
struct Session {
    judge: Judge,
    /// Hashes of the ids of events.
    events: HashSet<u64>,
    /// Whether the client has ended it.
    is_deleted: bool,
    /// Grows from use to use, over all sessions.
    used: u64,
}

#[derive(Debug)]
struct Exchange {
    head: Rc<RequestHead>,
    content: Content,
    /// The method of the message of JSON-RPC.
    method: String,
    /// The id of the request of JSON-RPC.
    id: Option<RequestId>,
    /// The judge of an exchange without a session.
    judge: Option<Box<Judge>>,
    /// Whether the session had been ended when the request began.
    is_late: bool,
    response: Option<Rc<ResponseHead>>,
}

/// Plays a record.
#[derive(Debug)]
pub(super) struct HttpPlayer<R> {
    exchanges: Exchanges<R>,
    survey: Rc<Survey>,
    masked: bool,
    router: Router,
    sessions: BTreeMap<u32, Session>,
    /// The sessions by their last use.
    recent: BTreeMap<u64, u32>,
    /// The sessions that were given up. Their later messages are only paired. The router has few sessions.
    given_up: BTreeSet<u32>,
    open: BTreeMap<u64, Exchange>,
    unanswered: Vec<Unanswered>,
    not_judged: u64,
    ready: VecDeque<Played>,
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl<R: BufRead> HttpPlayer<R> {
    pub(super) fn new(exchanges: Exchanges<R>, survey: Rc<Survey>, masked: bool) -> Self {
        let router = Router::new(&exchanges.reader().header().server);
        Self {
            exchanges,
            survey,
            masked,
            router,
            sessions: BTreeMap::new(),
            recent: BTreeMap::new(),
            given_up: BTreeSet::new(),
            open: BTreeMap::new(),
            unanswered: Vec::new(),
            not_judged: 0,
            ready: VecDeque::new(),
        }
    }

    pub(super) const fn reader(&self) -> &Reader<R> {
        self.exchanges.reader()
    }

    /// Returns the judge of a session or an exchange.
    pub(super) fn judge(&self, scope: Scope) -> Option<&Judge> {
        let own = scope.exchange.and_then(|number| self.open.get(&number)?.judge.as_deref());
        own.or_else(|| scope.session.and_then(|number| self.sessions.get(&number)).map(|session| &session.judge))
    }

    pub(super) const fn not_judged(&self) -> u64 {
        self.not_judged
    }

    pub(super) fn unanswered(&self) -> Vec<Unanswered> {
        let mut all = self.unanswered.clone();
        for (number, session) in &self.sessions {
            all.extend(unanswered(&session.judge, Scope { session: Some(*number), exchange: None }, None));
        }
        for (number, exchange) in &self.open {
            if let Some(judge) = &exchange.judge {
                all.extend(unanswered(judge, Scope { session: None, exchange: Some(*number) }, None));
            }
        }
        // Stable, so that the order within a session stays.
        all.sort_by_key(|it| it.call.at);
        all
    }

    pub(super) fn next_played(&mut self) -> Result<Option<Played>, Failed> {
        loop {
            if let Some(played) = self.ready.pop_front() {
                return Ok(Some(played));
            }
            let Some(item) = self.exchanges.next_item()? else { return Ok(None) };
            self.router.take(&item);
            match item {
                HttpItem::Request { at, exchange, head, body } => self.request(at, exchange, head, body),
                HttpItem::Response { at, exchange, response, .. } => self.response(at, exchange, response),
                HttpItem::Message { at, exchange, bytes, end, event } => {
                    self.message(exchange, Line { at, from: Origin::Server, bytes, end }, event.as_deref());
                }
                HttpItem::Endpoint { at, exchange, address } => {
                    // The stream is that of a session now.
                    if let Some(open) = self.open.get_mut(&exchange) {
                        open.judge = None;
                    }
                    self.note(at, exchange, Origin::Server, format!("the address for messages: {address}"), Vec::new());
                }
                HttpItem::End { at, exchange, end, is_lost } => self.end(at, exchange, &end, is_lost),
                HttpItem::Event { at, what } => self.ready.push_back(Played::Event { at, what }),
            }
        }
    }

    fn scope(&self, exchange: u64) -> Scope {
        let session = match self.router.route(exchange) {
            Route::Session(number) => Some(number),
            Route::Modern(_) | Route::Other => None,
        };
        Scope { session, exchange: Some(exchange) }
    }

    fn note(&mut self, at: u64, exchange: u64, from: Origin, text: String, findings: Vec<Finding>) {
        let scope = self.scope(exchange);
        self.ready.push_back(Played::Exchange { at, from, scope, text, findings });
    }

    fn session(&mut self, number: u32) -> &mut Session {
        if !self.sessions.contains_key(&number)
            && self.sessions.len() == MAX_SESSIONS
            && let Some((_, oldest)) = self.recent.pop_first()
            && let Some(session) = self.sessions.remove(&oldest)
        {
            self.given_up.insert(oldest);
            let scope = Scope { session: Some(oldest), exchange: None };
            self.unanswered.extend(unanswered(&session.judge, scope, None));
            self.unanswered.truncate(MAX_UNANSWERED);
        }
        let (survey, masked, is_given_up) = (&self.survey, self.masked, self.given_up.contains(&number));
        let used = self.recent.last_key_value().map_or(0, |(last, _)| last + 1);
        let session = self.sessions.entry(number).or_insert_with(|| {
            let known = survey.session(number);
            let judge = match known.is_certain && !is_given_up {
                true => Judge::over_http(known.setup, masked, known.has_lost),
                false => Judge::silent(),
            };
            Session { judge, events: HashSet::new(), is_deleted: false, used }
        });
        self.recent.remove(&session.used);
        self.recent.insert(used, number);
        session.used = used;
        session
    }

    /// Returns the judge of an exchange of 2026-07-28.
    fn modern(&self, message: Option<&Message<'_>>) -> Judge {
        if !self.survey.is_modern {
            return Judge::silent();
        }
        let client = match message {
            Some(Message::Request { meta: Some(meta), .. }) => meta
                .member("io.modelcontextprotocol/clientCapabilities")
                .and_then(|capabilities| capabilities.decode().ok()),
            _ => None,
        };
        let setup = Setup { version: None, is_modern: true, server: self.survey.server.clone(), client };
        Judge::over_http(setup, self.masked, false)
    }

    /// Returns the revision of Streamable HTTP by whose rules an exchange is judged.
    fn version(&mut self, exchange: u64) -> Option<ProtocolVersion> {
        match self.router.route(exchange) {
            Route::Session(number) => {
                let is_sse = self.router.is_sse(number);
                let judge = &self.session(number).judge;
                if judge.judges() && !is_sse { judge.version() } else { None }
            }
            Route::Modern(_) => self.survey.is_modern.then_some(ProtocolVersion::V2026_07_28),
            Route::Other => None,
        }
    }

    fn request(&mut self, at: u64, exchange: u64, head: Rc<RequestHead>, body: Option<Vec<u8>>) {
        let route = self.router.route(exchange);
        // What is not in the record is not judged, and neither is what the server says to it.
        let is_lost = body.is_none();
        let bytes = body.unwrap_or_default();
        let parsed = message(&bytes);
        let is_refused = self.survey.is_refused(exchange);
        let version = self.version(exchange);
        let mut findings = match (route, version) {
            (_, None | Some(ProtocolVersion::V2024_11_05)) => Vec::new(),
            (Route::Modern(_), _) => match &parsed {
                Some(message) => headers::of_2026(&head, message, self.masked),
                None => Vec::new(),
            },
            (_, version) => {
                let opens = matches!(&parsed, Some(Message::Request { method, .. }) if method == "initialize");
                headers::of_session(&head, version, opens)
            }
        };
        let judge = match route {
            _ if is_refused || is_lost => Some(Judge::silent()),
            Route::Session(_) => None,
            Route::Modern(_) => Some(self.modern(parsed.as_ref())),
            Route::Other => Some(Judge::silent()),
        };
        let is_late = match route {
            Route::Session(number) => self.session(number).is_deleted,
            _ => false,
        };
        let method = match &parsed {
            Some(Message::Request { method, .. } | Message::Notification { method, .. }) => {
                beginning(method, MAX_METHOD).to_owned()
            }
            _ => String::new(),
        };
        let id = match &parsed {
            Some(Message::Request { id, .. }) if id.as_json().len() <= MAX_METHOD => Some(id.clone()),
            _ => None,
        };
        let content = Content::of(parsed.as_ref());
        let is_message = parsed.is_some() || route != Route::Other && !bytes.is_empty();
        let judge = judge.map(Box::new);
        let text = head.name();
        self.open.insert(exchange, Exchange { head, content, method, id, judge, is_late, response: None });
        while self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
        if !is_message {
            return self.note(at, exchange, Origin::Client, text, findings);
        }
        let line = Line { at, from: Origin::Client, bytes, end: FrameEnd::Complete };
        let note = is_refused.then_some("the server did not accept it");
        self.play(exchange, line, &mut findings, note);
    }

    /// Lets the judge of an exchange take a message.
    fn play(&mut self, exchange: u64, line: Line, findings: &mut Vec<Finding>, note: Option<&'static str>) {
        let scope = self.scope(exchange);
        let own = self.open.get_mut(&exchange).and_then(|open| open.judge.take());
        let (mut own, number) = (own, scope.session);
        let judge = match (&mut own, number) {
            (Some(judge), _) => &mut **judge,
            (None, Some(number)) => &mut self.session(number).judge,
            (None, None) => return,
        };
        let mut judged = judge.take(&line);
        judged.findings.append(findings);
        if let Some(note) = note {
            judged.steps.iter_mut().for_each(|step| step.note = Some(note));
        }
        let judges = judge.judges();
        let played = PlayedMessage::new(line, judged, scope, judge);
        if let Some(open) = self.open.get_mut(&exchange) {
            open.judge = own;
        }
        self.not_judged += u64::from(!judges);
        self.ready.push_back(Played::Message(Box::new(played)));
    }

    fn response(&mut self, at: u64, exchange: u64, response: Rc<ResponseHead>) {
        let version = self.version(exchange);
        let route = self.router.route(exchange);
        let Some(open) = self.open.get_mut(&exchange) else { return };
        open.response = Some(Rc::clone(&response));
        let (head, is_late) = (Rc::clone(&open.head), open.is_late);
        let is_message = !matches!(open.content, Content::Other);
        let mut findings = match version {
            Some(_) => headers::of_response(&head, open.content, &response, version),
            None => Vec::new(),
        };
        let is_success = (200..300).contains(&response.status);
        if is_late && version.is_some() && version != Some(ProtocolVersion::V2024_11_05) {
            let what = format!("{} was answered with {} after the end of the session", head.name(), response.status);
            // Other errors have reasons of their own, such as missing credentials.
            match response.status {
                200..300 => findings.push(Finding::http(Origin::Server, "HTTP-064", what)),
                400 if is_message => findings.push(Finding::http(Origin::Server, "HTTP-060", what)),
                _ => {}
            }
        }
        if is_success
            && head.method == "DELETE"
            && let Route::Session(number) = route
        {
            self.session(number).is_deleted = true;
        }
        if is_success && head.method == "POST" && findings.is_empty() && route != Route::Other {
            return;
        }
        let media = response.fields.media_type();
        let media = if media.is_empty() { media } else { format!(", {media}") };
        self.note(at, exchange, Origin::Server, format!("{} for {}{media}", response.status, head.name()), findings);
    }

    fn message(&mut self, exchange: u64, line: Line, event: Option<&str>) {
        let version = self.version(exchange);
        let Some(open) = self.open.get(&exchange) else { return };
        let Some(response) = open.response.clone() else { return };
        let (at, head, method) = (line.at, Rc::clone(&open.head), open.method.clone());
        let parsed = message(&line.bytes);
        let is_success = (200..300).contains(&response.status);
        let is_event = response.fields.media_type() == "text/event-stream";
        if line.end == FrameEnd::Unterminated {
            return self.note(at, exchange, Origin::Server, "an incomplete body".into(), Vec::new());
        }
        // An error of HTTP may have any body.
        if parsed.is_none() && (!is_success || self.router.route(exchange) == Route::Other) {
            return;
        }
        let is_again = head.fields.get("last-event-id").is_some();
        if let (Some(event), Some(number)) = (event, self.scope(exchange).session) {
            let events = &mut self.session(number).events;
            let is_known = events.len() >= MAX_EVENTS || !events.insert(hash(event));
            if is_again && is_known {
                return self.note(at, exchange, Origin::Server, "a message that was sent before".into(), Vec::new());
            }
        }
        let mut findings = Vec::new();
        if let (Some(parsed), Some(version)) = (&parsed, version) {
            let is_answer = matches!(parsed, Message::Response { .. } | Message::Error { id: Some(_), .. });
            if is_answer && !is_again && head.method == "GET" && version != ProtocolVersion::V2024_11_05 {
                findings.push(Finding::http(
                    Origin::Server,
                    "HTTP-041",
                    "a response on a stream that was opened by GET",
                ));
            }
            if version == ProtocolVersion::V2026_07_28 {
                findings.extend(headers::of_status(parsed, &method, response.status, is_event));
            }
        }
        self.play(exchange, line, &mut findings, None);
    }

    fn end(&mut self, at: u64, exchange: u64, end: &ExchangeEnd, is_lost: bool) {
        let why = match end {
            ExchangeEnd::Complete => None,
            ExchangeEnd::Failed(from, why) => Some((*from, format!("the {} ended the exchange: {why}", from.name()))),
            ExchangeEnd::Answered(status, why) => {
                Some((Origin::Server, format!("the recorder answered with {status}: {why}")))
            }
            ExchangeEnd::GivenUp => {
                Some((Origin::Server, "the exchange is not read any further: too many are open".into()))
            }
        };
        let scope = self.scope(exchange);
        if is_lost && let Some(id) = self.open.get(&exchange).and_then(|open| open.id.clone()) {
            let own = self.open.get_mut(&exchange).and_then(|open| open.judge.as_deref_mut());
            match (own, scope.session) {
                (Some(judge), _) => judge.lose(&id),
                (None, Some(number)) => self.session(number).judge.lose(&id),
                (None, None) => {}
            }
        }
        let open = self.open.remove(&exchange);
        if let Some(judge) = open.as_ref().and_then(|open| open.judge.as_ref())
            && open.as_ref().is_some_and(|open| open.response.as_ref().is_none_or(|it| it.status < 300))
        {
            let text = why.as_ref().map_or("the response ended without it", |(_, why)| why.as_str());
            let left = MAX_UNANSWERED.saturating_sub(self.unanswered.len());
            self.unanswered.extend(unanswered(judge, scope, Some(text)).into_iter().take(left));
        }
        if let Some((from, why)) = why {
            let name = open.map_or_else(String::new, |open| format!(" ({})", open.head.name()));
            self.note(at, exchange, from, format!("{why}{name}"), Vec::new());
        }
        self.router.end(exchange);
    }
}
