//! What an application says of itself before a connection begins.

use core::time::Duration;

use super::{Backoff, Keepalive, Limits, Polling, RequestOptions};
use crate::{
    protocol::VersionSet,
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
};

use alloc::string::String;

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
    /// Pings for a quiet peer. Default: none.
    pub keepalive: Option<Keepalive>,
    /// How long the handshake may take (clients). Default 30 seconds: servers are often started by it.
    pub handshake_timeout: Duration,
    /// How long a server may take to say whether it is of the modern era, before it is taken for an old one that
    /// ignores what it does not know (clients that speak both). It gets no more than the time for the handshake, which
    /// begins after that. Default 5 seconds.
    pub probe_timeout: Duration,
    /// Refuse requests of a session whose `_meta` has keys of 2026-07-28, instead of ignoring what the session's
    /// revision does not know. Default false: peers on their way from one era to the other send both.
    pub strict_meta: bool,
    /// Keys the hash tables whose keys the peer chooses. Hand in random bits if the peer is not trusted to leave the
    /// tables' balance alone. Default 0: the core has no randomness of its own.
    pub hash_seed: u64,
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
            strict_meta: false,
            hash_seed: 0,
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
}

impl ClientConfig {
    /// A client that can do nothing for the server.
    #[must_use]
    pub fn new(info: Implementation) -> Self {
        Self { info, capabilities: ClientCapabilities::default(), settings: Settings::default() }
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
}

impl ServerConfig {
    /// A server that offers nothing yet.
    #[must_use]
    pub fn new(info: Implementation) -> Self {
        Self { info, capabilities: ServerCapabilities::default(), instructions: None, settings: Settings::default() }
    }
}
