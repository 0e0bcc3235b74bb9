//! Recovery of lost streams and sessions, and the messages that wait for a session.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::time::Duration;

use http::{HeaderValue, StatusCode, response::Parts};

use super::{
    Client, ExchangeId,
    exchange::{
        Exchange, ExchangeState, PostKind, PostRequest, Purpose, Rejection, ResumeInfo, SentRequest, StreamPosition,
    },
    machine::SendGate,
};
use crate::{
    connection::{CloseReason, Failure},
    rpc::Timestamp,
};

/// The maximum number of lost sessions in sequence that are replaced. The processes behind a balancer may each have
/// sessions of their own, and then no session lasts.
const MAX_RENEWALS: u8 = 3;

/// A session that is lost later than this after the one before begins a new sequence.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);

/// The sessions in sequence that were lost before a request was answered.
#[derive(Debug, Default)]
pub(super) struct Renewals {
    count: u8,
    last: Timestamp,
}

impl Renewals {
    /// Returns whether a session that is lost now is replaced.
    fn may_renew(&mut self, now: Timestamp) -> bool {
        if now >= self.last + RENEWAL_INTERVAL {
            self.count = 0;
        }
        (self.count, self.last) = (self.count.saturating_add(1), now);
        self.count <= MAX_RENEWALS
    }

    /// Ends the sequence: a request was answered.
    pub(super) const fn end(&mut self) {
        self.count = 0;
    }
}

/// The most requests that have ended and that the server does not know, whose cancellations wait to be dropped.
const MAX_FORGOTTEN: usize = 1024;

impl Client {
    /// Closes exchanges, retries and queued messages of requests that have ended.
    pub(super) fn sweep(&mut self) {
        let Self { conn, queued, forgotten, retry_timers, .. } = self;
        let lost = |request: Option<&SentRequest>| request.is_some_and(|request| !conn.awaits(request.id));
        retry_timers.retain(|pause| !lost(pause.purpose.request()));
        queued.retain(|post| {
            let is_over = lost(post.request.as_ref());
            forgotten.extend(post.request.as_ref().filter(|_| is_over).map(|request| request.id));
            !is_over
        });
        let over = |it: &Exchange| !matches!(it.state, ExchangeState::Over { .. }) && lost(it.purpose.request());
        for id in self.exchanges.ids(over) {
            if let Some(Exchange { purpose, sent_in, .. }) = self.abort(id)
                && let Some(request) = purpose.request().filter(|_| self.is_of_lost_session(sent_in.as_ref()))
            {
                self.forgotten.insert(request.id);
            }
        }
        while self.forgotten.len() > MAX_FORGOTTEN {
            self.forgotten.pop_first();
        }
        self.sweep_refreshes();
    }

    pub(super) fn broken(&mut self, id: ExchangeId, why: String) {
        let Some(Exchange { purpose, uri, redirects, .. }) = self.exchanges.remove(id) else { return };
        match purpose {
            Purpose::Listen(_) | Purpose::Resume(_) => self.come_back(purpose),
            // The request may have been sent on the connection of the refusal, which the server may have closed after
            // it.
            Purpose::Old(Some(why)) if !why.again => {
                self.start(Purpose::Old(Some(Box::new(ResumeInfo { again: true, ..*why }))), uri, redirects);
            }
            Purpose::Old(Some(why)) => self.refused(Purpose::Post(why.post), why.refused),
            Purpose::Old(None) => self.end(CloseReason::TransportError(why)),
            Purpose::Post(PostRequest { kind: PostKind::Initialized, .. }) => self.open_gate(),
            Purpose::Post(_) => self.unanswered(&purpose, Failure::Network(why)),
            Purpose::DeleteSession(_) | Purpose::Done => {}
        }
    }

    pub(super) fn stream_ended(&mut self, id: ExchangeId) {
        let Some(Exchange { purpose, .. }) = self.exchanges.remove(id) else { return };
        match purpose {
            Purpose::Listen(_) | Purpose::Resume(_) => self.come_back(purpose),
            Purpose::Post(post) if post.mirrored.is_none() && !post.position.last_id.is_empty() => {
                self.come_back(Purpose::Resume(post));
            }
            Purpose::Post(_) => self.unanswered(&purpose, Failure::StreamLost),
            Purpose::Old(Some(why)) => self.refused(Purpose::Post(why.post), why.refused),
            // The session ends with its stream.
            Purpose::Old(None) => self.end(CloseReason::Eof),
            Purpose::DeleteSession(_) | Purpose::Done => {}
        }
    }

    /// Schedules a lost stream to be resumed, unless its call has ended. Fails the call if no attempt remains.
    pub(super) fn come_back(&mut self, purpose: Purpose) {
        if purpose.request().is_some_and(|request| !self.conn.awaits(request.id)) {
            return;
        }
        if let Some(purpose) = self.pause(purpose) {
            self.no_server_stream |= matches!(purpose, Purpose::Listen(_));
            self.unanswered(&purpose, Failure::StreamLost);
        }
    }

    /// Handles the refusal of the server to open or resume a stream.
    pub(super) fn not_resumed(&mut self, id: ExchangeId, head: &Parts) {
        let Some(purpose) = self.take_purpose(id) else { return };
        match purpose {
            purpose if Failure::status_may_pass(head.status.as_u16()) => self.come_back(purpose),
            // The server does not know the last event id. It may open a new stream.
            Purpose::Listen(position) if head.status == StatusCode::BAD_REQUEST && !position.last_id.is_empty() => {
                self.come_back(Purpose::Listen(StreamPosition { last_id: String::new(), ..position }));
            }
            Purpose::Listen(_) => self.no_server_stream = true,
            purpose => self.unanswered(&purpose, Failure::StreamLost),
        }
    }

    /// Handles the acceptance of a message that gets no response on its exchange.
    pub(super) fn accepted(&mut self, id: ExchangeId) {
        self.dismiss(id);
        if self.gate == SendGate::Initialized(id) {
            self.open_gate();
        }
    }

    /// Opens a stream for messages on the server's own initiative after the handshake. Held messages wait for its
    /// response; they are sent at once if no stream is opened.
    pub(super) fn open_gate(&mut self) {
        match self.listen() {
            Some(stream) => {
                let until = self.clock + self.options.limits.listen_timeout;
                self.gate = SendGate::Listening { stream, until };
            }
            None => self.gate = SendGate::Open,
        }
    }

    /// Stores the session id after the handshake. `notifications/initialized` must be sent next.
    pub(super) fn opened(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.get_mut(id) {
            self.session = exchange.session.take();
        }
        self.gate = SendGate::Until(PostKind::Initialized);
        self.no_server_stream = false;
    }

    /// Returns the purpose of an exchange that is repeated now. A request whose session was lost since it was sent
    /// waits for the next one. Other exchanges of a lost session were aborted with it.
    pub(super) fn repeatable(&mut self, sent_in: Option<&HeaderValue>, purpose: Purpose) -> Option<Purpose> {
        let is_lost = sent_in.is_some() && self.session.as_ref() != sent_in;
        match purpose {
            Purpose::Post(post) if is_lost && self.gate != SendGate::Open => {
                self.queue(post);
                None
            }
            purpose => Some(purpose),
        }
    }

    /// Handles a 404 to a request of a session: the session is lost, and a new one begins. A message that the server
    /// refused with it is sent again once; calls that were in progress fail.
    pub(super) fn session_lost(&mut self, id: ExchangeId) {
        let sent_in = self.exchanges.get_mut(id).and_then(|exchange| exchange.sent_in.take());
        let Some(purpose) = self.take_purpose(id) else { return };
        let is_current_session = self.session.is_some() && self.session == sent_in;
        match purpose {
            // The message belongs to the lost session.
            Purpose::Post(PostRequest { request: None, .. }) => {}
            Purpose::Post(post) if post.again => {
                let refused = Rejection { status: 404, ..Rejection::default() };
                return self.refused(Purpose::Post(post), refused);
            }
            // The server has not accepted the message, so it can be sent in the next session.
            Purpose::Post(post) if is_current_session || self.gate != SendGate::Open => {
                self.queue(PostRequest { again: true, ..post });
            }
            Purpose::Post(post) => self.post(PostRequest { again: true, ..post }),
            purpose => self.unanswered(&purpose, Failure::SessionLost),
        }
        if !is_current_session {
            return;
        }
        if !self.renewals.may_renew(self.clock) {
            let (challenges, body) = (Vec::new(), String::new());
            let refused = Failure::Status { status: 404, challenges, retry_after: None, body };
            return self.end(CloseReason::Failed(refused));
        }
        self.session = None;
        // The server uses the ids again in the next session, where these responses would belong to other requests.
        self.queued.retain(|post| post.kind != PostKind::Response);
        let is_lost = |it: &Exchange| match (&it.purpose, &it.state) {
            (_, ExchangeState::Over { .. }) => false,
            // A redirect or new credentials would send the message in the next session.
            (Purpose::Post(PostRequest { request: None, .. }), _) => it.sent_in == sent_in,
            // So would they resume a stream there that belongs to another message.
            (Purpose::Listen(_) | Purpose::Resume(_), _) => true,
            (_, ExchangeState::Events(_) | ExchangeState::Whole(_)) => true,
            _ => false,
        };
        for id in self.exchanges.ids(is_lost) {
            if let Some(Exchange { purpose, .. }) = self.abort(id) {
                self.unanswered(&purpose, Failure::SessionLost);
            }
        }
        for pause in core::mem::take(&mut self.retry_timers) {
            self.unanswered(&pause.purpose, Failure::SessionLost);
        }
        self.gate = SendGate::Until(PostKind::Initialize);
        self.conn.renew(self.clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sessions_in_sequence_are_renewed() {
        let mut renewals = Renewals::default();
        let mut at = |seconds: &[u64]| {
            let renewed: Vec<_> = seconds
                .iter()
                .map(|seconds| renewals.may_renew(Timestamp::ZERO + Duration::from_secs(*seconds)))
                .collect();
            renewals.end();
            renewed
        };
        assert_eq!(at(&[1, 2, 3, 4, 63, 122]), [true, true, true, false, false, false]);
        assert_eq!(at(&[123, 124, 125, 126]), [true, true, true, false], "a request was answered");
        // A minute after the last one, another sequence begins.
        assert_eq!(at(&[130, 130, 130, 130, 190, 190, 190, 190]), [true, true, true, false, true, true, true, false]);
    }
}
