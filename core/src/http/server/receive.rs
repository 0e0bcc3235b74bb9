//! Handling of requests to a session.

use alloc::{string::ToString, sync::Arc};

use http::StatusCode;

use super::{
    ExchangeId, Request, Session,
    session::SessionKind,
    target::{BodyKind, Target},
};
use crate::{
    codec::{Frame, SseText},
    connection::{Arrival, CloseReason, Event, Violation},
    http::{
        HttpResponse,
        response::{self, refusal},
        session_id::message_uri,
    },
    protocol::MirroredHeaders,
};

impl Session {
    pub(super) fn begin<'a>(&mut self, id: ExchangeId, request: &'a Request) -> Option<Event<'a>> {
        self.watch_authorization(id);
        match &request.target {
            Target::Modern(headers) => self.message(id, request, headers.clone()),
            Target::Initialize | Target::Message(_) | Target::OldMessage(_) => self.message(id, request, None),
            Target::Listen(_, last) => {
                self.touched = true;
                self.listen(id, last.as_deref(), request.principal.as_deref());
                None
            }
            Target::OldStream => {
                self.touched = true;
                self.open_old_stream(id);
                None
            }
            Target::End(_) => {
                self.touched = true;
                self.conn.finish(CloseReason::Eof);
                self.answer(id, response::empty(StatusCode::NO_CONTENT));
                None
            }
        }
    }

    /// Passes a message to the connection.
    fn message<'a>(
        &mut self,
        id: ExchangeId,
        request: &'a Request,
        headers: Option<Arc<MirroredHeaders>>,
    ) -> Option<Event<'a>> {
        let stream = match &mut self.kind {
            SessionKind::Modern { .. } => Some(0),
            SessionKind::Streams { streams, .. } => Some(streams.begin(id, false)),
            SessionKind::Old { .. } => None,
        };
        if let Some(exchange) = self.exchanges.get_mut(id.0) {
            exchange.stream = stream;
            exchange.opens = matches!(request.target, Target::Initialize);
        }
        let arrival = Arrival {
            stream,
            principal: request.principal.clone(),
            headers,
            extension: request.extension.clone(),
            related_call: None,
        };
        let event = match request.message() {
            Some(message) => {
                let (message, known) = ((message, request.body.len()), request.known_client.as_ref());
                self.conn.handle_message_from(self.clock, message, known, arrival)
            }
            None => self.conn.handle_frame_from(self.clock, Frame::new(&request.body), arrival),
        };
        let violation = match &event {
            Some(Event::Violation(violation)) => Some(violation),
            _ => None,
        };
        if let (SessionKind::Modern { refused, .. }, Some(Violation::BadMeta)) = (&mut self.kind, violation) {
            *refused = Some(StatusCode::BAD_REQUEST);
        }
        // Progress of a request that has ended already is harmless.
        let refused = violation.filter(|violation| !matches!(violation, Violation::UnknownProgress));
        let refusal = refused.map(|violation| refusal(StatusCode::BAD_REQUEST, violation.to_string()));
        let is_request = matches!(event, Some(Event::Request { .. }));
        self.warm |= is_request;
        let event = match event {
            Some(event) if !self.events.is_empty() => {
                self.events.push_back(event.into_owned());
                None
            }
            event => event,
        };
        self.taking = Some(id);
        self.pump();
        self.taking = None;
        // Over the old transport, responses are sent on the stream of the session.
        if !is_request || stream.is_none() {
            self.touched = true;
            self.accept(id, stream, request.kind, refusal);
        }
        event
    }

    /// Completes the exchange of a message that gets no response, unless the connection has responded to it.
    fn accept(&mut self, id: ExchangeId, stream: Option<u64>, kind: BodyKind, refusal: Option<HttpResponse>) {
        let is_open = self.exchanges.get(id.0).is_some_and(|exchange| exchange.is_open());
        // A request gets a response, perhaps from the connection itself. If none follows, the connection reports that
        // (`Route::Unanswered`).
        let waits = matches!(kind, BodyKind::Request | BodyKind::Batch) && stream.is_some();
        if !is_open || waits {
            return;
        }
        let refusal = refusal.filter(|_| matches!(kind, BodyKind::Notification | BodyKind::Response));
        self.answer(id, refusal.unwrap_or_else(|| response::empty(StatusCode::ACCEPTED)));
        if matches!(self.kind, SessionKind::Modern { .. }) {
            self.conn.close(self.clock);
        }
    }

    /// Opens the stream of a session of the old transport. Its first event is the URI for messages.
    fn open_old_stream(&mut self, id: ExchangeId) {
        let (SessionKind::Old { id: session, stream }, Some(old)) = (&mut self.kind, self.options.paths.old()) else {
            return self.answer(id, response::no_session());
        };
        *stream = Some(id);
        let uri = message_uri(&old.messages, session);
        let Some(exchange) = self.exchanges.get_mut(id.0) else { return };
        exchange.stream();
        let event = SseText { kind: Some("endpoint"), data: Some(uri.as_bytes()), ..SseText::default() };
        let bytes = exchange.event(&event);
        self.wrote(id, bytes);
    }
}
