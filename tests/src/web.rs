//! An HTTP server in memory, under a virtual clock, asked by hand: whole requests in, answers as far as they have come out.

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

/// One request, and what has come in answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// The session that it went to; `usize::MAX` if it was refused before that.
    pub session: usize,
    exchange: Option<ExchangeId>,
    serial: usize,
}

/// What has come in answer to a request.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The head, if it has come.
    pub head: Option<http::response::Parts>,
    /// What has come of the body.
    pub body: Vec<u8>,
    /// Nothing follows.
    pub ended: bool,
    /// The body breaks off.
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

    /// The status.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> u16 {
        self.head.as_ref().expect("the head has come").status.as_u16()
    }

    /// A header, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.as_ref()?.headers.get(name)?.to_str().ok()
    }

    /// The body, which is one JSON text.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.ended && !self.aborted, "the answer is not complete");
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("content-length"), Some(&*self.body.len().to_string()));
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// The events so far: kind, data and id of each.
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

    /// The messages so far: the data of the events that have any.
    #[must_use]
    #[track_caller]
    pub fn messages(&self) -> Vec<Value> {
        let messages = self.events().into_iter().filter(|(kind, data, _)| kind == "message" && !data.is_empty());
        messages.map(|(_, data, _)| serde_json::from_str(&data).expect("a message is JSON")).collect()
    }
}

/// A server, its sessions, and every answer.
pub struct Web {
    /// Where requests come in.
    pub endpoint: Endpoint<usize>,
    /// The sessions that are not over.
    pub sessions: BTreeMap<usize, Session>,
    /// The virtual clock.
    pub now: Timestamp,
    /// Who sends what is sent next.
    pub caller: Caller,
    /// The random bits of the sessions that begin next, instead of bits that number them.
    pub random: Option<[u8; 24]>,
    /// What the applications of the sessions hear.
    pub events: Vec<(usize, Event<'static>)>,
    /// Whether clients read what comes in answer to what is sent next.
    pub reads: bool,
    next: usize,
    replies: BTreeMap<Asked, Reply>,
    /// Which request each exchange of a session belongs to.
    asked: BTreeMap<(usize, ExchangeId), Asked>,
    /// Answers that are not read.
    unread: BTreeSet<Asked>,
}

/// A POST of a message as a client sends it that does everything right, headers of its revision aside.
pub fn post(path: &str) -> Builder {
    Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
}

/// A GET for a stream of a session.
pub fn get(path: &str) -> Builder {
    Request::get(path).header(header::HOST, "localhost").header(header::ACCEPT, "text/event-stream")
}

/// `initialize` in this revision.
#[must_use]
pub fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}},
        "clientInfo": {"name": "client", "version": "1"}}})
}

/// A request of 2026-07-28, and its POST with the headers that belong to it.
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

impl Web {
    /// A server behind a policy for loopback, with the old transport beside.
    #[must_use]
    pub fn new(config: ServerConfig) -> Self {
        let mut options = EndpointOptions::new(Policy::loopback());
        options.paths = mcp_proto::http::server::Paths::at("/mcp").with_http_sse("/sse", "/message");
        Self::with(config, options)
    }

    /// A server.
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
            next: 0,
            replies: BTreeMap::new(),
            asked: BTreeMap::new(),
            unread: BTreeSet::new(),
        }
    }

    /// A whole request comes in.
    pub fn send(&mut self, request: Request<Vec<u8>>) -> Asked {
        let (head, body) = request.into_parts();
        self.next += 1;
        let asked = Asked { session: usize::MAX, exchange: None, serial: self.next };
        match self.receive(&head, &body, asked.serial) {
            Ok((session, exchange)) => {
                let asked = Asked { session, exchange: Some(exchange), ..asked };
                self.replies.insert(asked, Reply::default());
                self.asked.insert((session, exchange), asked);
                if !self.reads {
                    self.unread.insert(asked);
                }
                self.settle();
                asked
            }
            Err(answer) => {
                let (head, body) = answer.into_parts();
                self.replies.insert(asked, Reply { head: Some(head), body, ended: true, aborted: false });
                asked
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
        while let Some(given_up) = self.endpoint.poll_given_up() {
            self.sessions.get_mut(&given_up).expect("a session").give_up(self.now);
        }
        let session = session?;
        let (exchange, event) = self.sessions.get_mut(&session).expect("a session").open(self.now, &mut request)?;
        self.events.extend(event.map(|event| (session, event.into_owned())));
        Ok((session, exchange))
    }

    /// Takes everything that the sessions have to say.
    pub fn settle(&mut self) {
        for (index, session) in &mut self.sessions {
            while let Some(event) = session.poll_event() {
                self.events.push((*index, event));
            }
            while let Some(exchange) = session.poll_ready() {
                let asked = self.asked.get(&(*index, exchange)).copied();
                if asked.is_some_and(|asked| self.unread.contains(&asked)) {
                    continue;
                }
                let mut lost = Reply::default();
                let reply = asked.and_then(|asked| self.replies.get_mut(&asked)).unwrap_or(&mut lost);
                while let Some(output) = session.poll_output(exchange, &mut reply.body) {
                    reply.take(output);
                }
                // What is read to its end makes room for what waits.
                while let Some(event) = session.poll_event() {
                    self.events.push((*index, event));
                }
            }
        }
        let over: Vec<_> = self.sessions.iter().filter(|(_, it)| it.is_over()).map(|(index, _)| *index).collect();
        for index in over {
            let session = self.sessions.remove(&index).expect("it is there");
            assert_eq!(session.poll_timeout(), None, "what is over waits for nothing");
            session.id().map(|id| self.endpoint.forget(id));
        }
    }

    /// From now on the client reads an answer, or does not.
    pub fn read(&mut self, asked: Asked, reads: bool) {
        if !reads {
            self.unread.insert(asked);
            return;
        }
        self.unread.remove(&asked);
        while self.read_once(asked) {}
        self.settle();
    }

    /// The client reads the next piece of an answer; whether there was one.
    pub fn read_once(&mut self, asked: Asked) -> bool {
        let (Some(session), Some(exchange)) = (self.sessions.get_mut(&asked.session), asked.exchange) else {
            return false;
        };
        let Some(reply) = self.replies.get_mut(&asked) else { return false };
        let output = session.poll_output(exchange, &mut reply.body);
        let is_some = output.is_some();
        output.into_iter().for_each(|output| reply.take(output));
        is_some
    }

    /// What has come in answer to a request.
    #[must_use]
    #[track_caller]
    pub fn reply(&self, asked: Asked) -> &Reply {
        self.replies.get(&asked).expect("it was asked")
    }

    /// Sends a request, and takes what comes at once.
    pub fn ask(&mut self, request: Request<Vec<u8>>) -> Reply {
        let asked = self.send(request);
        self.reply(asked).clone()
    }

    /// The client hangs up.
    pub fn hang_up(&mut self, asked: Asked) {
        if let (Some(session), Some(exchange)) = (self.sessions.get_mut(&asked.session), asked.exchange) {
            session.handle_disconnect(self.now, exchange);
        }
        self.settle();
    }

    /// Lets time pass, stopping at every deadline on the way.
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

    /// The events since the last time.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        std::mem::take(&mut self.events).into_iter().map(|(_, event)| event).collect()
    }

    /// The one request that the applications were asked since the last time, and in which session.
    #[track_caller]
    pub fn asked(&mut self) -> (usize, ReplyKey) {
        let events = std::mem::take(&mut self.events);
        let keys: Vec<_> = events
            .iter()
            .filter_map(|(session, event)| match event {
                Event::Request { key, .. } => Some((*session, *key)),
                _ => None,
            })
            .collect();
        let [key] = keys[..] else { panic!("this is not one request: {events:?}") };
        key
    }

    /// The application answers.
    #[track_caller]
    pub fn answer(&mut self, (session, key): (usize, ReplyKey), result: &Value) {
        let result = Json::new(result).expect("it is JSON");
        let session = self.sessions.get_mut(&session).expect("a session");
        session.connection(self.now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
        self.settle();
    }

    /// The session of the last one that was begun.
    #[must_use]
    #[track_caller]
    pub fn last_session(&mut self) -> &mut Session {
        self.sessions.values_mut().next_back().expect("there is a session")
    }

    /// Begins a session in this revision, with its handshake complete. Its id.
    #[track_caller]
    pub fn begin(&mut self, version: &str) -> String {
        let request = post("/mcp").body(initialize(version).to_string().into_bytes()).expect("a request");
        let reply = self.ask(request);
        assert_eq!((reply.status(), &reply.json()["result"]["protocolVersion"]), (200, &json!(version)));
        let id = reply.header("mcp-session-id").expect("a session").to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.ask(self.in_session(&id, &ready)).status(), 202);
        let events = self.take_events();
        assert_eq!(events, [Event::Ready]);
        id
    }

    /// A message of a session.
    #[must_use]
    pub fn in_session(&self, id: &str, message: &Value) -> Request<Vec<u8>> {
        post("/mcp").header("mcp-session-id", id).body(message.to_string().into_bytes()).expect("a request")
    }

    /// Sends a message of a session.
    pub fn say(&mut self, id: &str, message: &Value) -> Asked {
        let request = self.in_session(id, message);
        self.send(request)
    }

    /// Opens a stream of a session, or takes one up.
    pub fn listen(&mut self, id: &str, last: Option<&str>) -> Asked {
        let mut request = get("/mcp").header("mcp-session-id", id);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.send(request.body(Vec::new()).expect("a request"))
    }

    /// Ends a session.
    pub fn delete(&mut self, id: &str) -> Reply {
        let request = Request::delete("/mcp").header(header::HOST, "localhost").header("mcp-session-id", id);
        self.ask(request.body(Vec::new()).expect("a request"))
    }

    /// Which session goes by this id.
    #[must_use]
    pub fn named(&mut self, id: &str) -> Option<&mut Session> {
        let id = SessionId::parse(id)?;
        self.sessions.values_mut().find(|session| session.id() == Some(&id))
    }

    /// Whatever is sent from now on comes from this principal.
    pub fn come_from(&mut self, principal: &str) {
        self.caller = Caller::Known(Arc::new(Principal::new(principal)));
    }

    /// Whether the client reads an answer.
    #[must_use]
    pub fn is_read(&self, asked: Asked) -> bool {
        !self.unread.contains(&asked)
    }

    /// Panics unless no session holds anything.
    #[track_caller]
    pub fn assert_at_rest(&self) {
        for session in self.sessions.values() {
            assert_eq!(session.usage(), ResourceUsage::default(), "the session holds something");
        }
    }
}

/// The value of a header that may have any byte in it.
#[must_use]
pub fn bytes(value: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(value).expect("a value of a header")
}

/// The status as a number.
#[must_use]
pub fn number(status: StatusCode) -> u16 {
    status.as_u16()
}
