//! Handling of responses, according to the purpose of their exchange.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use http::{HeaderMap, HeaderValue, StatusCode, header, response::Parts};

use super::{
    Action, Client, ExchangeId,
    exchange::{Exchange, ExchangeState, PostKind, Purpose, error_of},
    machine::Transport,
    refusal::refused,
};
use crate::{
    codec::{Frame, SseDecoder},
    connection::{Event, Failure, Violation},
    http::{
        media,
        names::{EVENTS, JSON, SESSION_ID, single},
    },
    protocol::{Method, Phase},
    wire::{ErrorCode, Message, RequestId, encode},
};

impl Client {
    pub(super) fn head(&mut self, id: ExchangeId, head: &Parts) {
        self.credentials_added(id);
        let Some(exchange) =
            self.exchanges.get_mut(id).filter(|exchange| matches!(exchange.state, ExchangeState::Sent))
        else {
            return;
        };
        if exchange.may_open() {
            exchange.session = session(&head.headers);
        }
        let status = head.status;
        if status.is_redirection()
            && let Ok(Some(location)) = single(&head.headers, &header::LOCATION)
        {
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            return self.redirected(id, status, &location);
        }
        // A client that is being closed does not obtain credentials.
        let may_authenticate = self.options.authenticates && !matches!(exchange.purpose, Purpose::DeleteSession(_));
        if may_authenticate && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let refused = refused(head);
            let challenges = refused.challenges.clone();
            if self.keep(id, ExchangeState::Authenticating(refused)) {
                self.start_authenticating(id);
                self.queue_action(Action::Authenticate { exchange: id, status: status.as_u16(), challenges });
            }
            return;
        }
        let has_events = status == StatusCode::OK && media::is(&head.headers, EVENTS);
        match &exchange.purpose {
            Purpose::DeleteSession(_) => self.dismiss(id),
            Purpose::Listen(_) | Purpose::Resume(_) | Purpose::Old(_) if has_events => self.read_events(id),
            Purpose::Post(post) if status.is_success() => {
                let answered_here = post.request.is_some() && matches!(self.transport, Transport::Streamable);
                if !answered_here {
                    self.accepted(id);
                } else if media::is(&head.headers, JSON) {
                    exchange.state = ExchangeState::Whole(Vec::new());
                } else if has_events {
                    self.read_events(id);
                } else {
                    self.fail(id, Failure::NoAnswer);
                }
            }
            // Some servers refuse `GET` with 404 instead of 405. If the session is lost, the next message shows it.
            Purpose::Listen(position) if status == StatusCode::NOT_FOUND && !position.was_open => {
                self.not_resumed(id, head);
            }
            Purpose::Post(_) | Purpose::Listen(_) | Purpose::Resume(_)
                if status == StatusCode::NOT_FOUND && exchange.sent_in.is_some() =>
            {
                self.session_lost(id);
            }
            Purpose::Listen(_) | Purpose::Resume(_) => self.not_resumed(id, head),
            Purpose::Post(_) | Purpose::Old(_) => {
                self.keep(id, ExchangeState::Refused(refused(head)));
            }
            Purpose::Done => {}
        }
    }

    /// Sets the state of an exchange to one that keeps challenges. Without room for them, the call fails. Returns
    /// whether there was room.
    fn keep(&mut self, id: ExchangeId, state: ExchangeState) -> bool {
        let has_room = self.has_room_for(id, state.bytes());
        if !has_room {
            self.fail(id, Failure::TooLarge);
            self.abort(id);
        } else if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.state = state;
        }
        has_room
    }

    /// Begins to read a stream of events, with the last event id of the stream that it resumes.
    fn read_events(&mut self, id: ExchangeId) {
        let limit = self.conn.settings().limits.frame_bytes;
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let last_id = exchange.purpose.position().map(|position| {
            position.was_open = true;
            position.last_id.clone()
        });
        let last_id = last_id.unwrap_or_default();
        exchange.state = ExchangeState::Events(SseDecoder::resuming(limit, last_id));
    }

    pub(super) fn body(&mut self, id: ExchangeId, chunk: &[u8]) {
        let (limit, shown) = (self.conn.settings().limits.frame_bytes, self.options.limits.error_bytes);
        if !self.has_room_for(id, chunk.len()) {
            self.fail(id, Failure::TooLarge);
            self.abort(id);
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        match &mut exchange.state {
            ExchangeState::Sent => {}
            ExchangeState::Whole(body) if body.len().saturating_add(chunk.len()) > limit => {
                self.fail(id, Failure::TooLarge);
                self.abort(id);
            }
            ExchangeState::Whole(body) => body.extend_from_slice(chunk),
            ExchangeState::Refused(refused) | ExchangeState::Authenticating(refused) => {
                let room = shown.saturating_sub(refused.body.len());
                refused.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room && matches!(exchange.state, ExchangeState::Refused(_)) {
                    // The beginning of the body is enough for the error.
                    if let Some(Exchange { purpose, state: ExchangeState::Refused(refused), .. }) = self.abort(id) {
                        self.refused(purpose, refused);
                    }
                }
            }
            ExchangeState::Over { left, .. } => {
                *left = left.saturating_sub(chunk.len());
                if *left == 0 {
                    self.abort(id);
                }
            }
            ExchangeState::Events(_) => self.events(id, chunk),
        }
    }

    /// Reserves `more` bytes for a response, besides all other responses and the refusals that are kept. Returns
    /// whether there was room for them. Exchanges that belong to no call always have room: each has its own limit.
    fn has_room_for(&mut self, id: ExchangeId, more: usize) -> bool {
        if self.exchanges.get(id).is_some_and(|exchange| exchange.purpose.request().is_some()) {
            return self.reserve(more);
        }
        self.uncounted_room = self.uncounted_room.saturating_sub(more);
        true
    }

    /// Reserves `more` bytes for responses, besides those that are kept. Returns whether there was room for them.
    pub(super) fn reserve(&mut self, more: usize) -> bool {
        if let Some(room) = self.uncounted_room.checked_sub(more) {
            self.uncounted_room = room;
            return true;
        }
        // This finds what was removed since the last count. Few chunks cause a count, unless little room is left.
        let bytes = self.usage().bytes.saturating_add(more);
        let most = self.options.limits.body_bytes;
        self.uncounted_room = most.saturating_sub(bytes);
        bytes <= most
    }

    fn events(&mut self, id: ExchangeId, mut chunk: &[u8]) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        let ExchangeState::Events(mut decoder) = core::mem::replace(&mut exchange.state, ExchangeState::Sent) else {
            return;
        };
        let mut news = false;
        let (reserved, room) = (decoder.buffered() + chunk.len(), self.uncounted_room);
        // The rest is dropped as soon as the exchange is removed or gets another state.
        while let Some(event) = decoder.next_event(&mut chunk) {
            news = true;
            match event {
                Ok(event) => self.event(id, event.kind, event.data),
                Err(_) => self.too_large(id),
            }
            let reads_on = self.exchanges.get(id).is_some_and(|exchange| matches!(exchange.state, ExchangeState::Sent));
            if !reads_on {
                return;
            }
        }
        // A count in between has missed this decoder. Replacement characters are longer than what they replace.
        let grown = decoder.buffered().saturating_sub(reserved);
        self.uncounted_room = if self.uncounted_room == room { room.saturating_sub(grown) } else { 0 };
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if let Some(position) = exchange.purpose.position() {
            // It has the id that the decoder had before this chunk.
            if position.last_id != decoder.last_id() {
                news = true;
                position.last_id.clear();
                position.last_id.push_str(decoder.last_id());
            }
            position.retry = decoder.retry().or(position.retry);
            position.attempts = if news { 0 } else { position.attempts };
        }
        exchange.state = ExchangeState::Events(decoder);
    }

    fn event(&mut self, id: ExchangeId, kind: &str, data: &[u8]) {
        let trial = matches!(self.exchanges.get(id), Some(Exchange { purpose: Purpose::Old(Some(_)), .. }));
        match kind {
            "endpoint" if matches!(self.exchanges.get(id), Some(Exchange { purpose: Purpose::Old(_), .. })) => {
                self.endpoint(id, data);
            }
            // The first event of the old transport must be `endpoint`.
            _ if trial => self.no_http_sse(id),
            "message" if !data.is_empty() => self.deliver(id, data),
            // Other events carry no message.
            _ => {}
        }
    }

    /// Passes a received message to the connection.
    fn deliver(&mut self, id: ExchangeId, data: &[u8]) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        let request = exchange.purpose.request().cloned();
        let modern = exchange.purpose.is_modern();
        let opens = exchange.purpose.post().is_some_and(|post| post.kind == PostKind::Initialize);
        let before = self.conn.phase();
        let mut named = Vec::new();
        let mut text = data;
        if let (Some(request), Some((code, has_id))) = (&request, Message::error_code(data)) {
            // An error without an id can only belong to the request of this exchange.
            if !has_id && let Some(error) = error_of(data, self.conn.settings().limits.json_depth) {
                encode::error(&mut named, Ok(&RequestId::from(request.id)), &error);
                text = &named;
            }
            if modern && code == ErrorCode::HEADER_MISMATCH {
                let post = self.exchanges.get(id).and_then(|exchange| exchange.purpose.post()).cloned();
                if post.is_some_and(|post| self.refresh(&post, text)) {
                    return self.dismiss(id);
                }
            }
        }
        let list = modern && request.as_ref().is_some_and(|request| request.method == Some(Method::ListTools));
        let rest = if list { self.learn(text) } else { None };
        let whole = text;
        let text = rest.as_deref().map_or(text, str::as_bytes);
        // In 2026-07-28, requests and log messages have a call in other ways.
        let related = request.as_ref().filter(|_| !modern).map(|request| request.call);
        let event = self.conn.handle_frame_about(self.clock, Frame::new(text), related).map(Event::into_owned);
        self.events.extend(event);
        while let Some(event) = self.conn.poll_event() {
            self.events.push_back(event);
        }
        let is_answered = request.as_ref().is_some_and(|request| !self.conn.awaits(request.id));
        // Other messages may precede the response.
        if let Some(request) = request.filter(|_| is_answered) {
            self.refreshed(request.id, whole);
        }
        // While a lost session is replaced, the connection stays ready, and other messages may precede the response.
        let has_opened = before == Phase::Opening || opens && is_answered;
        if has_opened && self.conn.phase() == Phase::Ready && self.is_session() {
            self.opened(id);
        }
        if is_answered {
            if !opens {
                self.renewals.end();
            }
            self.dismiss(id);
        }
    }

    /// Learns from a page of the list of tools which arguments are repeated in headers. Reports the tools that cannot
    /// be used, and returns the message without them, if there are any.
    fn learn(&mut self, data: &[u8]) -> Option<String> {
        let depth = self.conn.settings().limits.json_depth;
        let page = self.tools.learn(core::str::from_utf8(data).ok()?, depth, &self.options.limits);
        for (tool, why) in page.invalid {
            self.events.push_back(Event::Violation(Violation::UnusableTool { tool, why }));
        }
        page.rest
    }

    fn too_large(&mut self, id: ExchangeId) {
        let waits = self.exchanges.get(id).is_some_and(|exchange| exchange.purpose.request().is_some());
        if waits {
            self.fail(id, Failure::TooLarge);
            self.abort(id);
        } else {
            self.events.push_back(Event::Violation(Violation::Oversized));
        }
    }

    /// Handles the end of a response: it is complete, or it broke off for the reason `broken`.
    pub(super) fn body_ended(&mut self, id: ExchangeId, broken: Option<String>) {
        self.credentials_added(id);
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        match core::mem::replace(&mut exchange.state, ExchangeState::Sent) {
            over @ ExchangeState::Over { .. } => {
                // Put back, since the table counts it.
                exchange.state = over;
                self.exchanges.remove(id);
            }
            // The exchange waits for the application, which has not handled the challenge yet.
            waiting @ ExchangeState::Authenticating(_) => exchange.state = waiting,
            ExchangeState::Whole(body) if broken.is_none() => {
                self.deliver(id, &body);
                let Some(Exchange { purpose, state, .. }) = self.exchanges.remove(id) else { return };
                if !matches!(state, ExchangeState::Over { .. }) {
                    self.unanswered(&purpose, Failure::NoAnswer);
                }
            }
            ExchangeState::Whole(_) | ExchangeState::Sent => {
                let why = broken.unwrap_or_else(|| "the response ended before it began".to_string());
                self.broken(id, why);
            }
            ExchangeState::Refused(refused) => {
                if let Some(Exchange { purpose, .. }) = self.exchanges.remove(id) {
                    self.refused(purpose, refused);
                }
            }
            ExchangeState::Events(_) => self.stream_ended(id),
        }
    }

    /// Fails the call of an exchange that gets no response, if the call is still in flight.
    pub(super) fn unanswered(&mut self, purpose: &Purpose, failure: Failure) {
        if let Some(request) = purpose.request()
            && self.conn.awaits(request.id)
        {
            self.conn.fail(request.call, failure);
            self.refreshed(request.id, &[]);
        }
    }

    /// Ends an exchange that carries no response to its message.
    pub(super) fn fail(&mut self, id: ExchangeId, failure: Failure) {
        match self.take_purpose(id) {
            // The refusal of the message for which the old transport is tried remains the result.
            Some(Purpose::Old(Some(why))) => self.refused(Purpose::Post(why.post), why.refused),
            Some(purpose) => self.unanswered(&purpose, failure),
            None => {}
        }
    }
}

/// The maximum length of a session id. Servers refuse heads that are not much larger.
const MOST_SESSION: usize = 4096;

/// Returns the session id of a response, if it is a valid one.
fn session(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = single(headers, &SESSION_ID).ok()??.as_bytes();
    let is_visible = (1..=MOST_SESSION).contains(&value.len()) && value.iter().all(|byte| matches!(byte, 0x21..=0x7e));
    // The value may share the buffer of the whole head.
    let mut value = HeaderValue::from_bytes(value).ok().filter(|_| is_visible)?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::{
        connection::ClientConfig, http::client::ClientOptions, protocol::VersionSet, rpc::Timestamp,
        schema::Implementation,
    };

    /// Returns the exchange of the next request.
    fn next(client: &mut Client) -> ExchangeId {
        while client.poll_event().is_some() {}
        match client.poll_action() {
            Some(Action::Request { exchange, .. }) => exchange,
            other => panic!("{other:?}"),
        }
    }

    fn head(status: u16) -> Parts {
        let response = Response::builder().status(status).header("content-type", JSON).header("mcp-session-id", "s");
        response.body(()).expect("a response").into_parts().0
    }

    #[test]
    fn only_handshakes_keep_session_ids() {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        config.settings.versions = VersionSet::LEGACY;
        let mut options = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        options.listen = false;
        let (mut client, now) = (Client::new(config, options, Timestamp::ZERO), Timestamp::ZERO);
        let hello = next(&mut client);
        client.handle_head(now, hello, &head(200));
        assert!(client.exchanges.get(hello).is_some_and(|exchange| exchange.session.is_some()));
        let welcome = br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
        client.handle_body(now, hello, welcome);
        client.handle_end(now, hello);
        assert!(client.session.is_some());
        let initialized = next(&mut client);
        client.handle_head(now, initialized, &head(202));
        client
            .connection(now)
            .request_raw(now, "tools/list", None, crate::connection::RequestOptions::default())
            .expect("ready");
        let call = next(&mut client);
        client.handle_head(now, call, &head(200));
        assert_eq!(client.exchanges.len(), 2);
        assert!(client.exchanges.values().all(|exchange| exchange.session.is_none()));
    }
}
