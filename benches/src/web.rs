//! A client and a server of HTTP, connected without HTTP: heads are moved, and bodies are copied.

use std::{cell::RefCell, hint::black_box, rc::Rc, sync::Arc, time::Duration};

use http::{
    HeaderValue, Request, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST},
    response::Parts,
};
use mcp_proto::{
    connection::{Event, Outcome, RequestOptions},
    http::{
        Policy,
        client::{Action, Client, ClientOptions, ExchangeId},
        server::{Caller, Endpoint, EndpointOptions, Output, Request as Incoming, Session},
    },
    protocol::VersionSet,
    rpc::Timestamp,
    schema::CallToolResult,
    wire::{JsonObject, RawJson},
};

use crate::{ARGUMENTS, TEXT, pair};

/// The revision of sessions with hand-written requests.
const VERSION: &str = "2025-11-25";

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1.0.0"}}}"#;

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

type Handle = Rc<RefCell<Session>>;

/// A client and a server after the handshake of their era.
pub struct Web {
    /// The client.
    pub client: Client,
    /// The endpoint of the server.
    pub endpoint: Endpoint<Handle>,
    /// The number of bytes of bodies that were transferred.
    pub bytes: usize,
    /// Whether the response to a call is a stream.
    streams: bool,
    now: Timestamp,
    params: JsonObject,
    result: CallToolResult,
    uri: Uri,
    body: Vec<u8>,
    random: u64,
}

impl Web {
    /// Connects a client and a server in the newest of these revisions. The response to a call is JSON, or a stream
    /// with progress.
    ///
    /// # Panics
    /// If the handshake fails.
    #[must_use]
    pub fn new(versions: VersionSet, streams: bool) -> Self {
        let now = Timestamp::ZERO;
        let mut client = ClientOptions::new("http://localhost/mcp", 1).expect("an address of HTTP");
        client.listen = false;
        let mut web = Self {
            client: Client::new(pair::client(versions), client, now),
            endpoint: Endpoint::new(pair::server(versions), EndpointOptions::new(Policy::loopback())),
            bytes: 0,
            streams,
            now,
            params: JsonObject::parse(format!(r#"{{"name":"echo","arguments":{ARGUMENTS}}}"#)).expect("an object"),
            result: CallToolResult::text(TEXT),
            uri: Uri::from_static("/mcp"),
            body: Vec::new(),
            random: 0,
        };
        web.run();
        assert_eq!(web.client.poll_event(), Some(Event::Ready));
        web
    }

    /// Begins one more session with hand-written requests, and opens its stream if `stream` is set.
    pub(crate) fn begin(&mut self, stream: bool) {
        let post = Request::post("/mcp")
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let head = self.take(post, INITIALIZE).expect("an answer");
        let id = head.headers.get("mcp-session-id").expect("a session").clone();
        let within = |request: http::request::Builder| {
            request
                .header(HOST, "localhost")
                .header("mcp-session-id", id.clone())
                .header("mcp-protocol-version", VERSION)
        };
        let post = within(Request::post("/mcp"))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        self.take(post, INITIALIZED).expect("an answer");
        if stream {
            let get = within(Request::get("/mcp")).header(ACCEPT, "text/event-stream");
            self.take(get, "").expect("a stream");
        }
    }

    /// Sends a request to the endpoint. Returns the head of the response, if there is one already.
    fn take(&mut self, request: http::request::Builder, body: &str) -> Option<Parts> {
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let mut reader = self.endpoint.begin(&head, Caller::Anybody).unwrap_or_else(|answer| panic!("{answer:?}"));
        reader.feed(body.as_bytes()).unwrap_or_else(|answer| panic!("{answer:?}"));
        let mut request = reader.end().unwrap_or_else(|answer| panic!("{answer:?}"));
        let handle = self.route(&request);
        let mut session = handle.borrow_mut();
        let (exchange, _) = session.open(self.now, &mut request).unwrap_or_else(|answer| panic!("{answer:?}"));
        while session.poll_event().is_some() {}
        while session.poll_ready().is_some() {}
        let mut answer = None;
        while let Some(output) = session.poll_output(exchange, &mut self.body) {
            if let Output::Head(head) = output {
                answer = Some(head);
            }
            self.body.clear();
        }
        answer
    }

    /// Returns the session of a request, which may be new.
    fn route(&mut self, request: &Incoming) -> Handle {
        self.random += 1;
        let mut random = [0; 24];
        random[..8].copy_from_slice(&self.random.to_le_bytes());
        let make = |session| Rc::new(RefCell::new(session));
        self.endpoint.route(self.now, request, random, make).unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// Makes one call.
    ///
    /// # Panics
    /// If there is no response.
    pub fn call(&mut self) {
        self.now = self.now + Duration::from_micros(1);
        let params = RawJson::from(&self.params);
        let client = self.client.connection(self.now);
        let options = RequestOptions { progress: self.streams, ..RequestOptions::default() };
        client.request_raw(self.now, "tools/call", Some(&params), options).expect("it is allowed");
        self.run();
        loop {
            match self.client.poll_event() {
                Some(Event::Response { outcome: Outcome::Result(result), .. }) => return drop(black_box(result)),
                Some(Event::Progress { .. }) if self.streams => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Performs the requests of the client until there are none.
    fn run(&mut self) {
        loop {
            match self.client.poll_action() {
                Some(Action::Request { exchange, request }) => self.exchange(exchange, request),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn exchange(&mut self, exchange_id: ExchangeId, request: Request<Arc<[u8]>>) {
        let (mut head, body) = request.into_parts();
        head.uri = self.uri.clone();
        head.headers.insert(HOST, HeaderValue::from_static("localhost"));
        self.bytes += body.len();
        let request = self.endpoint.begin(&head, Caller::Anybody).and_then(|mut reader| {
            reader.feed(&body)?;
            reader.end()
        });
        let mut request = request.unwrap_or_else(|answer| panic!("{answer:?}"));
        let handle = self.route(&request);
        let mut session = handle.borrow_mut();
        let (exchange, event) = session.open(self.now, &mut request).unwrap_or_else(|answer| panic!("{answer:?}"));
        if let Some(Event::Request { key, .. }) = event {
            let server = session.connection(self.now);
            if self.streams {
                server.progress(key, 1.0, None, None).expect("it was requested");
            }
            server.respond(key, &self.result).expect("it is owed");
        }
        while session.poll_event().is_some() {}
        while session.poll_ready().is_some() {}
        while let Some(output) = session.poll_output(exchange, &mut self.body) {
            match output {
                Output::Head(head) => self.client.handle_head(self.now, exchange_id, &head),
                Output::Data(bytes) => {
                    self.bytes += bytes;
                    self.client.handle_body(self.now, exchange_id, &self.body);
                    self.body.clear();
                }
                Output::End => self.client.handle_end(self.now, exchange_id),
                Output::Abort => self.client.handle_failure(self.now, exchange_id, "aborted"),
            }
        }
        assert!(session.poll_timeout().is_none() || !session.is_over());
    }
}
