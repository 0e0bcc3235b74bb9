//! Requests in flight, both ways: how old they are and when they end. And requests of the peer that are not answered in time.

use super::{
    CancelCause, CloseReason, Connection, Event, SendError,
    engine::{CallTag, Engine},
};
use crate::{
    protocol::Method,
    rpc::{CallId, ReplyKey, State, Timestamp},
    wire::{ErrorObject, RequestId},
};

/// A request of the peer that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboundRequest<'a> {
    /// To answer with.
    pub key: ReplyKey,
    /// The id that the peer has given it.
    pub id: &'a RequestId,
    /// `None` for methods that the specification does not have.
    pub method: Option<Method>,
    /// When it came in.
    pub since: Timestamp,
    /// When it has to be answered, if there is such a time.
    pub deadline: Option<Timestamp>,
    /// What it waits for.
    pub state: RequestState,
}

/// What a request of the peer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestState {
    /// The answer of the application, or the end of a subscription.
    Open,
    /// Its answer waits to be written.
    Answered,
    /// The peer has cancelled it. It holds its slot until the application answers it.
    Cancelled,
}

/// A request of this side that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboundRequest {
    /// What [`Connection::request`] has returned.
    pub call: CallId,
    /// `None` for methods that the specification does not have.
    pub method: Option<Method>,
    /// When it was made.
    pub since: Timestamp,
    /// When it times out if nothing comes before that: the earlier of its idle and its total deadline.
    pub deadline: Option<Timestamp>,
    /// Whether it has been polled and its answer is outstanding. `false` while it waits to be written, for answers of this side
    /// (2026-07-28), or for a pause to end.
    pub sent: bool,
}

impl<E> Connection<E> {
    /// The requests of the peer that hold a slot, in the order of their arrival: those that wait for an answer, those whose
    /// answer waits to be written, and those that were cancelled and not answered yet.
    ///
    /// It walks over all of them and sorts them: for diagnostics, and for an orderly shutdown.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = InboundRequest<'_>> + use<'_, E> {
        self.engine.requests.all().into_iter().map(|(key, entry, state)| InboundRequest {
            key,
            id: &entry.id,
            method: entry.tag.method,
            since: entry.since(),
            deadline: self.engine.requests.deadline(key),
            state: match state {
                State::Open => RequestState::Open,
                State::Answered => RequestState::Answered,
                State::Cancelled => RequestState::Cancelled,
            },
        })
    }

    /// The requests of the application that have not ended, oldest first. The handshake and pings of the connection itself are
    /// not among them.
    ///
    /// It walks over all of them and sorts them: for diagnostics, and for an orderly shutdown.
    pub fn calls(&self) -> impl Iterator<Item = OutboundRequest> + use<'_, E> {
        self.engine.calls.ids().into_iter().filter_map(|call| {
            let entry = self.engine.calls.get(call)?;
            let CallTag::User { method, .. } = entry.tag else { return None };
            let (since, deadline) = (entry.since(), entry.deadline());
            Some(OutboundRequest { call, method, since, deadline, sent: entry.sent })
        })
    }

    /// Whether a request of the application has not ended. Its [`Event::Response`] may wait to be polled when it has.
    #[must_use]
    pub fn is_in_flight(&self, call: CallId) -> bool {
        self.engine.calls.get(call).is_some_and(|entry| matches!(entry.tag, CallTag::User { .. }))
    }

    /// Whether the peer still waits for the answer to a request.
    #[must_use]
    pub fn is_awaited(&self, key: ReplyKey) -> bool {
        matches!(self.engine.requests.get(key), Some((_, State::Open)))
    }

    /// Sets or removes the deadline of a request of the peer. It replaces what [`Settings::reply_timeout`](super::Settings::reply_timeout)
    /// has set.
    ///
    /// A request that is not answered before its deadline is answered by the connection, with an internal error, and ends as
    /// [`Event::Cancelled`] with [`CancelCause::TimedOut`]. Its key is not valid any more, and its slot is free as soon as that
    /// answer has left. A question that came as part of a result (2026-07-28) ends its call with that error. Of a request that
    /// the peer has cancelled and the application has not answered, only the slot is freed, without an event.
    ///
    /// The deadline is part of [`poll_timeout`](Self::poll_timeout). A subscription has none once it is open.
    ///
    /// # Errors
    /// [`SendError::Answered`] if the request has been answered.
    pub fn set_deadline(&mut self, key: ReplyKey, deadline: Option<Timestamp>) -> Result<(), SendError> {
        let is_subscription = self.engine.subscriptions.is_open(key);
        let deadline = deadline.filter(|_| !is_subscription);
        if self.engine.requests.set_deadline(key, deadline) { Ok(()) } else { Err(SendError::Answered) }
    }
}

impl Engine {
    /// Ends a request of the peer that was not answered before its deadline.
    pub(super) fn expire(&mut self, key: ReplyKey) {
        let Some((entry, state)) = self.requests.get(key) else { return };
        let question = entry.tag.question;
        if state != State::Open {
            self.release(key);
            return;
        }
        if self.is_full() {
            return self.end(CloseReason::PeerNotReading);
        }
        self.events.push_back(Event::Cancelled { key, cause: CancelCause::TimedOut });
        let error = ErrorObject::internal("Internal error: the request was not answered in time");
        if let Some(question) = question {
            self.as_client().answer_question(key, question, Err(&error));
        } else if self.put_answer(key, Err(&error)).is_err() {
            // The limit for messages leaves no room for an answer.
            self.cancel_request(key);
            self.release(key);
            self.check_drained();
        }
    }
}
