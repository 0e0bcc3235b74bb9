//! Which message goes where: every message of a connection to exactly one exchange.

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
    /// Brings a message of the connection to the exchange that it belongs to.
    /// Its frame is taken if it is all of an answer.
    pub(super) fn deliver(&mut self, transmit: Transmit, frame: &mut Vec<u8>) {
        let Transmit { route, stream, .. } = transmit;
        // Whether nothing that belongs to the same request follows.
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
                let known = stream.filter(|stream| streams.all.contains(*stream));
                match (route, known) {
                    (Route::StreamReleased { retry, .. }, Some(stream)) => self.release_stream(stream, retry),
                    (Route::Unanswered, Some(stream)) => self.stays_unanswered(stream),
                    (Route::StreamReleased { .. } | Route::Unanswered, None) => {}
                    (Route::Call(call), Some(stream)) => self.send_on(stream, Some(call), frame, false),
                    (_, Some(stream)) => self.send_on(stream, None, frame, last),
                    (Route::Call(call), None) => self.send_to_anybody(Some(call), frame),
                    (Route::Connection, None) if stream.is_none() => self.send_to_anybody(None, frame),
                    // It belongs to a request that was sent on an exchange that is lost, and cannot be resumed.
                    (Route::Connection | Route::Reply { .. }, None) => {}
                }
            }
        }
    }

    /// Sends a message on a stream, whether anything carries that now or not.
    fn send_on(&mut self, stream: u64, call: Option<CallId>, frame: &mut Vec<u8>, last: bool) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let Some(known) = streams.all.get_mut(stream) else { return };
        let carrier = known.exchange;
        if let Some(id) = carrier
            && self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open())
        {
            if last {
                // There is nothing that could be resumed.
                streams.all.remove(stream);
                return self.answer_with(id, frame);
            }
            self.open_stream(id, stream);
        }
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        let event = streams.keep(self.clock, stream, call, frame).text();
        if last {
            streams.done(stream);
        } else if call.is_some() {
            let conn = &self.conn;
            streams.tidy_calls(stream, |call| conn.asks(call));
        }
        // Where what came before is still to be read, it comes behind that.
        let is_ahead = |id: &ExchangeId| self.exchanges.get(id.0).is_some_and(|exchange| exchange.behind.is_none());
        if let Some(id) = carrier.filter(is_ahead) {
            self.write(id, &SseText { id: Some(&event), data: Some(frame), ..MESSAGE });
            if last {
                self.end(id);
            }
        }
        if let SessionKind::Streams { streams, .. } = &mut self.kind {
            streams.tidy_sometimes();
        }
    }

    /// Sends a message on an exchange that is all there is, without any way to come back to it.
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

    /// Sends a message that belongs to no request, once there is a stream for it.
    fn send_to_anybody(&mut self, call: Option<CallId>, frame: &mut Vec<u8>) {
        let SessionKind::Streams { streams, .. } = &mut self.kind else { return };
        if let Some(stream) = streams.listener() {
            return self.send_on(stream, call, frame, false);
        }
        for given_up in streams.wait(&self.options.limits, call, frame) {
            if let Some(call) = given_up.call {
                self.conn.fail(call, Failure::NoStream);
            }
        }
    }

    /// Sends what waits for a stream.
    pub(super) fn send_waiting(&mut self, stream: u64) {
        while let SessionKind::Streams { streams, .. } = &mut self.kind
            && let Some((call, mut message)) = streams.next_waiting()
        {
            self.send_on(stream, call, &mut message, false);
        }
    }

    /// Nothing follows on a stream: all that was asked there was cancelled, or nothing was.
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
            streams.tidy_sometimes();
        }
    }

    /// Begins to answer with a stream of events.
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

    /// Closes what carries the stream of a request for now, so that its client comes back for the answer.
    fn release_stream(&mut self, stream: u64, retry: Option<Duration>) {
        let SessionKind::Streams { streams, .. } = &self.kind else { return };
        let Some(id) = streams.all.get(stream).and_then(|known| known.exchange).filter(|_| self.primes()) else {
            return;
        };
        if self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open()) {
            self.open_stream(id, stream);
        }
        self.say_when(id, retry);
        self.end(id);
    }

    /// Says when to come back to a stream that is closed early.
    pub(super) fn say_when(&mut self, id: ExchangeId, retry: Option<Duration>) {
        if self.primes() {
            let retry = Some(retry.unwrap_or(self.options.limits.retry));
            self.write(id, &SseText { retry, ..SseText::default() });
        }
    }

    /// Whether streams begin with an id to come back with, and say when to.
    pub(super) fn primes(&self) -> bool {
        matches!(self.kind, SessionKind::Streams { .. })
            && self.conn.version().is_some_and(ProtocolVersion::primes_streams)
    }

    /// Answers with one message and nothing else.
    fn answer_with(&mut self, id: ExchangeId, frame: &mut Vec<u8>) {
        let challenge = self.challenge.take_if(|challenge| challenge.0 == id).map(|challenge| challenge.1);
        let status = challenge.as_ref().map_or_else(|| self.status(frame), |challenge| challenge.status());
        let body = if frame.len() <= SPARE {
            // The buffer stays for the next one, and the copy takes no more room than it needs.
            frame.as_slice().into()
        } else {
            // It may have been that of something larger.
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

    /// The status of an answer that is one message.
    fn status(&self, frame: &[u8]) -> StatusCode {
        let Some((code, has_id)) = Message::error_code(frame) else { return StatusCode::OK };
        match &self.kind {
            // What cannot even be attributed was no request.
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

    // ---- how exchanges end ----

    /// There is no connection any more that could say anything.
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
                // It goes on elsewhere.
                (true, SessionKind::Streams { streams, .. }) if streams.shared => {
                    self.answer(id, response::busy("The server is closing"));
                }
                (true, SessionKind::Streams { .. } | SessionKind::Old { .. }) => {
                    self.answer(id, response::no_session())
                }
            }
        }
    }

    // ---- what changes an exchange ----

    /// Gives a whole answer.
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

    /// So many bytes were added to what waits to be written.
    pub(super) fn wrote(&mut self, id: ExchangeId, bytes: usize) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        let (after, at) = (exchange.waiting(), self.clock + self.options.limits.keepalive);
        exchange.quiet = Some(at);
        if after == bytes {
            // All that came before was read.
            exchange.read_in = self.watch;
        }
        self.weigh(after - bytes, after);
        self.look_at(Deadline { at, wake: Wake::Quiet });
        self.announce(id);
    }

    /// Nothing follows on an exchange.
    pub(super) fn end(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.end();
        if let (SessionKind::Streams { streams, .. }, Some(stream)) = (&mut self.kind, exchange.stream) {
            streams.leave(stream, id);
        }
        self.announce(id);
    }
}
