//! Sending bytes, and reading the messages that they cause.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Mode, Probe, Wire};
use crate::check::{
    era::Era,
    events::{Events, SseEvent},
    outcome::{Outcome, Verdict, failed, no_response, not_reachable},
    secrets::CUT,
    wire::{Read, Request, Response, header, is_event_stream, is_own},
};

/// How long a stream is read after its last message.
const QUIET: Duration = Duration::from_millis(300);

/// How many times longer the first response of a process may take.
const START: u32 = 4;

/// The most requests of the server that are responded to in a check.
const MAX_REPLIES: usize = 100;

/// The most messages that are read while a response is waited for.
const MAX_MESSAGES: usize = 100_000;

/// The longest body of a response.
const MAX_BODY: usize = 32 << 20;

/// A response to a request.
#[derive(Debug, Default)]
pub(in crate::check) struct Reply {
    pub(in crate::check) message: Value,
    /// Over HTTP.
    pub(in crate::check) status: Option<u16>,
    pub(in crate::check) headers: Vec<(String, String)>,
}

impl Reply {
    pub(in crate::check) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the code of the error, if it is one.
    pub(in crate::check) fn code(&self) -> Option<i64> {
        self.message["error"]["code"].as_i64()
    }

    /// Returns the result. An error is no failure of a rule: it is in the way of the check.
    pub(in crate::check) fn result(&self) -> Result<&Map<String, Value>, Outcome> {
        match self.message["result"].as_object() {
            Some(result) => Ok(result),
            None => not_reachable(format!("the server responds with {}", brief(&self.message))),
        }
    }

    /// Fails unless the response is an error with this code.
    pub(in crate::check) fn expect_code(&self, code: i64) -> Verdict {
        match self.code() {
            Some(actual) if actual == code => Ok(()),
            Some(actual) => failed(format!("the error code is {actual} instead of {code}")),
            None => failed(format!("the response is {} instead of the error {code}", self.kind())),
        }
    }

    fn kind(&self) -> &'static str {
        if self.message.get("result").is_some() { "a result" } else { "no JSON-RPC response" }
    }

    /// Fails if the response is a result.
    pub(in crate::check) fn expect_error(&self) -> Verdict {
        if self.message["error"].is_object() || self.status.is_some_and(|status| status >= 400) {
            return Ok(());
        }
        failed(format!("the response is {} instead of an error", self.kind()))
    }

    /// Fails unless the response has this status, if it came over HTTP.
    pub(in crate::check) fn expect_status(&self, status: u16) -> Verdict {
        match self.status {
            Some(actual) if actual != status => failed(format!("the status is {actual} instead of {status}")),
            _ => Ok(()),
        }
    }
}

/// The response to bytes that need not be a request.
#[derive(Debug, Default)]
pub(in crate::check) struct Provoked {
    pub(in crate::check) messages: Vec<Value>,
    pub(in crate::check) status: Option<u16>,
    pub(in crate::check) headers: Vec<(String, String)>,
    pub(in crate::check) body: String,
    pub(in crate::check) events: Vec<SseEvent>,
    /// Whether the body has ended, over HTTP.
    pub(in crate::check) has_ended: bool,
    /// Whether the body was cut off before its end, over HTTP.
    pub(in crate::check) is_cut: bool,
}

impl Provoked {
    pub(in crate::check) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the code of the first error.
    pub(in crate::check) fn code(&self) -> Option<i64> {
        self.messages.iter().find_map(|message| message["error"]["code"].as_i64())
    }

    pub(in crate::check) fn has_result(&self) -> bool {
        let all = self.messages.iter().flat_map(|it| it.as_array().map_or(std::slice::from_ref(it), Vec::as_slice));
        all.into_iter().any(|message| message.get("result").is_some())
    }

    /// Fails unless the status is one of an error of the client.
    pub(in crate::check) fn expect_refusal(&self) -> Verdict {
        match self.status {
            Some(status) if (400..500).contains(&status) => Ok(()),
            Some(status) => failed(format!("the status is {status} instead of one of an error")),
            None => Ok(()),
        }
    }
}

/// Returns a short text of a message.
pub(in crate::check) fn brief(message: &Value) -> String {
    match (message["error"]["code"].as_i64(), message["error"]["message"].as_str()) {
        (Some(code), Some(text)) => format!("the error {code}: {}", cut(text, 120)),
        _ => cut(&message.to_string(), 160),
    }
}

/// Returns the first characters of a text. The mark after them tells that a secret may have been cut.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}{CUT}", &text[..at]),
        None => text.to_owned(),
    }
}

impl Probe {
    /// Notes bytes that belong to the check.
    fn note(&mut self, is_sent: bool, text: &str) {
        self.observed.add(is_sent, text);
    }

    /// Returns how long the next message is waited for. The first one includes the start of the process.
    pub(in crate::check) fn patience(&self) -> Duration {
        if self.is_starting { self.timeout * START } else { self.timeout }
    }

    /// Sends the bytes of a request, and returns the response with its id.
    pub(in crate::check) fn transact(&mut self, body: &str, id: &Value, request: &Request) -> Result<Reply, Outcome> {
        self.sent.insert(id.to_string(), false);
        if self.is_http() {
            return self.transact_http(id, request);
        }
        self.write_line(body.as_bytes())?;
        let timeout = self.patience();
        let deadline = Instant::now() + timeout;
        for _ in 0..MAX_MESSAGES {
            let Some(message) = self.next_message(deadline)? else { break };
            if message.get("method").is_none() && message["id"] == *id {
                return Ok(Reply { message, ..Reply::default() });
            }
        }
        no_response(format!("there is no response within {} seconds", timeout.as_secs_f32()))
    }

    fn transact_http(&mut self, id: &Value, request: &Request) -> Result<Reply, Outcome> {
        let is_response = |message: &Value| message.get("method").is_none() && message.get("id") == Some(id);
        let provoked = self.exchange(request, self.timeout, &is_response)?;
        let Provoked { messages, status, headers, body, .. } = provoked;
        // The error of a refused request may have no id.
        let is_refusal = |message: &Value| message["error"].is_object() && message["id"].is_null();
        let found = messages.iter().find(|message| is_response(message));
        match found.or_else(|| messages.iter().find(|message| is_refusal(message))) {
            Some(message) => Ok(Reply { message: message.clone(), status, headers }),
            None if status.is_some_and(|status| status >= 400) => Ok(Reply { message: json!({}), status, headers }),
            None if messages.is_empty() => no_response(format!(
                "there is no response: status {}, body {:?}",
                status.unwrap_or_default(),
                cut(&body, 200)
            )),
            None => failed(format!("the response has another id than {id}")),
        }
    }

    /// Sends a notification or a response. Returns the status and the body over HTTP.
    pub(in crate::check) fn notify(&mut self, message: &Value) -> Result<Provoked, Outcome> {
        if self.is_http() {
            let request = self.http_request(message);
            return self.post(&request);
        }
        self.write_line(message.to_string().as_bytes())?;
        Ok(Provoked::default())
    }

    /// Sends bytes in place of a message, and returns all messages that they cause.
    ///
    /// Over standard input and output that is what comes before the response to a request that is sent next; if a
    /// response is expected and none came before, also what comes after it.
    pub(in crate::check) fn provoke(&mut self, body: &str, expects_response: bool) -> Result<Provoked, Outcome> {
        self.expect_ids(body);
        if self.is_http() {
            let mut request = self.http_request(&serde_json::from_str(body).unwrap_or_default());
            request.body = body.as_bytes().to_vec();
            return self.post(&request);
        }
        self.write_line(body.as_bytes())?;
        let mut messages = self.settle()?;
        if messages.is_empty() && expects_response {
            let deadline = Instant::now() + self.patience();
            messages.extend(self.next_response(deadline)?);
        } else if !expects_response {
            messages.extend(self.settle()?);
        }
        Ok(Provoked { messages, ..Provoked::default() })
    }

    /// Sends bytes that must have no response. A server that does not go on after them has not responded.
    pub(in crate::check) fn provoke_nothing(&mut self, body: &str) -> Result<Provoked, Outcome> {
        self.provoke(body, false).map_err(|outcome| match outcome {
            Outcome::Failed { why, .. } | Outcome::NoResponse(why) => Outcome::NotReachable(why),
            other => other,
        })
    }

    /// Sends an unknown notification. Fails unless the server responds to the next request.
    pub(in crate::check) fn outlive_notification(&mut self) -> Verdict {
        self.notify(&json!({"jsonrpc": "2.0", "method": "notifications/mcp-check/unknown"}))?;
        self.settle().map(|_| ())
    }

    /// Sends a request and reads to its response, over standard input and output. Returns the responses and errors
    /// that come before.
    pub(in crate::check) fn settle(&mut self) -> Result<Vec<Value>, Outcome> {
        let method = if self.era() == Era::Modern { "server/discover" } else { "ping" };
        let message = self.request(method, Value::Null);
        let id = message["id"].clone();
        self.sent.insert(id.to_string(), false);
        if self.is_http() {
            return self.ask(&message).map(|_| Vec::new());
        }
        self.write_line(message.to_string().as_bytes())?;
        let deadline = Instant::now() + self.patience();
        let (mut before, mut bytes) = (Vec::new(), 0);
        for _ in 0..MAX_MESSAGES {
            let Some(message) = self.next_message(deadline)? else {
                return no_response(format!("the server does not respond to {method} afterwards"));
            };
            if message.get("method").is_some() {
                continue;
            }
            if message["id"] == id {
                return Ok(before);
            }
            bytes += message.to_string().len();
            if bytes > MAX_BODY {
                return failed(format!("the server writes more than {MAX_BODY} bytes before it responds to {method}"));
            }
            before.push(message);
        }
        no_response(format!("the server does not respond to {method} afterwards"))
    }

    /// Writes a line to a program.
    pub(in crate::check) fn write_line(&mut self, line: &[u8]) -> Verdict {
        self.note(true, &String::from_utf8_lossy(line));
        let Wire::Program(program) = &mut self.wire else { return not_reachable("there is no standard input") };
        match program.write(&[line, b"\n"].concat()) {
            Ok(()) => Ok(()),
            Err(error) => no_response(format!("the server does not read any more: {error}")),
        }
    }

    /// Writes a line that is too long to be noted.
    pub(in crate::check) fn write_long(&mut self, line: &[u8], note: &str) -> Verdict {
        self.note(true, note);
        let Wire::Program(program) = &mut self.wire else { return not_reachable("there is no standard input") };
        program.write(line).or_else(|error| no_response(format!("the server does not read any more: {error}")))
    }

    /// Reads the next message of a program that is no request and no notification. `None` is silence.
    pub(in crate::check) fn next_response(&mut self, deadline: Instant) -> Result<Option<Value>, Outcome> {
        loop {
            match self.next_message(deadline)? {
                Some(message) if message.get("method").is_some() => {}
                other => return Ok(other),
            }
        }
    }

    /// Reads the next message of a program. `None` is silence, also if the deadline is past.
    pub(in crate::check) fn next_message(&mut self, deadline: Instant) -> Result<Option<Value>, Outcome> {
        for _ in 0..MAX_MESSAGES {
            // A server that writes without an end does not extend the time.
            if Instant::now() >= deadline {
                return Ok(None);
            }
            let Wire::Program(program) = &mut self.wire else { return Ok(None) };
            let line = match program.read_line(deadline.saturating_duration_since(Instant::now())) {
                Read::Bytes(line) => line,
                Read::Silence => return Ok(None),
                Read::End | Read::Cut => return no_response("the server has ended"),
            };
            let text = String::from_utf8_lossy(&line).into_owned();
            let text = text.trim_end_matches('\r');
            self.note(false, text);
            self.is_starting = false;
            let legacy = self.era() == Era::Legacy;
            match serde_json::from_slice::<Value>(&line) {
                Ok(Value::Array(batch)) if self.version() == "2025-03-26" => {
                    for message in &batch {
                        self.observe(message, text);
                    }
                    self.send_replies(deadline)?;
                    return Ok(Some(Value::Array(batch)));
                }
                Ok(message) => {
                    let is_message = self.observe(&message, text);
                    self.send_replies(deadline)?;
                    if is_message {
                        return Ok(Some(message));
                    }
                }
                Err(_) if text.is_empty() => {}
                Err(_) => self.observed.notice(if legacy { "stdout-messages" } else { "modern-stdout-messages" }, text),
            }
        }
        Ok(None)
    }

    /// Judges a message of the server by rules that hold for each, and queues a response to its requests. Returns
    /// whether it is a message.
    fn observe(&mut self, message: &Value, text: &str) -> bool {
        let era = if self.mode == Mode::Mixed { Era::Legacy } else { self.era() };
        if self.mode == Mode::Mixed {
            if !message.is_object() {
                return false;
            }
        } else if !self.observed.judge(message, era, text) {
            return false;
        }
        let id = message.get("id");
        if let Some(method) = message["method"].as_str() {
            if self.mode != Mode::Mixed {
                self.judge_method(method, id.is_some(), text);
            }
            if let Some(id) = id.filter(|_| era == Era::Legacy) {
                let response = match method {
                    "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
                    _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
                };
                if self.reply_count < MAX_REPLIES {
                    self.reply_count += 1;
                    self.replies.push(response);
                }
            }
        } else if let Some(id) = id.filter(|id| !id.is_null()) {
            let check = if self.era() == Era::Legacy { "one-response" } else { "modern-one-response" };
            match self.sent.get_mut(&id.to_string()) {
                Some(has_response @ false) => *has_response = true,
                _ if self.observed.is_lenient => {}
                _ => self.observed.notice(check, text),
            }
        }
        true
    }

    /// Sends the responses that are queued. What a server sends back over HTTP is not read: it may be a request again.
    fn send_replies(&mut self, deadline: Instant) -> Verdict {
        for response in std::mem::take(&mut self.replies) {
            if !self.is_http() {
                self.write_line(response.to_string().as_bytes())?;
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let request = self.http_request(&response);
            self.note(true, &response.to_string());
            if let Wire::Site(site) = &mut self.wire {
                // The request of the check shows whether the server goes on.
                let _ = site.exchange(&request, left);
            }
        }
        Ok(())
    }

    /// Judges a request or a notification of the server.
    fn judge_method(&mut self, method: &str, is_request: bool, text: &str) {
        let is_declared = |capability: &str, member: &str| {
            self.capability(capability).is_some_and(|it| member.is_empty() || it[member] == true)
        };
        let legacy = self.era() == Era::Legacy;
        let check = match method {
            _ if is_request && legacy && method != "ping" && !matches!(self.mode, Mode::Session(_)) => {
                "requests-before-initialized"
            }
            "notifications/progress" => {
                if legacy {
                    "progress-without-token"
                } else {
                    "modern-progress-without-token"
                }
            }
            "notifications/tools/list_changed" if legacy && !is_declared("tools", "listChanged") => {
                "tools-undeclared-changes"
            }
            "notifications/prompts/list_changed" if legacy && !is_declared("prompts", "listChanged") => {
                "prompts-undeclared-changes"
            }
            "notifications/resources/list_changed" if legacy && !is_declared("resources", "listChanged") => {
                "resources-undeclared-changes"
            }
            "notifications/message" if legacy && self.facts.legacy.is_some() && !is_declared("logging", "") => {
                "undeclared-logging"
            }
            "notifications/message" if !legacy && !self.accepts_logging => "modern-unasked-logging",
            _ => return,
        };
        self.observed.notice(check, text);
    }

    /// Notes the ids of requests in bytes that are sent, so that their responses are expected.
    fn expect_ids(&mut self, body: &str) {
        let Ok(value) = serde_json::from_str::<Value>(body) else { return };
        let all = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        let is_response = |message: &&Value| message.get("result").or_else(|| message.get("error")).is_some();
        for id in all.iter().filter(|message| !is_response(message)).filter_map(|message| message.get("id")) {
            self.sent.insert(id.to_string(), false);
        }
    }

    /// Sends a request over HTTP, and reads the response to its end, or a stream until it is silent.
    pub(in crate::check) fn post(&mut self, request: &Request) -> Result<Provoked, Outcome> {
        self.exchange(request, self.timeout, &|message| message.get("method").is_none())
    }

    /// Sends a request and reads the head of the response.
    pub(in crate::check) fn open(&mut self, request: &Request, timeout: Duration) -> Result<Response, Outcome> {
        let lines: String = request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let body = String::from_utf8_lossy(&request.body);
        self.expect_ids(&body);
        self.note(true, &format!("{}\n{lines}\n{body}", request.method));
        let Wire::Site(site) = &mut self.wire else { return not_reachable("the server is not reached over HTTP") };
        let response = site.exchange(request, timeout);
        self.observed.secrets.extend(&site.secrets());
        self.has_no_credentials = response.as_ref().is_err_and(is_own);
        let response = response.or_else(|error| match is_own(&error) {
            true => not_reachable(error.to_string()),
            false => no_response(format!("there is no response: {error}")),
        })?;
        let lines: String = response.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        self.note(false, &format!("{}\n{lines}", response.status));
        Ok(response)
    }

    /// Sends a request over HTTP, and reads until a message is the last one.
    fn exchange(
        &mut self,
        request: &Request,
        timeout: Duration,
        is_last: &dyn Fn(&Value) -> bool,
    ) -> Result<Provoked, Outcome> {
        let response = self.open(request, timeout)?;
        self.read_body(response, timeout, is_last, request.method == "POST")
    }

    /// Reads the body of a response to a message. After the last message of a stream it is read a little longer.
    pub(in crate::check) fn read_response(
        &mut self,
        response: Response,
        timeout: Duration,
        is_last: &dyn Fn(&Value) -> bool,
    ) -> Result<Provoked, Outcome> {
        self.read_body(response, timeout, is_last, true)
    }

    /// Reads a body. Only the response to a message has messages: what a DELETE is answered with may be anything.
    fn read_body(
        &mut self,
        response: Response,
        timeout: Duration,
        is_last: &dyn Fn(&Value) -> bool,
        has_messages: bool,
    ) -> Result<Provoked, Outcome> {
        let Response { status, headers, mut body } = response;
        let is_stream = header(&headers, "content-type").is_some_and(is_event_stream) && has_messages;
        let mut provoked = Provoked { status: Some(status), headers, ..Provoked::default() };
        let mut deadline = Instant::now() + timeout;
        let (mut events, mut bytes) = (Events::default(), Vec::new());
        while bytes.len() < MAX_BODY {
            match body.read(deadline.saturating_duration_since(Instant::now())) {
                Read::Bytes(piece) => {
                    bytes.extend_from_slice(&piece);
                    if is_stream {
                        events.feed(&piece);
                    }
                }
                Read::Silence => break,
                Read::End => {
                    provoked.has_ended = true;
                    break;
                }
                Read::Cut => {
                    provoked.is_cut = true;
                    break;
                }
            }
            while let Some(event) = events.next_event() {
                if self.take_event(event, &mut provoked, is_last) {
                    deadline = deadline.min(Instant::now() + QUIET);
                }
            }
            self.send_replies(deadline)?;
        }
        provoked.body = String::from_utf8_lossy(&bytes).into_owned();
        self.note(false, &provoked.body.clone());
        if !is_stream
            && has_messages
            && let Ok(message) = serde_json::from_slice::<Value>(&bytes)
        {
            for one in message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice) {
                if one.get("jsonrpc").is_some() || status < 400 {
                    self.observe(one, &provoked.body);
                }
            }
            self.send_replies(deadline)?;
            provoked.messages.push(message);
        }
        Ok(provoked)
    }

    /// Takes the message of an event. Returns whether it is the last one.
    fn take_event(&mut self, event: SseEvent, provoked: &mut Provoked, is_last: &dyn Fn(&Value) -> bool) -> bool {
        let mut ends = false;
        let check = if self.era() == Era::Legacy { "sse-data" } else { "modern-sse-data" };
        if let Some(data) = event.data.as_deref().filter(|data| !data.is_empty()) {
            match serde_json::from_str::<Value>(data) {
                Ok(message) if message.is_object() => {
                    self.observe(&message, data);
                    ends = is_last(&message);
                    provoked.messages.push(message);
                }
                Ok(Value::Array(batch)) if self.version() == "2025-03-26" => {
                    for message in &batch {
                        self.observe(message, data);
                    }
                    provoked.messages.push(Value::Array(batch));
                }
                _ => self.observed.notice(check, data),
            }
        }
        // 2026-07-28 has no resumption, so ids of events have no meaning there.
        if let Some(id) = event.id.as_deref().filter(|_| self.era() == Era::Legacy) {
            self.observed.event_id(id);
        }
        provoked.events.push(event);
        ends
    }
}

impl Probe {
    /// Writes a request to a program, whose response is read later.
    pub(in crate::check) fn expect_line(&mut self, message: &Value) -> Verdict {
        self.sent.insert(message["id"].to_string(), false);
        self.write_line(message.to_string().as_bytes())
    }
}

impl Probe {
    /// Notes the id of a request that is sent among others.
    pub(in crate::check) fn expect_id(&mut self, id: &Value) {
        self.sent.insert(id.to_string(), false);
    }

    /// Accepts any response from now on: whether the id of a malformed message can be read is open.
    pub(in crate::check) fn forget_ids(&mut self) {
        self.observed.is_lenient = true;
    }
}
