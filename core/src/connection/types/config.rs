//! The configuration of clients and servers.

use alloc::string::String;
use core::time::Duration;

use crate::{
    connection::types::{Backoff, Keepalive, Limits, Polling, RequestOptions},
    protocol::VersionSet,
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
};

/// The settings of both roles. Any number of connections can share one value.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The supported revisions. A client offers the newest one. Default: all with a handshake.
    pub versions: VersionSet,
    /// Resource limits of the connection.
    pub limits: Limits,
    /// The options of requests whose options are not given.
    pub request: RequestOptions,
    /// The delays before a request that the peer has deferred is sent again (2026-07-28).
    pub backoff: Backoff,
    /// The polling interval of requests that have become tasks (2026-07-28).
    pub polling: Polling,
    /// Pings for a silent peer.
    ///
    /// Default: none, since not every peer responds to them, and 2026-07-28 has none. Without them, a peer that has
    /// disappeared is noticed when a request of this side times out, or when the transport reports it. A server that
    /// sends no requests may then hold a connection over TCP for ever; a pipe of a process that has ended reports its
    /// end.
    pub keepalive: Option<Keepalive>,
    /// How long the handshake may take (clients). Default 30 seconds: servers are often started by it. Over HTTP the
    /// time in which it waits for credentials does not count.
    pub handshake_timeout: Duration,
    /// How long a server may take to respond to the probe for the modern era. After that, a client that supports both
    /// eras treats it as a legacy server that ignores unknown requests. At most the handshake timeout, which starts
    /// after the probe. Default 5 seconds.
    pub probe_timeout: Duration,
    /// How long the application may take to respond to a request of the peer, from its arrival. After that the peer
    /// gets an error, and the slot of the request is free. See
    /// [`Connection::set_deadline`](crate::connection::Connection::set_deadline).
    ///
    /// Default: none, since handlers may take as long as they like. Without it, a request whose key is lost holds its
    /// slot until the connection ends, also after its peer has cancelled it:
    /// [`Connection::requests`](crate::connection::Connection::requests) lists such requests.
    pub reply_timeout: Option<Duration>,
    /// Whether to refuse requests of a session whose `_meta` has keys of 2026-07-28, instead of ignoring keys that the
    /// session's revision does not have. Default false: peers that support both eras may send both.
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

/// The configuration of a client: its identity and capabilities.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The name and version of the client.
    pub info: Implementation,
    /// The capabilities that the client offers to the server. The core refuses requests for anything else.
    pub capabilities: ClientCapabilities,
    /// Limits, times and revisions.
    pub settings: Settings,
    /// See [`new`](Self::new).
    pub hash_seed: u64,
}

impl ClientConfig {
    /// Creates the configuration of a client that offers no capabilities.
    ///
    /// `hash_seed` keys the hash tables whose keys the server chooses: ids of requests and of tasks. The core generates
    /// no random bits, so pass them in, once for the process or for each connection. A server to which the seed is
    /// known can choose ids with equal hashes, and slow this connection down: at most 16,384 steps for each message,
    /// with the default limits. Use a constant such as 0 only in tests and with trusted servers.
    #[must_use]
    pub fn new(info: Implementation, hash_seed: u64) -> Self {
        Self { info, capabilities: ClientCapabilities::default(), settings: Settings::default(), hash_seed }
    }
}

/// The configuration of a server: its identity and capabilities.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The name and version of the server.
    pub info: Implementation,
    /// The capabilities that the server offers. The core refuses requests for anything else.
    pub capabilities: ServerCapabilities,
    /// Advice to the model on how to use the server.
    pub instructions: Option<String>,
    /// Limits, times and revisions.
    pub settings: Settings,
    /// Whether subscriptions that name resources are handed to the application before they are accepted, as those that
    /// name tasks always are: see
    /// [`accept_subscription`](crate::connection::Connection::accept_subscription). Default false.
    pub confirm_subscriptions: bool,
    /// See [`new`](Self::new).
    pub hash_seed: u64,
}

impl ServerConfig {
    /// Creates the configuration of a server that offers no capabilities.
    ///
    /// `hash_seed` keys the hash tables whose keys the client chooses: ids of requests. Pass in random bits, as for
    /// [`ClientConfig::new`], unless the clients are trusted.
    #[must_use]
    pub fn new(info: Implementation, hash_seed: u64) -> Self {
        let (capabilities, settings) = (ServerCapabilities::default(), Settings::default());
        Self { info, capabilities, instructions: None, settings, confirm_subscriptions: false, hash_seed }
    }
}
