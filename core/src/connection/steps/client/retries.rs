//! Requests that the client may have to send again (2026-07-28): with input responses, in another revision, or after a
//! delay. For the application each of them remains one call.

use crate::{
    connection::{
        engine::Engine,
        state::{outgoing_meta::OutgoingMeta, tags::CallTag},
        types::{Event, Outcome},
    },
    rpc::{CallId, FrameOwner, Priority, Timestamp},
    wire::{ErrorObject, encode},
};

impl Engine {
    /// Drops the retained request of a call that has ended.
    pub(crate) fn drop_retry(&mut self, call: CallId) {
        if let Some(retries) = self.retries.allocated_mut() {
            retries.end(call);
        }
    }

    /// Schedules a call to be sent again after the `n`th backoff delay.
    pub(crate) fn send_later(&mut self, call: CallId, n: u32) {
        self.calls.suspend(self.clock, call);
        match self.settings().backoff.delay(n) {
            pause if pause.is_zero() => self.resend(call),
            pause => self.retries.schedule(call, self.clock + pause),
        }
    }

    /// Sends the calls that are due again.
    pub(crate) fn send_due(&mut self, now: Timestamp) {
        while let Some(call) = self.retries.allocated_mut().and_then(|retries| retries.take_due(now)) {
            self.resend(call);
        }
    }

    /// Sends a request again under a new id, with the input responses and the state of its latest result. A call that
    /// has become a task sends its next request about the task.
    pub(crate) fn resend(&mut self, call: CallId) {
        let modern = self
            .modern_version(CallTag::User { method: None, task: false, stream: None })
            .and_then(|version| Some((version, self.role_state.identity()?)));
        let (wire, max_len) = (self.calls.next_id(), self.limits().frame_bytes);
        let progress = self.calls.get(call).is_some_and(|call| call.progress);
        let mut params = self.retries.buffer();
        self.retries.unschedule(call);
        let Some((method, extra)) = self.retries.change(call, |retry| {
            if let Some(poller) = retry.state.allocated_mut().and_then(|state| state.poller.as_mut()) {
                return (poller.write(&mut params).into(), retry.extra.clone());
            }
            params.extend_from_slice(&retry.params);
            if params.is_empty() {
                params.extend_from_slice(b"{}");
            }
            retry.state.round.add(&mut params);
            retry.version = modern.map_or(retry.version, |(version, _)| version);
            (retry.method.clone(), retry.extra.clone())
        }) else {
            return;
        };
        OutgoingMeta { modern, extra: &extra, token: progress.then_some(wire) }.splice(&mut params, 0);
        let queued: Result<_, ()> = self.outbox.push(Priority::Request, FrameOwner::Call(wire), max_len, |out| {
            encode::open_request(out, wire.as_u64(), method.as_str());
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(&params);
            out.push(b'}');
            Ok(())
        });
        self.retries.recycle(params);
        if matches!(queued, Ok(Some(_))) {
            self.calls.reissue(self.clock, call);
        } else {
            let error = ErrorObject::internal("The input responses are larger than the limit");
            let event = self.end_call(call, Outcome::Error(error));
            self.events.extend(event.map(Event::into_owned));
        }
    }
}
