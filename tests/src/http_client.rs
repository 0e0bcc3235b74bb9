//! An HTTP client in memory under a virtual clock. The test receives its requests and supplies the responses.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, Response, response::Builder};
use mcp_proto::{
    connection::{ClientConfig, Event, Opening, RequestOptions},
    http::client::{Action, Client, ClientOptions, ExchangeId},
    protocol::{ProtocolVersion, VersionSet},
    rpc::{CallId, Timestamp},
    wire::{Json, RawJson},
};
use serde_json::{Value, json};

use crate::harness::{full_client_with, full_server};

/// A client with its own clock. Events and actions are collected.
pub struct HttpClient {
    /// The client of the core.
    pub core: Client,
    /// The virtual clock.
    pub now: Timestamp,
    /// The events for the application.
    pub events: Vec<Event<'static>>,
    /// Requests that the test has not taken yet.
    pub requests: Vec<(ExchangeId, Request<Arc<[u8]>>)>,
    /// Exchanges that were aborted.
    pub aborted: Vec<ExchangeId>,
    /// Requests for authentication: the exchange, the status, and the challenges.
    pub authentications: Vec<(ExchangeId, u16, Vec<String>)>,
}

/// Returns options for a server address that does not exist.
#[must_use]
pub fn options() -> ClientOptions {
    ClientOptions::new("http://server.example/mcp", 1).expect("it is an address")
}

/// Returns the message in a request.
#[must_use]
#[track_caller]
pub fn message(request: &Request<Arc<[u8]>>) -> Value {
    serde_json::from_slice(request.body()).expect("the body is a message")
}

/// Returns a header of a request, as text.
#[must_use]
pub fn header<'a>(request: &'a Request<Arc<[u8]>>, name: &str) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next().map(|value| value.to_str().expect("the header is text"));
    assert!(values.next().is_none(), "{name} is there once");
    value
}

impl HttpClient {
    /// Returns a client that has not sent anything yet.
    #[must_use]
    pub fn new(config: ClientConfig, options: ClientOptions) -> Self {
        Self::with_opening(config, options, Opening::unknown())
    }

    /// Returns a client that has prior information about its server.
    #[must_use]
    pub fn with_opening(config: ClientConfig, options: ClientOptions, opening: Opening) -> Self {
        let core = Client::with_opening(config, options, opening, Timestamp::ZERO);
        Self {
            core,
            now: Timestamp::ZERO,
            events: Vec::new(),
            requests: Vec::new(),
            aborted: Vec::new(),
            authentications: Vec::new(),
        }
    }

    /// Collects all pending events and actions of the client.
    pub fn settle(&mut self) {
        while let Some(event) = self.core.poll_event() {
            self.events.push(event);
        }
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Request { exchange, request } => {
                    // Also after other messages with the same headers.
                    let length = request.headers().get("content-length").map(|length| length.to_str().expect("text"));
                    let expected = (request.method() == Method::POST).then(|| request.body().len().to_string());
                    assert_eq!(length, expected.as_deref(), "{request:?}");
                    self.requests.push((exchange, request));
                }
                Action::Abort(exchange) => self.aborted.push(exchange),
                Action::Authenticate { exchange, status, challenges } => {
                    self.authentications.push((exchange, status, challenges))
                }
            }
        }
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event<'static>> {
        self.settle();
        std::mem::take(&mut self.events)
    }

    /// Returns the only request since the last call.
    #[track_caller]
    pub fn request(&mut self) -> (ExchangeId, Request<Arc<[u8]>>) {
        self.settle();
        assert_eq!(self.requests.len(), 1, "this is not one request: {:?}", self.requests);
        self.requests.remove(0)
    }

    /// Returns the only request since the last call, which must be a POST of this method.
    #[track_caller]
    pub fn posted(&mut self, method: &str) -> (ExchangeId, Request<Arc<[u8]>>) {
        let (exchange, request) = self.request();
        assert_eq!((request.method().as_str(), &message(&request)["method"]), ("POST", &json!(method)));
        (exchange, request)
    }

    /// Delivers the head of a response.
    pub fn head(&mut self, exchange: ExchangeId, response: Builder) {
        let (head, ()) = response.body(()).expect("a response").into_parts();
        self.core.handle_head(self.now, exchange, &head);
        self.settle();
    }

    /// Delivers a piece of a response body.
    pub fn body(&mut self, exchange: ExchangeId, chunk: impl AsRef<[u8]>) {
        self.core.handle_body(self.now, exchange, chunk.as_ref());
        self.settle();
    }

    /// Completes a response.
    pub fn end(&mut self, exchange: ExchangeId) {
        self.core.handle_end(self.now, exchange);
        self.settle();
    }

    /// Fails the connection that carries a response.
    pub fn fail(&mut self, exchange: ExchangeId) {
        self.core.handle_failure(self.now, exchange, "connection reset");
        self.settle();
    }

    /// Delivers a whole response.
    pub fn respond(&mut self, exchange: ExchangeId, response: Builder, body: impl AsRef<[u8]>) {
        self.head(exchange, response);
        if !body.as_ref().is_empty() {
            self.body(exchange, body);
        }
        self.end(exchange);
    }

    /// Delivers a message as a JSON response.
    pub fn answer(&mut self, exchange: ExchangeId, message: &Value) {
        self.respond(exchange, json_response(200), message.to_string());
    }

    /// Accepts a notification or a response of the client with status 202.
    pub fn accept(&mut self, exchange: ExchangeId) {
        self.respond(exchange, Response::builder().status(202), "");
    }

    /// Sends a request of the application.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: &Value) -> CallId {
        self.call_with(method, params, RequestOptions { progress: false, ..RequestOptions::default() })
    }

    /// Sends a request of the application.
    #[track_caller]
    pub fn call_with(&mut self, method: &str, params: &Value, options: RequestOptions) -> CallId {
        let params = Json::new(params).expect("it is JSON");
        let conn = self.core.connection(self.now);
        let call =
            conn.request_raw(self.now, method, Some(&RawJson::from(&params)), options).expect("the request is allowed");
        self.settle();
        call
    }

    /// Advances the clock, stopping at each deadline.
    pub fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            match self.core.poll_timeout() {
                Some(deadline) if deadline.at <= until => self.now = self.now.max(deadline.at),
                _ => break,
            }
            self.core.handle_timeout(self.now);
        }
        self.now = until;
        self.settle();
    }

    /// Returns a client after its handshake in a revision with sessions, with a server that declares all capabilities.
    /// The session id is `s-1`. The returned exchange is the stream for messages of the server that belong to no
    /// request.
    #[must_use]
    #[track_caller]
    pub fn in_session(version: ProtocolVersion) -> (Self, ExchangeId) {
        Self::in_session_with(version, options())
    }

    /// Returns what [`in_session`](Self::in_session) returns, for these options.
    #[must_use]
    #[track_caller]
    pub fn in_session_with(version: ProtocolVersion, options: ClientOptions) -> (Self, ExchangeId) {
        let mut caller = Self::opened_session(version, options);
        let (exchange, request) = caller.request();
        assert_eq!(request.method(), "GET");
        assert_eq!(caller.take_events(), [Event::Ready]);
        caller.head(exchange, stream_response());
        (caller, exchange)
    }

    /// Returns a client in a session that opens no stream for messages on the server's own initiative.
    #[must_use]
    #[track_caller]
    pub fn in_session_without_stream(version: ProtocolVersion, mut options: ClientOptions) -> Self {
        options.listen = false;
        let mut caller = Self::opened_session(version, options);
        assert_eq!(caller.take_events(), [Event::Ready]);
        caller
    }

    #[track_caller]
    fn opened_session(version: ProtocolVersion, options: ClientOptions) -> Self {
        let mut caller = Self::new(full_client_with(VersionSet::LEGACY), options);
        let (exchange, request) = caller.posted("initialize");
        let response = json_response(200).header("Mcp-Session-Id", "s-1");
        caller.respond(exchange, response, initialized(version.as_str(), &message(&request)["id"]).to_string());
        let (exchange, _) = caller.posted("notifications/initialized");
        caller.accept(exchange);
        caller
    }

    /// Returns a client that has discovered a server of the modern era.
    #[must_use]
    #[track_caller]
    pub fn modern() -> Self {
        let mut caller = Self::new(full_client_with(VersionSet::ALL), options());
        let (exchange, request) = caller.posted("server/discover");
        caller.answer(exchange, &discovered(&message(&request)["id"]));
        assert_eq!(caller.take_events(), [Event::Ready]);
        caller
    }
}

/// Returns the head of a JSON response.
pub fn json_response(status: u16) -> Builder {
    Response::builder().status(status).header("content-type", "application/json")
}

/// Returns the head of an event stream.
pub fn stream_response() -> Builder {
    Response::builder().status(200).header("content-type", "text/event-stream")
}

/// Returns the response to `initialize` of a server with all capabilities.
#[must_use]
pub fn initialized(version: &str, id: &Value) -> Value {
    let capabilities = serde_json::to_value(full_server().capabilities).expect("capabilities are JSON");
    json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": version, "capabilities": capabilities,
        "serverInfo": {"name": "server", "version": "1"}}})
}

/// Returns the response to `server/discover` of a server with all capabilities.
#[must_use]
pub fn discovered(id: &Value) -> Value {
    let capabilities =
        json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private"}})
}

/// Returns an event that carries a message.
#[must_use]
pub fn event(id: &str, message: &Value) -> String {
    if id.is_empty() { format!("data: {message}\n\n") } else { format!("id: {id}\ndata: {message}\n\n") }
}
