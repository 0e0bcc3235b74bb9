//! A whole connection, controlled by a script: its input, and between the bytes the actions of its application and the
//! clock.
//!
//! The first byte of an input selects the opening of the connection, the bits of the second one select [`Options`]. All
//! other lines are input of the connection, except those that begin with `@`:
//!
//! | line | action |
//! | --- | --- |
//! | `@` | output is polled |
//! | `@t500` | 500 ms pass |
//! | `@ctools/list {}` | a request, with deadlines; `@f` makes one without |
//! | `@nvendor/x {}` | a notification |
//! | `@x2` | the third open call is cancelled |
//! | `@r0` `@e0` `@i0` | the first open request is answered: with a result, with an error, with `input_required` |
//! | `@p0` `@l0` | the first open request makes progress, or logs |
//! | `@s` `@u` | output is no longer polled; output is polled again |
//! | `@q` `@z` `@b` | close; the input ends; the transport breaks |

use std::{collections::HashMap, fmt::Debug, time::Duration};

use mcp_proto::{
    codec::{FrameEnd, LineDecoder},
    connection::{
        Client, ClientConfig, Connection, Event, Keepalive, RequestOptions, Route, Server, ServerConfig, Settings,
    },
    protocol::{ProtocolVersion, VersionSet},
    rpc::{ReplyKey, Timestamp},
    schema::{ClientCapabilities, ServerCapabilities},
    wire::{Json, Message, RawJson, RequestId},
};
use mcp_tests::harness::{full_client, full_server};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{
    app::{App, log_message},
    cost,
    reference::{self, brackets},
};

/// No input makes a server panic, exceed its limits, or write anything but messages.
pub fn server(data: &[u8]) {
    let [opening, options, script @ ..] = data else { return };
    let options = Options::new(*options);
    let mut config = full_server();
    if options.bare {
        config.capabilities = ServerCapabilities::default();
    }
    options.apply(&mut config.settings);
    let opening = usize::from(opening % 8);
    config.settings.versions = match opening {
        5 | 7 => VersionSet::ALL,
        6 => VersionSet::only(ProtocolVersion::V2026_07_28),
        _ => VersionSet::LEGACY,
    };
    let version = match opening {
        0..=3 => Some(ProtocolVersion::LEGACY[opening]),
        7 => Some(ProtocolVersion::LATEST_LEGACY),
        _ => None,
    };
    let run = |cut| {
        let mut runner = Runner::new(Server::new(ServerConfig::clone(&config), Timestamp::ZERO), options, cut);
        if let Some(version) = version {
            runner.feed(HELLO.replace("VERSION", version.as_str()).as_bytes());
            assert_eq!(runner.conn.version(), Some(version));
        }
        runner.run(script)
    };
    cost::assert_bounded(script, |script| {
        let mut server = Server::new(ServerConfig::clone(&config), Timestamp::ZERO);
        if let Some(version) = version {
            feed_lines(&mut server, HELLO.replace("VERSION", version.as_str()).as_bytes());
        }
        feed_lines(&mut server, script);
    });
    assert_eq!(run(false), run(true), "cut into bytes, it is another story");
}

/// No input makes a client panic, exceed its limits, or write anything but messages.
pub fn client(data: &[u8]) {
    let [opening, options, script @ ..] = data else { return };
    let options = Options::new(*options);
    let mut config = full_client();
    if options.bare {
        config.capabilities = ClientCapabilities::default();
    }
    options.apply(&mut config.settings);
    let opening = usize::from(opening % 8);
    config.settings.versions = match opening {
        5 => VersionSet::ALL,
        6 | 7 => VersionSet::only(ProtocolVersion::V2026_07_28),
        _ => VersionSet::LEGACY,
    };
    let (version, answer) = match opening {
        0..=3 => (Some(ProtocolVersion::LEGACY[opening]), WELCOME),
        7 => (Some(ProtocolVersion::V2026_07_28), DISCOVERED),
        _ => (None, ""),
    };
    let run = |cut| {
        let mut runner = Runner::new(Client::new(ClientConfig::clone(&config), Timestamp::ZERO), options, cut);
        if let Some(version) = version {
            runner.poll_transmit();
            runner.feed(answer.replace("VERSION", version.as_str()).as_bytes());
            assert_eq!(runner.conn.version(), Some(version));
        }
        runner.run(script)
    };
    cost::assert_bounded(script, |script| {
        let mut client = Client::new(ClientConfig::clone(&config), Timestamp::ZERO);
        if let Some(version) = version {
            client.poll_transmit(&mut Vec::new());
            feed_lines(&mut client, answer.replace("VERSION", version.as_str()).as_bytes());
        }
        feed_lines(&mut client, script);
    });
    assert_eq!(run(false), run(true), "cut into bytes, it is another story");
}

/// Passes the lines of a peer to a connection whose application drops all events, and discards the output.
fn feed_lines<E>(conn: &mut Connection<E>, script: &[u8]) {
    let mut lines = LineDecoder::new(conn.settings().limits.frame_bytes);
    let mut out = Vec::new();
    for line in script.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"@")) {
        lines.feed(line);
        while let Some(frame) = lines.next_frame() {
            drop(conn.handle_frame(Timestamp::ZERO, frame));
            while conn.poll_event().is_some() {}
            while conn.poll_transmit(&mut out).is_some() {
                out.clear();
            }
        }
    }
}

/// The first messages of a client of the test support crate.
const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"VERSION","clientInfo":"#,
    r#"{"name":"c","version":"1"},"capabilities":{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"#,
    r#""elicitation":{"form":{},"url":{}},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"#,
    r#""elicitation":{"create":{}}}}}}}"#,
    "\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
);

/// The response to `initialize` of a server of the test support crate.
const WELCOME: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"VERSION","serverInfo":{"name":"s","version":"1"},"#,
    r#""capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"#,
    r#""subscribe":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}}"#,
    "\n"
);

/// The response to `server/discover` of a server of the modern era.
const DISCOVERED: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["VERSION"],"#,
    r#""ttlMs":0,"cacheScope":"private","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"#,
    r#""resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}}}"#,
    "\n"
);

/// The options of the second byte. All are off in `@`.
#[derive(Clone, Copy, Debug)]
struct Options {
    /// Small limits.
    small: bool,
    /// Members of `_meta` that the revision does not have are rejected.
    strict: bool,
    /// Pings.
    keepalive: bool,
    /// No capabilities are declared.
    bare: bool,
    /// Requests are answered only by the script.
    lazy: bool,
    /// Output is polled after every frame, in addition to the script and the end.
    prompt: bool,
}

impl Options {
    fn new(bits: u8) -> Self {
        let bit = |n: u8| bits & (1 << n) != 0;
        Self { small: bit(0), strict: bit(1), keepalive: bit(2), bare: bit(3), lazy: bit(4), prompt: bit(5) }
    }

    fn apply(self, settings: &mut Settings) {
        settings.strict_meta = self.strict;
        settings.keepalive = self.keepalive.then_some(Keepalive { interval: Duration::from_secs(2), max_missed: 2 });
        if self.small {
            let limits = &mut settings.limits;
            (limits.frame_bytes, limits.json_depth) = (2000, 8);
            (limits.calls, limits.call_bytes) = (3, 300);
            (limits.requests, limits.request_bytes) = (3, 300);
            (limits.outbox_bytes, limits.control_bytes) = (2000, 1000);
            (limits.batch_members, limits.parse_errors, limits.noise_lines) = (3, 2, 3);
            (limits.tasks, limits.rounds, limits.input_requests, limits.subscriptions) = (1, 2, 2, 1);
            limits.drain = Duration::from_secs(1);
        }
    }
}

/// Performs a line of a script that is an action of the application.
pub(crate) fn apply<E>(conn: &mut Connection<E>, app: &mut App, now: Timestamp, verb: char, rest: &str) {
    let number = rest.parse::<usize>().unwrap_or(0);
    let (name, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let params = Json::parse(params).ok();
    let params = params.as_ref().map(RawJson::from);
    match verb {
        'c' => {
            let mut options = RequestOptions::within(Duration::from_secs(3));
            (options.idle_timeout, options.progress) = (Some(Duration::from_secs(1)), true);
            app.calls.extend(conn.request_raw(now, name, params.as_ref(), options));
        }
        'f' => app.calls.extend(conn.request_raw(now, name, params.as_ref(), RequestOptions::no_timeout())),
        'n' => drop(conn.notify_raw(name, params.as_ref())),
        'x' => app.cancel_nth(conn, number),
        'r' => app.respond_nth(conn, number, true),
        'e' => app.respond_nth(conn, number, false),
        'i' => app.require_input_nth(conn, number),
        'p' => app.progress_nth(conn, number),
        'l' => {
            drop(app.nth(number).map(|key| conn.log(key, &log_message())));
        }
        'q' => conn.close(now),
        _ => {}
    }
}

/// The events of an application, and the lines that its peer received.
type Transcript = (Vec<Event<'static>>, Vec<String>);

struct Runner<E> {
    conn: Connection<E>,
    app: App,
    lines: LineDecoder,
    now: Timestamp,
    options: Options,
    /// The bytes arrive one by one.
    cut: bool,
    stalled: bool,
    /// The input has ended.
    ended: bool,
    sent: Vec<String>,
    /// The ids of the requests that were sent.
    request_ids: HashMap<RequestId, ()>,
    /// How often each id was received, minus the responses. `None` after input whose ids cannot be determined.
    unanswered: Option<HashMap<RequestId, usize>>,
    answered: HashMap<ReplyKey, ()>,
}

impl<E: Debug> Runner<E> {
    fn new(conn: Connection<E>, options: Options, cut: bool) -> Self {
        let mut app = App::default();
        (app.immediate, app.events) = (!options.lazy, Some(Vec::new()));
        let lines = LineDecoder::new(conn.settings().limits.frame_bytes);
        Self {
            conn,
            app,
            lines,
            now: Timestamp::ZERO,
            options,
            cut,
            stalled: false,
            ended: false,
            sent: Vec::new(),
            request_ids: HashMap::new(),
            unanswered: Some(HashMap::new()),
            answered: HashMap::new(),
        }
    }

    fn run(mut self, script: &[u8]) -> Transcript {
        for line in script.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_prefix(b"@").map(|line| core::str::from_utf8(line).unwrap_or_default().trim_end()) {
                Some(line) => {
                    let mut letters = line.chars();
                    let verb = letters.next();
                    self.apply(verb, letters.as_str());
                    self.poll_events();
                    self.poll_transmit();
                }
                None if self.ended => {}
                None if self.cut => line.chunks(1).for_each(|byte| self.feed(byte)),
                None => self.feed(line),
            }
            self.assert_within_limits();
        }
        self.finish()
    }

    /// Performs a line of the script.
    fn apply(&mut self, verb: Option<char>, rest: &str) {
        match verb {
            Some('t') => self.elapse(Duration::from_millis(rest.parse().unwrap_or(0).min(100_000))),
            Some('s') => self.stalled = true,
            Some('u') => self.stalled = false,
            Some('z') => self.end(),
            Some('b') => self.conn.handle_disconnect(),
            Some(verb) => apply(&mut self.conn, &mut self.app, self.now, verb, rest),
            None => {}
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.lines.feed(bytes);
        self.take_frames();
    }

    fn take_frames(&mut self) {
        loop {
            let Self { conn, app, lines, unanswered, now, .. } = self;
            let Some(frame) = lines.next_frame() else { return };
            let depth = conn.settings().limits.json_depth;
            match ids(frame.bytes(), depth).filter(|_| frame.end() != FrameEnd::Oversized).zip(unanswered.as_mut()) {
                Some((ids, unanswered)) => ids.into_iter().for_each(|id| *unanswered.entry(id).or_default() += 1),
                None => *unanswered = None,
            }
            if let Some(event) = conn.handle_frame(*now, frame) {
                app.on_event(conn, event);
            }
            self.poll_events();
            if self.options.prompt {
                self.poll_transmit();
            }
        }
    }

    fn poll_events(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.app.on_event(&mut self.conn, event);
        }
    }

    fn poll_transmit(&mut self) {
        let mut out = Vec::new();
        while !self.stalled
            && let Some(transmit) = self.conn.poll_transmit(&mut out)
        {
            assert_eq!(transmit.len, out.len(), "the length of what was appended");
            let text = String::from_utf8(std::mem::take(&mut out)).expect("output is UTF-8");
            let line = text.strip_suffix('\n').expect("a message ends with a line feed");
            assert!(!line.contains(['\n', '\r']), "one message, one line: {line}");
            self.check(line);
            if let Route::Reply { key, last: true } = transmit.route {
                assert!(self.answered.insert(key, ()).is_none(), "a second answer to one request");
            }
            self.sent.push(line.to_owned());
        }
    }

    /// Checks that an output line is a message, and that a response belongs to a request.
    fn check(&mut self, line: &str) {
        if let Some(batch) = line.strip_prefix('[') {
            assert_eq!(self.conn.version(), Some(ProtocolVersion::V2025_03_26), "a batch: [{batch}");
            let members: Vec<Value> = serde_json::from_str(line).expect("a batch is JSON");
            assert!(!members.is_empty(), "an empty batch");
            members.iter().for_each(|member| self.check(&member.to_string()));
            return;
        }
        match Message::parse(line, 128).unwrap_or_else(|why| panic!("{why:?}: {line}")) {
            Message::Request { id, .. } => {
                assert!(self.request_ids.insert(id, ()).is_none(), "an id for the second time: {line}")
            }
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } => {
                if let Some(unanswered) = &mut self.unanswered {
                    let unanswered = unanswered.get_mut(&id).filter(|unanswered| **unanswered > 0);
                    *unanswered.unwrap_or_else(|| panic!("an answer to nothing: {line}")) -= 1;
                }
            }
            Message::Notification { .. } | Message::Error { id: None, .. } => {}
        }
    }

    /// Advances the clock, stopping at each deadline.
    fn elapse(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(deadline) = self.conn.poll_timeout().filter(|deadline| deadline.at <= until) {
            self.now = self.now.max(deadline.at);
            self.conn.handle_timeout(self.now);
            let next = self.conn.poll_timeout();
            assert!(
                next.is_none_or(|next| next.at > self.now),
                "{deadline:?} is followed by {next:?} at {:?}",
                self.now
            );
            self.poll_events();
            self.poll_transmit();
        }
        self.now = until;
    }

    /// Ends the input.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.lines.end();
            self.take_frames();
            self.conn.handle_eof(self.now);
        }
    }

    fn assert_within_limits(&self) {
        let (usage, limits) = (self.conn.usage(), &self.conn.settings().limits);
        assert!(usage.requests <= limits.requests && usage.request_bytes <= limits.request_bytes, "{usage:?}");
        // In addition to the calls of the application, a ping and a handshake.
        assert!(usage.calls <= limits.calls + 2 && usage.kept <= limits.calls, "{usage:?}");
        assert!(usage.tasks <= limits.tasks && usage.subscriptions <= limits.subscriptions, "{usage:?}");
        assert!(usage.deadlines <= 2 * usage.calls + 64, "{usage:?}");
        assert_eq!(usage.events, 0, "all of them were taken");
        let most = limits.outbox_bytes + limits.control_bytes + limits.frame_bytes;
        assert!(usage.outbox_bytes <= most + 1000, "{usage:?}");
    }

    /// Ends the input and runs the connection to its end.
    fn finish(mut self) -> Transcript {
        self.stalled = false;
        self.poll_transmit();
        self.app.respond_all(&mut self.conn);
        self.poll_transmit();
        self.end();
        self.poll_events();
        self.app.respond_all(&mut self.conn);
        self.poll_transmit();
        self.elapse(Duration::from_secs(3600));
        self.app.respond_all(&mut self.conn);
        self.poll_transmit();
        self.poll_events();
        self.app.assert_over();
        assert!(self.conn.is_drained(), "{:?}", self.conn);
        assert_eq!(self.conn.usage(), mcp_proto::connection::ResourceUsage::default());
        assert_eq!(self.conn.poll_timeout(), None);
        (self.app.events.unwrap_or_default(), self.sent)
    }
}

/// Returns all ids in a frame, in a message or in the members of a batch, or `None` if there may be others.
fn ids(frame: &[u8], max_depth: u32) -> Option<Vec<RequestId>> {
    let Ok(text) = core::str::from_utf8(frame) else { return Some(Vec::new()) };
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        // The text may exceed the nesting limit before its first error, and be rejected under the id before that.
        return (brackets(text) <= max_depth as usize).then(Vec::new);
    }
    serde_json::from_str::<Value>(text).ok()?;
    let members: Vec<&serde_json::value::RawValue> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).ok()?
    } else {
        vec![serde_json::from_str(text).ok()?]
    };
    let objects = members.into_iter().filter_map(|member| reference::members(member.get()));
    let ids = objects.flatten().filter(|(name, _)| name == "id");
    Some(ids.filter_map(|(_, id)| serde_json::from_str(id.get()).ok()).collect())
}
