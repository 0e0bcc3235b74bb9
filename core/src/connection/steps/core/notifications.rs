//! Notifications of the peer: `initialized`, cancellations, progress, and those for the application.

use alloc::borrow::Cow;

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::tags::FIRST_ID,
        types::{CancelCause, Event, Outcome, Progress, Violation},
    },
    protocol::{Method, MethodKind, MethodName, Phase, Role},
    rpc::{CallId, EntryState, Timestamp},
    wire::{RawJson, RequestId},
};

impl Engine {
    pub(crate) fn receive_notification<'a>(
        &mut self,
        now: Timestamp,
        method: MethodName<'a>,
        params: Option<RawJson<'a>>,
    ) -> Option<Event<'a>> {
        let Some(known) = method.known() else {
            // Custom notifications may arrive at any time.
            return Some(Event::Notification { method, params, related_call: self.related_call() });
        };
        if known.kind() == MethodKind::Request {
            return self.violation(Violation::WrongKind(known));
        }
        match (known, params) {
            (Method::Initialized, _) if self.role() == Role::Server => self.receive_initialized(),
            (Method::Cancelled, params) => self.receive_cancelled(params?),
            (Method::Progress, Some(params)) => self.receive_progress(now, params),
            (Method::Progress, None) => self.violation(Violation::BadParams(known)),
            (_, params) => {
                if !self.role().other().sends(known) {
                    return self.violation(Violation::WrongDirection(known));
                }
                if known == Method::TaskStatus
                    && let Some(task) = &params
                {
                    self.watch_task(task);
                }
                self.as_client().handle_change(known, params.as_ref());
                if let Some(params) = &params
                    && let Some(event) = self.as_client().handle_subscription_message(known, params)
                {
                    return event;
                }
                if known == Method::ExtTaskChanged
                    && let Some(task) = &params
                {
                    self.as_client().handle_task_status(task);
                }
                Some(Event::Notification { method, params, related_call: self.related_call() })
            }
        }
    }

    /// Returns the request of this side on whose stream the current frame arrived.
    fn related_call(&self) -> Option<CallId> {
        self.arrival.as_ref()?.related_call
    }

    /// Removes a response of the connection itself that waits to be written. Returns whether there was one.
    fn take_back_own_response(&mut self, id: &RequestId) -> bool {
        let Self { outbox, requests, .. } = self;
        let Some(stream) = outbox.take_back_answer(id, |id| requests.hash_of(id)) else { return false };
        self.nothing_follows(stream);
        true
    }

    fn receive_cancelled<'a>(&mut self, params: RawJson<'a>) -> Option<Event<'a>> {
        // Unknown, finished and unreadable ids are ignored: the cancellation may have crossed the response.
        let id = id_in(&params, "requestId")?;
        if self.is_modern_client() {
            // A server cancels nothing but a subscription of this client.
            let call = self.find_call(&id)?;
            return match self.listens(call) {
                true => self.as_client().subscription_ended(call, Outcome::Cancelled),
                false => self.violation(Violation::WrongDirection(Method::Cancelled)),
            };
        }
        let Some(key) = self.requests.find(&id).or_else(|| self.requests.find(&id.retyped()?)) else {
            let taken_back = self.take_back_own_response(&id) || self.batch_take_back(&id);
            self.stats.cancelled += u64::from(taken_back);
            return None;
        };
        let reason = params.member("reason").and_then(|reason| reason.decode().ok()).map(Cow::Owned);
        if let Some(ended) = self.end_subscription(key) {
            self.cancel_request(key);
            self.release(key);
            return ended.is_of_application.then_some(Event::Cancelled { key, cause: CancelCause::Peer(reason) });
        }
        let open = matches!(self.requests.get(key), Some((_, EntryState::Open)));
        self.cancel_request(key);
        self.stats.cancelled += 1;
        // It may have been the last open request.
        self.check_drained();
        open.then_some(Event::Cancelled { key, cause: CancelCause::Peer(reason) })
    }

    fn receive_progress<'a>(&mut self, now: Timestamp, params: RawJson<'a>) -> Option<Event<'a>> {
        let token = id_in(&params, "progressToken");
        let progress: Option<f64> = params.member("progress").and_then(|progress| progress.decode().ok());
        let (Some(token), Some(progress)) = (token, progress) else {
            return self.violation(Violation::BadParams(Method::Progress));
        };
        let Some(number) = token.as_u64().filter(|number| self.calls.was_issued(*number, FIRST_ID)) else {
            return self.violation(Violation::UnknownProgress);
        };
        // A token is valid as long as the request with that id. Progress for an earlier id of the call is late.
        let call = match self.calls.find(number) {
            Some((call, entry)) if entry.progress && entry.sent => call,
            Some((_, entry)) if entry.is_suspended => {
                self.stats.late_responses += 1;
                return None;
            }
            Some(_) => return self.violation(Violation::UnknownProgress),
            None if self.task_progress.contains(CallId::from_raw(number)) => CallId::from_raw(number),
            // The progress crossed the end of the call, or its repetition under another id.
            None => {
                self.stats.late_responses += 1;
                return None;
            }
        };
        self.calls.touch(now, call);
        let total = params.member("total").and_then(|total| total.decode().ok());
        let message = params.member("message").and_then(|message| message.decode().ok()).map(Cow::Owned);
        Some(Event::Progress { call, progress: Progress { progress, total, message } })
    }

    fn receive_initialized(&mut self) -> Option<Event<'static>> {
        match (&self.role_state, self.phase) {
            (_, Phase::Initializing) => {
                self.phase = Phase::Ready;
                // The handshake takes larger buffers than most of the later messages.
                self.shrink();
                Some(Event::Ready)
            }
            // The notification has overtaken `initialize`, as it may over HTTP.
            (RoleState::Server { .. }, Phase::Opening) => {
                self.initialized_early = true;
                self.violation(Violation::NotReady(Method::Initialized.into()))
            }
            _ => None,
        }
    }
}

/// Returns the id, or progress token, in a member of an object.
fn id_in(object: &RawJson<'_>, name: &str) -> Option<RequestId> {
    RequestId::from_token(object.member(name)?.get())
}
