//! Waiting for credentials, before a request is sent and after the server has refused it. Deadlines are paused in this
//! time.

use alloc::vec::Vec;

use super::{
    Client, ExchangeId,
    exchange::{Exchange, ExchangeState, PostKind, PostRequest, Purpose},
    machine::SendGate,
};
use crate::rpc::Timestamp;

impl Client {
    /// Handles the beginning of an authentication before the request of this exchange is sent: the driver waits for
    /// credentials, for example because a user has to sign in. Call it after
    /// [`Action::Request`](super::Action::Request), if the credentials are not available at once.
    ///
    /// The deadlines of the message, and of the requests that wait for it, are paused until
    /// [`handle_authentication_ended`](Self::handle_authentication_ended), a response or a failure. They continue with
    /// the remaining time. So the driver has to bound the time of an authentication. Cancellations
    /// [abort](super::Action::Abort) the exchange also in this time. The deadline of the end of a session is not
    /// paused.
    ///
    /// After [`Action::Authenticate`](super::Action::Authenticate) they are paused without this call.
    pub fn handle_authentication_started(&mut self, now: Timestamp, exchange: ExchangeId) {
        self.set_clock(now);
        if let Some(Exchange { state: ExchangeState::Sent, .. }) = self.exchanges.get(exchange) {
            self.start_authenticating(exchange);
        }
        self.pump();
    }

    /// Handles the end of an authentication: the driver has credentials and sends the request now. If it has none, it
    /// calls [`handle_failure`](Self::handle_failure) instead.
    pub fn handle_authentication_ended(&mut self, now: Timestamp, exchange: ExchangeId) {
        self.set_clock(now);
        self.credentials_added(exchange);
        self.pump();
    }

    /// Repeats a request after [`Action::Authenticate`](super::Action::Authenticate), now that the driver has
    /// credentials. Returns the new exchange, or `None` if the request is not needed any more or waits for another
    /// session.
    pub fn retry(&mut self, now: Timestamp, exchange: ExchangeId) -> Option<ExchangeId> {
        self.set_clock(now);
        let mut next = None;
        if let Some(Exchange { state: ExchangeState::Authenticating(_), .. }) = self.exchanges.get(exchange)
            && let Some(Exchange { purpose, uri, redirects, until, sent_in, .. }) = self.abort(exchange)
            && let Some(purpose) = self.repeatable(sent_in.as_ref(), purpose)
        {
            next = Some(self.start_again(exchange, until, purpose, uri, redirects));
        }
        self.pump();
        next
    }

    /// Fails a request after [`Action::Authenticate`](super::Action::Authenticate), because the driver cannot obtain
    /// credentials.
    pub fn fail_authentication(&mut self, now: Timestamp, exchange: ExchangeId) {
        self.set_clock(now);
        if let Some(Exchange { state: ExchangeState::Authenticating(_), .. }) = self.exchanges.get(exchange)
            && let Some(Exchange { purpose, state: ExchangeState::Authenticating(refused), .. }) = self.abort(exchange)
        {
            self.refused(purpose, refused);
        }
        self.pump();
    }

    /// Pauses the deadlines of an exchange. Closing takes a bounded time, so the end of a session keeps its deadline.
    pub(super) fn start_authenticating(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if exchange.is_authenticating() || matches!(exchange.purpose, Purpose::DeleteSession(_)) {
            return;
        }
        exchange.authenticates_since = Some(self.clock);
        self.authenticating += 1;
        self.pause_calls(id, true);
    }

    /// Resumes the deadlines of an exchange whose request has credentials or has failed, but not after a refusal.
    pub(super) fn credentials_added(&mut self, id: ExchangeId) {
        if self.exchanges.get(id).is_some_and(|it| !matches!(it.state, ExchangeState::Authenticating(_))) {
            self.stop_authenticating(id);
        }
    }

    /// Resumes the deadlines of an exchange, with the time that was left.
    pub(super) fn stop_authenticating(&mut self, id: ExchangeId) {
        if self.authenticating == 0 {
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let is_unsent = exchange.is_unsent();
        let Some(since) = exchange.authenticates_since.take() else { return };
        let pause = self.clock.saturating_since(since);
        exchange.until = exchange.until.map(|until| until + pause);
        if let SendGate::Listening { stream, until } = &mut self.gate
            && *stream == id
            && is_unsent
        {
            *until = *until + pause;
        }
        self.authenticating -= 1;
        self.pause_calls(id, false);
    }

    /// Pauses or resumes the deadlines of the request of an exchange, and of a tool call that waits for its response.
    fn pause_calls(&mut self, id: ExchangeId, pauses: bool) {
        let cause = self.exchanges.get(id).and_then(|exchange| exchange.purpose.cause());
        let Some(wire) = cause.and_then(|post| post.request.as_ref()).map(|request| request.id) else { return };
        let waits = self.refreshes.call_behind(wire);
        for wire in [Some(wire), waits].into_iter().flatten() {
            self.pause_deadlines(wire, pauses);
        }
    }

    fn pause_deadlines(&mut self, wire: u64, pauses: bool) {
        if pauses {
            self.conn.pause_deadlines(self.clock, wire);
        } else {
            self.conn.resume_deadlines(self.clock, wire);
        }
    }

    /// Queues a message until there is a session.
    pub(super) fn queue(&mut self, post: PostRequest) {
        if let Some(request) = post.request.as_ref().filter(|_| self.is_blocked) {
            self.conn.pause_deadlines(self.clock, request.id);
        }
        self.queued.push_back(post);
    }

    /// Pauses or resumes the deadlines of requests that have no exchange, if that has changed since the last call.
    pub(super) fn update_block(&mut self) {
        let is_blocked = self.authenticating > 0 && self.waits_for_credentials();
        if is_blocked == self.is_blocked {
            return;
        }
        self.is_blocked = is_blocked;
        self.conn.pause_unsent(self.clock, is_blocked);
        let queued = self.queued.iter().filter_map(|post| post.request.as_ref());
        for wire in queued.map(|request| request.id).collect::<Vec<_>>() {
            self.pause_deadlines(wire, is_blocked);
        }
    }

    /// Returns whether no message can be sent because of an exchange for which the driver is obtaining credentials.
    fn waits_for_credentials(&self) -> bool {
        match self.gate {
            SendGate::Open => !self.has_room(),
            SendGate::Until(_) => false,
            SendGate::Handshake => {
                let begins = |it: &Exchange| it.purpose.cause().is_some_and(|post| post.kind == PostKind::Initialize);
                self.exchanges.values().any(|it| it.is_authenticating() && begins(it))
            }
            SendGate::Initialized(exchange) => self.exchanges.get(exchange).is_some_and(Exchange::is_authenticating),
            SendGate::Listening { stream, .. } => self.exchanges.get(stream).is_some_and(Exchange::is_unsent),
        }
    }

    /// Returns until when messages wait for the stream that the client has requested. They do not wait for a sign-in
    /// that only the stream needs: the server may accept the credentials for other requests.
    pub(super) fn listen_deadline(&self) -> Option<Timestamp> {
        match self.gate {
            SendGate::Listening { stream, until } => {
                let is_paused = self.exchanges.get(stream).is_some_and(Exchange::is_unsent);
                (!is_paused).then_some(until)
            }
            _ => None,
        }
    }
}
