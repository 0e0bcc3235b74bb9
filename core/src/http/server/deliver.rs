//! Delivery of messages: every message of a connection is written to exactly one exchange.

use alloc::vec::Vec;
use core::{mem, time::Duration};

use http::StatusCode;

use super::{
    ExchangeId, Session,
    exchange::MESSAGE,
    session::{SPARE, SessionKind},
};
use crate::{
    codec::SseText,
    collections::LazyBox,
    connection::{Failure, Route, Transmit},
    http::{Deadline, HttpResponse, Wake, response},
    protocol::{Phase, ProtocolVersion},
    rpc::CallId,
    wire::{ErrorCode, Message},
};

impl Session {
    /// Sends a message of the connection on the exchange that it belongs to. The buffer of `frame` may be taken if the
    /// message is a whole response.
    pub(super) fn deliver(&mut self, transmit: Transmit, frame: &mut Vec<u8>) {
        let Transmit { route, stream, .. } = transmit;
        // Whether no message of the same request follows.
        let last = match route {
            Route::Reply { last, .. } => last,
            Route::Connection => stream.is_some(),
            Route::Call(_) | Route::StreamReleased { .. } | Route::Unanswered => false,
        };
        match &mut self.kind {
            SessionKind::Modern { .. } => {
                let only = self.exchanges.iter().next().map(|(id, _)| ExchangeId(id));
                if let (Some(id), false) =
                    (only, matches!(route, Route::Call(_) | Route::StreamReleased { .. } | Route::Unanswered))
                {
                    self.send(id, frame, last);
                    if last {
                        self.conn.close(self.clock);
                    }
                }
            }
            SessionKind::Old { stream: carrier, .. } => {
                if let (Some(id), false) = (*carrier, matches!(route, Route::StreamReleased { .. } | Route::Unanswered))
                {
                    self.send(id, frame, false);
                }
            }
            SessionKind::Streams { streams, .. } => {
                // Nothing follows the last response of a stream: later messages are not part of it.
                let goes_on = |stream: &u64| streams.all.get(*stream).is_some_and(|known| !known.done);
                let known = stream.filter(goes_on);
                match (route, known) {
                    (Route::StreamReleased { retry, .. }, Some(stream)) => self.release_stream(stream, retry),
                    (Route::Unanswered, Some(stream)) => self.stays_unanswered(stream),
                    (Route::StreamReleased { .. } | Route::Unanswered, None) => {}
                    (Route::Call(call), Some(stream)) => self.send_on(stream, Some(call), frame, false),
                    (_, Some(stream)) => self.send_on(stream, None, frame, last),
                    // Another token of the client may have opened the streams that belong to no request.
                    (Route::Call(call), None) if stream.is_some() && streams.needs_scopes => {
                        self.conn.fail(call, Failure::NoStream);
                    }
                    (Route::Call(call), None) => self.send_to_anybody(Some(call), frame),
                    (Route::Connection, None) if stream.is_none() => self.send_to_anybody(None, frame),
                    // It belongs to a request whose stream is lost and cannot be resumed.
                    (Route::Connection | Route::Reply { .. }, None) => {}
                }
            }
        }
    }

    /// Sends a message on a stream. If no exchange carries the stream, the message is only kept for replay.
    fn send_on(&mut self, stream: u64, call: Option<CallId>, frame: &mut Vec<u8>, last: bool) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let Some(known) = streams.all.get_mut(stream) else { return };
        if let Some(id) = known.exchange
            && self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open())
        {
            if last {
                // A response of one message cannot be resumed.
                streams.all.remove(stream);
                return self.answer_with(id, frame);
            }
            self.open_stream(id, stream);
        }
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let carrier = streams.all.get(stream).and_then(|known| known.exchange);
        let event = streams.keep(self.clock, stream, call, frame).text();
        if last {
            streams.done(stream);
        } else if call.is_some() {
            let conn = &self.conn;
            streams.remove_ended_calls(stream, |call| conn.has_call(call));
        }
        // If earlier messages are still being replayed, this one follows them from the replay buffer.
        let is_ahead = |id: &ExchangeId| self.exchanges.get(id.0).is_some_and(|exchange| exchange.behind.is_none());
        if let Some(id) = carrier.filter(is_ahead) {
            self.write(id, &SseText { id: Some(&event), data: Some(frame), ..MESSAGE });
            if last {
                self.end(id);
            }
        }
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.remove_ended_amortized();
        }
    }

    /// Sends a message on the only exchange of a session, which cannot be resumed.
    fn send(&mut self, id: ExchangeId, frame: &mut Vec<u8>, last: bool) {
        let Some(exchange) = self.exchanges.get_mut(id.0).filter(|exchange| !exchange.is_ended()) else { return };
        if exchange.is_open() {
            if last {
                return self.answer_with(id, frame);
            }
            exchange.stream();
        }
        self.write(id, &SseText { data: Some(frame), ..MESSAGE });
        if last {
            self.end(id);
        }
    }

    /// Sends a message that belongs to no request, or queues it until there is a stream for it.
    fn send_to_anybody(&mut self, call: Option<CallId>, frame: &mut Vec<u8>) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        if let Some(stream) = streams.listener() {
            return self.send_on(stream, call, frame, false);
        }
        for evicted in streams.wait(&self.options.limits, call, frame) {
            if let Some(call) = evicted.call {
                self.conn.fail(call, Failure::NoStream);
            }
        }
    }

    /// Sends the messages that wait for a stream.
    pub(super) fn send_waiting(&mut self, stream: u64) {
        while let SessionKind::Streams { streams, .. } = &mut self.kind
            && streams.all.get(stream).is_some_and(|known| known.exchange.is_some())
            && let Some((call, mut message)) = streams.next_waiting()
        {
            self.send_on(stream, call, &mut message, false);
        }
    }

    /// Ends a stream on which no response follows: its requests were cancelled, or there were none.
    fn stays_unanswered(&mut self, stream: u64) {
        if self.conn.phase() == Phase::Closed {
            return;
        }
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let carrier = streams.all.get(stream).and_then(|known| known.exchange);
        streams.done(stream);
        match carrier.and_then(|id| Some((id, self.exchanges.get_mut(id.0)?))) {
            Some((id, exchange)) if exchange.is_open() && self.taking == Some(id) => {
                self.answer(id, response::empty(StatusCode::ACCEPTED));
            }
            Some((id, exchange)) => {
                if exchange.is_open() {
                    exchange.stream();
                }
                if exchange.behind.is_none() {
                    self.end(id);
                }
            }
            None => {}
        }
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.forget_if_over(stream);
            streams.remove_ended_amortized();
        }
    }

    /// Begins a response that is a stream of events.
    pub(super) fn open_stream(&mut self, id: ExchangeId, stream: u64) {
        let primes = self.primes();
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.stream = Some(stream);
        exchange.stream();
        let bytes = match &self.kind {
            SessionKind::Streams { streams, .. } if primes => streams.prime(stream, exchange),
            // Some proxies forward a head only together with the first bytes of the body.
            SessionKind::Modern { .. } | SessionKind::Streams { .. } | SessionKind::Old { .. } => exchange.comment(),
        };
        self.wrote(id, bytes);
    }

    /// Ends the exchange of a request before its response. The client reconnects to receive the response.
    fn release_stream(&mut self, stream: u64, retry: Option<Duration>) {
        let SessionKind::Streams { streams, .. } = &self.kind else { return };
        let Some(id) = streams.all.get(stream).and_then(|known| known.exchange).filter(|_| self.primes()) else {
            return;
        };
        if self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open()) {
            self.open_stream(id, stream);
        }
        if self.exchanges.get(id.0).is_some_and(|exchange| !exchange.is_ended()) {
            self.send_retry(id, retry);
            self.end(id);
        }
    }

    /// Writes the delay after which the client reconnects to a stream that ends early.
    pub(super) fn send_retry(&mut self, id: ExchangeId, retry: Option<Duration>) {
        if self.primes() {
            let retry = Some(retry.unwrap_or(self.options.limits.retry));
            self.write(id, &SseText { retry, ..SseText::default() });
        }
    }

    /// Returns whether streams begin with an event id to resume them with, and a delay for reconnecting.
    pub(super) fn primes(&self) -> bool {
        matches!(self.kind, SessionKind::Streams { .. })
            && self.conn.version().is_some_and(ProtocolVersion::primes_streams)
    }

    /// Completes an exchange with a response of one message.
    fn answer_with(&mut self, id: ExchangeId, frame: &mut Vec<u8>) {
        // Other responses of a batch may be results: a client that repeats the batch would repeat their requests, too.
        let is_batch = frame.first() == Some(&b'[');
        let challenge = self.challenge.take_if(|challenge| challenge.0 == id && !is_batch);
        let challenge = challenge.map(|challenge| challenge.1);
        let status = challenge.as_ref().map_or_else(|| self.status(frame), |challenge| challenge.status());
        let is_last = matches!(self.kind, SessionKind::Modern { .. });
        let body = if frame.len() <= SPARE && !is_last {
            // The buffer is kept for the next message, and the copy takes no more memory than it needs.
            frame.as_slice().into()
        } else {
            // The buffer may have held a larger message before.
            frame.shrink_to(2 * frame.len());
            mem::take(frame)
        };
        let mut answer = response::json(status, body);
        if let Some(challenge) = challenge {
            challenge.add_to(answer.headers_mut());
        }
        let opens = self.exchanges.get(id.0).is_some_and(|exchange| exchange.opens);
        if let (SessionKind::Streams { id, .. }, true) = (&self.kind, opens && self.conn.version().is_some()) {
            response::set_session(answer.headers_mut(), id);
        }
        self.answer(id, answer);
    }

    /// Returns the status of a response that is one message.
    fn status(&self, frame: &[u8]) -> StatusCode {
        let Some((code, has_id)) = Message::error_code(frame) else { return StatusCode::OK };
        match &self.kind {
            // An error without an id means that the body was not a request.
            SessionKind::Streams { .. } | SessionKind::Old { .. } if has_id => StatusCode::OK,
            SessionKind::Streams { .. } | SessionKind::Old { .. } => StatusCode::BAD_REQUEST,
            SessionKind::Modern { refused, .. } => match code {
                ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
                ErrorCode::PARSE_ERROR
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::HEADER_MISMATCH
                | ErrorCode::MISSING_CLIENT_CAPABILITY
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
                _ => refused.unwrap_or(StatusCode::OK),
            },
        }
    }

    // ---- end of the connection ----

    /// Ends all exchanges after the connection has ended.
    pub(super) fn end_all(&mut self) {
        self.queue = LazyBox::default();
        let open: Vec<_> = self
            .exchanges
            .iter()
            .filter(|(_, it)| !it.is_ended())
            .map(|(id, it)| (ExchangeId(id), it.is_open()))
            .collect();
        for (id, is_open) in open {
            match (is_open, &self.kind) {
                (false, _) => self.end(id),
                (true, SessionKind::Modern { .. }) => self.answer(id, response::busy("The server is closing")),
                // The session continues in another process.
                (true, SessionKind::Streams { streams, .. }) if streams.shared => {
                    self.answer(id, response::busy("The server is closing"));
                }
                (true, SessionKind::Streams { .. } | SessionKind::Old { .. }) => {
                    self.answer(id, response::no_session())
                }
            }
        }
    }

    // ---- output of an exchange ----

    /// Completes an exchange with a whole response.
    pub(super) fn answer(&mut self, id: ExchangeId, answer: HttpResponse) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let (before, after, stream) = (exchange.waiting(), answer.body().len(), exchange.stream);
        exchange.answer(answer);
        exchange.read_in = self.watch;
        self.weigh(before, after);
        if let (SessionKind::Streams { streams, .. }, Some(stream)) = (&mut self.kind, stream) {
            streams.all.remove(stream);
        }
        self.announce(id);
    }

    fn write(&mut self, id: ExchangeId, event: &SseText<'_>) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let bytes = exchange.event(event);
        self.wrote(id, bytes);
    }

    /// Records that bytes were added to the output of an exchange.
    pub(super) fn wrote(&mut self, id: ExchangeId, bytes: usize) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let (after, at) = (exchange.waiting(), self.clock + self.options.limits.keepalive);
        exchange.quiet = Some(at);
        if after == bytes {
            // The client has read all earlier output.
            exchange.read_in = self.watch;
        }
        self.weigh(after - bytes, after);
        self.add_deadline(Deadline { at, wake: Wake::Quiet });
        self.announce(id);
    }

    /// Marks an exchange as complete.
    pub(super) fn end(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.end();
        if let (SessionKind::Streams { streams, .. }, Some(stream)) = (&mut self.kind, exchange.stream) {
            streams.detach(stream, id);
        }
        self.announce(id);
    }
}
