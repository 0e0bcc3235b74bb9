//! Matching of responses to calls, including late responses.

use crate::{
    connection::{
        engine::Engine,
        state::tags::{CallTag, FIRST_ID},
        types::{CloseReason, Event, Outcome, Violation},
    },
    protocol::Method,
    rpc::{CallId, Timestamp},
    wire::{RawJson, Repetition, RequestId},
};

impl Engine {
    /// Returns the call of a response with this id.
    pub(crate) fn find_call(&mut self, id: &RequestId) -> Option<CallId> {
        let (wire, lenient) = call_of(id)?;
        // A request that has not been sent cannot have a response.
        let (call, _) = self.calls.find(wire.as_u64()).filter(|(_, entry)| entry.sent)?;
        self.stats.coerced_ids += u64::from(lenient);
        Some(call)
    }

    /// Returns whether this side sent a request with this id that has ended.
    pub(crate) fn has_ended(&self, id: &RequestId) -> bool {
        call_of(id).is_some_and(|(call, _)| {
            // The call of the request may continue under another id.
            let current = self.calls.by_wire(call.as_u64()).and_then(|call| self.calls.get(call));
            self.calls.was_issued(call.as_u64(), FIRST_ID) && current.is_none_or(|entry| entry.is_suspended)
        })
    }

    pub(crate) fn unmatched(&mut self, id: RequestId) -> Option<Event<'static>> {
        let Some((call, _)) = call_of(&id).filter(|_| self.has_ended(&id)) else {
            return self.violation(Violation::UnknownResponse(id));
        };
        match self.calls.by_wire(call.as_u64()).or(self.calls.get(call).map(|_| call)) {
            None => {
                self.stats.late_responses += 1;
                // The application never sees keepalive pings and the ids of requests that were sent again.
                self.calls.is_of_the_application(call).then_some(Event::Late(call))
            }
            // A server may end a subscription with both a result and a cancellation, and the response to a poll of a
            // task may be late.
            Some(goes_on) if self.listens(goes_on) || self.has_poller(goes_on) => {
                self.stats.late_responses += 1;
                None
            }
            // This is a second response to the request.
            Some(_) => self.violation(Violation::UnknownResponse(id)),
        }
    }

    pub(crate) fn receive_result<'a>(
        &mut self,
        now: Timestamp,
        call: CallId,
        result: RawJson<'a>,
        repetition: Repetition,
    ) -> Option<Event<'a>> {
        match self.calls.get(call).map(|entry| entry.tag) {
            Some(CallTag::Handshake) => {
                self.calls.retire(call);
                self.as_client().accept_server(now, &result)
            }
            Some(CallTag::Probe { .. }) => {
                self.calls.retire(call);
                self.as_client().probe_answered(now, &result)
            }
            Some(CallTag::User { method, .. }) if self.is_modern_client() => {
                self.as_client().receive_modern_result(call, method, result, repetition)
            }
            Some(CallTag::User { method, task, .. }) => {
                if task || self.task_progress.len() > 0 {
                    self.watch_result(call, method, task, &result);
                }
                self.finish_call(call, Outcome::Result(result))
            }
            Some(CallTag::Keepalive | CallTag::CancelTask) | None => self.finish_call(call, Outcome::Result(result)),
        }
    }

    /// Ends a call whose response is invalid.
    pub(crate) fn end_malformed(&mut self, call: CallId) -> Option<Event<'static>> {
        self.stats.violations += 1;
        if self.has_poller(call) {
            self.as_client().end_call(call, Outcome::Malformed)
        } else {
            self.finish_call(call, Outcome::Malformed)
        }
    }

    /// Ends a call, and returns the event for it if the application made the call.
    pub(crate) fn finish_call<'a>(&mut self, call: CallId, outcome: Outcome<'a>) -> Option<Event<'a>> {
        let tag = self.calls.retire(call)?;
        if let Outcome::Error(error) = &outcome {
            self.as_client().note_refusal(call, error);
        }
        if matches!(tag, CallTag::User { method: Some(Method::Listen), .. }) {
            self.as_client().stop_listening(call);
        }
        self.drop_retry(call);
        let now = self.clock;
        match (tag, outcome) {
            (CallTag::Probe { again, .. }, Outcome::Error(error)) => {
                self.as_client().probe_refused(now, again, error);
                None
            }
            (CallTag::Probe { .. }, _) => {
                self.as_client().handle_malformed_probe_response(now);
                None
            }
            (CallTag::User { .. }, outcome) => Some(Event::Response { call, outcome }),
            (CallTag::CancelTask, _) => None,
            (CallTag::Keepalive, outcome) => {
                self.ping_answered(if let Outcome::Error(error) = &outcome { Some(error) } else { None });
                None
            }
            (CallTag::Handshake, Outcome::Error(error)) => {
                self.as_client().handshake_refused(now, error);
                None
            }
            (CallTag::Handshake, _) => {
                self.end(CloseReason::BadHandshake("not an object".into()));
                None
            }
        }
    }
}

/// Returns the call with this id, and whether the id is a string. Some gateways turn numeric ids into strings.
pub(crate) fn call_of(id: &RequestId) -> Option<(CallId, bool)> {
    let exact = id.as_u64();
    let number = exact.or_else(|| id.retyped()?.as_u64())?;
    Some((CallId::from_raw(number), exact.is_none()))
}
