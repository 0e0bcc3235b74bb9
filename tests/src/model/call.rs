//! The model: requests of its own.

use mcp_proto::protocol::ProtocolVersion;
use serde_json::{Value, json};

use super::{
    listening::Listening,
    output::About,
    peer::{Model, Phase},
    rounds::Round,
    step::{Ending, Seen, params_of},
    table::{CALLS, may_send},
};

/// A request of this side.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// What its application knows it by.
    pub(super) id: u64,
    /// The id that it was last sent under.
    pub(super) wire: u64,
    pub(super) method: &'static str,
    pub(super) progress: bool,
    pub(super) state: CallState,
    pub(super) idle: Option<u64>,
    pub(super) idle_at: Option<u64>,
    pub(super) total_at: Option<u64>,
    /// What it was answered with instead of a result.
    pub(super) round: Round,
    /// The subscription that it opens.
    pub(super) listening: Option<Listening>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// Its request waits to be written.
    Queued,
    /// Its request was written.
    Sent,
    /// It was answered with questions, or put off, and is to be sent again.
    Waits,
    /// It has ended.
    Over,
}

impl Model {
    pub(super) fn live(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.state != CallState::Over)
    }

    pub(super) fn ask(
        &mut self,
        method: &'static str,
        progress: bool,
        idle: Option<u64>,
        total: Option<u64>,
        again: bool,
    ) -> Result<(), &'static str> {
        match self.phase {
            Phase::Draining | Phase::Closed => return Err("Closed"),
            // Only sessions have pings.
            Phase::Opening | Phase::Initializing if method != "ping" || self.is_modern() => return Err("NotReady"),
            _ => {}
        }
        // Before a revision is agreed on, it is that of a session.
        let revision = if self.phase < Phase::Ready { ProtocolVersion::LATEST_LEGACY } else { self.revision };
        may_send(method, self.role, revision)?;
        if self.live().count() >= CALLS {
            return Err("Busy");
        }
        let params = params_of(method);
        let listening = (method == "subscriptions/listen").then(|| Listening { again, ..Listening::default() });
        // A ping carries nothing but itself, and a subscription makes no progress.
        self.begin(method, params, progress && method != "ping" && listening.is_none(), idle, total);
        self.calls.last_mut().expect("it was begun").listening = listening;
        Ok(())
    }

    pub(super) fn begin(
        &mut self,
        method: &'static str,
        params: Value,
        progress: bool,
        idle: Option<u64>,
        total: Option<u64>,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        let (idle_at, total_at) = (idle.map(|idle| self.now + idle), total.map(|total| self.now + total));
        let (state, round) = (CallState::Queued, Round::default());
        let listening = None;
        self.calls.push(Call { id, wire: id, method, progress, state, idle, idle_at, total_at, round, listening });
        let message = self.request(id, method, params, progress);
        self.asking.push((About::Call(id), message));
    }

    /// The frame of a request.
    pub(super) fn request(&self, wire: u64, method: &str, mut params: Value, progress: bool) -> Value {
        let dressed = self.is_modern() && self.phase >= Phase::Ready;
        if progress {
            params["_meta"]["progressToken"] = json!(wire);
        }
        if dressed {
            for key in ["protocolVersion", "clientInfo", "clientCapabilities"] {
                params["_meta"][format!("io.modelcontextprotocol/{key}")] = json!("…");
            }
        }
        let mut message = json!({"jsonrpc": "2.0", "id": wire, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        message
    }

    pub(super) fn cancel(&mut self, id: u64) -> Result<(), &'static str> {
        let Some(index) = self.calls.iter().position(|call| call.id == id && call.state != CallState::Over) else {
            return Err("UnknownCall");
        };
        self.give_up(index);
        self.events.push(Seen::Ended(id, Ending::Cancelled));
        Ok(())
    }

    /// A call ends without an answer. A peer that has heard of it and not answered is told.
    pub(super) fn give_up(&mut self, index: usize) {
        let (id, wire, state) = (self.calls[index].id, self.calls[index].wire, self.calls[index].state);
        self.drop_questions(id);
        self.over(index);
        match state {
            CallState::Queued => self.asking.retain(|(about, _)| *about != About::Call(id)),
            CallState::Sent => self.tell("notifications/cancelled", json!({"requestId": wire})),
            CallState::Waits | CallState::Over => {}
        }
    }

    /// A call has ended.
    pub(super) fn over(&mut self, index: usize) {
        let call = &mut self.calls[index];
        (call.state, call.round) = (CallState::Over, Round::default());
    }

    pub(super) fn end_calls(&mut self) {
        self.asking.clear();
        for index in 0..self.calls.len() {
            let (id, method, state) = (self.calls[index].id, self.calls[index].method, self.calls[index].state);
            if state != CallState::Over {
                self.drop_questions(id);
                self.over(index);
                if method != "initialize" {
                    self.events.push(Seen::Ended(id, Ending::Closed));
                }
            }
        }
    }

    /// The call whose time was up first.
    pub(super) fn next_to_expire(&self) -> Option<(u64, usize)> {
        let deadline = |call: &Call| call.idle_at.into_iter().chain(call.total_at).min();
        let live = self.calls.iter().enumerate().filter(|(_, call)| call.state != CallState::Over);
        let due = live.filter_map(|(index, call)| Some((deadline(call)?, call.id, index)));
        due.filter(|(at, ..)| *at <= self.now).min().map(|(at, _, index)| (at, index))
    }

    /// What was put off and is due is sent again.
    pub(super) fn send_due(&mut self) {
        loop {
            let due = |(index, call): (usize, &Call)| Some((call.round.due?, call.id, index));
            let next = self.calls.iter().enumerate().filter_map(due).min();
            let Some((_, _, index)) = next.filter(|(at, ..)| *at <= self.now) else { return };
            self.send_again(index);
        }
    }

    /// A call is sent again under a new id, with the state and the answers of the latest round.
    pub(super) fn send_again(&mut self, index: usize) {
        let wire = self.next_id;
        self.next_id += 1;
        let call = &mut self.calls[index];
        (call.wire, call.state, call.round.due) = (wire, CallState::Queued, None);
        call.idle_at = call.idle.map(|idle| self.now + idle);
        let call = call.clone();
        let mut params = params_of(call.method);
        if let Some(state) = call.round.state {
            params["requestState"] = state;
        }
        for (name, answer) in call.round.answers {
            params["inputResponses"][name] = answer.expect("all are answered");
        }
        let message = self.request(wire, call.method, params, call.progress);
        self.asking.push((About::Call(call.id), message));
    }
}
