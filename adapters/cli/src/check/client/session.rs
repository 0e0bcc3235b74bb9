//! The server's state of a connection, and the encoding of its responses.

use std::{collections::HashMap, time::Instant};

use serde_json::Value;

use super::{
    answers::{acknowledgment, claim},
    link::{HttpReply, HttpRequest},
    stage::{Message, Stage, Step},
};
use crate::{
    check::{
        outcome::{Verdict, not_reachable},
        wire::header,
    },
    replay::Judge,
};

/// The most sessions of a client over HTTP that are kept apart.
const MAX_SESSIONS: usize = 64;

/// The most responses that are kept.
const MAX_RESPONSES: usize = 100;

const INITIALIZED: &str = "notifications/initialized";

/// The state of a connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The revision that the server has answered `initialize` with.
    pub(super) version: Option<String>,
    /// The text of `initialize`.
    pub(super) initialize: Option<String>,
    /// Whether `notifications/initialized` has come.
    pub(super) is_ready: bool,
    /// The id of the session over HTTP.
    pub(super) id: Option<String>,
    /// The stream of GET.
    pub(super) get: Option<u64>,
    /// Names the session within a run.
    pub(super) number: u64,
    /// Whether the server has answered with 404, so that the client may forget the id.
    pub(super) is_gone: bool,
    /// Whether a request has remained without an answer, so that it may come again.
    pub(super) has_lost: bool,
    /// Whether the server has ended.
    pub(super) is_over: bool,
    /// Progress tokens of requests without an answer, by the ids of the requests.
    pub(super) tokens: HashMap<String, String>,
    pub(super) judge: Option<Judge>,
    /// Whether the capabilities of the client could not be read, so that the requests of the server are not known.
    pub(super) is_partial: bool,
    /// When the first message was judged.
    pub(super) began: Option<Instant>,
    /// Whether there was a request of 2026-07-28.
    pub(super) is_modern: bool,
}

/// The sessions over HTTP besides the current one.
#[derive(Debug, Default)]
pub(super) struct Others {
    sessions: Vec<Session>,
    /// How many sessions there were.
    count: u64,
    /// Whether some were dropped.
    is_cut: bool,
}

/// Returns the bytes of an event.
pub(super) fn event(message: &str) -> Vec<u8> {
    format!("event: message\ndata: {message}\n\n").into_bytes()
}

fn content_type(name: &str) -> (String, String) {
    ("Content-Type".to_owned(), name.to_owned())
}

impl Stage {
    pub(super) fn add_response(&mut self, response: Value) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push(response);
        }
    }

    /// Forgets all sessions.
    pub(super) fn reset_sessions(&mut self) {
        (self.session, self.others) = (Session::default(), Others::default());
    }

    /// Begins a session with an `initialize` over HTTP. The ones before may go on.
    fn begin_http_session(&mut self) {
        if self.others.sessions.len() == MAX_SESSIONS {
            self.others.sessions.remove(0);
            self.others.is_cut = true;
        }
        self.others.count += 1;
        let next = Session { number: self.others.count, ..Session::default() };
        let last = std::mem::replace(&mut self.session, next);
        if last.initialize.is_some() {
            self.others.sessions.push(last);
        }
    }

    /// Makes a session the current one.
    pub(super) fn enter(&mut self, number: u64) {
        if self.session.number != number
            && let Some(other) = self.others.sessions.iter_mut().find(|it| it.number == number)
        {
            std::mem::swap(&mut self.session, other);
        }
    }

    /// Makes the session that a request names the current one. Returns whether it is known which one that is.
    fn enter_named(&mut self, headers: &[(String, String)]) -> bool {
        let Some(id) = header(headers, "mcp-session-id") else { return self.others.sessions.is_empty() };
        if self.session.id.as_deref() == Some(id) {
            return true;
        }
        match self.others.sessions.iter().find(|it| it.id.as_deref() == Some(id)).map(|it| it.number) {
            Some(number) => {
                self.enter(number);
                true
            }
            None => self.others.sessions.is_empty(),
        }
    }

    /// Returns whether each request has to name one of the sessions that are known.
    pub(super) fn needs_session_id(&self) -> bool {
        let mut sessions = self.others.sessions.iter().chain([&self.session]);
        !self.others.is_cut && sessions.all(|it| it.is_ready && it.id.is_some() && !it.is_gone)
    }

    /// Returns whether there are several sessions.
    pub(super) fn has_others(&self) -> bool {
        !self.others.sessions.is_empty()
    }

    /// Returns whether an id is that of a session.
    pub(super) fn is_session_id(&self, id: &str) -> bool {
        self.others.sessions.iter().chain([&self.session]).any(|it| it.id.as_deref() == Some(id))
    }

    /// Returns whether a message may be that of another client of the program, which has no session yet.
    pub(super) fn may_come_first(&self, message: &Message) -> bool {
        let are_pings = match &message.value {
            Value::Array(batch) => !batch.is_empty() && batch.iter().all(|one| one["method"] == "ping"),
            _ => message.method() == "ping",
        };
        are_pings && self.session.id.is_some() && header(&message.headers, "mcp-session-id").is_none()
    }

    /// Returns whether a GET may be that of another client of the program, which looks for a server of 2024-11-05. Such
    /// a client has negotiated no revision.
    pub(super) fn is_foreign(&self, request: &HttpRequest) -> bool {
        let has = |name| header(&request.headers, name).is_some();
        let is_named = has("mcp-session-id") || has("mcp-protocol-version") || has("last-event-id");
        self.session.id.is_some() && !is_named
    }

    /// Answers a message as the script says.
    pub(super) fn serve(&mut self, message: &Message) {
        self.enter(message.session);
        if message.method() == INITIALIZED && !message.is_stray {
            self.session.is_ready = true;
        }
        if !message.is_request() {
            if message.is_response() {
                self.add_response(message.value.clone());
            }
            if let Some(exchange) = message.exchange {
                self.accept(exchange);
            }
            return;
        }
        match self.answer(&message.value) {
            Some(answer) => self.send_answer(message, &answer),
            None => self.acknowledge(message),
        }
    }

    /// Acknowledges a subscription, which stays open.
    fn acknowledge(&mut self, message: &Message) {
        let text = acknowledgment(&message.value).to_string();
        if let Some(exchange) = message.exchange {
            self.open_stream(exchange);
            self.stream_event(exchange, &text);
        } else {
            self.write_line(&text);
        }
        if !message.is_stray {
            self.judge_own(&text);
        }
    }

    /// Opens the stream of an exchange.
    pub(super) fn open_stream(&mut self, exchange: u64) {
        self.observed.add(true, "200\nContent-Type: text/event-stream");
        let headers = vec![content_type("text/event-stream"), ("Cache-Control".to_owned(), "no-store".to_owned())];
        self.link.respond(exchange, HttpReply { status: 200, headers, body: None });
    }

    pub(super) fn stream_event(&mut self, exchange: u64, text: &str) {
        self.observed.add(true, text);
        self.link.stream(exchange, &event(text));
    }

    /// Writes bytes of a stream that are not those of a usual event.
    pub(super) fn stream_bytes(&mut self, exchange: u64, bytes: &str) {
        self.observed.add(true, bytes);
        self.link.stream(exchange, bytes.as_bytes());
    }

    pub(super) fn write_line(&mut self, text: &str) {
        self.observed.add(true, text);
        // A client that has closed its end shows it by its next step.
        let _ = self.link.write(format!("{text}\n").as_bytes());
    }

    /// Sends text where a message that belongs to no response may be sent.
    pub(super) fn tell_text(&mut self, text: &str) -> Verdict {
        if !self.is_http() {
            self.write_line(text);
            return Ok(());
        }
        if let Some(number) = self.held.as_ref().map(|held| held.session) {
            self.enter(number);
        }
        let exchange = self.held.as_ref().and_then(|held| held.exchange).or(self.session.get);
        let Some(exchange) = exchange else {
            return not_reachable("the client has no stream for messages of the server");
        };
        self.stream_event(exchange, text);
        Ok(())
    }

    /// Notes that a request has its answer.
    pub(super) fn note_answer(&mut self, message: &Message, answer: &Value) {
        // The session of another client has requests with the same ids.
        if message.is_stray {
            return;
        }
        let request = &message.value;
        self.session.tokens.remove(&request["id"].to_string());
        if request["method"] == "initialize"
            && let Some(version) = answer["result"]["protocolVersion"].as_str()
        {
            self.session.version = Some(version.to_owned());
            self.begin_session(answer);
        } else {
            self.judge_own(&answer.to_string());
        }
    }

    /// Sends the answer to a request.
    pub(super) fn send_answer(&mut self, message: &Message, answer: &Value) {
        self.enter(message.session);
        self.note_answer(message, answer);
        let text = answer.to_string();
        let Some(exchange) = message.exchange else {
            self.write_line(&text);
            return;
        };
        let mut headers = Vec::new();
        if message.method() == "initialize" && answer["result"].is_object() {
            let id = format!("check-{}", self.next_id());
            headers.push(("Mcp-Session-Id".to_owned(), id.clone()));
            self.session.id = Some(id);
        }
        let status = status(&message.value, answer, self.script.is_modern);
        if self.script.is_stream && status == 200 {
            headers.push(content_type("text/event-stream"));
            self.observed.add(true, &format!("200\nContent-Type: text/event-stream\n\n{text}"));
            self.link.respond(exchange, HttpReply { status, headers, body: None });
            self.link.stream(exchange, &event(&text));
            self.link.finish(exchange);
            return;
        }
        headers.push(content_type("application/json"));
        self.observed.add(true, &format!("{status}\n{text}"));
        self.link.respond(exchange, HttpReply { status, headers, body: Some(text.into_bytes()) });
    }

    /// Sends the answer to a request whose stream is open.
    pub(super) fn finish_held(&mut self, held: &Message, answer: &Value) {
        self.enter(held.session);
        self.note_answer(held, answer);
        match held.exchange {
            Some(exchange) => {
                self.stream_event(exchange, &answer.to_string());
                self.link.finish(exchange);
            }
            None => self.write_line(&answer.to_string()),
        }
    }

    /// Responds with a status and no body.
    pub(super) fn refuse(&mut self, exchange: u64, status: u16) {
        self.refusals += usize::from(status == 400);
        self.observed.add(true, &status.to_string());
        self.link.respond(exchange, HttpReply { status, headers: Vec::new(), body: Some(Vec::new()) });
    }

    /// Opens the stream of GET, unless the script refuses it.
    pub(super) fn serve_get(&mut self, request: &HttpRequest) {
        if self.script.is_modern
            || self.script.refuses_get
            || self.session.version.is_none()
            || self.is_foreign(request)
        {
            return self.refuse(request.exchange, 405);
        }
        self.open_stream(request.exchange);
        // A client may have read the head only with the first bytes.
        self.stream_bytes(request.exchange, ": stream\n\n");
        self.session.get = Some(request.exchange);
    }

    pub(super) fn take_request(&mut self, request: HttpRequest) -> Step {
        let lines: String = request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let body = String::from_utf8_lossy(&request.body).into_owned();
        self.observed.add(false, &format!("{}\n{lines}\n{body}", request.method));
        match request.method.as_str() {
            "POST" => {}
            "GET" => {
                self.enter_named(&request.headers);
                self.judge_get(&request);
                return Step::Get(request);
            }
            "DELETE" => {
                self.enter_named(&request.headers);
                self.judge_session_headers(&request.headers, "DELETE");
                self.is_deleted = true;
                self.refuse(request.exchange, if self.script.is_modern { 405 } else { 200 });
                return Step::Other;
            }
            _ => {
                self.refuse(request.exchange, 405);
                return Step::Other;
            }
        }
        match serde_json::from_slice::<Value>(&request.body) {
            Ok(value) if value.is_object() || value.is_array() => {
                let exchange = Some(request.exchange);
                let mut message =
                    Message { value, text: body, exchange, headers: request.headers, ..Message::default() };
                let is_batch = message.value.is_array() && !message.is_session_batch();
                if is_batch && self.script.is_modern && self.session.is_modern {
                    self.judge_body(&message.text);
                }
                if !self.script.is_modern {
                    if message.method() == "initialize" && message.is_request() && claim(&message.value).is_none() {
                        self.begin_http_session();
                    } else {
                        message.is_stray = !self.enter_named(&message.headers) || self.may_come_first(&message);
                    }
                    message.session = self.session.number;
                    self.session.is_ready |= !message.is_stray && message.method() == INITIALIZED;
                }
                self.judge_post(&message);
                self.take_message(message)
            }
            _ => {
                self.judge_body(&body);
                self.refuse(request.exchange, 400);
                Step::Other
            }
        }
    }
}

/// Returns the status of an answer.
fn status(request: &Value, answer: &Value, is_modern: bool) -> u16 {
    match answer["error"]["code"].as_i64() {
        Some(-32601) if is_modern => 404,
        Some(-32022..=-32020) => 400,
        Some(-32602) if is_modern && claim(request).is_none() => 400,
        // A server with sessions refuses what comes without one.
        Some(_) if !is_modern && claim(request).is_some() => 400,
        _ => 200,
    }
}
