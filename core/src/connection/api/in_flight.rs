//! Requests in flight, in both directions.

use crate::{
    connection::{
        api::Connection,
        state::tags::CallTag,
        types::{InboundRequest, OutboundRequest, RequestState, SendError},
    },
    rpc::{CallId, EntryState, ReplyKey, Timestamp},
};

impl<E> Connection<E> {
    /// Returns the requests of the peer that hold a slot, in the order of their arrival: those that wait for a
    /// response, those whose response waits to be written, and cancelled requests without a response.
    ///
    /// It collects and sorts all of them: use it for diagnostics and for an orderly shutdown.
    pub fn requests(&self) -> impl ExactSizeIterator<Item = InboundRequest<'_>> + use<'_, E> {
        self.engine.requests.all().into_iter().map(|(key, entry, state)| InboundRequest {
            key,
            id: &entry.id,
            method: entry.tag.method,
            since: entry.since(),
            deadline: self.engine.requests.deadline(key),
            state: match state {
                EntryState::Open => RequestState::Open,
                EntryState::Answered => RequestState::Answered,
                EntryState::Cancelled => RequestState::Cancelled,
            },
        })
    }

    /// Returns the requests of the application that have not ended, oldest first. The handshake and pings of the
    /// connection itself are not among them.
    ///
    /// It collects and sorts all of them: use it for diagnostics and for an orderly shutdown.
    pub fn calls(&self) -> impl Iterator<Item = OutboundRequest> + use<'_, E> {
        self.engine.calls.ids().into_iter().filter_map(|call| {
            let entry = self.engine.calls.get(call)?;
            let CallTag::User { method, .. } = entry.tag else { return None };
            let (since, deadline) = (entry.since(), self.engine.calls.deadline(call));
            Some(OutboundRequest { call, method, since, deadline, sent: entry.sent })
        })
    }

    /// Returns whether a request of the application has not ended. After its end, its
    /// [`Event::Response`](crate::connection::Event::Response) may still wait to be polled.
    #[must_use]
    pub fn is_in_flight(&self, call: CallId) -> bool {
        self.engine.calls.get(call).is_some_and(|entry| matches!(entry.tag, CallTag::User { .. }))
    }

    /// Returns whether the peer still waits for the response to a request.
    #[must_use]
    pub fn is_open(&self, key: ReplyKey) -> bool {
        matches!(self.engine.requests.get(key), Some((_, EntryState::Open)))
    }

    /// Returns the deadline of a request of the peer, if it has one.
    #[must_use]
    pub fn deadline(&self, key: ReplyKey) -> Option<Timestamp> {
        self.engine.requests.deadline(key)
    }

    /// Sets or removes the deadline of a request of the peer. It replaces the deadline of
    /// [`Settings::reply_timeout`](crate::connection::Settings::reply_timeout).
    ///
    /// If the application does not respond to a request before its deadline, the connection responds with an internal
    /// error. The request ends as [`Event::Cancelled`](crate::connection::Event::Cancelled) with
    /// [`CancelCause::TimedOut`](crate::connection::CancelCause::TimedOut). Its key is not valid any more, and its slot
    /// is free as soon as that response was polled. An input request of a result (2026-07-28) ends its call with that
    /// error. For a cancelled request without a response of the application, only the slot is freed, without an event.
    ///
    /// The deadline is part of [`poll_timeout`](Self::poll_timeout). A subscription has none once it is open.
    ///
    /// # Errors
    /// Returns [`SendError::Answered`] if the request has a response already.
    pub fn set_deadline(&mut self, key: ReplyKey, deadline: Option<Timestamp>) -> Result<(), SendError> {
        let is_subscription = self.engine.modern.subscriptions.is_open(key);
        let deadline = deadline.filter(|_| !is_subscription);
        if self.engine.requests.set_deadline(key, deadline) { Ok(()) } else { Err(SendError::Answered) }
    }
}
