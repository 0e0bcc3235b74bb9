//! An HTTP server in memory under a virtual clock. The test sends whole requests and reads the responses as they are
//! produced.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request, StatusCode, header, request::Builder};
use mcp_proto::{
    codec::SseDecoder,
    connection::{Event, Principal, ServerConfig},
    http::{
        HttpResponse, Policy, SessionId,
        server::{Caller, Endpoint, EndpointOptions, ExchangeId, Output, ResourceUsage, Session},
    },
    rpc::{ReplyKey, Timestamp},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

/// A request that was sent, and the key of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestRef {
    /// The session that received it; `usize::MAX` if the endpoint rejected it.
    pub session: usize,
    exchange: Option<ExchangeId>,
    serial: usize,
}

/// The response to a request, as far as the client has read it.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The head, if it was sent.
    pub head: Option<http::response::Parts>,
    /// The body so far.
    pub body: Vec<u8>,
    /// The response is complete or aborted.
    pub ended: bool,
    /// The body was aborted.
    pub aborted: bool,
}

impl Reply {
    #[track_caller]
    fn take(&mut self, output: Output) {
        assert!(!self.ended, "nothing follows the end");
        match output {
            Output::Head(head) => assert!(self.head.replace(head).is_none(), "there is one head"),
            Output::Data(len) => assert!(len > 0 && self.head.is_some(), "the head comes first"),
            Output::End => self.ended = true,
            Output::Abort => {
                assert!(self.head.is_some(), "the head comes first");
                (self.ended, self.aborted) = (true, true);
            }
        }
    }

    #[track_caller]
    fn take_whole(&mut self, response: HttpResponse) {
        assert!(!self.ended && self.head.is_none() && self.body.is_empty(), "there is one response");
        let (head, body) = response.into_parts();
        (self.head, self.body, self.ended) = (Some(head), body, true);
    }

    /// Returns the status.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> u16 {
        self.head.as_ref().expect("the head has arrived").status.as_u16()
    }

    /// Returns a header, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.as_ref()?.headers.get(name)?.to_str().ok()
    }

    /// Returns the body, which must be one JSON text.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.ended && !self.aborted, "the answer is not complete");
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("content-length"), Some(&*self.body.len().to_string()));
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// Returns the events so far: kind, data and id of each.
    #[must_use]
    #[track_caller]
    pub fn events(&self) -> Vec<(String, String, String)> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let mut decoder = SseDecoder::new(usize::MAX);
        let mut chunk = &self.body[..];
        let mut events = Vec::new();
        while let Some(event) = decoder.next_event(&mut chunk) {
            let event = event.expect("an event without limit");
            let (kind, data) = (event.kind.to_owned(), String::from_utf8_lossy(event.data).into_owned());
            events.push((kind, data, decoder.last_id().to_owned()));
        }
        events
    }

    /// Returns the messages so far: the data of the events that have any.
    #[must_use]
    #[track_caller]
    pub fn messages(&self) -> Vec<Value> {
        let messages = self.events().into_iter().filter(|(kind, data, _)| kind == "message" && !data.is_empty());
        messages.map(|(_, data, _)| serde_json::from_str(&data).expect("a message is JSON")).collect()
    }
}

/// A server, its sessions, and all responses.
pub struct HttpServer {
    /// The endpoint that receives requests.
    pub endpoint: Endpoint<usize>,
    /// The sessions that are not over.
    pub sessions: BTreeMap<usize, Session>,
    /// The virtual clock.
    pub now: Timestamp,
    /// The caller of the next request.
    pub caller: Caller,
    /// The random bits of the next sessions. By default the bits number the sessions.
    pub random: Option<[u8; 24]>,
    /// The events for the applications of the sessions.
    pub events: Vec<(usize, Event<'static>)>,
    /// Whether the client reads the response to the next request.
    pub reads: bool,
    /// Whether whole responses are taken in one piece.
    pub takes_whole: bool,
    next: usize,
    replies: BTreeMap<RequestRef, Reply>,
    /// The request of each exchange of a session.
    sent: BTreeMap<(usize, ExchangeId), RequestRef>,
    /// Responses that the client does not read.
    unread: BTreeSet<RequestRef>,
}

/// Starts a valid POST of a message, without the headers that depend on the revision.
pub fn post(path: &str) -> Builder {
    Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
}

/// Starts a GET for a stream of a session.
pub fn get(path: &str) -> Builder {
    Request::get(path).header(header::HOST, "localhost").header(header::ACCEPT, "text/event-stream")
}

/// Returns `initialize` for this revision.
#[must_use]
pub fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
        "clientInfo": {"name": "client", "version": "1"}}})
}

/// Returns the POST of a request of 2026-07-28, with the headers that belong to it.
#[must_use]
pub fn modern(id: &Value, method: &str, mut params: Value) -> Request<Vec<u8>> {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    if params["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_none() {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    let mut request = post("/mcp").header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|name| params.get(name)?.as_str()) {
        request = request.header("mcp-name", name);
    }
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    request.body(message.to_string().into_bytes()).expect("a request")
}

impl HttpServer {
    /// Returns a server with a policy for loopback that also serves HTTP+SSE.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = mcp_proto::http::server::Paths::at("/mcp").with_http_sse("/sse", "/message");
        Self::with(config, options)
    }

    /// Returns a server with these options.
    #[must_use]
    pub fn with(config: ServerConfig, options: EndpointOptions) -> Self {
        Self {
            endpoint: Endpoint::new(config, options),
            sessions: BTreeMap::new(),
            now: Timestamp::ZERO,
            caller: Caller::Anybody,
            random: None,
            events: Vec::new(),
            reads: true,
            takes_whole: false,
            next: 0,
            replies: BTreeMap::new(),
            sent: BTreeMap::new(),
            unread: BTreeSet::new(),
        }
    }

    /// Passes a whole request to the endpoint.
    pub fn send(&mut self, request: Request<Vec<u8>>) -> RequestRef {
        let (head, body) = request.into_parts();
        self.next += 1;
        let sent = RequestRef { session: usize::MAX, exchange: None, serial: self.next };
        match self.receive(&head, &body, sent.serial) {
            Ok((session, exchange)) => {
                let sent = RequestRef { session, exchange: Some(exchange), ..sent };
                self.replies.insert(sent, Reply::default());
                self.sent.insert((session, exchange), sent);
                if !self.reads {
                    self.unread.insert(sent);
                }
                self.settle();
                sent
            }
            Err(answer) => {
                let (head, body) = answer.into_parts();
                self.replies.insert(sent, Reply { head: Some(head), body, ended: true, aborted: false });
                sent
            }
        }
    }

    fn receive(
        &mut self,
        head: &http::request::Parts,
        body: &[u8],
        serial: usize,
    ) -> Result<(usize, ExchangeId), Box<HttpResponse>> {
        let mut reader = self.endpoint.begin(head, self.caller.clone())?;
        reader.feed(body)?;
        let mut request = reader.end()?;
        let random = self.random.unwrap_or_else(|| {
            let mut random = [0; 24];
            random[..8].copy_from_slice(&serial.to_be_bytes());
            random
        });
        let sessions = &mut self.sessions;
        let session = self.endpoint.route(self.now, &request, random, |session| {
            sessions.insert(serial, session);
            serial
        });
        while let Some(evicted) = self.endpoint.poll_evicted() {
            self.sessions.get_mut(&evicted).expect("a session").evict(self.now);
        }
        let session = session?;
        let (exchange, event) = self.sessions.get_mut(&session).expect("a session").open(self.now, &mut request)?;
        self.events.extend(event.map(|event| (session, event.into_owned())));
        Ok((session, exchange))
    }

    /// Collects all pending events and output of the sessions.
    pub fn settle(&mut self) {
        for (index, session) in &mut self.sessions {
            while let Some(event) = session.poll_event() {
                self.events.push((*index, event));
            }
            while let Some(exchange) = session.poll_ready() {
                let sent = self.sent.get(&(*index, exchange)).copied();
                if sent.is_some_and(|sent| self.unread.contains(&sent)) {
                    continue;
                }
                let mut lost = Reply::default();
                let reply = sent.and_then(|sent| self.replies.get_mut(&sent)).unwrap_or(&mut lost);
                let whole = if self.takes_whole { session.poll_response(exchange, usize::MAX) } else { None };
                whole.into_iter().for_each(|response| reply.take_whole(response));
                while let Some(output) = session.poll_output(exchange, &mut reply.body) {
                    reply.take(output);
                }
                // Output that was read to its end frees capacity for what waits.
                while let Some(event) = session.poll_event() {
                    self.events.push((*index, event));
                }
            }
        }
        let over: Vec<_> = self.sessions.iter().filter(|(_, it)| it.is_over()).map(|(index, _)| *index).collect();
        for index in over {
            let session = self.sessions.remove(&index).expect("it is there");
            assert_eq!(session.poll_timeout(), None, "a session that is over has no timer");
            session.id().map(|id| self.endpoint.remove(id));
        }
    }

    /// Sets whether the client reads a response.
    pub fn read(&mut self, sent: RequestRef, reads: bool) {
        if !reads {
            self.unread.insert(sent);
            return;
        }
        self.unread.remove(&sent);
        while self.read_once(sent) {}
        self.settle();
    }

    /// Reads the next piece of a response. Returns whether there was one.
    pub fn read_once(&mut self, sent: RequestRef) -> bool {
        let (Some(session), Some(exchange)) = (self.sessions.get_mut(&sent.session), sent.exchange) else {
            return false;
        };
        let Some(reply) = self.replies.get_mut(&sent) else { return false };
        let output = session.poll_output(exchange, &mut reply.body);
        let is_some = output.is_some();
        output.into_iter().for_each(|output| reply.take(output));
        is_some
    }

    /// Returns the response to a request.
    #[must_use]
    #[track_caller]
    pub fn reply(&self, sent: RequestRef) -> &Reply {
        self.replies.get(&sent).expect("it was requested")
    }

    /// Sends a request and returns the response so far.
    pub fn request(&mut self, request: Request<Vec<u8>>) -> Reply {
        let sent = self.send(request);
        self.reply(sent).clone()
    }

    /// Disconnects the client from a response.
    pub fn disconnect(&mut self, sent: RequestRef) {
        if let (Some(session), Some(exchange)) = (self.sessions.get_mut(&sent.session), sent.exchange) {
            session.handle_disconnect(self.now, exchange);
        }
        self.settle();
    }

    /// Advances the clock, stopping at each deadline.
    pub fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.sessions.values().filter_map(|session| session.poll_timeout().map(|it| it.at)).min();
            match next {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => break,
            }
            for session in self.sessions.values_mut() {
                session.handle_timeout(self.now);
            }
        }
        self.now = until;
        self.settle();
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        std::mem::take(&mut self.events).into_iter().map(|(_, event)| event).collect()
    }

    /// Returns the only request that applications received since the last call, with its session.
    #[track_caller]
    pub fn take_request(&mut self) -> (usize, ReplyKey) {
        let keys = self.take_requests();
        let [key] = keys[..] else { panic!("this is not one request: {keys:?}") };
        key
    }

    /// Returns all requests that applications received since the last call, each with its session.
    pub fn take_requests(&mut self) -> Vec<(usize, ReplyKey)> {
        let key = |(session, event)| match event {
            Event::Request { key, .. } => Some((session, key)),
            _ => None,
        };
        std::mem::take(&mut self.events).into_iter().filter_map(key).collect()
    }

    /// Sends the application's result.
    #[track_caller]
    pub fn respond(&mut self, (session, key): (usize, ReplyKey), result: &Value) {
        let result = Json::new(result).expect("it is JSON");
        let session = self.sessions.get_mut(&session).expect("a session");
        session.connection(self.now).respond_raw(key, &RawJson::from(&result)).expect("the request is open");
        self.settle();
    }

    /// Returns the session that began last.
    #[must_use]
    #[track_caller]
    pub fn last_session(&mut self) -> &mut Session {
        self.sessions.values_mut().next_back().expect("there is a session")
    }

    /// Starts a session in this revision, completes its handshake, and returns its id.
    #[track_caller]
    pub fn begin(&mut self, version: &str) -> String {
        let request = post("/mcp").body(initialize(version).to_string().into_bytes()).expect("a request");
        let reply = self.request(request);
        assert_eq!((reply.status(), &reply.json()["result"]["protocolVersion"]), (200, &json!(version)));
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.request(self.in_session(&id, &ready)).status(), 202);
        let events = self.take_events();
        assert_eq!(events, [Event::Ready]);
        id
    }

    /// Returns the POST of a message of a session.
    #[must_use]
    pub fn in_session(&self, id: &str, message: &Value) -> Request<Vec<u8>> {
        post("/mcp").header("mcp-session-id", id).body(message.to_string().into_bytes()).expect("a request")
    }

    /// Sends a message of a session.
    pub fn send_message(&mut self, id: &str, message: &Value) -> RequestRef {
        let request = self.in_session(id, message);
        self.send(request)
    }

    /// Opens a stream of a session, or resumes one.
    pub fn listen(&mut self, id: &str, last: Option<&str>) -> RequestRef {
        let mut request = get("/mcp").header("mcp-session-id", id);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.send(request.body(Vec::new()).expect("a request"))
    }

    /// Deletes a session.
    pub fn delete(&mut self, id: &str) -> Reply {
        let request = Request::delete("/mcp").header(header::HOST, "localhost").header("mcp-session-id", id);
        self.request(request.body(Vec::new()).expect("a request"))
    }

    /// Returns the session with this id.
    #[must_use]
    pub fn session(&mut self, id: &str) -> Option<&mut Session> {
        let id = SessionId::parse(id)?;
        self.sessions.values_mut().find(|session| session.id() == Some(&id))
    }

    /// Sets the principal of the following requests.
    pub fn set_principal(&mut self, principal: &str) {
        self.set_caller(Principal::new(principal));
    }

    /// Sets the principal of the following requests, with its scopes and claims.
    pub fn set_caller(&mut self, principal: Principal) {
        self.caller = Caller::Known(Arc::new(principal));
    }

    /// Returns whether the client reads a response.
    #[must_use]
    pub fn is_reading(&self, sent: RequestRef) -> bool {
        !self.unread.contains(&sent)
    }

    /// Panics unless all sessions are idle.
    #[track_caller]
    pub fn assert_idle(&self) {
        for session in self.sessions.values() {
            assert_eq!(session.usage(), ResourceUsage::default(), "the session is not idle");
        }
    }
}

/// Returns a header value of any bytes.
#[must_use]
pub fn bytes(value: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(value).expect("a value of a header")
}

/// Returns the status as a number.
#[must_use]
pub fn number(status: StatusCode) -> u16 {
    status.as_u16()
}
