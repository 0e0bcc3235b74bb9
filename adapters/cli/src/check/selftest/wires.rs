//! The server of the tests behind the interfaces of a process and of HTTP. Nothing waits.

use std::{
    collections::{HashMap, VecDeque},
    io,
    time::Duration,
};

use serde_json::Value;

use super::server::{Profile, Server, Session};
use crate::check::{
    probe::{MODERN, NEWEST},
    wire::{Body, Program, Read, Request, Response, Site},
};

/// How a server breaks a rule.
#[derive(Clone, Copy)]
pub(super) enum Spoil {
    Nothing,
    /// Changes the messages that a message has caused. The first is null if it is no JSON.
    Messages(fn(&Value, &mut Vec<Value>)),
    /// Changes the lines that a line has caused.
    Lines(fn(&str, &mut Vec<String>)),
    /// Changes the response to a request.
    Http(fn(&Request, &mut Plain)),
    /// Does not end when the input ends.
    Stays,
    /// Reads nothing more after a line that has these bytes.
    HangsAt(&'static [u8]),
    /// Serves the era of its first request, and refuses the other one.
    OneEra,
    /// Serves the era of its first request, and does not respond to the other one.
    SilentInOtherEra,
    /// Answers no ping before `notifications/initialized` with a result.
    RefusesEarlyPings,
    /// Answers requests before `initialize`.
    AnswersEarly,
    /// Forgets the last of many messages at once.
    ForgetsOfMany,
    /// Makes ids of sessions.
    SessionIds(fn(u64) -> String),
}

/// A response in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) stays_open: bool,
    /// Whether the connection is closed before the end of the body.
    pub(super) is_cut: bool,
}

pub(super) struct Memory {
    pub(super) server: Server,
    pub(super) spoil: Spoil,
    pub(super) session: Session,
    pub(super) output: VecDeque<String>,
    hangs: bool,
    is_modern: Option<bool>,
}

impl Memory {
    pub(super) fn new(profile: Profile, spoil: Spoil) -> Self {
        let (session, output) = (Session::default(), VecDeque::new());
        Self { server: Server { profile }, spoil, session, output, hangs: false, is_modern: None }
    }
}

impl Memory {
    /// Replaces results with errors, or with nothing, by the state of the process.
    fn limit(&mut self, message: &Value, messages: &mut Vec<Value>) {
        let is_modern = self.server.is_modern(message);
        let is_refused = match self.spoil {
            Spoil::OneEra | Spoil::SilentInOtherEra if message.get("id").is_some() => {
                *self.is_modern.get_or_insert(is_modern) != is_modern
            }
            Spoil::RefusesEarlyPings => message["method"] == "ping" && !self.session.is_ready,
            _ => false,
        };
        if is_refused && matches!(self.spoil, Spoil::SilentInOtherEra) {
            messages.clear();
        }
        if let Some(response) = messages.first_mut().filter(|_| is_refused) {
            let error = serde_json::json!({"code": -32600, "message": "refused"});
            *response = serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
        }
    }
}

impl Program for Memory {
    fn restart(&mut self) -> io::Result<()> {
        self.session = Session::default();
        self.output.clear();
        (self.hangs, self.is_modern) = (false, None);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut all: Vec<_> = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        if matches!(self.spoil, Spoil::ForgetsOfMany) && all.len() > 10 {
            all.pop();
        }
        for line in all {
            let parsed = serde_json::from_slice(line);
            if let Spoil::HangsAt(bytes) = self.spoil {
                self.hangs |= line.windows(bytes.len()).any(|it| it == bytes);
            }
            if self.hangs {
                continue;
            }
            if matches!(self.spoil, Spoil::AnswersEarly) {
                self.session.version.get_or_insert(NEWEST);
            }
            let mut messages = self.server.receive(line, &mut self.session);
            self.limit(parsed.as_ref().unwrap_or(&Value::Null), &mut messages);
            if let Spoil::Messages(spoil) = self.spoil {
                spoil(&parsed.unwrap_or_default(), &mut messages);
            }
            let mut lines: Vec<_> = messages.iter().map(Value::to_string).collect();
            if let Spoil::Lines(spoil) = self.spoil {
                spoil(&String::from_utf8_lossy(line), &mut lines);
            }
            self.output.extend(lines);
        }
        Ok(())
    }

    fn read_line(&mut self, _: Duration) -> Read {
        self.output.pop_front().map_or(Read::Silence, |line| Read::Bytes(line.into_bytes()))
    }

    fn ends_after_input(&mut self, _: Duration) -> bool {
        !matches!(self.spoil, Spoil::Stays)
    }
}

pub(super) struct Web {
    server: Server,
    spoil: Spoil,
    /// Whether responses are streams.
    streams: bool,
    sessions: HashMap<String, Session>,
    next: u64,
    events: u64,
}

impl Web {
    pub(super) fn new(profile: Profile, spoil: Spoil, streams: bool) -> Self {
        Self { server: Server { profile }, spoil, streams, sessions: HashMap::new(), next: 0, events: 0 }
    }

    fn serve(&mut self, request: &Request) -> Plain {
        let header = |name| crate::check::wire::header(&request.headers, name).map(|value| value.trim().to_owned());
        let status = |status| Plain { status, ..Plain::default() };
        if header("origin").is_some() {
            return status(403);
        }
        let version = header("mcp-protocol-version");
        let has_modern = self.server.profile != Profile::LegacyOnly;
        let is_modern = has_modern && version.as_deref().is_some_and(|version| version >= MODERN);
        let session = header("mcp-session-id");
        if request.method != "POST" {
            return match (request.method, session.and_then(|id| self.sessions.remove_entry(&id))) {
                ("DELETE", Some(_)) => status(204),
                ("GET", Some((id, session))) => {
                    self.sessions.insert(id, session);
                    let headers = vec![("Content-Type".to_owned(), "text/event-stream".to_owned())];
                    Plain { status: 200, headers, stays_open: true, ..Plain::default() }
                }
                _ => status(405),
            };
        }
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if is_modern {
            return self.modern(request, &message, version.as_deref().unwrap_or_default());
        }
        if self.server.profile == Profile::ModernOnly {
            return status(400);
        }
        let new = message["method"] == "initialize";
        if new {
            self.next += 1;
            let id = match self.spoil {
                Spoil::SessionIds(make) => make(self.next),
                _ => format!("session-{:016x}", self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            };
            self.sessions.insert(id.clone(), Session::default());
            let mut plain = self.in_session(&id, request);
            plain.headers.push(("Mcp-Session-Id".to_owned(), id));
            return plain;
        }
        match session {
            None => status(400),
            Some(id) if !self.sessions.contains_key(&id) => status(404),
            Some(_) if version.is_some_and(|it| !crate::check::probe::LEGACY.contains(&it.as_str())) => status(400),
            Some(id) => self.in_session(&id, request),
        }
    }

    fn in_session(&mut self, id: &str, request: &Request) -> Plain {
        let mut session = self.sessions.get(id).cloned().unwrap_or_default();
        let messages = self.server.receive(&request.body, &mut session);
        self.sessions.insert(id.to_owned(), session);
        self.answer(request, messages)
    }

    fn modern(&mut self, request: &Request, message: &Value, version: &str) -> Plain {
        let header = |name| crate::check::wire::header(&request.headers, name).map(|value| value.trim().to_owned());
        let params = &message["params"];
        let body_version = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        let method = message["method"].as_str().unwrap_or_default();
        let mismatch = |plain: &mut Self| {
            let error = serde_json::json!({"code": -32020, "message": "header mismatch"});
            plain.answer(request, vec![serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "error": error})])
        };
        if !message.is_object() || method.is_empty() || message.get("id").is_none_or(Value::is_null) {
            let messages = self.server.receive(&request.body, &mut Session::default());
            return self.answer(request, messages);
        }
        let has_meta = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object();
        if has_meta && body_version.is_some_and(|body| body != version) {
            return mismatch(self);
        }
        let name = if method == "resources/read" { &params["uri"] } else { &params["name"] };
        let needs_name = matches!(method, "tools/call" | "prompts/get" | "resources/read") && name.is_string();
        if has_meta && body_version == Some(MODERN) {
            let is_known = method != "mcp-check/unknown";
            if header("mcp-method").as_deref() != Some(method) {
                return mismatch(self);
            }
            let mirrored = header("mcp-name").and_then(|value| decode(&value));
            if is_known && needs_name && mirrored.as_deref() != name.as_str() {
                return mismatch(self);
            }
        }
        let mut message = message.clone();
        if body_version.is_none() && params.get("_meta").is_none() {
            message["params"]["_meta"] = serde_json::json!({"io.modelcontextprotocol/protocolVersion": version});
        } else if body_version.is_none() {
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = Value::Null;
        }
        let messages = self.server.receive(message.to_string().as_bytes(), &mut Session::default());
        self.answer(request, messages)
    }

    /// Makes a response of messages.
    fn answer(&mut self, request: &Request, mut messages: Vec<Value>) -> Plain {
        if let Spoil::Messages(spoil) = self.spoil {
            spoil(&serde_json::from_slice(&request.body).unwrap_or_default(), &mut messages);
        }
        let Some(first) = messages.first() else { return Plain { status: 202, ..Plain::default() } };
        let is_modern = crate::check::wire::header(&request.headers, "mcp-protocol-version") >= Some(MODERN);
        let status = match first["error"]["code"].as_i64() {
            Some(-32601) if is_modern => 404,
            Some(-32020 | -32022 | -32700 | -32600) => 400,
            Some(-32602) if is_modern && !has_metadata(&request.body) => 400,
            _ => 200,
        };
        let is_listen = first["method"] == "notifications/subscriptions/acknowledged";
        let is_stream = (self.streams || is_listen) && status == 200;
        let kind = if is_stream { "text/event-stream" } else { "application/json" };
        let headers = vec![("Content-Type".to_owned(), kind.to_owned())];
        let body = if is_stream { self.stream(&messages) } else { first.to_string() };
        Plain { status, headers, body, stays_open: is_listen, is_cut: false }
    }

    fn stream(&mut self, messages: &[Value]) -> String {
        let mut next = || {
            self.events += 1;
            self.events
        };
        let mut body = format!("id: {}\ndata:\n\n", next());
        for message in messages {
            body.push_str(&format!("id: {}\ndata: {message}\n\n", next()));
        }
        body
    }
}

fn has_metadata(body: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object()
        && message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string()
}

/// Decodes the value of a header that mirrors a text.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(mcp_proto::schema::decode_base64(inner)?).ok(),
        None => Some(value.to_owned()),
    }
}

impl Site for Web {
    fn exchange(&mut self, request: &Request, _: Duration) -> io::Result<Response> {
        let mut plain = self.serve(request);
        if let Spoil::Http(spoil) = self.spoil {
            spoil(request, &mut plain);
        }
        let Plain { status, headers, body, stays_open, is_cut } = plain;
        Ok(Response { status, headers, body: Box::new(Whole { body: Some(body), stays_open, is_cut }) })
    }

    fn is_loopback(&self) -> bool {
        true
    }
}

struct Whole {
    body: Option<String>,
    stays_open: bool,
    is_cut: bool,
}

impl Body for Whole {
    fn read(&mut self, _: Duration) -> Read {
        match self.body.take() {
            Some(body) if !body.is_empty() => Read::Bytes(body.into_bytes()),
            _ if self.stays_open => Read::Silence,
            _ if self.is_cut => Read::Cut,
            _ => Read::End,
        }
    }
}
