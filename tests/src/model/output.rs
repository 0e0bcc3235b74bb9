//! The model: queued output.

use mcp_proto::protocol::Role;
use serde_json::{Value, json};

use super::{call::CallState, peer::Model, request::RequestState};

/// The subject of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum About {
    Nothing,
    /// It responds to a request that did not reach the application.
    DirectResponse(Value),
    /// It belongs to a request that the application received.
    Reply {
        request: usize,
        last: bool,
    },
    /// It is the request of a call.
    Call(u64),
}

/// The responses of a batch.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) answers: Vec<(About, Value)>,
    pub(super) open: usize,
}

impl Model {
    pub(super) fn send_notification(&mut self, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // The reason is human-readable text, which the model does not compare.
        message["params"].as_object_mut().expect("params are an object").remove("reason");
        self.control.push((About::Nothing, message));
    }

    /// Queues a response of the connection itself.
    pub(super) fn respond_directly(&mut self, id: &Value, answer: Result<Value, i64>, batch: Option<usize>) {
        if self.is_modern() && self.role == Role::Client {
            // A client of the modern era receives no requests and sends no responses.
            return;
        }
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match answer {
            Ok(result) => message["result"] = result,
            Err(code) => message["error"] = json!({"code": code}),
        }
        let about = if id.is_null() { About::Nothing } else { About::DirectResponse(id.clone()) };
        match batch.and_then(|batch| self.batches[batch].as_mut()) {
            Some(batch) => batch.answers.push((about, message)),
            None => self.control.push((about, message)),
        }
    }

    /// Rejects a request.
    pub(super) fn refuse(&mut self, id: &Value, code: i64, batch: Option<usize>, violation: &str) {
        self.respond_directly(id, Err(code), batch);
        self.violation(violation);
    }

    /// Returns the frames of which one is sent next. There are several only if several batches are complete.
    #[must_use]
    pub fn sendable(&self) -> Vec<Value> {
        let mut model = self.clone();
        model.queue_list_changes();
        if let Some((_, message)) = model.control.first() {
            return vec![message.clone()];
        }
        let complete = model.batches.iter().flatten().filter(|batch| batch.open == 0);
        let batches: Vec<Value> = complete.map(Batch::message).collect();
        if !batches.is_empty() {
            return batches;
        }
        model.request_queue.first().map(|(_, message)| message.clone()).into_iter().collect()
    }

    /// Queues the notification of a changed list: before a response, and when output is polled.
    pub(super) fn queue_list_changes(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        for subscriber in self.subscribers.clone() {
            self.notify_subscriber(subscriber, "notifications/tools/list_changed", json!({}));
        }
        if !self.is_modern() {
            let list = if self.role == Role::Server { "tools" } else { "roots" };
            let method = format!("notifications/{list}/list_changed");
            self.control.push((About::Nothing, json!({"jsonrpc": "2.0", "method": method})));
        }
    }

    /// Records that one of the sendable frames was sent.
    pub fn sent(&mut self, message: &Value) {
        self.queue_list_changes();
        self.note_progress();
        if !self.control.is_empty() {
            if let (About::Reply { request, last: true }, _) = self.control.remove(0) {
                self.requests[request].state = RequestState::Done;
            }
            return;
        }
        let is_it = |batch: &Batch| batch.open == 0 && batch.message() == *message;
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.as_ref().is_some_and(is_it)) {
            for (about, _) in batch.take().into_iter().flat_map(|batch| batch.answers) {
                if let About::Reply { request, .. } = about {
                    self.requests[request].state = RequestState::Done;
                }
            }
            return;
        }
        if let (About::Call(id), _) = self.request_queue.remove(0) {
            for call in self.calls.iter_mut().filter(|call| call.id == id) {
                call.state = CallState::Sent;
            }
        }
    }

    /// Removes complete batches without responses.
    pub(super) fn remove_empty_batches(&mut self) {
        for batch in &mut self.batches {
            batch.take_if(|batch| batch.open == 0 && batch.answers.is_empty());
        }
    }
}

impl Batch {
    /// Returns the frame of a batch. The members are sorted, because their order is free.
    fn message(&self) -> Value {
        let mut members: Vec<Value> = self.answers.iter().map(|(_, message)| message.clone()).collect();
        members.sort_by_key(ToString::to_string);
        Value::Array(members)
    }
}
