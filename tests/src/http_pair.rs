//! A client and a server over HTTP in memory. Each request travels separately, and its response can be cut.

use std::{collections::BTreeMap, time::Duration};

use http::Request;
use mcp_proto::{
    connection::{ClientConfig, Event, ServerConfig},
    http::client::{ClientOptions, ExchangeId},
};

use crate::{
    http_client::{HttpClient, options},
    http_server::{HttpServer, RequestRef},
};

/// The number of steps after which a run that still makes progress counts as a livelock.
const LIVELOCK: usize = 100_000;

/// Handles the events of the server's application.
pub type App = Box<dyn FnMut(&mut HttpServer, usize, Event<'static>)>;

/// The place at which a response breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before its head.
    Head,
    /// After this many bytes of its body.
    Body(usize),
}

/// Decides whether to cut the response to a request.
pub type Cutter = Box<dyn FnMut(&Request<Vec<u8>>) -> Option<Cut>>;

/// A request in flight.
struct InFlight {
    sent: RequestRef,
    head: bool,
    delivered: usize,
    cut: Option<Cut>,
}

/// A client that is connected to a server.
pub struct HttpPair {
    /// The client.
    pub client: HttpClient,
    /// The server.
    pub server: HttpServer,
    /// The application of the server.
    pub app: App,
    /// The most bytes that the client receives at once.
    pub chunk: usize,
    /// Decides whether to cut the response to a request.
    pub cut: Cutter,
    /// The number of requests so far.
    pub requests: usize,
    in_flight: BTreeMap<ExchangeId, InFlight>,
}

impl HttpPair {
    /// Connects two sides before any message.
    #[must_use]
    pub fn new(client: ClientConfig, server: ServerConfig, app: App) -> Self {
        Self::with(client, options(), server, app)
    }

    /// Connects two sides before any message.
    #[must_use]
    pub fn with(client: ClientConfig, options: ClientOptions, server: ServerConfig, app: App) -> Self {
        Self {
            client: HttpClient::new(client, options),
            server: HttpServer::new(server),
            app,
            chunk: usize::MAX,
            cut: Box::new(|_| None),
            requests: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Runs both sides until there is nothing to do at the current time.
    ///
    /// # Panics
    /// If the two sides never become idle.
    pub fn run(&mut self) {
        for _ in 0..LIVELOCK {
            if !self.step() {
                return;
            }
        }
        panic!("livelock: the two sides never become idle");
    }

    fn step(&mut self) -> bool {
        let mut moved = false;
        self.client.settle();
        for (exchange, request) in std::mem::take(&mut self.client.requests) {
            moved = true;
            self.requests += 1;
            let mut request = request.map(|body| body.to_vec());
            request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
            *request.uri_mut() = request.uri().path_and_query().expect("a path").as_str().parse().expect("a path");
            let cut = (self.cut)(&request);
            let sent = self.server.send(request);
            self.in_flight.insert(exchange, InFlight { sent, head: false, delivered: 0, cut });
        }
        for exchange in std::mem::take(&mut self.client.aborted) {
            moved = true;
            if let Some(in_flight) = self.in_flight.remove(&exchange) {
                self.server.disconnect(in_flight.sent);
            }
        }
        for (session, event) in std::mem::take(&mut self.server.events) {
            moved = true;
            (self.app)(&mut self.server, session, event);
        }
        self.server.settle();
        let under_way: Vec<_> = self.in_flight.keys().copied().collect();
        for exchange in under_way {
            moved |= self.carry(exchange);
        }
        moved
    }

    /// Delivers the available part of a response to the client.
    fn carry(&mut self, exchange: ExchangeId) -> bool {
        let Some(in_flight) = self.in_flight.get_mut(&exchange) else { return false };
        let reply = self.server.reply(in_flight.sent);
        let Some(head) = &reply.head else { return false };
        let breaks = if in_flight.head { Cut::Body(in_flight.delivered) } else { Cut::Head };
        if in_flight.cut == Some(breaks) {
            let sent = in_flight.sent;
            self.in_flight.remove(&exchange);
            self.server.disconnect(sent);
            self.client.fail(exchange);
            return true;
        }
        if !in_flight.head {
            in_flight.head = true;
            self.client.core.handle_head(self.client.now, exchange, head);
            return true;
        }
        let until = match in_flight.cut {
            Some(Cut::Body(bytes)) => reply.body.len().min(bytes),
            _ => reply.body.len(),
        };
        let chunk = &reply.body[in_flight.delivered..until];
        let chunk = &chunk[..chunk.len().min(self.chunk)];
        if !chunk.is_empty() {
            in_flight.delivered += chunk.len();
            self.client.core.handle_body(self.client.now, exchange, chunk);
            return true;
        }
        if reply.ended && in_flight.delivered == reply.body.len() {
            self.in_flight.remove(&exchange);
            self.client.core.handle_end(self.client.now, exchange);
            return true;
        }
        false
    }

    /// Replaces the server by one without any state. The responses in flight are lost.
    pub fn restart(&mut self, server: ServerConfig) {
        self.server = HttpServer::new(server);
        self.server.now = self.client.now;
        self.in_flight.clear();
    }

    /// Advances the clock by `time`, stopping at each deadline.
    pub fn advance(&mut self, time: Duration) {
        let until = self.client.now + time;
        loop {
            self.run();
            let client = self.client.core.poll_timeout().map(|deadline| deadline.at);
            let server = self.server.sessions.values().filter_map(|session| session.poll_timeout().map(|it| it.at));
            let next = server.chain(client).min();
            match next {
                Some(next) if next <= until => {
                    self.client.now = self.client.now.max(next);
                    self.server.now = self.client.now;
                }
                _ => break,
            }
            self.client.core.handle_timeout(self.client.now);
            let now = self.server.now;
            for session in self.server.sessions.values_mut() {
                session.handle_timeout(now);
            }
        }
        (self.client.now, self.server.now) = (until, until);
        self.run();
    }
}
