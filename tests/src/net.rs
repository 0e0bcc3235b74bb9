//! A client and a server of HTTP in memory, joined: each request travels on its own, and can be cut.

use std::{collections::BTreeMap, time::Duration};

use http::Request;
use mcp_proto::{
    connection::{ClientConfig, Event, ServerConfig},
    http::client::{ClientOptions, ExchangeId},
};

use crate::{
    caller::{Caller, options},
    web::{Asked, Web},
};

/// Steps after which two peers that still move are taken to chase their own tails.
const LIVELOCK: usize = 100_000;

/// What the server's application does with what it hears.
pub type App = Box<dyn FnMut(&mut Web, usize, Event<'static>)>;

/// Where a response breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before its head.
    Head,
    /// Behind so many bytes of its body.
    Body(usize),
}

/// Whether to cut the response to a request.
pub type Cutter = Box<dyn FnMut(&Request<Vec<u8>>) -> Option<Cut>>;

/// A request under way.
struct Carried {
    asked: Asked,
    head: bool,
    sent: usize,
    cut: Option<Cut>,
}

/// A client and a server, joined.
pub struct Net {
    /// The client.
    pub caller: Caller,
    /// The server.
    pub web: Web,
    /// What the server's application does.
    pub app: App,
    /// The most that is handed to the client at once.
    pub chunk: usize,
    /// Whether to cut the response to a request.
    pub cut: Cutter,
    /// How many requests were made.
    pub requests: usize,
    carried: BTreeMap<ExchangeId, Carried>,
}

impl Net {
    /// Joins two ends that have not said anything yet.
    #[must_use]
    pub fn new(client: ClientConfig, server: ServerConfig, app: App) -> Self {
        Self::with(client, options(), server, app)
    }

    /// Joins two ends that have not said anything yet.
    #[must_use]
    pub fn with(client: ClientConfig, options: ClientOptions, server: ServerConfig, app: App) -> Self {
        Self {
            caller: Caller::new(client, options),
            web: Web::new(server),
            app,
            chunk: usize::MAX,
            cut: Box::new(|_| None),
            requests: 0,
            carried: BTreeMap::new(),
        }
    }

    /// Runs both ends until nothing moves at this moment.
    ///
    /// # Panics
    /// If they never come to rest.
    pub fn run(&mut self) {
        for _ in 0..LIVELOCK {
            if !self.step() {
                return;
            }
        }
        panic!("livelock: the two ends never come to rest");
    }

    fn step(&mut self) -> bool {
        let mut moved = false;
        self.caller.settle();
        for (exchange, request) in std::mem::take(&mut self.caller.requests) {
            moved = true;
            self.requests += 1;
            let mut request = request.map(|body| body.to_vec());
            request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
            *request.uri_mut() = request.uri().path_and_query().expect("a path").as_str().parse().expect("a path");
            let cut = (self.cut)(&request);
            let asked = self.web.send(request);
            self.carried.insert(exchange, Carried { asked, head: false, sent: 0, cut });
        }
        for exchange in std::mem::take(&mut self.caller.aborted) {
            moved = true;
            if let Some(carried) = self.carried.remove(&exchange) {
                self.web.hang_up(carried.asked);
            }
        }
        for (session, event) in std::mem::take(&mut self.web.events) {
            moved = true;
            (self.app)(&mut self.web, session, event);
        }
        self.web.settle();
        let under_way: Vec<_> = self.carried.keys().copied().collect();
        for exchange in under_way {
            moved |= self.carry(exchange);
        }
        moved
    }

    /// Brings the client what has come of a response.
    fn carry(&mut self, exchange: ExchangeId) -> bool {
        let Some(carried) = self.carried.get_mut(&exchange) else { return false };
        let reply = self.web.reply(carried.asked);
        let Some(head) = &reply.head else { return false };
        let breaks = if carried.head { Cut::Body(carried.sent) } else { Cut::Head };
        if carried.cut == Some(breaks) {
            let asked = carried.asked;
            self.carried.remove(&exchange);
            self.web.hang_up(asked);
            self.caller.fail(exchange);
            return true;
        }
        if !carried.head {
            carried.head = true;
            self.caller.client.handle_head(self.caller.now, exchange, head);
            return true;
        }
        let until = match carried.cut {
            Some(Cut::Body(bytes)) => reply.body.len().min(bytes),
            _ => reply.body.len(),
        };
        let chunk = &reply.body[carried.sent..until];
        let chunk = &chunk[..chunk.len().min(self.chunk)];
        if !chunk.is_empty() {
            carried.sent += chunk.len();
            self.caller.client.handle_body(self.caller.now, exchange, chunk);
            return true;
        }
        if reply.ended && carried.sent == reply.body.len() {
            self.carried.remove(&exchange);
            self.caller.client.handle_end(self.caller.now, exchange);
            return true;
        }
        false
    }

    /// Another server takes the place of this one. It has forgotten everything, and of what was under way nothing more comes.
    pub fn restart(&mut self, server: ServerConfig) {
        self.web = Web::new(server);
        self.web.now = self.caller.now;
        self.carried.clear();
    }

    /// Lets `time` pass, stopping at every deadline on the way.
    pub fn advance(&mut self, time: Duration) {
        let until = self.caller.now + time;
        loop {
            self.run();
            let client = self.caller.client.poll_timeout().map(|deadline| deadline.at);
            let server = self.web.sessions.values().filter_map(|session| session.poll_timeout().map(|it| it.at));
            let next = server.chain(client).min();
            match next {
                Some(next) if next <= until => {
                    self.caller.now = self.caller.now.max(next);
                    self.web.now = self.caller.now;
                }
                _ => break,
            }
            self.caller.client.handle_timeout(self.caller.now);
            let now = self.web.now;
            for session in self.web.sessions.values_mut() {
                session.handle_timeout(now);
            }
        }
        (self.caller.now, self.web.now) = (until, until);
        self.run();
    }
}
