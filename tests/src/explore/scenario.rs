//! What may happen in an exploration.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientConfig, Keepalive, Limits, RequestOptions, ServerConfig},
    protocol::{ProtocolVersion, VersionSet},
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
};
use serde_json::{Value, json};

use super::{flaw::Flaw, tasks::INTERVAL};

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Who {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// A request that an application makes.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The method.
    pub method: &'static str,
    /// Whether it wants to hear of progress.
    pub progress: bool,
    /// How long the peer may be silent, in seconds.
    pub idle: Option<u64>,
    /// How long it may take in all, in seconds.
    pub total: Option<u64>,
    /// Whether a subscription is opened again when it is ended.
    pub again: bool,
}

impl Ask {
    /// A request without deadlines, which does not ask for progress.
    #[must_use]
    pub const fn of(method: &'static str) -> Self {
        Self { method, progress: false, idle: None, total: None, again: false }
    }

    /// It wants to hear of progress.
    #[must_use]
    pub const fn with_progress(self) -> Self {
        Self { progress: true, ..self }
    }

    /// It has deadlines, in seconds.
    #[must_use]
    pub const fn within(self, idle: u64, total: u64) -> Self {
        Self { idle: Some(idle), total: Some(total), ..self }
    }

    /// A subscription that is opened again when it is ended.
    #[must_use]
    pub const fn again(self) -> Self {
        Self { again: true, ..self }
    }

    pub(super) fn options(&self) -> RequestOptions {
        RequestOptions {
            idle_timeout: self.idle.map(Duration::from_secs),
            total_timeout: self.total.map(Duration::from_secs),
            progress: self.progress,
            resubscribe: self.again,
            ..RequestOptions::no_timeout()
        }
    }
}

/// What the application at one end may do, at any time and in any order. It answers whatever it is asked.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The requests that it makes, in this order.
    pub(super) asks: Vec<Ask>,
    pub(super) cancels: u8,
    pub(super) reports: u8,
    pub(super) errors: u8,
    pub(super) questions: u8,
    pub(super) tasks: u8,
    pub(super) notes: u8,
    pub(super) closes: bool,
    pub(super) breaks: bool,
    pub(super) keepalive: Option<Keepalive>,
    pub(super) limits: Option<Limits>,
}

impl Plan {
    /// It makes these requests, in this order.
    #[must_use]
    pub fn asks<const N: usize>(asks: [Ask; N]) -> Self {
        Self { asks: asks.into(), ..Self::default() }
    }

    /// It may cancel so many of its requests.
    #[must_use]
    pub fn cancels(self, cancels: u8) -> Self {
        Self { cancels, ..self }
    }

    /// It may report progress so often, of each request that wants to hear of it.
    #[must_use]
    pub fn reports(self, reports: u8) -> Self {
        Self { reports, ..self }
    }

    /// So many of its answers may be errors.
    #[must_use]
    pub fn errors(self, errors: u8) -> Self {
        Self { errors, ..self }
    }

    /// So many of its answers may be questions: two, one, or none but a state (servers of the modern era).
    #[must_use]
    pub fn questions(self, questions: u8) -> Self {
        Self { questions, ..self }
    }

    /// So many of the calls may become tasks, each of which may ask something (servers of the modern era).
    #[must_use]
    pub fn tasks(self, tasks: u8) -> Self {
        Self { tasks, ..self }
    }

    /// A list of its may change so often.
    #[must_use]
    pub fn notes(self, notes: u8) -> Self {
        Self { notes, ..self }
    }

    /// It may close the connection.
    #[must_use]
    pub fn closes(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Writing may fail.
    #[must_use]
    pub fn breaks(self) -> Self {
        Self { breaks: true, ..self }
    }

    /// A quiet peer is pinged after so many seconds, and left after two pings.
    #[must_use]
    pub fn pings(self, seconds: u64) -> Self {
        Self { keepalive: Some(Keepalive { interval: Duration::from_secs(seconds), max_missed: 2 }), ..self }
    }

    /// It may have so many requests in flight each way, and so many bytes that wait to be written. It reads all the same.
    #[must_use]
    pub fn holds(self, calls: usize, requests: usize, outbox_bytes: usize) -> Self {
        let mut limits = Limits::default();
        (limits.calls, limits.requests, limits.outbox_bytes) = (calls, requests, outbox_bytes);
        limits.input_pause = Duration::ZERO;
        Self { limits: Some(limits), ..self }
    }

    /// It stops reading for so many seconds where it holds much. Behind [`holds`](Self::holds).
    #[must_use]
    pub fn pauses(mut self, seconds: u64) -> Self {
        let limits = self.limits.get_or_insert_default();
        limits.input_pause = Duration::from_secs(seconds);
        self
    }
}

/// How a conversation begins.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    /// Behind the handshake, or the discovery, of this revision.
    Ready(ProtocolVersion),
    /// Before the first byte. What the client and the server speak.
    Fresh(VersionSet, VersionSet),
}

/// Two applications and the links between them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What to call it.
    pub name: &'static str,
    opening: Opening,
    pub(super) client: Plan,
    pub(super) server: Plan,
    pub(super) capacity: usize,
    pub(super) repeats: u8,
    pub(super) batches: u8,
    pub(super) cut: bool,
    pub(super) ends: u8,
    pub(super) newcomer: bool,
    pub(super) ticks: u8,
    pub(super) unhurried: bool,
    pub(super) flaw: Option<Flaw>,
}

impl Scenario {
    /// What these two may do, over links that hold one frame and lose nothing.
    #[must_use]
    pub fn new(name: &'static str, opening: Opening, client: Plan, server: Plan) -> Self {
        let ticks = u8::MAX;
        Self {
            name,
            opening,
            client,
            server,
            capacity: 1,
            repeats: 0,
            batches: 0,
            cut: false,
            ends: 0,
            newcomer: false,
            ticks,
            unhurried: false,
            flaw: None,
        }
    }

    /// A link holds so many frames in flight. Further ones wait with their sender.
    #[must_use]
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// So many frames may come twice: now, and once more behind everything that is in flight.
    #[must_use]
    pub fn repeats(self, repeats: u8) -> Self {
        Self { repeats, ..self }
    }

    /// Two frames in flight may become a batch, so many times.
    #[must_use]
    pub fn batches(self, batches: u8) -> Self {
        Self { batches, ..self }
    }

    /// The links may break and lose everything in flight.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// A gateway between the two may end so many subscriptions: it tells both that they are cancelled.
    #[must_use]
    pub fn ends(self, ends: u8) -> Self {
        Self { ends, ..self }
    }

    /// Behind a gateway that keeps the two apart, another client may open a session on the connection of the client.
    #[must_use]
    pub fn newcomer(self) -> Self {
        Self { newcomer: true, ..self }
    }

    /// Time passes up to the next deadline at most so many times. Without this, as often as there is one.
    #[must_use]
    pub fn ticks(self, ticks: u8) -> Self {
        Self { ticks, ..self }
    }

    /// Time passes only when nothing else can happen: all else takes no time.
    #[must_use]
    pub fn unhurried(self) -> Self {
        Self { unhurried: true, ..self }
    }

    /// Something goes wrong on purpose.
    #[must_use]
    pub fn flawed(self, flaw: Flaw) -> Self {
        Self { flaw: Some(flaw), ..self }
    }

    /// The revision whose handshake has been made before anything else happens.
    pub(super) fn agreed(&self) -> Option<ProtocolVersion> {
        match self.opening {
            Opening::Ready(version) => Some(version),
            Opening::Fresh(..) => None,
        }
    }

    /// Whether good peers may find fault with each other: frames come twice, there is not room for all that is asked,
    /// or a probe meets an old server.
    pub(super) fn is_lenient(&self) -> bool {
        let tight = self.client.limits.is_some() || self.server.limits.is_some();
        self.repeats > 0
            || tight
            || matches!(self.opening, Opening::Fresh(client, server) if client.intersection(server) != client)
    }

    fn versions(&self) -> (VersionSet, VersionSet) {
        match self.opening {
            Opening::Ready(version) => (VersionSet::only(version), VersionSet::only(version)),
            Opening::Fresh(client, server) => (client, server),
        }
    }

    /// The client. What it declares is kept short: it is part of what every state is told apart by.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        let mut declared = json!({"roots": {"listChanged": true}, "elicitation": {"form": {}}});
        self.add_tasks(&mut declared);
        config.capabilities = serde_json::from_value::<ClientCapabilities>(declared).expect("these are capabilities");
        config.settings.versions = self.versions().0;
        config.settings.keepalive = self.client.keepalive;
        config.settings.limits = self.client.limits.clone().unwrap_or_default();
        config.settings.limits.resubscriptions = 2;
        // While a task asks it is looked at less often. That must not be longer than its call lasts.
        config.settings.polling.max = INTERVAL;
        config
    }

    /// Both declare the tasks extension where it is used.
    fn add_tasks(&self, declared: &mut Value) {
        if self.server.tasks > 0 {
            declared["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        }
    }

    /// The server.
    pub(super) fn server_config(&self) -> ServerConfig {
        let mut config = ServerConfig::new(Implementation::new("s", "1"), 1);
        let mut declared = json!({"tools": {"listChanged": true}});
        self.add_tasks(&mut declared);
        config.capabilities = serde_json::from_value::<ServerCapabilities>(declared).expect("these are capabilities");
        config.settings.versions = self.versions().1;
        config.settings.keepalive = self.server.keepalive;
        config.settings.limits = self.server.limits.clone().unwrap_or_default();
        config
    }
}
