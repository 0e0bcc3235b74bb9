//! Outgoing messages, and the HTTP requests that carry them.

use alloc::sync::Arc;

use http::{HeaderValue, Method as Verb, Request, Uri, header};

use super::{
    Client,
    exchange::{PostKind, PostRequest, Purpose, SentRequest, StreamPosition},
    machine::{SendGate, Transport},
    mirror::Headers,
    post_headers::Scope,
};
use crate::{
    connection::Route,
    http::names::{EVENTS, LAST_EVENT_ID},
    protocol::{Era, Method},
    rpc::CallId,
    schema::keys,
    wire::{Message, RequestId},
};

impl Client {
    /// Sends a message of the connection, or queues it.
    pub(super) fn send(&mut self, route: Route, frame: &[u8]) {
        // The only arrays that a client sends are the responses to a batch of the server (2025-03-26).
        if frame.starts_with(b"[") {
            return self.send_post(frame, PostKind::Response, None, None);
        }
        if let Route::Call(call) = route
            && let Some((id, method)) = self.conn.session_request(call)
            && method != Some(Method::Initialize)
        {
            // Most requests of a session. Nothing of them is repeated in headers.
            let request = SentRequest { call, id, method: method.map(|method| method.in_era(Era::Legacy)) };
            return self.send_post(frame, PostKind::Request, Some(request), None);
        }
        if let Route::Call(call) = route
            && let Some(request) = self.conn.stateless_request(call)
        {
            // Most requests of the modern era.
            let (version, method, params) = (request.version.as_str(), request.method.as_str(), request.params);
            let sent = SentRequest {
                call,
                id: request.id,
                method: request.method.known().map(|method| method.in_era(Era::Modern)),
            };
            return match self.mirror.headers(&self.tools, version, method, params.as_ref()) {
                Ok(mirrored) => self.send_post(frame, PostKind::Request, Some(sent), Some(mirrored)),
                Err(failure) => self.conn.fail(call, failure),
            };
        }
        let depth = self.conn.settings().limits.json_depth;
        let Ok(Ok(message)) = core::str::from_utf8(frame).map(|text| Message::parse(text, depth)) else { return };
        let (kind, request, mirrored) = match message {
            Message::Request { id, method, params, meta } => {
                let Route::Call(call) = route else { return };
                let known = Method::parse(&method);
                let kind = if known == Some(Method::Initialize) { PostKind::Initialize } else { PostKind::Request };
                let version = meta.as_ref().and_then(|meta| meta.member(keys::PROTOCOL_VERSION)?.into_text());
                let mirrored =
                    version.map(|version| self.mirror.headers(&self.tools, &version, &method, params.as_ref()));
                let mirrored = match mirrored.transpose() {
                    Ok(mirrored) => mirrored,
                    Err(failure) => return self.conn.fail(call, failure),
                };
                let known = known.map(|known| known.in_era(if mirrored.is_some() { Era::Modern } else { Era::Legacy }));
                let request = request(call, &id, known);
                (kind, request, mirrored)
            }
            Message::Notification { method, params } => {
                let known = Method::parse(&method);
                let modern = self.conn.version().filter(|version| version.era() == Era::Modern);
                if known == Some(Method::Cancelled) {
                    let id = params.and_then(|params| params.member("requestId")?.decode::<u64>().ok());
                    // In the modern era, a client cancels a request by closing its exchange, and sends no notification.
                    if self.hang_up(id) || modern.is_some() {
                        return;
                    }
                }
                let kind =
                    if known == Some(Method::Initialized) { PostKind::Initialized } else { PostKind::Notification };
                let mirrored =
                    modern.and_then(|version| self.mirror.headers(&self.tools, version.as_str(), &method, None).ok());
                (kind, None, mirrored)
            }
            // An error without an id would refer to a response, and a response never gets a response.
            Message::Error { id: None, .. } => return,
            Message::Response { .. } | Message::Error { .. } => (PostKind::Response, None, None),
        };
        self.send_post(frame, kind, request, mirrored);
    }

    /// Posts a message if the gate is open for messages of this kind, and queues it otherwise.
    fn send_post(&mut self, frame: &[u8], kind: PostKind, request: Option<SentRequest>, mirrored: Option<Headers>) {
        if let Some(request) = request.as_ref().filter(|_| self.is_blocked) {
            // It was paused in the outbox.
            self.conn.resume_deadlines(self.clock, request.id);
        }
        let again = request.as_ref().is_some_and(|request| self.refreshes.has(request.call));
        let post =
            PostRequest { body: Arc::from(frame), kind, mirrored, request, again, position: StreamPosition::default() };
        match self.gate {
            SendGate::Until(next) if next != kind => self.queue(post),
            SendGate::Until(PostKind::Initialize) => {
                self.gate = SendGate::Handshake;
                self.post(post);
            }
            _ => self.post(post),
        }
    }

    /// Posts the first message that has waited for the session, if it may be sent now. Returns whether it was.
    pub(super) fn post_queued(&mut self) -> bool {
        if self.queued.is_empty() || self.gate != SendGate::Open || !self.has_room_beyond(0) {
            return false;
        }
        let Some(post) = self.queued.pop_front() else { return false };
        if let Some(request) = &post.request {
            self.conn.resume_deadlines(self.clock, request.id);
        }
        self.post(post);
        true
    }

    pub(super) fn post(&mut self, post: PostRequest) {
        let kind = post.kind;
        let uri = match &self.transport {
            Transport::Streamable => None,
            Transport::Old(messages) => Some(messages.clone()),
        };
        let id = self.start(Purpose::Post(post), uri, 0);
        if kind == PostKind::Initialized {
            self.gate = SendGate::Initialized(id);
        }
    }

    /// Closes the exchange of a cancelled request, and removes its retries and queued messages. Returns whether the
    /// server has not accepted the request: it was never sent, or it was refused and waits for credentials; or whether
    /// it was sent in a session that is lost.
    fn hang_up(&mut self, id: Option<u64>) -> bool {
        if id.is_some_and(|id| self.forgotten.remove(&id)) {
            return true;
        }
        let is_it = |request: Option<&SentRequest>| request.is_some_and(|request| Some(request.id) == id);
        self.retry_timers.retain(|pause| !is_it(pause.purpose.request()));
        let before = self.queued.len();
        self.queued.retain(|post| !is_it(post.request.as_ref()));
        let found = self.exchanges.iter().filter(|(_, exchange)| is_it(exchange.purpose.request()));
        let Some((id, exchange)) = found.min_by_key(|(id, _)| *id) else { return self.queued.len() < before };
        // The server has accepted a request whose stream is resumed.
        let is_post = matches!(exchange.purpose, Purpose::Post(_));
        let waits_for_credentials = exchange.is_authenticating();
        let is_lost = self.is_of_lost_session(exchange.sent_in.as_ref());
        let was_taken_back = self.remove_unpolled_request(id);
        if was_taken_back {
            self.exchanges.remove(id);
        } else {
            self.abort(id);
        }
        is_lost || is_post && (was_taken_back || waits_for_credentials)
    }

    /// Returns whether a request was sent in a session that is lost. The next session does not have it.
    pub(super) fn is_of_lost_session(&self, sent_in: Option<&HeaderValue>) -> bool {
        sent_in.is_some() && self.session.as_ref() != sent_in
    }

    /// Creates the HTTP request of an exchange. Returns it with the id of the session that it names.
    pub(super) fn request(
        &mut self,
        purpose: &Purpose,
        uri: Option<&Uri>,
    ) -> (Request<Arc<[u8]>>, Option<HeaderValue>) {
        let scope = self.scope(purpose);
        let session = scope.session.clone();
        let (method, body) = match purpose {
            Purpose::Post(post) => (Verb::POST, post.body.clone()),
            Purpose::DeleteSession(_) | Purpose::Done => (Verb::DELETE, Arc::default()),
            Purpose::Resume(_) | Purpose::Listen(_) | Purpose::Old(_) => (Verb::GET, Arc::default()),
        };
        let headers = if let Purpose::Post(_) = purpose {
            self.post_headers.of(&self.options.headers, scope, body.len())
        } else {
            let mut headers = self.options.headers.clone();
            if method == Verb::GET {
                headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
            }
            scope.add_to(&mut headers);
            let last_id = match purpose {
                Purpose::Resume(post) => &*post.position.last_id,
                Purpose::Listen(position) => &*position.last_id,
                Purpose::Post(_) | Purpose::Old(_) | Purpose::DeleteSession(_) | Purpose::Done => "",
            };
            if !last_id.is_empty()
                && let Ok(last_id) = HeaderValue::from_bytes(last_id.as_bytes())
            {
                headers.insert(LAST_EVENT_ID, last_id);
            }
            headers
        };
        let mut request = Request::new(body);
        let uri = uri.unwrap_or(&self.options.url).clone();
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        (request, session)
    }

    /// Returns what the headers of a request depend on.
    fn scope(&self, purpose: &Purpose) -> Scope {
        let session = match purpose {
            Purpose::Post(PostRequest { mirrored: Some(mirrored), .. }) => {
                return Scope { mirrored: Some(mirrored.clone()), ..Scope::default() };
            }
            // These requests do not belong to a session.
            Purpose::Post(PostRequest { kind: PostKind::Initialize, .. }) | Purpose::Old(_) | Purpose::Done => {
                return Scope::default();
            }
            Purpose::DeleteSession(session) => Some(session),
            Purpose::Post(_) | Purpose::Resume(_) | Purpose::Listen(_) => self.session.as_ref(),
        };
        let version = self.conn.version().filter(|version| version.has_version_header());
        let version = version.filter(|_| matches!(self.transport, Transport::Streamable));
        Scope { mirrored: None, session: session.cloned(), version }
    }
}

fn request(call: CallId, id: &RequestId, method: Option<Method>) -> Option<SentRequest> {
    Some(SentRequest { call, id: id.as_u64()?, method })
}
