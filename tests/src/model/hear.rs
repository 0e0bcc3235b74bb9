//! The model: what comes in.

use mcp_proto::protocol::{ProtocolVersion, Role};
use serde_json::{Value, json};

use super::{
    call::CallState,
    output::{About, Batch},
    peer::{Model, Phase},
    request::{Request, RequestState},
    step::{By, Ending, Seen},
    table::{may_send, severity},
};

/// The methods of notifications, as far as the model goes.
pub(super) const NOTIFICATIONS: &str = "notifications/";

impl Model {
    /// A frame comes in.
    pub(super) fn hear(&mut self, frame: &Value) {
        if self.phase == Phase::Closed {
            return;
        }
        let Value::Array(members) = frame else { return self.hear_message(frame, None) };
        // Only one revision has batches; elsewhere an array is one bad message.
        if self.revision != ProtocolVersion::V2025_03_26 || self.phase < Phase::Initializing {
            self.own_answer(&Value::Null, Err(-32600), None);
            return self.violation("Malformed");
        }
        if members.is_empty() {
            self.own_answer(&Value::Null, Err(-32600), None);
            return self.violation("BatchSize");
        }
        let batch = self.batches.len();
        // It is open while it is read.
        self.batches.push(Some(Batch { answers: Vec::new(), open: 1 }));
        for member in members {
            if self.phase < Phase::Closed {
                self.hear_message(member, Some(batch));
            }
        }
        if let Some(batch) = &mut self.batches[batch] {
            batch.open -= 1;
        }
        self.tidy();
    }

    fn hear_message(&mut self, message: &Value, batch: Option<usize>) {
        let (method, id) = (message["method"].as_str(), &message["id"]);
        match method {
            Some(method) if !id.is_null() => self.hear_request(id, method, &message["params"], batch),
            Some(method) => self.hear_notification(method, &message["params"]),
            None if id.is_null() => self.events.push(Seen::PeerError(code(message))),
            None => self.hear_answer(id, message),
        }
    }

    pub(super) fn violation(&mut self, kind: &str) {
        self.events.push(Seen::Violation(kind.to_owned()));
    }

    fn hear_request(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) {
        if self.is_modern() && self.role == Role::Client {
            return self.violation("UnexpectedRequest");
        }
        let taken = |request: &Request| {
            request.id == *id && matches!(request.state, RequestState::Open | RequestState::Answered)
        };
        if self.requests.iter().any(taken) {
            return self.refuse(id, -32600, batch, "DuplicateId");
        }
        if self.is_modern() {
            return self.hear_modern_request(id, method, params);
        }
        if method == "ping" {
            return self.own_answer(id, Ok(json!({})), batch);
        }
        if method == "initialize" && self.role == Role::Server {
            return self.hear_initialize(id, params, batch);
        }
        if method.starts_with(NOTIFICATIONS) {
            return self.refuse(id, -32600, batch, "WrongKind");
        }
        match self.phase {
            // It could not know.
            Phase::Draining => return self.own_answer(id, Err(-32603), batch),
            Phase::Opening => return self.refuse(id, -32600, batch, "NotReady"),
            _ => {}
        }
        if method == "initialize" {
            return self.refuse(id, -32601, batch, "WrongDirection");
        }
        let sender = if self.role == Role::Client { Role::Server } else { Role::Client };
        match may_send(method, sender, self.revision) {
            Ok(()) => {}
            Err("WrongDirection") => return self.refuse(id, -32601, batch, "WrongDirection"),
            Err(_) => return self.refuse(id, -32601, batch, "NotSupported"),
        }
        let level = (method == "logging/setLevel").then(|| severity(params["level"].as_str().expect("a level")));
        if let Some(request) = self.admit(id, method, params, batch)
            && let Some(level) = level
        {
            self.levels.push((request, level));
        }
    }

    fn hear_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/cancelled" => return self.hear_cancelled(&params["requestId"]),
            "notifications/progress" => return self.hear_progress(params),
            "notifications/initialized" if self.role == Role::Server => {
                match self.phase {
                    Phase::Initializing => {
                        self.phase = Phase::Ready;
                        self.events.push(Seen::Ready);
                    }
                    Phase::Opening => {
                        self.overtaken = true;
                        self.violation("NotReady");
                    }
                    _ => {}
                }
                return;
            }
            _ => {}
        }
        if !method.starts_with(NOTIFICATIONS) && !method.starts_with("x/") {
            return self.violation("WrongKind");
        }
        let sender = if self.role == Role::Client { Role::Server } else { Role::Client };
        // Whether it is of this revision makes no difference: a notification can be ignored.
        let acknowledges = method == "notifications/subscriptions/acknowledged";
        if !acknowledges && may_send(method, sender, self.revision) == Err("WrongDirection")
            || acknowledges && self.role == Role::Server
        {
            return self.violation("WrongDirection");
        }
        if let Some(id) = params["_meta"].get("io.modelcontextprotocol/subscriptionId")
            && self.is_modern()
            && self.role == Role::Client
            && !self.hear_of_subscription(id, acknowledges)
        {
            return;
        }
        self.events.push(Seen::Notification(method.to_owned(), params.clone()));
    }

    fn hear_cancelled(&mut self, id: &Value) {
        if self.is_modern() && self.role == Role::Client {
            return self.hear_subscription_cancelled(id);
        }
        let find = |id: &Value| {
            let wanted = |request: &Request| {
                request.id == *id && matches!(request.state, RequestState::Open | RequestState::Answered)
            };
            self.requests.iter().position(wanted)
        };
        // Some gateways make texts of numbers, or the other way round.
        if let Some(index) = find(id).or_else(|| find(&retyped(id)?)) {
            let was_open = self.requests[index].state == RequestState::Open;
            self.withdraw(index);
            if let Some(listener) = self.listeners.iter().position(|listener| *listener == index) {
                self.listeners.remove(listener);
                self.requests[index].state = RequestState::Gone;
                self.progressed();
                return;
            }
            if was_open {
                self.unhand(index, By::Peer);
            }
            // It may have been the last one.
            self.end_if_drained();
            return;
        }
        // The first answer of the connection itself that is for it.
        let own = About::OwnAnswer(id.clone());
        if let Some(at) = self.control.iter().position(|(about, _)| *about == own) {
            self.control.remove(at);
            return;
        }
        for batch in self.batches.iter_mut().flatten() {
            if let Some(at) = batch.answers.iter().position(|(about, _)| *about == own) {
                batch.answers.remove(at);
                break;
            }
        }
        self.tidy();
    }

    fn hear_progress(&mut self, params: &Value) {
        let (token, progress) = (params["progressToken"].as_u64(), params["progress"].as_f64());
        let Some(progress) = progress else { return self.violation("BadParams") };
        let Some(token) = token.filter(|token| (1..self.next_id).contains(token)) else {
            return self.violation("UnknownProgress");
        };
        let now = self.now;
        match self.calls.iter_mut().find(|call| call.state != CallState::Over && call.wire == token) {
            Some(call) if call.progress && call.state == CallState::Sent => {
                call.idle_at = call.idle.map(|idle| now + idle).max(call.idle_at);
                let id = call.id;
                self.events.push(Seen::Progress(id, progress));
            }
            // It was answered, and crossed that.
            Some(call) if call.state == CallState::Waits => {}
            Some(_) => self.violation("UnknownProgress"),
            None => {}
        }
    }

    fn hear_answer(&mut self, id: &Value, message: &Value) {
        // Some gateways make texts of numbers.
        let number = id.as_u64().or_else(|| retyped(id)?.as_u64());
        let Some(number) = number.filter(|number| (1..self.next_id).contains(number)) else {
            return self.violation("UnknownResponse");
        };
        let found = self.calls.iter().position(|call| call.state != CallState::Over && call.wire == number);
        match found.map(|index| (index, self.calls[index].state)) {
            Some((index, CallState::Sent)) => self.answered(index, message),
            // What was not asked yet cannot be answered.
            Some((_, CallState::Queued)) => self.violation("UnknownResponse"),
            // A server may end a subscription by its result and by taking the request back.
            Some((index, CallState::Waits)) if self.calls[index].listening.is_some() => {}
            // It was answered before.
            Some(_) => self.violation("UnknownResponse"),
            None => self.hear_late(number),
        }
    }

    /// An answer that is not waited for, to a request with this id.
    fn hear_late(&mut self, number: u64) {
        // Which call has had an id is remembered only of its first one, and while it goes on.
        match self.calls.iter().find(|call| call.state != CallState::Over && call.id == number) {
            Some(call) if call.listening.is_some() => {}
            Some(_) => self.violation("UnknownResponse"),
            // It is told if the application knows of such a call.
            None if self.calls().contains(&number) => self.events.push(Seen::Late(number)),
            None => {}
        }
    }

    fn answered(&mut self, index: usize, message: &Value) {
        let (id, method) = (self.calls[index].id, self.calls[index].method);
        let ending = match message.get("result") {
            None => Ending::Error(code(message)),
            Some(result) if !result.is_object() => Ending::Malformed,
            Some(result) => {
                if self.is_modern() && self.phase >= Phase::Ready {
                    return self.hear_modern_result(index, result);
                }
                Ending::Result(result.clone())
            }
        };
        self.over(index);
        if method == "initialize" {
            return self.hear_server(&ending);
        }
        self.events.push(Seen::Ended(id, ending));
    }

    fn hear_initialize(&mut self, id: &Value, params: &Value, batch: Option<usize>) {
        if self.phase == Phase::Draining {
            return self.own_answer(id, Err(-32603), batch);
        }
        if self.phase != Phase::Opening || batch.is_some() {
            return self.refuse(id, -32600, batch, "SecondInitialize");
        }
        if !params["protocolVersion"].is_string() {
            return self.refuse(id, -32602, batch, "BadParams");
        }
        // The revision that was asked for if it is spoken, else the newest that is: there is one.
        let revision = self.revision.as_str();
        let message = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": revision}});
        self.control.push((About::Nothing, message));
        self.phase = Phase::Initializing;
        if self.overtaken {
            self.phase = Phase::Ready;
            self.events.push(Seen::Ready);
        }
    }

    fn hear_server(&mut self, ending: &Ending) {
        let reason = match ending {
            Ending::Result(result) if result["protocolVersion"] == self.revision.as_str() => {
                self.phase = Phase::Ready;
                let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                self.control.push((About::Nothing, initialized));
                return self.events.push(Seen::Ready);
            }
            Ending::Result(result) if result["protocolVersion"].is_string() => "UnsupportedVersion",
            Ending::Error(_) => "Refused",
            _ => "BadHandshake",
        };
        self.end(reason);
    }
}

fn code(message: &Value) -> i64 {
    message["error"]["code"].as_i64().expect("errors have a code")
}

/// The number that a text spells, or the text that spells a number.
fn retyped(id: &Value) -> Option<Value> {
    match id {
        Value::String(text) => text.parse::<u64>().ok().filter(|number| number.to_string() == *text).map(Value::from),
        number => Some(json!(number.to_string())),
    }
}
