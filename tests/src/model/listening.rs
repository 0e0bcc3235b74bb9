//! The model: subscriptions of 2026-07-28, as both sides see them.

use serde_json::{Value, json};

use super::{
    call::{Call, CallState},
    modern::META,
    output::About,
    peer::Model,
    request::RequestState,
    step::{Ending, Seen},
    table::{LONGEST, RESUBSCRIPTIONS},
};

/// A subscription of this side.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening {
    /// It is opened again when the other side ends it.
    pub(super) again: bool,
    /// The other side has acknowledged it, and not ended it since.
    pub(super) acknowledged: bool,
    /// When it was acknowledged.
    pub(super) since: Option<u64>,
    /// How often in a row it was ended.
    pub(super) count: u32,
}

impl Model {
    /// Tells the client that opened a subscription, by its id.
    pub(super) fn tell_listener(&mut self, listener: usize, method: &str, mut params: Value) {
        params["_meta"] = json!({format!("{META}subscriptionId"): self.requests[listener].id});
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.control.push((About::Reply { request: listener, last: false }, message));
    }

    /// Every subscription ends with its result, and with the cancellation that some clients wait for.
    pub(super) fn end_subscriptions(&mut self) {
        for listener in std::mem::take(&mut self.listeners) {
            let id = self.requests[listener].id.clone();
            let meta = json!({format!("{META}subscriptionId"): id, format!("{META}serverInfo"): "…"});
            let result = json!({"resultType": "complete", "_meta": meta});
            let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
            self.requests[listener].state = RequestState::Answered;
            self.control.push((About::Reply { request: listener, last: true }, message));
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            self.control.push((About::Nothing, cancelled));
        }
    }

    /// Something is said for a subscription. Whether it is for the application.
    pub(super) fn hear_of_subscription(&mut self, id: &Value, acknowledged: bool) -> bool {
        let number = id.as_u64().filter(|number| (1..self.next_id).contains(number));
        let call = self.calls.iter_mut().find(|call| call.state != CallState::Over && Some(call.wire) == number);
        let Some(call) = call.filter(|call| call.state != CallState::Waits) else {
            // It may have crossed the end.
            if number.is_none() {
                self.violation("UnknownSubscription");
            }
            return false;
        };
        match &mut call.listening {
            Some(listening) if call.state == CallState::Sent => {
                if acknowledged {
                    (listening.acknowledged, listening.since) = (true, Some(self.now));
                    // It is answered only when it ends.
                    (call.idle_at, call.total_at) = (None, None);
                } else if !listening.acknowledged {
                    self.violation("Unacknowledged");
                    return false;
                }
                true
            }
            _ => {
                self.violation("UnknownSubscription");
                false
            }
        }
    }

    /// The server ends a subscription. It cancels nothing else.
    pub(super) fn hear_subscription_cancelled(&mut self, id: &Value) {
        let named = |call: &Call| call.state == CallState::Sent && json!(call.wire) == *id;
        let Some(index) = self.calls.iter().position(named) else { return };
        if self.calls[index].listening.is_none() {
            return self.violation("WrongDirection");
        }
        self.subscription_ended(index, Ending::Cancelled);
    }

    /// The server has ended a subscription, which may be opened again after a pause.
    pub(super) fn subscription_ended(&mut self, index: usize, ending: Ending) {
        let (id, now) = (self.calls[index].id, self.now);
        if let Some(listening) = self.calls[index].listening.as_mut().filter(|listening| listening.again) {
            // What has lasted was no mistake.
            let lasted = listening.since.is_some_and(|since| now - since >= LONGEST);
            listening.count = if lasted { 1 } else { listening.count + 1 };
            (listening.acknowledged, listening.since) = (false, None);
            if listening.count <= RESUBSCRIPTIONS {
                let pause = 250 << (listening.count - 1);
                self.calls[index].state = CallState::Waits;
                self.calls[index].idle_at = None;
                self.calls[index].round.due = Some(now + pause);
                return;
            }
        }
        self.over(index);
        self.events.push(Seen::Ended(id, ending));
    }
}
