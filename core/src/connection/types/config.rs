//! What an application says of itself before a connection begins.

use alloc::string::String;
use core::time::Duration;

use crate::{
    connection::types::{Backoff, Keepalive, Limits, Polling, RequestOptions},
    protocol::VersionSet,
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
};

/// What both ends configure. One value can be shared by any number of connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The revisions to speak. A client offers the newest one. Default: all with a handshake.
    pub versions: VersionSet,
    /// How much the connection may hold.
    pub limits: Limits,
    /// What `RequestOptions::default()` stands for in this application.
    pub request: RequestOptions,
    /// How long to wait before a request is sent again that the peer has put off (2026-07-28).
    pub backoff: Backoff,
    /// How often a task is looked at that a request has become (2026-07-28).
    pub polling: Polling,
    /// Pings for a quiet peer.
    ///
    /// Default: none, since not every peer answers them, and 2026-07-28 has none. Without them, a peer that is gone without
    /// a word is noticed when a request of this side times out, or when the transport reports it. A server that asks nothing
    /// may then hold a connection over TCP for ever; a pipe of a process that has ended reports its end.
    pub keepalive: Option<Keepalive>,
    /// How long the handshake may take (clients). Default 30 seconds: servers are often started by it.
    pub handshake_timeout: Duration,
    /// How long a server may take to say whether it is of the modern era, before it is taken for an old one that
    /// ignores what it does not know (clients that speak both). It gets no more than the time for the handshake, which
    /// begins after that. Default 5 seconds.
    pub probe_timeout: Duration,
    /// How long the application may take to answer a request of the peer, from when it came in. Then the peer gets an
    /// error, and the slot of the request is free. See [`Connection::set_deadline`](crate::connection::Connection::set_deadline).
    ///
    /// Default: none, since handlers may take as long as they like. Without it, a request whose key is lost holds its slot
    /// until the connection ends, also after its peer has cancelled it: [`Connection::requests`](crate::connection::Connection::requests)
    /// lists such requests.
    pub reply_timeout: Option<Duration>,
    /// Refuse requests of a session whose `_meta` has keys of 2026-07-28, instead of ignoring what the session's
    /// revision does not know. Default false: peers on their way from one era to the other send both.
    pub strict_meta: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            versions: VersionSet::LEGACY,
            limits: Limits::default(),
            request: RequestOptions::default(),
            backoff: Backoff::default(),
            polling: Polling::default(),
            keepalive: None,
            handshake_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(5),
            reply_timeout: None,
            strict_meta: false,
        }
    }
}

/// Who a client is and what it can do.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Its name and version.
    pub info: Implementation,
    /// What the server may ask of it. A request for anything else is refused by the core.
    pub capabilities: ClientCapabilities,
    /// Bounds and times.
    pub settings: Settings,
    /// See [`new`](Self::new).
    pub hash_seed: u64,
}

impl ClientConfig {
    /// A client that can do nothing for the server.
    ///
    /// `hash_seed` keys the hash tables whose keys the server chooses: ids of requests and of tasks. The core has no
    /// randomness of its own, so hand in random bits, once for the process or for each connection. A server that knows the seed
    /// can choose ids that all fall into one place of a table, and slow this connection down: at most 16,384 steps for each
    /// message, with the default limits. A constant such as 0 is for tests, and for servers that are trusted.
    #[must_use]
    pub fn new(info: Implementation, hash_seed: u64) -> Self {
        Self { info, capabilities: ClientCapabilities::default(), settings: Settings::default(), hash_seed }
    }
}

/// Who a server is and what it offers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its name and version.
    pub info: Implementation,
    /// What it offers. A request for anything else is refused by the core.
    pub capabilities: ServerCapabilities,
    /// Advice to the model on how to use it.
    pub instructions: Option<String>,
    /// Bounds and times.
    pub settings: Settings,
    /// See [`new`](Self::new).
    pub hash_seed: u64,
}

impl ServerConfig {
    /// A server that offers nothing yet.
    ///
    /// `hash_seed` keys the hash tables whose keys the client chooses: ids of requests. Hand in random bits, as for
    /// [`ClientConfig::new`], unless the clients are trusted.
    #[must_use]
    pub fn new(info: Implementation, hash_seed: u64) -> Self {
        let (capabilities, settings) = (ServerCapabilities::default(), Settings::default());
        Self { info, capabilities, instructions: None, settings, hash_seed }
    }
}
