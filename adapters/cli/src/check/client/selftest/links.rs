//! The client in memory over both transports.

use std::{
    collections::{HashMap, VecDeque},
    io,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    client::{Client, Profile},
    faults::Spoil,
};
use crate::check::{
    client::link::{Arrival, HttpReply, HttpRequest, Link},
    events::Events,
    probe::header_value,
    wire::{header, is_event_stream},
};

/// How long the client waits for an answer before it cancels.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time and the queue of arrivals, which both transports share.
#[derive(Debug)]
struct Clock {
    now: Instant,
    /// When the last arrivals came.
    came: Instant,
    ended: bool,
}

impl Clock {
    fn new() -> Self {
        let now = Instant::now();
        Self { now, came: now, ended: false }
    }
}

/// Over standard input and output.
#[derive(Debug)]
pub(super) struct Memory {
    client: Client,
    clock: Clock,
    arrivals: VecDeque<Arrival>,
    buffer: Vec<u8>,
    /// How often the client has opened another connection.
    attempts: usize,
}

impl Memory {
    pub(super) fn new(profile: Profile, spoil: Spoil) -> Self {
        let client = Client::new(profile, spoil);
        Self { client, clock: Clock::new(), arrivals: VecDeque::new(), buffer: Vec::new(), attempts: 0 }
    }

    fn flush(&mut self) {
        self.clock.came = self.clock.now;
        while let Some(message) = self.client.out.pop_front() {
            // An error is about a method: that is only for the faults.
            let mut message = message;
            if let Some(object) = message.as_object_mut() {
                object.remove("about");
            }
            let text = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            self.arrivals.push_back(Arrival::Line(text.into_bytes()));
        }
        if self.client.reconnects && self.attempts < 3 {
            self.attempts += 1;
            self.arrivals.extend([Arrival::InputEnd { is_clean: true }, Arrival::Connected]);
            self.client.start();
            return self.flush();
        }
        if self.client.is_done && !self.clock.ended {
            self.clock.ended = true;
            let is_clean = !self.client.has("kills its server");
            self.arrivals.push_back(Arrival::InputEnd { is_clean });
            self.arrivals.push_back(Arrival::Ended(Some(i32::from(self.client.has_failed))));
        }
    }
}

impl Link for Memory {
    fn is_http(&self) -> bool {
        false
    }

    fn start(&mut self) -> io::Result<()> {
        self.arrivals.clear();
        self.buffer.clear();
        (self.clock.ended, self.attempts) = (false, 0);
        self.client.start();
        self.arrivals.push_back(Arrival::Connected);
        self.flush();
        Ok(())
    }

    fn stop(&mut self) {}

    fn now(&self) -> Instant {
        self.clock.now
    }

    fn arrived(&mut self, deadline: Instant) -> Option<Arrival> {
        if self.clock.came <= deadline { self.arrivals.pop_front() } else { None }
    }

    fn next(&mut self, timeout: Duration) -> Arrival {
        if let Some(arrival) = self.arrivals.pop_front() {
            return arrival;
        }
        if self.clock.ended {
            return Arrival::Ended(Some(i32::from(self.client.has_failed)));
        }
        self.clock.now += timeout;
        if timeout >= PATIENCE && self.client.is_ready && !self.client.is_modern() {
            // It acts after the time that it was waited for.
            self.clock.now += Duration::from_millis(1);
            self.client.cancel();
            self.flush();
        }
        self.arrivals.pop_front().unwrap_or(Arrival::Silence)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            match serde_json::from_slice::<Value>(&line) {
                Ok(message) if !self.clock.ended => self.client.receive(&message),
                Err(_) if self.client.has("strict lines") => self.client.fail(),
                _ => {}
            }
        }
        self.flush();
        Ok(())
    }

    fn end_server(&mut self) {
        if !self.client.has("waits for ended servers") && !self.client.is_done {
            self.client.fail();
            self.flush();
        }
    }

    fn respond(&mut self, _: u64, _: HttpReply) {}
    fn stream(&mut self, _: u64, _: &[u8]) {}
    fn finish(&mut self, _: u64) {}
}

/// Over HTTP.
pub(super) struct Web {
    client: Client,
    clock: Clock,
    arrivals: VecDeque<Arrival>,
    next: u64,
    session: Option<String>,
    /// Streams, with the last id of an event and the time of retry.
    streams: HashMap<u64, Stream>,
    /// The requests of exchanges.
    requests: HashMap<u64, Value>,
    has_get: bool,
    /// The GET of another client.
    foreign: Option<u64>,
}

#[derive(Default)]
struct Stream {
    events: Events,
    last: Option<String>,
    retry: Duration,
}

impl Web {
    pub(super) fn new(profile: Profile, spoil: Spoil) -> Self {
        Self {
            client: Client::new(profile, spoil),
            clock: Clock::new(),
            arrivals: VecDeque::new(),
            next: 0,
            session: None,
            streams: HashMap::new(),
            requests: HashMap::new(),
            has_get: false,
            foreign: None,
        }
    }

    fn push(&mut self, method: &str, message: &Value, more: &[(&str, &str)]) {
        self.next += 1;
        let mut headers: Vec<(String, String)> =
            more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let is_claim = Client::is_claim(message);
        if method == "POST" {
            add("Content-Type", "application/json");
            add("Accept", "application/json, text/event-stream");
        } else if method == "GET" {
            add("Accept", "text/event-stream");
        }
        if is_claim {
            add("MCP-Protocol-Version", crate::check::probe::MODERN);
            add("Mcp-Method", message["method"].as_str().unwrap_or_default());
            let params = &message["params"];
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                add("Mcp-Name", &header_value(name));
            }
            let is_early = message["id"].as_str().is_some_and(|id| id.starts_with("early-call"));
            let is_listed = !is_early && !self.client.is_second;
            if let Some(text) = params["arguments"]["message"].as_str().filter(|_| is_listed) {
                add("Mcp-Param-Message", &header_value(text));
            }
        } else if message["method"] != "initialize" {
            if let Some(session) = &self.session {
                add("Mcp-Session-Id", session);
            }
            if let Some(version) = self.client.version.as_deref().filter(|version| *version >= "2025-06-18") {
                add("MCP-Protocol-Version", version);
            }
        }
        let body = if message.is_null() { Vec::new() } else { message.to_string().into_bytes() };
        let mut request = HttpRequest { exchange: self.next, method: method.to_owned(), headers, body };
        if let Spoil::Http(spoil) = self.client.spoil {
            spoil(message, &mut request);
        }
        self.requests.insert(self.next, message.clone());
        self.arrivals.push_back(Arrival::Request(request));
    }

    /// Sends what another client of the program may send before it has a session.
    fn probe(&mut self, ping: &Value) {
        let (session, version) = (self.session.take(), self.client.version.take());
        self.push("POST", ping, &[]);
        self.push("POST", &json!([ping, ping]), &[]);
        self.push("GET", &Value::Null, &[]);
        self.foreign = Some(self.next);
        (self.session, self.client.version) = (session, version);
    }

    fn flush(&mut self) {
        self.clock.came = self.clock.now;
        while let Some(mut message) = self.client.out.pop_front() {
            if let Some(object) = message.as_object_mut() {
                object.remove("about");
            }
            if let Some(text) = message.as_str() {
                message = json!([text]);
            }
            let opens = message["method"] == "notifications/initialized" && !self.client.is_modern();
            if message["method"] == "ping" {
                self.probe(&message);
                continue;
            }
            self.push("POST", &message, &[]);
            if opens && !self.has_get {
                self.has_get = true;
                self.push("GET", &Value::Null, &[]);
            }
        }
        if self.client.is_done && !self.clock.ended {
            self.clock.ended = true;
            if self.session.is_some() && !self.client.has("no delete") {
                self.push("DELETE", &Value::Null, &[]);
            }
            self.arrivals.push_back(Arrival::Ended(Some(i32::from(self.client.has_failed))));
        }
    }

    fn take(&mut self, text: &str) {
        match serde_json::from_str(text) {
            Ok(message) if !self.clock.ended => self.client.receive(&message),
            _ => {}
        }
    }
}

impl Web {
    /// Gives the exchanges other numbers than those of another client.
    pub(super) fn count_from(mut self, number: u64) -> Self {
        self.next = number;
        self
    }

    /// Returns what comes next without time, except the end.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front().filter(|arrival| !matches!(arrival, Arrival::Ended(_)))
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.clock.ended
    }
}

impl Link for Web {
    fn is_http(&self) -> bool {
        true
    }

    fn start(&mut self) -> io::Result<()> {
        let (next, now) = (self.next, self.clock.now);
        *self = Self::new(self.client.profile, self.client.spoil);
        (self.next, self.clock.now) = (next, now);
        self.client.start();
        self.flush();
        Ok(())
    }

    fn stop(&mut self) {}

    fn now(&self) -> Instant {
        self.clock.now
    }

    fn arrived(&mut self, deadline: Instant) -> Option<Arrival> {
        if self.clock.came <= deadline { self.arrivals.pop_front() } else { None }
    }

    fn next(&mut self, timeout: Duration) -> Arrival {
        if let Some(arrival) = self.arrivals.pop_front() {
            return arrival;
        }
        if self.clock.ended {
            return Arrival::Ended(Some(i32::from(self.client.has_failed)));
        }
        self.clock.now += timeout;
        if timeout >= PATIENCE && self.client.is_ready && !self.client.is_modern() {
            // It acts after the time that it was waited for.
            self.clock.now += Duration::from_millis(1);
            self.client.cancel();
            self.flush();
        }
        self.arrivals.pop_front().unwrap_or(Arrival::Silence)
    }

    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn end_server(&mut self) {}

    fn respond(&mut self, exchange: u64, reply: HttpReply) {
        assert!(self.foreign != Some(exchange) || reply.status == 405, "the session has the stream of another client");
        let request = self.requests.get(&exchange).cloned().unwrap_or_default();
        if request["method"] == "initialize" {
            self.session = header(&reply.headers, "mcp-session-id").map(str::to_owned).or(self.session.take());
        }
        let kind = header(&reply.headers, "content-type").unwrap_or_default();
        let Some(body) = reply.body else {
            if self.client.has("no streams") && request["method"] == "initialize" {
                self.client.fail();
            } else if is_event_stream(kind) {
                self.streams.insert(exchange, Stream::default());
            }
            return self.flush();
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let is_json = serde_json::from_str::<Value>(&text).is_ok();
        match reply.status {
            405 if self.client.has("needs GET") && !self.client.is_modern() => self.client.fail(),
            404 if !is_json && self.session.is_some() => {
                if self.client.has("keeps sessions") {
                    self.client.fail();
                } else {
                    self.session = None;
                    self.client.initialize();
                }
            }
            400 if !is_json && Client::is_claim(&request) => {
                if self.client.has("no fallback") {
                    self.client.fail();
                } else {
                    self.client.initialize();
                }
            }
            404 if self.client.has("ignores errors") => self.client.fail(),
            _ if !text.is_empty() => self.take(&text),
            _ => {}
        }
        self.flush();
    }

    fn stream(&mut self, exchange: u64, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&exchange) else { return };
        let text = String::from_utf8_lossy(bytes);
        if let Some(retry) = text.lines().find_map(|line| line.strip_prefix("retry: ")) {
            stream.retry = Duration::from_millis(retry.trim().parse().unwrap_or_default());
        }
        if text.contains("\r\n") && self.client.has("strict streams")
            || text.starts_with(':') && self.client.has("no comments")
        {
            return self.client.fail();
        }
        stream.events.feed(bytes);
        let mut messages = Vec::new();
        while let Some(event) = stream.events.next_event() {
            if let Some(id) = event.id.filter(|id| !id.is_empty()) {
                stream.last = Some(id);
            }
            messages.extend(event.data);
        }
        for message in messages {
            if message.is_empty() && self.client.has("needs data") {
                self.client.fail();
            }
            self.take(&message);
        }
        self.flush();
    }

    fn finish(&mut self, exchange: u64) {
        let Some(stream) = self.streams.remove(&exchange) else { return };
        let request = self.requests.get(&exchange).cloned().unwrap_or_default();
        let is_pending = self.client.pending.as_ref().is_some_and(|pending| pending["id"] == request["id"]);
        if is_pending && self.client.has("repeats lost calls") {
            self.push("POST", &request, &[]);
        }
        if let Some(last) =
            stream.last.filter(|_| is_pending && !self.client.is_modern() && !self.client.has("no resumption"))
        {
            self.clock.now += if self.client.has("no retry") { Duration::ZERO } else { stream.retry };
            self.push("GET", &Value::Null, &[("Last-Event-ID", &last)]);
        }
    }
}
