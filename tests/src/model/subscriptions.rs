//! The model: subscriptions of 2026-07-28, on both sides.

use serde_json::{Value, json};

use super::{
    call::{Call, CallState},
    modern::META,
    output::About,
    peer::Model,
    request::RequestState,
    step::{AppEvent, Ending},
    table::{LONGEST, RESUBSCRIPTIONS},
};

/// A subscription of this side.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscription {
    /// The client opens it again after the other side has ended it.
    pub(super) resubscribe: bool,
    /// The other side has acknowledged it and not ended it since.
    pub(super) acknowledged: bool,
    /// When it was acknowledged.
    pub(super) since: Option<u64>,
    /// How often in a row it has ended.
    pub(super) count: u32,
}

impl Model {
    /// Queues a notification of a subscription for its client.
    pub(super) fn notify_subscriber(&mut self, subscriber: usize, method: &str, mut params: Value) {
        params["_meta"] = json!({format!("{META}subscriptionId"): self.requests[subscriber].id});
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.control.push((About::Reply { request: subscriber, last: false }, message));
    }

    /// Ends all subscriptions: with the result, and with a cancellation that some clients wait for.
    pub(super) fn end_subscriptions(&mut self) {
        for subscriber in std::mem::take(&mut self.subscribers) {
            let id = self.requests[subscriber].id.clone();
            let meta = json!({format!("{META}subscriptionId"): id, format!("{META}serverInfo"): "…"});
            let result = json!({"resultType": "complete", "_meta": meta});
            let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
            self.requests[subscriber].state = RequestState::Answered;
            self.control.push((About::Reply { request: subscriber, last: true }, message));
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            // It is withdrawn with the result.
            self.control.push((About::Reply { request: subscriber, last: false }, cancelled));
        }
    }

    /// Handles a notification of a subscription. Returns whether it is delivered to the application.
    pub(super) fn receive_for_subscription(&mut self, id: &Value, acknowledged: bool) -> bool {
        let number = id.as_u64().filter(|number| (1..self.next_id).contains(number));
        let call = self.calls.iter_mut().find(|call| call.state != CallState::Done && Some(call.wire) == number);
        let Some(call) = call.filter(|call| call.state != CallState::Waiting) else {
            // The notification may have crossed the end of the subscription.
            if number.is_none() {
                self.violation("UnknownSubscription");
            }
            return false;
        };
        match &mut call.subscription {
            Some(subscription) if call.state == CallState::Sent => {
                if acknowledged {
                    (subscription.acknowledged, subscription.since) = (true, Some(self.now));
                    // It is answered only when it ends, so it has no deadline.
                    (call.idle_at, call.total_at) = (None, None);
                } else if !subscription.acknowledged {
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

    /// Handles a cancellation by the server. It may cancel subscriptions only.
    pub(super) fn receive_subscription_cancelled(&mut self, id: &Value) {
        let named = |call: &Call| call.state == CallState::Sent && json!(call.wire) == *id;
        let Some(index) = self.calls.iter().position(named) else { return };
        if self.calls[index].subscription.is_none() {
            return self.violation("WrongDirection");
        }
        self.subscription_ended(index, Ending::Cancelled);
    }

    /// Handles the end of a subscription by the server. It may be opened again after a pause.
    pub(super) fn subscription_ended(&mut self, index: usize, ending: Ending) {
        let (id, now) = (self.calls[index].id, self.now);
        if let Some(subscription) =
            self.calls[index].subscription.as_mut().filter(|subscription| subscription.resubscribe)
        {
            // A subscription that lasted resets the count.
            let lasted = subscription.since.is_some_and(|since| now - since >= LONGEST);
            subscription.count = if lasted { 1 } else { subscription.count + 1 };
            (subscription.acknowledged, subscription.since) = (false, None);
            if subscription.count <= RESUBSCRIPTIONS {
                let pause = 250 << (subscription.count - 1);
                self.calls[index].state = CallState::Waiting;
                self.calls[index].idle_at = None;
                self.calls[index].round.due = Some(now + pause);
                return;
            }
        }
        self.finish_call(index);
        self.events.push(AppEvent::Ended(id, ending));
    }
}
