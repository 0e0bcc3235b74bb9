//! Sees the bytes of a connection: cuts them into messages, and judges these as `mcp replay` does.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use mcp_proto::{
    codec::{FrameEnd, LineDecoder, SseDecoder},
    protocol::ProtocolVersion,
    schema::{DiscoverResult, InitializeParams, InitializeResult},
    wire::{ArrayIter, MalformedKind, Message as Wire, RequestId},
};

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
pub(crate) struct Observer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    inbox: Arc<Inbox>,
    clock: Clock,
    session: u32,
    /// Whether the connection is over HTTP: rules of standard streams do not hold.
    is_http: bool,
    /// The number of the next message.
    number: Arc<Mutex<u64>>,
    judge: Mutex<JudgeState>,
}

/// The judge, when the handshake is known.
#[derive(Debug)]
enum JudgeState {
    Waiting(Box<Waiting>),
    Judging(Box<Judge>),
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
        let (number, judge) = (Arc::default(), Mutex::new(JudgeState::Waiting(Box::default())));
        Self(Arc::new(Inner { inbox, clock, session, is_http, number, judge }))
    }

    /// Returns an observer of another program of the same connection: ids begin again with it, and what the one before
    /// writes late does not concern it.
    pub(crate) fn of_program(&self) -> Self {
        let Inner { inbox, clock, session, is_http, number, .. } = &*self.0;
        let (inbox, number, judge) = (inbox.clone(), number.clone(), Mutex::new(JudgeState::Waiting(Box::default())));
        Self(Arc::new(Inner { inbox, clock: *clock, session: *session, is_http: *is_http, number, judge }))
    }

    fn send(&self, at: u64, what: Seen) {
        let Inner { inbox, session, .. } = &*self.0;
        inbox.send_in_order(Message::Seen { session: *session, sighting: Sighting { at, what } });
    }

    /// Sees a line of the error output.
    pub(crate) fn log(&self, line: &str) {
        let (text, _) = beginning(line.as_bytes());
        self.send(self.0.clock.now(), Seen::Log(text));
    }

    /// Sees something else.
    pub(crate) fn event(&self, text: String) {
        self.send(self.0.clock.now(), Seen::Event(text));
    }

    /// Sees a message, and judges it.
    pub(crate) fn message(&self, from: Origin, bytes: &[u8], end: FrameEnd) {
        let (number, at) = self.show(from, bytes);
        self.judge(number, Line { at, from, bytes: bytes.to_vec(), end });
    }

    /// Shows a message. Returns its number and the time.
    fn show(&self, from: Origin, bytes: &[u8]) -> (u64, u64) {
        let at = self.0.clock.now();
        let (text, is_cut) = beginning(bytes);
        let parts = parts(bytes);
        let mut next = self.0.number.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *next;
        *next += 1;
        // Under the lock, so that messages are in the order of their numbers.
        self.send(at, Seen::Message(Observed { number, from, size: bytes.len(), text, is_cut, parts }));
        (number, at)
    }

    fn judge(&self, number: u64, line: Line) {
        let mut state = self.0.judge.lock().unwrap_or_else(PoisonError::into_inner);
        // The server has lost the session: ids begin again, and requests are sent again.
        if self.0.is_http && matches!(*state, JudgeState::Judging(_)) && is_initialize(&line) {
            *state = JudgeState::Waiting(Box::default());
        }
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
                    let mut judge = Judge::new(setup, false);
                    for (number, line) in &lines {
                        let findings = judge.take(line).findings;
                        self.report(*number, findings);
                    }
                    *state = JudgeState::Judging(Box::new(judge));
                }
            }
        }
    }

    fn report(&self, number: u64, findings: Vec<Finding>) {
        if findings.is_empty() {
            return;
        }
        let of_stream = |rule: &str| rule.contains("STDIO");
        let broken = findings.into_iter().map(|finding| {
            let rule = finding.rule.filter(|rule| !(self.0.is_http && of_stream(rule)));
            let text = if rule.is_some() { finding.text() } else { "" };
            let (what, _) = beginning(finding.what.as_bytes());
            Broken { by: finding.by, rule, text, what }
        });
        self.send(self.0.clock.now(), Seen::Broken { number, findings: broken.collect() });
    }
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

fn is_initialize(line: &Line) -> bool {
    let text = str::from_utf8(&line.bytes).ok().filter(|_| line.from == Origin::Client);
    let message = text.and_then(|text| Wire::parse(text, DEPTH).ok());
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

    pub(crate) fn end(&mut self, observer: &Observer) {
        let Self::Json { body, is_too_long, may_be_other } = self else { return };
        if *is_too_long {
            // Half a message is none.
            return observer.event("a body of more than 16 MiB".into());
        }
        let is_message = |body: &[u8]| str::from_utf8(body).is_ok_and(|text| Wire::parse(text, DEPTH).is_ok());
        if !body.is_empty() && (!*may_be_other || is_message(body)) {
            observer.message(Origin::Server, body, FrameEnd::Complete);
        }
        body.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(inbox: &Inbox) -> Vec<Seen> {
        let take = |message| match message {
            Message::Seen { sighting, .. } => sighting.what,
            other => panic!("{other:?}"),
        };
        inbox.take(Duration::ZERO).into_iter().map(take).collect()
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
    const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}}"#;
    const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

    fn rules(seen: &[Seen]) -> Vec<(u64, Option<&'static str>)> {
        let rules = |seen: &Seen| match seen {
            Seen::Broken { number, findings } => findings.iter().map(|it| (*number, it.rule)).collect(),
            _ => Vec::new(),
        };
        seen.iter().flat_map(rules).collect()
    }

    #[test]
    fn messages_are_seen_at_once_and_judged_after_the_handshake() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
        let mut client = Lines::new(observer.clone(), Origin::Client);
        let mut server = Lines::new(observer, Origin::Server);
        server.feed(b"noise\n");
        client.feed(format!("{INITIALIZE}\n").as_bytes());
        let first = seen(&inbox);
        assert!(matches!(&first[..], [Seen::Message(_), Seen::Message(_)]), "{first:?}");
        server.feed(format!("{RESULT}\n").as_bytes());
        let second = seen(&inbox);
        assert_eq!(rules(&second), [(0, Some("STDIO-007"))]);
        client.feed(format!("{READY}\n").as_bytes());
        server.feed(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n[1]\n");
        assert_eq!(rules(&seen(&inbox)), [(4, Some("BASE-008")), (5, Some("BATCH-012"))]);
    }

    #[test]
    fn rules_of_standard_streams_do_not_hold_over_http() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
        observer.message(Origin::Client, INITIALIZE.as_bytes(), FrameEnd::Complete);
        let mut body = Body::of("application/json; charset=utf-8", true);
        body.feed(&observer, &RESULT.as_bytes()[..40]);
        body.feed(&observer, &RESULT.as_bytes()[40..]);
        body.end(&observer);
        let mut events = Body::of("Text/Event-Stream", true);
        events.feed(&observer, b"id: 1\ndata:\n\ndata: noi");
        events.feed(&observer, b"se\n\n");
        assert_eq!(rules(&seen(&inbox)), [(2, None)]);
    }

    #[test]
    fn sessions_over_http_begin_again() {
        for is_http in [true, false] {
            let inbox = Arc::new(Inbox::default());
            let observer = Observer::new(inbox.clone(), Clock::start(), 1, is_http);
            let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
            for _ in 0..2 {
                for (from, text) in [
                    (Origin::Client, INITIALIZE),
                    (Origin::Server, RESULT),
                    (Origin::Client, READY),
                    (Origin::Client, list),
                ] {
                    observer.message(from, text.as_bytes(), FrameEnd::Complete);
                }
            }
            assert_eq!(rules(&seen(&inbox)).is_empty(), is_http);
        }
    }

    #[test]
    fn servers_that_never_shake_hands_are_judged_too() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
        let mut server = Lines::new(observer, Origin::Server);
        for _ in 0..MAX_WAITING {
            server.feed(b"noise\n");
        }
        assert_eq!(rules(&seen(&inbox)).len(), MAX_WAITING);
    }

    #[test]
    fn long_messages_are_judged() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
        let long = "x".repeat(5 << 20);
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"a","arguments":{{"x":"{long}"}}}}}}"#
        );
        let result = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;
        for (from, text) in [
            (Origin::Client, INITIALIZE),
            (Origin::Server, RESULT),
            (Origin::Client, READY),
            (Origin::Client, &call),
            (Origin::Server, result),
        ] {
            observer.message(from, text.as_bytes(), FrameEnd::Complete);
        }
        let seen = rules(&seen(&inbox));
        assert!(seen.is_empty(), "{seen:?}");
    }

    #[test]
    fn programs_that_are_started_again_begin_again() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
        let (first, second) = (observer.of_program(), observer.of_program());
        let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{}}}"#;
        let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
        first.message(Origin::Client, discover.as_bytes(), FrameEnd::Complete);
        for (from, text) in [(Origin::Client, INITIALIZE), (Origin::Server, RESULT), (Origin::Client, READY)] {
            second.message(from, text.as_bytes(), FrameEnd::Complete);
        }
        // What the first one writes late is its own.
        first.message(Origin::Server, refused.as_bytes(), FrameEnd::Complete);
        let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
        let tools = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#;
        for (from, text) in [(Origin::Client, list), (Origin::Server, tools)] {
            second.message(from, text.as_bytes(), FrameEnd::Complete);
        }
        let seen = seen(&inbox);
        let numbers = seen.iter().filter_map(|seen| match seen {
            Seen::Message(observed) => Some(observed.number),
            _ => None,
        });
        assert!(numbers.eq(0..7), "{seen:?}");
        assert_eq!(rules(&seen), []);
    }

    #[test]
    fn bodies_that_are_too_long_are_told() {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
        let mut reader = Body::of("application/json", true);
        for _ in 0..=MAX_MESSAGE >> 20 {
            reader.feed(&observer, &vec![b' '; 1 << 20]);
        }
        reader.end(&observer);
        assert_eq!(seen(&inbox), [Seen::Event("a body of more than 16 MiB".into())]);
    }

    #[test]
    fn bodies_of_errors_need_not_be_messages() {
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
        for (body, is_answer, expected) in [
            (r#"{"detail":"Method Not Allowed"}"#, false, 0),
            (r#"{"error":"invalid_token"}"#, false, 0),
            ("[1]", false, 0),
            (error, false, 1),
            (r#"{"detail":"no message"}"#, true, 1),
        ] {
            let inbox = Arc::new(Inbox::default());
            let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
            let mut reader = Body::of("application/json", is_answer);
            reader.feed(&observer, body.as_bytes());
            reader.end(&observer);
            assert_eq!(seen(&inbox).len(), expected, "{body}");
        }
    }
}
