//! `subscriptions/listen` (2026-07-28) on the client's side: acknowledgement, notifications, and resubscription when
//! the server ends a subscription. The server's side is in `steps/stateless/subscriptions.rs`.

use crate::{
    connection::{
        engine::Engine,
        state::tags::CallTag,
        types::{Event, Outcome, Violation},
    },
    protocol::Method,
    rpc::CallId,
    schema::{SubscriptionFilter, SubscriptionsAcknowledgedParams, SubscriptionsListenParams, keys},
    wire::{RawJson, RequestId, decode_params},
};

impl Engine {
    /// Checks a notification that carries a subscription id. Returns `None` if the application gets it, else the event
    /// that replaces it, if any.
    pub(crate) fn handle_subscription_message(
        &mut self,
        method: Method,
        params: &RawJson<'_>,
    ) -> Option<Option<Event<'static>>> {
        if !self.is_modern_client() {
            return None;
        }
        let id = subscription_id(params)?;
        match self.find_call(&id) {
            Some(call) if self.listens(call) => {
                if method == Method::SubscriptionsAcknowledged {
                    self.agreed(call, params);
                    return None;
                }
                let agreed = self.retries.get(call).and_then(|retry| retry.state.listening.as_ref()?.agreed.as_ref());
                agreed.is_none().then(|| self.violation(Violation::Unacknowledged(method)))
            }
            None if self.has_ended(&id) => {
                self.stats.late_responses += 1;
                Some(None)
            }
            _ => Some(self.violation(Violation::UnknownSubscription(id))),
        }
    }

    /// Stores the filter that the server acknowledges, and removes the timeouts of the call, whose response arrives
    /// only when the subscription ends.
    fn agreed(&mut self, call: CallId, params: &RawJson<'_>) {
        if self
            .retries
            .get(call)
            .is_some_and(|retry| retry.state.listening.as_ref().is_some_and(|it| it.agreed.is_some()))
        {
            // Only the first acknowledgement counts.
            return;
        }
        let requested = self.retries.get(call).map(|retry| requested_filter(&retry.params)).unwrap_or_default();
        // An acknowledgement that is too long to decode may cover the whole filter.
        let filter = match params.weight() <= self.limits().described_bytes() {
            true => {
                params.decode().map(|params: SubscriptionsAcknowledgedParams| params.notifications.within(requested))
            }
            false => Ok(requested),
        };
        let (filter, clock) = (filter.unwrap_or_default(), self.clock);
        if self.retries.may_have_missed_changes {
            self.may_have_missed(&filter);
        }
        self.calls.unlimit(call);
        self.retries.change(call, |retry| {
            if let Some(listening) = retry.state.allocated_mut().and_then(|state| state.listening.as_mut()) {
                (listening.agreed, listening.since) = (Some(filter), Some(clock));
            }
        });
    }

    pub(crate) fn listens(&self, call: CallId) -> bool {
        let tag = self.calls.get(call).map(|call| call.tag);
        matches!(tag, Some(CallTag::User { method: Some(Method::Listen), .. }))
    }

    /// Handles the end of a subscription by the server, with a result or a cancellation. Subscribes again if the
    /// application has set this option and the limit is not reached.
    pub(crate) fn subscription_ended<'a>(&mut self, call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>> {
        let (clock, longest, most) = (self.clock, self.settings().backoff.max, self.limits().resubscriptions);
        self.stop_listening(call);
        let count = self.retries.change(call, |retry| {
            let listening = retry.state.allocated_mut()?.listening.as_mut().filter(|listening| listening.again)?;
            // A subscription that lasted was accepted by the server, so the count starts again.
            let lasted = listening.since.take().is_some_and(|since| clock.saturating_since(since) >= longest);
            listening.count = if lasted { 1 } else { listening.count + 1 };
            Some(listening.count).filter(|count| *count <= most)
        });
        match count.flatten() {
            Some(count) => {
                self.send_later(call, count);
                None
            }
            None => self.finish_call(call, outcome),
        }
    }

    /// Ends a subscription, if the call is one, and invalidates the cached results that it covered, because changes go
    /// unnoticed now.
    pub(crate) fn stop_listening(&mut self, call: CallId) {
        if self.retries.get(call).is_none_or(|retry| retry.state.listening.is_none()) {
            return;
        }
        let agreed = self.retries.change(call, |retry| retry.state.allocated_mut()?.listening.as_mut()?.agreed.take());
        if let Some(filter) = agreed.flatten() {
            self.retries.may_have_missed_changes = true;
            self.may_have_missed(&filter);
        }
    }
}

/// Returns the filter that a subscription requests.
fn requested_filter(params: &[u8]) -> SubscriptionFilter {
    let params = core::str::from_utf8(params).ok().map(RawJson::trusted);
    let params = decode_params::<SubscriptionsListenParams>(params.as_ref());
    params.map(|params| params.notifications).unwrap_or_default()
}

pub(crate) fn subscription_id(params: &RawJson<'_>) -> Option<RequestId> {
    RequestId::from_token(params.member("_meta")?.member(keys::SUBSCRIPTION_ID)?.get())
}
