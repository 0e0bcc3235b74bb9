//! The model: calls of this side.

use mcp_proto::protocol::ProtocolVersion;
use serde_json::{Value, json};

use super::{
    output::About,
    peer::{Model, Phase},
    rounds::InputRound,
    step::{AppEvent, Ending, params_of},
    subscriptions::Subscription,
    table::{CALLS, may_send},
};

/// A request of this side.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Its id for the application.
    pub(super) id: u64,
    /// The request id of its latest message.
    pub(super) wire: u64,
    pub(super) method: &'static str,
    pub(super) progress: bool,
    pub(super) state: CallState,
    pub(super) idle: Option<u64>,
    pub(super) idle_at: Option<u64>,
    pub(super) total_at: Option<u64>,
    /// The state of its `input_required` rounds.
    pub(super) round: InputRound,
    /// The subscription that it opens.
    pub(super) subscription: Option<Subscription>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// Its request is queued.
    Queued,
    /// Its request was written.
    Sent,
    /// It was answered with `input_required` and will be sent again.
    Waiting,
    /// It has ended.
    Done,
}

impl Model {
    pub(super) fn live(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.state != CallState::Done)
    }

    pub(super) fn send_request(
        &mut self,
        method: &'static str,
        progress: bool,
        idle: Option<u64>,
        total: Option<u64>,
        resubscribe: bool,
    ) -> Result<(), &'static str> {
        match self.phase {
            Phase::Draining | Phase::Closed => return Err("Closed"),
            // Pings exist in sessions only.
            Phase::Opening | Phase::Initializing if method != "ping" || self.is_modern() => return Err("NotReady"),
            _ => {}
        }
        // Before the negotiation, the rules of sessions apply.
        let revision = if self.phase < Phase::Ready { ProtocolVersion::LATEST_LEGACY } else { self.revision };
        may_send(method, self.role, revision)?;
        if self.live().count() >= CALLS {
            return Err("Busy");
        }
        let params = params_of(method);
        let subscription =
            (method == "subscriptions/listen").then(|| Subscription { resubscribe, ..Subscription::default() });
        // A ping has no params, and a subscription has no progress.
        self.begin(method, params, progress && method != "ping" && subscription.is_none(), idle, total);
        self.calls.last_mut().expect("it was begun").subscription = subscription;
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
        let (state, round) = (CallState::Queued, InputRound::default());
        let subscription = None;
        self.calls.push(Call { id, wire: id, method, progress, state, idle, idle_at, total_at, round, subscription });
        let message = self.request(id, method, params, progress);
        self.request_queue.push((About::Call(id), message));
    }

    /// Returns the frame of a request.
    pub(super) fn request(&self, wire: u64, method: &str, mut params: Value, progress: bool) -> Value {
        let has_client_meta = self.is_modern() && self.phase >= Phase::Ready;
        if progress {
            params["_meta"]["progressToken"] = json!(wire);
        }
        if has_client_meta {
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
        let Some(index) = self.calls.iter().position(|call| call.id == id && call.state != CallState::Done) else {
            return Err("UnknownCall");
        };
        self.abandon(index);
        self.events.push(AppEvent::Ended(id, Ending::Cancelled));
        Ok(())
    }

    /// Ends a call without a response. If its request was sent, the peer receives a cancellation.
    pub(super) fn abandon(&mut self, index: usize) {
        let (id, wire, state) = (self.calls[index].id, self.calls[index].wire, self.calls[index].state);
        self.drop_input_requests(id);
        self.finish_call(index);
        match state {
            CallState::Queued => self.request_queue.retain(|(about, _)| *about != About::Call(id)),
            CallState::Sent => self.send_notification("notifications/cancelled", json!({"requestId": wire})),
            CallState::Waiting | CallState::Done => {}
        }
    }

    /// Ends a call.
    pub(super) fn finish_call(&mut self, index: usize) {
        let call = &mut self.calls[index];
        (call.state, call.round) = (CallState::Done, InputRound::default());
    }

    pub(super) fn end_calls(&mut self) {
        self.request_queue.clear();
        for index in 0..self.calls.len() {
            let (id, method, state) = (self.calls[index].id, self.calls[index].method, self.calls[index].state);
            if state != CallState::Done {
                self.drop_input_requests(id);
                self.finish_call(index);
                if method != "initialize" {
                    self.events.push(AppEvent::Ended(id, Ending::Closed));
                }
            }
        }
    }

    /// Returns the call whose deadline passed first.
    pub(super) fn next_to_expire(&self) -> Option<(u64, usize)> {
        let deadline = |call: &Call| call.idle_at.into_iter().chain(call.total_at).min();
        let live = self.calls.iter().enumerate().filter(|(_, call)| call.state != CallState::Done);
        let due = live.filter_map(|(index, call)| Some((deadline(call)?, call.id, index)));
        due.filter(|(at, ..)| *at <= self.now).min().map(|(at, _, index)| (at, index))
    }

    /// Sends the calls again whose pause is over.
    pub(super) fn send_due(&mut self) {
        loop {
            let due = |(index, call): (usize, &Call)| Some((call.round.due?, call.id, index));
            let next = self.calls.iter().enumerate().filter_map(due).min();
            let Some((_, _, index)) = next.filter(|(at, ..)| *at <= self.now) else { return };
            self.send_again(index);
        }
    }

    /// Sends a call again under a new id, with the state and the responses of the latest round.
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
        self.request_queue.push((About::Call(call.id), message));
    }
}
