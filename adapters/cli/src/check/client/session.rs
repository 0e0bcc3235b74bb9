//! What the server knows of a connection, and how it writes its answers.

use std::{collections::HashMap, time::Instant};

use serde_json::Value;

use super::{
    answers::{acknowledgment, claim},
    link::{HttpReply, HttpRequest},
    stage::{Message, Stage, Step},
};
use crate::{
    check::outcome::{Verdict, not_reachable},
    replay::Judge,
};

/// The most responses that are kept.
const MAX_RESPONSES: usize = 100;

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
    pub(super) is_deleted: bool,
    /// Whether the server has ended.
    pub(super) is_over: bool,
    /// Progress tokens of requests without an answer, by the ids of the requests.
    pub(super) tokens: HashMap<String, String>,
    pub(super) judge: Option<Judge>,
    /// When the first message was judged.
    pub(super) began: Option<Instant>,
    /// Whether there was a request of 2026-07-28.
    pub(super) is_modern: bool,
    /// Responses in batches.
    pub(super) responses: Vec<Value>,
}

impl Session {
    pub(super) fn add_response(&mut self, response: Value) {
        if self.responses.len() < MAX_RESPONSES {
            self.responses.push(response);
        }
    }
}

/// Returns the bytes of an event.
pub(super) fn event(message: &str) -> Vec<u8> {
    format!("event: message\ndata: {message}\n\n").into_bytes()
}

fn content_type(name: &str) -> (String, String) {
    ("Content-Type".to_owned(), name.to_owned())
}

impl Stage {
    /// Answers a message as the script says.
    pub(super) fn serve(&mut self, message: &Message) {
        if message.method() == "notifications/initialized" {
            self.session.is_ready = true;
        }
        if !message.is_request() {
            if message.is_response() {
                self.session.add_response(message.value.clone());
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
        self.judge_own(&text);
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
        let exchange = self.held.as_ref().and_then(|held| held.exchange).or(self.session.get);
        let Some(exchange) = exchange else {
            return not_reachable("the client has no stream for messages of the server");
        };
        self.stream_event(exchange, text);
        Ok(())
    }

    /// Notes that a request has its answer.
    pub(super) fn note_answer(&mut self, request: &Value, answer: &Value) {
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
        self.note_answer(&message.value, answer);
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
        self.note_answer(&held.value, answer);
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
        self.observed.add(true, &status.to_string());
        self.link.respond(exchange, HttpReply { status, headers: Vec::new(), body: Some(Vec::new()) });
    }

    /// Opens the stream of GET, unless the script refuses it.
    pub(super) fn serve_get(&mut self, request: &HttpRequest) {
        if self.script.is_modern || self.script.refuses_get || self.session.version.is_none() {
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
                self.judge_get(&request);
                return Step::Get(request);
            }
            "DELETE" => {
                self.judge_session_headers(&request.headers, "DELETE");
                self.session.is_deleted = true;
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
                if value.is_array() && self.script.is_modern && self.session.is_modern {
                    self.judge_body(&body);
                }
                let exchange = Some(request.exchange);
                let message = Message { value, text: body, exchange, headers: request.headers };
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
