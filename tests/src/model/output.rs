//! The model: what waits to be written.

use mcp_proto::protocol::Role;
use serde_json::{Value, json};

use super::{call::CallState, peer::Model, request::RequestState};

/// What a frame is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum About {
    Nothing,
    /// It answers a request that never reached the application.
    OwnAnswer(Value),
    /// It belongs to a request that the application has.
    Reply {
        request: usize,
        last: bool,
    },
    /// It is the request of a call.
    Call(u64),
}

/// The answers of a batch.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) answers: Vec<(About, Value)>,
    pub(super) open: usize,
}

impl Model {
    pub(super) fn tell(&mut self, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // A reason is for people.
        message["params"].as_object_mut().expect("params are an object").remove("reason");
        self.control.push((About::Nothing, message));
    }

    /// The connection answers by itself.
    pub(super) fn own_answer(&mut self, id: &Value, answer: Result<Value, i64>, batch: Option<usize>) {
        if self.is_modern() && self.role == Role::Client {
            // Its servers ask nothing, and it answers nothing.
            return;
        }
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match answer {
            Ok(result) => message["result"] = result,
            Err(code) => message["error"] = json!({"code": code}),
        }
        let about = if id.is_null() { About::Nothing } else { About::OwnAnswer(id.clone()) };
        match batch.and_then(|batch| self.batches[batch].as_mut()) {
            Some(batch) => batch.answers.push((about, message)),
            None => self.control.push((about, message)),
        }
    }

    /// A request that is not let in.
    pub(super) fn refuse(&mut self, id: &Value, code: i64, batch: Option<usize>, violation: &str) {
        self.own_answer(id, Err(code), batch);
        self.violation(violation);
    }

    /// The frames of which one is to be sent next. There are several only if several batches are complete.
    #[must_use]
    pub fn sendable(&self) -> Vec<Value> {
        let mut model = self.clone();
        model.announce();
        if let Some((_, message)) = model.control.first() {
            return vec![message.clone()];
        }
        let complete = model.batches.iter().flatten().filter(|batch| batch.open == 0);
        let batches: Vec<Value> = complete.map(Batch::message).collect();
        if !batches.is_empty() {
            return batches;
        }
        model.asking.first().map(|(_, message)| message.clone()).into_iter().collect()
    }

    /// A list that changed is announced when output is asked for.
    fn announce(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        for listener in self.listeners.clone() {
            self.tell_listener(listener, "notifications/tools/list_changed", json!({}));
        }
        if !self.is_modern() {
            let list = if self.role == Role::Server { "tools" } else { "roots" };
            let method = format!("notifications/{list}/list_changed");
            self.control.push((About::Nothing, json!({"jsonrpc": "2.0", "method": method})));
        }
    }

    /// A frame, one of those that can be, was sent.
    pub fn sent(&mut self, message: &Value) {
        self.announce();
        self.progressed();
        if !self.control.is_empty() {
            if let (About::Reply { request, last: true }, _) = self.control.remove(0) {
                self.requests[request].state = RequestState::Gone;
            }
            return;
        }
        let is_it = |batch: &Batch| batch.open == 0 && batch.message() == *message;
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.as_ref().is_some_and(is_it)) {
            for (about, _) in batch.take().into_iter().flat_map(|batch| batch.answers) {
                if let About::Reply { request, .. } = about {
                    self.requests[request].state = RequestState::Gone;
                }
            }
            return;
        }
        if let (About::Call(id), _) = self.asking.remove(0) {
            for call in self.calls.iter_mut().filter(|call| call.id == id) {
                call.state = CallState::Sent;
            }
        }
    }

    /// A batch in which no answer is owed leaves nothing.
    pub(super) fn tidy(&mut self) {
        for batch in &mut self.batches {
            batch.take_if(|batch| batch.open == 0 && batch.answers.is_empty());
        }
    }
}

impl Batch {
    /// The frame of a batch. Its members are sorted: their order is free.
    fn message(&self) -> Value {
        let mut members: Vec<Value> = self.answers.iter().map(|(_, message)| message.clone()).collect();
        members.sort_by_key(ToString::to_string);
        Value::Array(members)
    }
}
