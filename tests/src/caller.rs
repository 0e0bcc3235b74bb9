//! An HTTP client in memory, under a virtual clock, answered by hand: requests out, responses in.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, response::Builder};
use mcp_proto::{
    connection::{ClientConfig, Event, Opening, RequestOptions},
    http::client::{Action, Client, ClientOptions, ExchangeId},
    protocol::{ProtocolVersion, VersionSet},
    rpc::{CallId, Timestamp},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use crate::solo::{full_client, full_server};

/// A client with a clock of its own. Events and actions are collected.
pub struct Caller {
    /// The client.
    pub client: Client,
    /// The virtual clock.
    pub now: Timestamp,
    /// What the application hears.
    pub events: Vec<Event<'static>>,
    /// Requests that were not taken yet.
    pub requests: Vec<(ExchangeId, Request<Arc<[u8]>>)>,
    /// Exchanges that were aborted.
    pub aborted: Vec<ExchangeId>,
    /// What is to be proved: the exchange, the status, and the challenges.
    pub proofs: Vec<(ExchangeId, u16, Vec<String>)>,
}

/// Options for a server that is nowhere.
#[must_use]
pub fn options() -> ClientOptions {
    ClientOptions::new("http://server.example/mcp", 1).expect("it is an address")
}

/// A client with everything declared that speaks these revisions.
#[must_use]
pub fn speaking(versions: VersionSet) -> ClientConfig {
    let mut config = full_client();
    config.settings.versions = versions;
    config
}

/// The message in a request.
#[must_use]
#[track_caller]
pub fn message(request: &Request<Arc<[u8]>>) -> Value {
    serde_json::from_slice(request.body()).expect("the body is a message")
}

/// A header of a request, as text.
#[must_use]
pub fn header<'a>(request: &'a Request<Arc<[u8]>>, name: &str) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next().map(|value| value.to_str().expect("the header is text"));
    assert!(values.next().is_none(), "{name} is there once");
    value
}

impl Caller {
    /// A client that has not sent anything yet.
    #[must_use]
    pub fn new(config: ClientConfig, options: ClientOptions) -> Self {
        Self::knowing(config, options, Opening::unknown())
    }

    /// A client that knows something of its server.
    #[must_use]
    pub fn knowing(config: ClientConfig, options: ClientOptions, opening: Opening) -> Self {
        let client = Client::knowing(config, options, opening, Timestamp::ZERO);
        Self {
            client,
            now: Timestamp::ZERO,
            events: Vec::new(),
            requests: Vec::new(),
            aborted: Vec::new(),
            proofs: Vec::new(),
        }
    }

    /// Takes everything that the client has to say.
    pub fn settle(&mut self) {
        while let Some(event) = self.client.poll_event() {
            self.events.push(event);
        }
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Request { exchange, request } => self.requests.push((exchange, request)),
                Action::Abort(exchange) => self.aborted.push(exchange),
                Action::Prove { exchange, status, challenges } => self.proofs.push((exchange, status, challenges)),
            }
        }
    }

    /// The events since the last time.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        self.settle();
        std::mem::take(&mut self.events)
    }

    /// The one request that was made since the last time.
    #[track_caller]
    pub fn request(&mut self) -> (ExchangeId, Request<Arc<[u8]>>) {
        self.settle();
        assert_eq!(self.requests.len(), 1, "this is not one request: {:?}", self.requests);
        self.requests.remove(0)
    }

    /// The one request that was made since the last time, which is a POST of this method.
    #[track_caller]
    pub fn posted(&mut self, method: &str) -> (ExchangeId, Request<Arc<[u8]>>) {
        let (exchange, request) = self.request();
        assert_eq!((request.method().as_str(), &message(&request)["method"]), ("POST", &json!(method)));
        (exchange, request)
    }

    /// The head of a response comes.
    pub fn head(&mut self, exchange: ExchangeId, response: Builder) {
        let (head, ()) = response.body(()).expect("a response").into_parts();
        self.client.handle_head(self.now, exchange, &head);
        self.settle();
    }

    /// A piece of a body comes.
    pub fn body(&mut self, exchange: ExchangeId, chunk: impl AsRef<[u8]>) {
        self.client.handle_body(self.now, exchange, chunk.as_ref());
        self.settle();
    }

    /// A response is complete.
    pub fn end(&mut self, exchange: ExchangeId) {
        self.client.handle_end(self.now, exchange);
        self.settle();
    }

    /// What carries a response breaks.
    pub fn fail(&mut self, exchange: ExchangeId) {
        self.client.handle_failure(self.now, exchange, "connection reset");
        self.settle();
    }

    /// A whole response comes.
    pub fn respond(&mut self, exchange: ExchangeId, response: Builder, body: impl AsRef<[u8]>) {
        self.head(exchange, response);
        if !body.as_ref().is_empty() {
            self.body(exchange, body);
        }
        self.end(exchange);
    }

    /// A message comes as JSON.
    pub fn answer(&mut self, exchange: ExchangeId, message: &Value) {
        self.respond(exchange, json_response(200), message.to_string());
    }

    /// A notification or an answer is accepted.
    pub fn accept(&mut self, exchange: ExchangeId) {
        self.respond(exchange, Response::builder().status(202), "");
    }

    /// The application asks for something.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> CallId {
        self.call_with(method, params, RequestOptions { progress: false, ..RequestOptions::default() })
    }

    /// The application asks for something.
    #[track_caller]
    pub fn call_with(&mut self, method: &str, params: &Value, options: RequestOptions) -> CallId {
        let params = Json::new(params).expect("it is JSON");
        let conn = self.client.connection(self.now);
        let call = conn.request_raw(self.now, method, Some(&RawJson::from(&params)), options).expect("it may be asked");
        self.settle();
        call
    }

    /// Lets time pass, stopping at every deadline on the way.
    pub fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            match self.client.poll_timeout() {
                Some(deadline) if deadline.at <= until => self.now = self.now.max(deadline.at),
                _ => break,
            }
            self.client.handle_timeout(self.now);
        }
        self.now = until;
        self.settle();
    }

    /// A client behind its handshake in a revision with sessions, with a server that has everything declared. Its session
    /// is called `s-1`, and its stream for what the server says unasked is the exchange.
    #[must_use]
    #[track_caller]
    pub fn in_session(version: ProtocolVersion) -> (Self, ExchangeId) {
        Self::in_session_with(version, options())
    }

    /// As [`in_session`](Self::in_session), with options of its own.
    #[must_use]
    #[track_caller]
    pub fn in_session_with(version: ProtocolVersion, options: ClientOptions) -> (Self, ExchangeId) {
        let mut caller = Self::new(speaking(VersionSet::LEGACY), options);
        let (exchange, request) = caller.posted("initialize");
        let response = json_response(200).header("Mcp-Session-Id", "s-1");
        caller.respond(exchange, response, initialized(version.as_str(), &message(&request)["id"]).to_string());
        let (exchange, _) = caller.posted("notifications/initialized");
        caller.accept(exchange);
        let (exchange, request) = caller.request();
        assert_eq!(request.method(), "GET");
        assert_eq!(caller.take_events(), [Event::Ready]);
        caller.head(exchange, stream_response());
        (caller, exchange)
    }

    /// A client that has found out that its server is of the modern era.
    #[must_use]
    #[track_caller]
    pub fn modern() -> Self {
        let mut caller = Self::new(speaking(VersionSet::ALL), options());
        let (exchange, request) = caller.posted("server/discover");
        caller.answer(exchange, &discovered(&message(&request)["id"]));
        assert_eq!(caller.take_events(), [Event::Ready]);
        caller
    }
}

/// The head of a response that is JSON.
pub fn json_response(status: u16) -> Builder {
    Response::builder().status(status).header("content-type", "application/json")
}

/// The head of a response that is a stream.
pub fn stream_response() -> Builder {
    Response::builder().status(200).header("content-type", "text/event-stream")
}

/// The answer to `initialize` of a server with everything declared.
#[must_use]
pub fn initialized(version: &str, id: &Value) -> Value {
    let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
    json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": version, "capabilities": capabilities,
        "serverInfo": {"name": "server", "version": "1"}}})
}

/// The answer to `server/discover` of a server with everything declared.
#[must_use]
pub fn discovered(id: &Value) -> Value {
    let capabilities =
        json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}})
}

/// An event that carries a message.
#[must_use]
pub fn event(id: &str, message: &Value) -> String {
    if id.is_empty() { format!("data: {message}\n\n") } else { format!("id: {id}\ndata: {message}\n\n") }
}
