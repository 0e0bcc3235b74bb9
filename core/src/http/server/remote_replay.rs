//! Replay of streams that another process of the session has sent.

use alloc::{boxed::Box, vec::Vec};

use super::{
    ExchangeId, Session,
    exchange::{Exchange, FEED, MESSAGE},
    remote_streams::{RemoteStream, ReplayChunk, ReplayRequest},
    session::SessionKind,
};
use crate::{
    codec::SseText,
    collections::SeqMap,
    connection::Principal,
    http::{HttpResponse, response::nothing_to_resume, session_id::EventId},
    rpc::Timestamp,
};

/// Returns whether an exchange has room for more messages.
fn has_room(exchanges: &SeqMap<Box<Exchange>>, id: ExchangeId) -> bool {
    exchanges.get(id.0).is_some_and(|exchange| exchange.waiting() < FEED)
}

impl Session {
    /// Returns the next request for messages of a stream that another process has sent. Call it until it returns
    /// `None`, and pass the messages to [`handle_replay`](Self::handle_replay).
    pub fn poll_replay_request(&mut self) -> Option<ReplayRequest> {
        let Self { remote_streams, exchanges, .. } = self;
        let wants = |id: &ExchangeId, it: &RemoteStream| !it.requested && has_room(exchanges, *id);
        let (exchange, following) = remote_streams.0.iter_mut().find(|(id, following)| wants(id, following))?;
        following.requested = true;
        let EventId { listens, stream, seq } = following.at;
        Some(ReplayRequest { exchange: *exchange, stream, after: seq, waits: !listens && following.begun, listens })
    }

    /// Returns whether [`poll_replay_request`](Self::poll_replay_request) has a request.
    #[must_use]
    pub fn has_replay_request(&self) -> bool {
        self.remote_streams.0.iter().any(|(id, following)| !following.requested && has_room(&self.exchanges, *id))
    }

    /// Returns whether an exchange still replays a stream of another process.
    #[must_use]
    pub fn follows(&self, id: ExchangeId) -> bool {
        self.remote_streams.0.contains_key(&id)
    }

    /// Writes the messages that were found for an exchange; `None` if the lookup failed. Further messages are requested
    /// again until the stream is done. If the first of them is not the next one of the stream, the rest of the stream
    /// is lost, as in [`end_replay`](Self::end_replay). If the lookup failed, or a later message is missing, the
    /// exchange ends here, and its client may resume the stream.
    ///
    /// Messages that a client may get only with [scopes](crate::http::ReplayBuffer::keep_scoped) are passed only if its
    /// principal [has](Self::has_replay_scopes) them.
    pub fn handle_replay(&mut self, now: Timestamp, id: ExchangeId, found: Option<&ReplayChunk>) {
        self.clock = self.clock.max(now);
        self.end_unauthorized();
        let next = self.remote_streams.0.get(&id).and_then(|following| following.at.seq.checked_add(1));
        let first = found.and_then(|found| found.messages.first()).map(|(seq, _)| *seq);
        if first.is_some() && first != next {
            return self.end_replay(now, id);
        }
        self.begin_replay(id);
        let (Some(following), Some(exchange)) = (self.remote_streams.0.get_mut(&id), self.exchanges.get_mut(id.0))
        else {
            return;
        };
        following.requested = false;
        let (mut bytes, mut is_whole) = (0, found.is_some());
        for (seq, message) in found.iter().flat_map(|found| &found.messages) {
            if *seq != following.at.seq + 1 {
                is_whole = false;
                break;
            }
            following.at.seq = *seq;
            let event = following.at.text();
            bytes += exchange.event(&SseText { id: Some(&event), data: Some(message), ..MESSAGE });
        }
        let (listens, done) = (following.at.listens, found.is_some_and(|found| found.done));
        if bytes > 0 {
            self.wrote(id, bytes);
        }
        if listens && is_whole {
            self.remote_streams.forget(id);
            self.listen_from_here(id);
        } else if done || !is_whole {
            self.remote_streams.forget(id);
            if !done {
                self.send_retry(id, None);
            }
            self.end(id);
        }
        self.pump();
    }

    /// Ends an exchange that replays a stream of another process, because the rest of the stream is lost: its messages
    /// are not stored any more, or that process has ended. The client gets the status 400 if nothing of the stream was
    /// found before. If something was, its response ends, and it gets the status when it resumes the stream again.
    pub fn end_replay(&mut self, now: Timestamp, id: ExchangeId) {
        self.stop_replay(now, id, nothing_to_resume());
    }

    /// Ends an exchange that replays a stream of another process: with this refusal if its response has not begun.
    pub(super) fn stop_replay(&mut self, now: Timestamp, id: ExchangeId, refusal: HttpResponse) {
        self.clock = self.clock.max(now);
        if !self.follows(id) {
            return;
        }
        self.remote_streams.forget(id);
        if self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open()) {
            self.answer(id, refusal);
        } else {
            self.send_retry(id, None);
            self.end(id);
        }
        self.pump();
    }

    /// Resumes a stream of another process. The response begins when it is known which scopes its client needs.
    pub(super) fn follow(&mut self, id: ExchangeId, at: EventId, principal: Option<&Principal>) {
        if at.listens {
            self.cut_replays_before(id, at.stream);
            if self.has_all_streams() {
                return self.refuse_stream(id);
            }
        }
        let scopes = principal.map(|principal| principal.scopes.clone()).unwrap_or_default();
        self.remote_streams.0.insert(id, RemoteStream { at, requested: false, begun: false, scopes });
    }

    /// Begins the response that replays a stream, if it has not begun.
    fn begin_replay(&mut self, id: ExchangeId) {
        let Some(following) = self.remote_streams.0.get_mut(&id).filter(|following| !following.begun) else { return };
        following.begun = true;
        let stream = following.at.stream;
        self.cut_replays_before(id, stream);
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.stream();
        let bytes = exchange.comment();
        self.wrote(id, bytes);
    }

    /// Ends the exchanges that replay a stream and are older than this one: a client that resumes a stream again has
    /// lost the exchange that carried it.
    fn cut_replays_before(&mut self, id: ExchangeId, stream: u64) {
        let older = self.remote_streams.0.range(..id).filter(|(_, it)| it.at.stream == stream);
        for older in older.map(|(older, _)| *older).collect::<Vec<_>>() {
            self.cut(older);
        }
    }

    /// Continues a stream that belongs to no request, and that another process has sent, on a stream of this process.
    fn listen_from_here(&mut self, id: ExchangeId) {
        let primes = self.primes();
        let (SessionKind::Streams { streams, .. }, Some(exchange)) = (&mut self.kind, self.exchanges.get_mut(id.0))
        else {
            return;
        };
        let stream = streams.begin(id, true);
        exchange.stream = Some(stream);
        let bytes = if primes { streams.prime(stream, exchange) } else { 0 };
        self.wrote(id, bytes);
        self.send_waiting(stream);
    }
}
