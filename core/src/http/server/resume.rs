//! Streams that clients open, or resume after the last event that they have received.

use http::StatusCode;

use super::{
    ExchangeId, Session,
    exchange::FEED,
    session::SessionKind,
    streams::{Missing, ReplayError},
};
use crate::{
    connection::{Failure, Principal},
    http::{
        response::{self, refusal},
        session_id::EventId,
    },
};

impl Session {
    /// Opens a stream that belongs to no request, or resumes a stream. The principal has the [scopes] for it, unless
    /// another process has sent the stream.
    ///
    /// [scopes]: Session::missing_scopes
    pub(super) fn listen(&mut self, id: ExchangeId, last: Option<&str>, principal: Option<&Principal>) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else {
            return self.answer(id, response::no_session());
        };
        let found = last.map(|last| streams.find(last));
        match found {
            Some(Ok(from)) => self.resume(id, from),
            Some(Err(ReplayError::Elsewhere(from))) => self.follow(id, from, principal),
            Some(Err(ReplayError::Never | ReplayError::Gone)) => self.nothing_to_resume(id),
            None | Some(Err(ReplayError::Listener)) => {
                if self.has_all_streams() {
                    return self.refuse_stream(id);
                }
                let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
                let stream = streams.begin(id, true);
                self.open_stream(id, stream);
                self.send_waiting(stream);
            }
        }
    }

    /// Returns whether the session has reached its limit of streams that belong to no request. Streams that are
    /// replayed from other processes count.
    pub(super) fn has_all_streams(&self) -> bool {
        let SessionKind::Streams { streams, .. } = &self.kind else { return false };
        streams.listening() + self.remote_streams.listening() >= self.options.limits.streams
    }

    pub(super) fn refuse_stream(&mut self, id: ExchangeId) {
        self.answer(id, refusal(StatusCode::CONFLICT, "There are too many streams in this session"));
    }

    fn nothing_to_resume(&mut self, id: ExchangeId) {
        self.answer(id, response::nothing_to_resume());
    }

    /// Resumes a stream after an event that the client has received.
    fn resume(&mut self, id: ExchangeId, from: EventId) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let Some(known) = streams.all.get(from.stream) else { return };
        let (done, listens, carrier) = (known.done, known.listens, known.exchange);
        if carrier.and_then(|carrier| self.exchanges.get(carrier.0)).is_some_and(|carrier| carrier.is_open()) {
            // Nothing was sent yet, so no client can have an id of the stream.
            return self.nothing_to_resume(id);
        }
        streams.replay.received(from.stream, from.seq);
        if done && streams.missing(from).is_some_and(|missing| missing.rest) {
            // The response is not kept any more.
            return self.nothing_to_resume(id);
        }
        // A stream that is still open is counted already.
        let opens = listens && streams.all.get(from.stream).is_some_and(|known| known.exchange.is_none());
        if opens && self.has_all_streams() {
            return self.refuse_stream(id);
        }
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        if let Some(before) = streams.carry(from.stream, id) {
            // The client has lost this exchange before the server noticed. Its waiting messages are in the replay
            // buffer.
            self.cut(before);
        }
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.stream = Some(from.stream);
        exchange.behind = Some(from.seq);
        exchange.stream();
        let bytes = exchange.comment();
        self.wrote(id, bytes);
        self.feed(id);
        if listens {
            self.send_waiting(from.stream);
        }
    }

    /// Writes the next messages of a resumed stream, as far as there is room on the exchange.
    pub(super) fn feed(&mut self, id: ExchangeId) {
        let (SessionKind::Streams { streams, .. }, Some(exchange)) = (&mut self.kind, self.exchanges.get_mut(id.0))
        else {
            return;
        };
        let (Some(mut seq), Some(stream)) = (exchange.behind, exchange.stream) else { return };
        let listens = streams.all.get(stream).is_some_and(|known| known.listens);
        let missing = streams.missing(EventId { listens, stream, seq });
        let (mut bytes, mut lost) = (0, (seq, seq));
        if let Some(Missing { messages, .. }) = missing {
            bytes += exchange.remark(messages);
            lost.1 = seq + messages + 1;
            seq += messages;
        }
        let (written, seq) = streams.repeat(EventId { listens, stream, seq }, exchange, FEED);
        let caught_up = seq >= streams.latest(stream);
        exchange.behind = (!caught_up).then_some(seq);
        let done = streams.all.get(stream).is_some_and(|known| known.done);
        let lost = if missing.is_some() { streams.lost_calls(stream, lost) } else { Default::default() };
        self.wrote(id, bytes + written);
        for call in lost {
            self.conn.fail(call, Failure::NoStream);
        }
        if caught_up && done {
            self.end(id);
        }
    }
}
