//! The model: received messages.

use mcp_proto::protocol::{ProtocolVersion, Role};
use serde_json::{Value, json};

use super::{
    call::CallState,
    output::{About, Batch},
    peer::{Model, Phase},
    request::{Request, RequestState},
    step::{AppEvent, CancelSource, Ending},
    table::{may_send, severity},
};

/// The prefix of the methods of notifications.
pub(super) const NOTIFICATIONS: &str = "notifications/";

impl Model {
    /// Handles a received frame.
    pub(super) fn receive(&mut self, frame: &Value) {
        if self.phase == Phase::Closed {
            return;
        }
        let Value::Array(members) = frame else { return self.receive_message(frame, None) };
        // Only one revision has batches. In the others an array is one invalid message.
        if self.revision != ProtocolVersion::V2025_03_26 || self.phase < Phase::Initializing {
            self.respond_directly(&Value::Null, Err(-32600), None);
            return self.violation("Malformed");
        }
        if members.is_empty() {
            self.respond_directly(&Value::Null, Err(-32600), None);
            return self.violation("BatchSize");
        }
        let batch = self.batches.len();
        // The batch is open while its members are read.
        self.batches.push(Some(Batch { answers: Vec::new(), open: 1 }));
        for member in members {
            if self.phase < Phase::Closed {
                self.receive_message(member, Some(batch));
            }
        }
        if let Some(batch) = &mut self.batches[batch] {
            batch.open -= 1;
        }
        self.remove_empty_batches();
    }

    fn receive_message(&mut self, message: &Value, batch: Option<usize>) {
        let (method, id) = (message["method"].as_str(), &message["id"]);
        match method {
            Some(method) if !id.is_null() => self.receive_request(id, method, &message["params"], batch),
            Some(method) => self.receive_notification(method, &message["params"]),
            None if id.is_null() => self.events.push(AppEvent::PeerError(code(message))),
            None => self.receive_response(id, message),
        }
    }

    pub(super) fn violation(&mut self, kind: &str) {
        self.events.push(AppEvent::Violation(kind.to_owned()));
    }

    fn receive_request(&mut self, id: &Value, method: &str, params: &Value, batch: Option<usize>) {
        if self.is_modern() && self.role == Role::Client {
            return self.violation("UnexpectedRequest");
        }
        let is_in_use = |request: &Request| {
            request.id == *id && matches!(request.state, RequestState::Open | RequestState::Answered)
        };
        if self.requests.iter().any(is_in_use) {
            return self.refuse(id, -32600, batch, "DuplicateId");
        }
        if self.is_modern() {
            return self.receive_modern_request(id, method, params);
        }
        if method == "ping" {
            return self.respond_directly(id, Ok(json!({})), batch);
        }
        if method == "initialize" && self.role == Role::Server {
            return self.receive_initialize(id, params, batch);
        }
        if method.starts_with(NOTIFICATIONS) {
            return self.refuse(id, -32600, batch, "WrongKind");
        }
        match self.phase {
            // The peer could not know that the connection is closing.
            Phase::Draining => return self.respond_directly(id, Err(-32603), batch),
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

    fn receive_notification(&mut self, method: &str, params: &Value) {
        match method {
            "notifications/cancelled" => return self.receive_cancelled(&params["requestId"]),
            "notifications/progress" => return self.receive_progress(params),
            "notifications/initialized" if self.role == Role::Server => {
                match self.phase {
                    Phase::Initializing => {
                        self.phase = Phase::Ready;
                        self.events.push(AppEvent::Ready);
                    }
                    Phase::Opening => {
                        self.initialized_early = true;
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
        // The revision makes no difference: an unknown notification is ignored.
        let acknowledges = method == "notifications/subscriptions/acknowledged";
        if !acknowledges && may_send(method, sender, self.revision) == Err("WrongDirection")
            || acknowledges && self.role == Role::Server
        {
            return self.violation("WrongDirection");
        }
        if let Some(id) = params["_meta"].get("io.modelcontextprotocol/subscriptionId")
            && self.is_modern()
            && self.role == Role::Client
            && !self.receive_for_subscription(id, acknowledges)
        {
            return;
        }
        self.events.push(AppEvent::Notification(method.to_owned(), params.clone()));
    }

    fn receive_cancelled(&mut self, id: &Value) {
        if self.is_modern() && self.role == Role::Client {
            return self.receive_subscription_cancelled(id);
        }
        let find = |id: &Value| {
            let wanted = |request: &Request| {
                request.id == *id && matches!(request.state, RequestState::Open | RequestState::Answered)
            };
            self.requests.iter().position(wanted)
        };
        // Some gateways turn numeric ids into strings, or strings into numbers.
        if let Some(index) = find(id).or_else(|| find(&retyped(id)?)) {
            let was_open = self.requests[index].state == RequestState::Open;
            self.withdraw(index);
            if let Some(subscriber) = self.subscribers.iter().position(|subscriber| *subscriber == index) {
                self.subscribers.remove(subscriber);
                self.requests[index].state = RequestState::Done;
                self.note_progress();
                return;
            }
            if was_open {
                self.cancel_delivered(index, CancelSource::Peer);
            }
            // It may have been the last open request.
            self.end_if_drained();
            return;
        }
        // The first response of the connection itself with this id.
        let own = About::DirectResponse(id.clone());
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
        self.remove_empty_batches();
    }

    fn receive_progress(&mut self, params: &Value) {
        let (token, progress) = (params["progressToken"].as_u64(), params["progress"].as_f64());
        let Some(progress) = progress else { return self.violation("BadParams") };
        let Some(token) = token.filter(|token| (1..self.next_id).contains(token)) else {
            return self.violation("UnknownProgress");
        };
        let now = self.now;
        match self.calls.iter_mut().find(|call| call.state != CallState::Done && call.wire == token) {
            Some(call) if call.progress && call.state == CallState::Sent => {
                call.idle_at = call.idle.map(|idle| now + idle).max(call.idle_at);
                let id = call.id;
                self.events.push(AppEvent::Progress(id, progress));
            }
            // The progress crossed the `input_required` result.
            Some(call) if call.state == CallState::Waiting => {}
            Some(_) => self.violation("UnknownProgress"),
            None => {}
        }
    }

    fn receive_response(&mut self, id: &Value, message: &Value) {
        // Some gateways turn numeric ids into strings.
        let number = id.as_u64().or_else(|| retyped(id)?.as_u64());
        let Some(number) = number.filter(|number| (1..self.next_id).contains(number)) else {
            return self.violation("UnknownResponse");
        };
        let found = self.calls.iter().position(|call| call.state != CallState::Done && call.wire == number);
        match found.map(|index| (index, self.calls[index].state)) {
            Some((index, CallState::Sent)) => self.complete_call(index, message),
            // A request that was not sent yet cannot be answered.
            Some((_, CallState::Queued)) => self.violation("UnknownResponse"),
            // A server may end a subscription with both a result and a cancellation.
            Some((index, CallState::Waiting)) if self.calls[index].subscription.is_some() => {}
            // It was answered before.
            Some(_) => self.violation("UnknownResponse"),
            None => self.receive_late_response(number),
        }
    }

    /// Handles a response to a request id without an open call.
    fn receive_late_response(&mut self, number: u64) {
        // The request id of a call is known for its first message only, and while the call is open.
        match self.calls.iter().find(|call| call.state != CallState::Done && call.id == number) {
            Some(call) if call.subscription.is_some() => {}
            Some(_) => self.violation("UnknownResponse"),
            // The application is told if the call is known to it.
            None if self.calls().contains(&number) => self.events.push(AppEvent::Late(number)),
            None => {}
        }
    }

    fn complete_call(&mut self, index: usize, message: &Value) {
        let (id, method) = (self.calls[index].id, self.calls[index].method);
        let ending = match message.get("result") {
            None => Ending::Error(code(message)),
            Some(result) if !result.is_object() => Ending::Malformed,
            Some(result) => {
                if self.is_modern() && self.phase >= Phase::Ready {
                    return self.receive_modern_result(index, result);
                }
                Ending::Result(result.clone())
            }
        };
        self.finish_call(index);
        if method == "initialize" {
            return self.receive_initialize_result(&ending);
        }
        self.events.push(AppEvent::Ended(id, ending));
    }

    fn receive_initialize(&mut self, id: &Value, params: &Value, batch: Option<usize>) {
        if self.phase == Phase::Draining {
            return self.respond_directly(id, Err(-32603), batch);
        }
        if self.phase != Phase::Opening || batch.is_some() {
            return self.refuse(id, -32600, batch, "SecondInitialize");
        }
        if !params["protocolVersion"].is_string() {
            return self.refuse(id, -32602, batch, "BadParams");
        }
        // The requested revision if it is supported, otherwise the newest supported one. The model has only one.
        let revision = self.revision.as_str();
        let message = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": revision}});
        self.control.push((About::Nothing, message));
        self.phase = Phase::Initializing;
        if self.initialized_early {
            self.phase = Phase::Ready;
            self.events.push(AppEvent::Ready);
        }
    }

    fn receive_initialize_result(&mut self, ending: &Ending) {
        let reason = match ending {
            Ending::Result(result) if result["protocolVersion"] == self.revision.as_str() => {
                self.phase = Phase::Ready;
                let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                self.control.push((About::Nothing, initialized));
                return self.events.push(AppEvent::Ready);
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

/// Returns the number that a string spells, or the string that spells a number.
fn retyped(id: &Value) -> Option<Value> {
    match id {
        Value::String(text) => text.parse::<u64>().ok().filter(|number| number.to_string() == *text).map(Value::from),
        number => Some(json!(number.to_string())),
    }
}
