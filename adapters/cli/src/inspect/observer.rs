//! Sees the bytes of a connection: cuts them into messages, and judges these as `mcp replay` does.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use mcp_proto::{
    codec::{FrameEnd, LineDecoder, SseDecoder},
    protocol::ProtocolVersion,
    schema::{DiscoverResult, InitializeParams, InitializeResult},
    wire::{ArrayIter, MalformedKind, Message as Wire, RequestId},
};
use serde_json::Value;

use super::{
    inbox::Inbox,
    model::Message,
    sighting::{Broken, MAX_PARTS, Observed, Part, Seen, Sighting, beginning},
};
use crate::{
    messages::Line,
    record::Origin,
    replay::{Finding, Judge, Setup},
};

/// The longest message: as long as the connection takes, so that each request whose response is judged was judged, too.
const MAX_MESSAGE: usize = 16 << 20;

/// The deepest nesting of JSON.
const DEPTH: u32 = 128;

/// The most messages that wait for the end of the handshake to be judged, and their bytes.
const MAX_WAITING: usize = 64;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// The clock of the interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the microseconds since the start.
    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Sees one connection.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    shared: Arc<Shared>,
    /// The judge of a program, or of the session over HTTP in which an exchange began.
    judge: Arc<Mutex<JudgeState>>,
}

#[derive(Debug)]
struct Shared {
    inbox: Arc<Inbox>,
    clock: Clock,
    session: u32,
    /// Whether the connection is over HTTP: exchanges have no order among each other, and rules of standard streams do
    /// not hold.
    is_http: bool,
    /// The number of the next message.
    number: Mutex<u64>,
    /// The judge of the current session over HTTP.
    current: Mutex<Arc<Mutex<JudgeState>>>,
}

/// The judge, when the handshake is known.
#[derive(Debug)]
enum JudgeState {
    Waiting(Box<Waiting>),
    Judging(Box<Judge>),
}

impl Default for JudgeState {
    fn default() -> Self {
        Self::Waiting(Box::default())
    }
}

/// Messages before the end of the handshake, with what is known of it.
#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<(u64, Line)>,
    bytes: usize,
    setup: Setup,
    /// The requests that open the connection, with their methods.
    opening: Vec<(RequestId, String)>,
}

impl Observer {
    pub(crate) fn new(inbox: Arc<Inbox>, clock: Clock, session: u32, is_http: bool) -> Self {
        let judge = Arc::default();
        let current = Mutex::new(Arc::clone(&judge));
        Self { shared: Arc::new(Shared { inbox, clock, session, is_http, number: Mutex::default(), current }), judge }
    }

    /// Returns an observer of another program of the same connection: ids begin again with it, and what the one before
    /// writes late does not concern it.
    pub(crate) fn of_program(&self) -> Self {
        Self { shared: self.shared.clone(), judge: Arc::default() }
    }

    /// Returns an observer of an exchange over HTTP with this request body. An `initialize` after the handshake means
    /// that the server has lost the session: ids begin again, and late messages of earlier exchanges belong to the
    /// session before.
    pub(crate) fn of_exchange(&self, body: &[u8]) -> Self {
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        if is_initialize(body) && matches!(*lock(&current), JudgeState::Judging(_)) {
            *current = Arc::default();
        }
        Self { shared: self.shared.clone(), judge: Arc::clone(&current) }
    }

    fn send(&self, at: u64, what: Seen) {
        let Shared { inbox, session, .. } = &*self.shared;
        inbox.send_in_order(Message::Seen { session: *session, sighting: Sighting { at, what } });
    }

    /// Sees a line of the error output.
    pub(crate) fn log(&self, line: &str) {
        let (text, _) = beginning(line.as_bytes());
        self.send(self.shared.clock.now(), Seen::Log(text));
    }

    /// Sees something else.
    pub(crate) fn event(&self, text: String) {
        self.send(self.shared.clock.now(), Seen::Event(text));
    }

    /// Sees a message, and judges it. Returns its number.
    pub(crate) fn message(&self, from: Origin, bytes: &[u8], end: FrameEnd) -> u64 {
        let (number, at) = self.show(from, bytes);
        self.judge(number, Line { at, from, bytes: bytes.to_vec(), end });
        number
    }

    /// Shows a message. Returns its number and the time.
    fn show(&self, from: Origin, bytes: &[u8]) -> (u64, u64) {
        let at = self.shared.clock.now();
        let (text, is_cut) = beginning(bytes);
        let parts = parts(bytes);
        let mut next = self.shared.number.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *next;
        *next += 1;
        // Under the lock, so that messages are in the order of their numbers.
        self.send(at, Seen::Message(Observed { number, from, size: bytes.len(), text, is_cut, parts }));
        (number, at)
    }

    fn judge(&self, number: u64, line: Line) {
        let mut state = lock(&self.judge);
        match &mut *state {
            JudgeState::Judging(judge) => {
                let findings = judge.take(&line).findings;
                self.report(number, findings);
            }
            JudgeState::Waiting(waiting) => {
                let is_known = learn(&mut waiting.setup, &mut waiting.opening, &line);
                waiting.bytes += line.bytes.len();
                waiting.lines.push((number, line));
                if is_known || waiting.lines.len() == MAX_WAITING || waiting.bytes > MAX_WAITING_BYTES {
                    let Waiting { lines, setup, .. } = mem::take(&mut **waiting);
                    let mut judge = match self.shared.is_http {
                        true => Judge::over_http(setup, false, false),
                        false => Judge::new(setup, false),
                    };
                    for (number, line) in &lines {
                        let findings = judge.take(line).findings;
                        self.report(*number, findings);
                    }
                    *state = JudgeState::Judging(Box::new(judge));
                }
            }
        }
    }

    /// Takes it that the server did not accept a message of the client over HTTP, which may be sent again with its id.
    pub(crate) fn refused(&self, number: u64) {
        match &mut *lock(&self.judge) {
            JudgeState::Judging(judge) => judge.lose_messages(),
            JudgeState::Waiting(waiting) => waiting.lines.retain(|(it, _)| *it != number),
        }
    }

    fn report(&self, number: u64, findings: Vec<Finding>) {
        if findings.is_empty() {
            return;
        }
        let broken = findings.into_iter().map(|finding| {
            let (what, _) = beginning(finding.what.as_bytes());
            Broken { by: finding.by, rule: finding.rule, text: finding.text(), what }
        });
        self.send(self.shared.clock.now(), Seen::Broken { number, findings: broken.collect() });
    }
}

fn lock(judge: &Mutex<JudgeState>) -> MutexGuard<'_, JudgeState> {
    judge.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the messages of a line.
fn parts(bytes: &[u8]) -> Vec<Part> {
    let Ok(text) = str::from_utf8(bytes) else { return vec![Part::default()] };
    match Wire::parse(text, DEPTH) {
        Ok(message) => vec![Part::of(&message)],
        Err(error) if error.kind == MalformedKind::Array => {
            let member = |text| Wire::parse(text, DEPTH).map(|it| Part::of(&it)).unwrap_or_default();
            let parts: Vec<_> = ArrayIter::new(text, DEPTH).take(MAX_PARTS).map(member).collect();
            if parts.is_empty() { vec![Part::default()] } else { parts }
        }
        Err(_) => vec![Part::default()],
    }
}

fn is_initialize(bytes: &[u8]) -> bool {
    let message = str::from_utf8(bytes).ok().and_then(|text| Wire::parse(text, DEPTH).ok());
    matches!(message, Some(Wire::Request { method, .. }) if method == "initialize")
}

/// Reads what a message tells of the handshake. Returns whether that is all.
fn learn(setup: &mut Setup, opening: &mut Vec<(RequestId, String)>, line: &Line) -> bool {
    let Ok(text) = str::from_utf8(&line.bytes) else { return false };
    match (line.from, Wire::parse(text, DEPTH)) {
        (Origin::Client, Ok(Wire::Request { id, method, params: Some(params), meta })) => {
            if method == "initialize" {
                setup.client = params.decode::<InitializeParams>().ok().map(|params| params.capabilities);
            } else if setup.client.is_none() {
                let name = "io.modelcontextprotocol/clientCapabilities";
                setup.client = meta.as_ref().and_then(|meta| meta.member(name)?.decode().ok());
            }
            if matches!(&*method, "initialize" | "server/discover") {
                opening.push((id, method.into_owned()));
            }
            false
        }
        (Origin::Server, Ok(Wire::Response { id, result })) => {
            let method = opening.iter().find(|(opening, _)| *opening == id).map(|(_, method)| method.as_str());
            match method {
                Some("initialize") => {
                    if let Ok(result) = result.decode::<InitializeResult>() {
                        setup.version = ProtocolVersion::parse(&result.protocol_version);
                        setup.server = Some(result.capabilities);
                    }
                    true
                }
                Some(_) => {
                    if let Ok(result) = result.decode::<DiscoverResult>() {
                        setup.server = Some(result.capabilities);
                    }
                    setup.is_modern = true;
                    true
                }
                None => false,
            }
        }
        _ => false,
    }
}

/// The messages of a stream of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    observer: Observer,
    from: Origin,
    decoder: LineDecoder,
}

impl Lines {
    pub(crate) fn new(observer: Observer, from: Origin) -> Self {
        Self { observer, from, decoder: LineDecoder::new(MAX_MESSAGE) }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        self.cut();
    }

    pub(crate) fn end(&mut self) {
        self.decoder.end();
        self.cut();
    }

    fn cut(&mut self) {
        while let Some(frame) = self.decoder.next_frame() {
            self.observer.message(self.from, frame.bytes(), frame.end());
        }
    }
}

/// The messages in the body of an HTTP response.
#[derive(Debug)]
pub(crate) enum Body {
    /// One message. `may_be_other`: it may also be something else, such as the error of a proxy.
    Json {
        body: Vec<u8>,
        is_too_long: bool,
        may_be_other: bool,
    },
    Events(Box<SseDecoder>),
    /// Anything else.
    Other,
}

impl Body {
    /// Creates the reader of a body of a media type. `is_answer`: it is that of a successful response to a message,
    /// which is a message, too.
    pub(crate) fn of(content_type: &str, is_answer: bool) -> Self {
        match content_type.split(';').next().unwrap_or_default().trim() {
            it if it.eq_ignore_ascii_case("application/json") => {
                Self::Json { body: Vec::new(), is_too_long: false, may_be_other: !is_answer }
            }
            it if it.eq_ignore_ascii_case("text/event-stream") => Self::Events(Box::new(SseDecoder::new(MAX_MESSAGE))),
            _ => Self::Other,
        }
    }

    pub(crate) fn feed(&mut self, observer: &Observer, mut chunk: &[u8]) {
        match self {
            Self::Json { body, is_too_long, .. } => {
                let room = MAX_MESSAGE.saturating_sub(body.len());
                *is_too_long |= chunk.len() > room;
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Self::Events(decoder) => {
                while let Some(event) = decoder.next_event(&mut chunk) {
                    match event {
                        Ok(event) if event.kind == "message" && !event.data.is_empty() => {
                            observer.message(Origin::Server, event.data, FrameEnd::Complete);
                        }
                        Ok(_) => {}
                        Err(_) => observer.event("an event of more than 16 MiB".into()),
                    }
                }
            }
            Self::Other => {}
        }
    }

    /// Sees the end of the body. Returns whether the body was one message with an id, which responds to a request.
    pub(crate) fn end(&mut self, observer: &Observer) -> bool {
        let Self::Json { body, is_too_long, may_be_other } = self else { return false };
        if *is_too_long {
            // Half a message is none.
            observer.event("a body of more than 16 MiB".into());
            return false;
        }
        let body = mem::take(body);
        let is_message = |body: &[u8]| str::from_utf8(body).is_ok_and(|text| Wire::parse(text, DEPTH).is_ok());
        let is_one = !body.is_empty() && (!*may_be_other || is_message(&body));
        if is_one {
            observer.message(Origin::Server, &body, FrameEnd::Complete);
        }
        is_one && serde_json::from_slice(&body).is_ok_and(|message: Value| !message["id"].is_null())
    }
}

#[cfg(test)]
mod tests;
