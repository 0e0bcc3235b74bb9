//! Scenarios: the possible actions of an exploration.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientConfig, Keepalive, Limits, RequestOptions, ServerConfig},
    protocol::{ProtocolVersion, VersionSet},
    schema::{ClientCapabilities, Implementation, ServerCapabilities},
};
use serde_json::{Value, json};

use super::{injected_fault::InjectedFault, tasks::INTERVAL};

/// One side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];
}

/// A request of the plan of an application.
#[derive(Clone, Copy, Debug)]
pub struct PlannedRequest {
    /// The method.
    pub method: &'static str,
    /// Whether it requests progress.
    pub progress: bool,
    /// The idle timeout, in seconds.
    pub idle: Option<u64>,
    /// The total timeout, in seconds.
    pub total: Option<u64>,
    /// Whether the client opens an ended subscription again.
    pub again: bool,
}

impl PlannedRequest {
    /// Returns a request without timeouts and without progress.
    #[must_use]
    pub const fn of(method: &'static str) -> Self {
        Self { method, progress: false, idle: None, total: None, again: false }
    }

    /// Requests progress.
    #[must_use]
    pub const fn with_progress(self) -> Self {
        Self { progress: true, ..self }
    }

    /// Sets timeouts, in seconds.
    #[must_use]
    pub const fn within(self, idle: u64, total: u64) -> Self {
        Self { idle: Some(idle), total: Some(total), ..self }
    }

    /// Opens the subscription again after it has ended.
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

/// The possible actions of one application, at any time and in any order. It responds to all requests.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The requests that it sends, in this order.
    pub(super) requests: Vec<PlannedRequest>,
    pub(super) cancels: u8,
    pub(super) reports: u8,
    pub(super) errors: u8,
    pub(super) input_requests: u8,
    pub(super) tasks: u8,
    pub(super) list_changes: u8,
    pub(super) closes: bool,
    pub(super) write_fails: bool,
    pub(super) keepalive: Option<Keepalive>,
    pub(super) reply_timeout: Option<Duration>,
    pub(super) limits: Option<Limits>,
}

impl Plan {
    /// Returns a plan with these requests, in this order.
    #[must_use]
    pub fn requests<const N: usize>(requests: [PlannedRequest; N]) -> Self {
        Self { requests: requests.into(), ..Self::default() }
    }

    /// Allows this many cancellations of its requests.
    #[must_use]
    pub fn cancels(self, cancels: u8) -> Self {
        Self { cancels, ..self }
    }

    /// Allows this many progress reports for each request with a progress token.
    #[must_use]
    pub fn reports(self, reports: u8) -> Self {
        Self { reports, ..self }
    }

    /// Allows this many error responses.
    #[must_use]
    pub fn error_responses(self, errors: u8) -> Self {
        Self { errors, ..self }
    }

    /// Allows this many `input_required` responses: with two input requests, with one, or with a state only (servers of
    /// the modern era).
    #[must_use]
    pub fn input_requests(self, input_requests: u8) -> Self {
        Self { input_requests, ..self }
    }

    /// Allows this many tasks for calls. Each task may request input (servers of the modern era).
    #[must_use]
    pub fn tasks(self, tasks: u8) -> Self {
        Self { tasks, ..self }
    }

    /// Allows this many changes of a list.
    #[must_use]
    pub fn list_changes(self, list_changes: u8) -> Self {
        Self { list_changes, ..self }
    }

    /// Allows it to close the connection.
    #[must_use]
    pub fn closes(self) -> Self {
        Self { closes: true, ..self }
    }

    /// Allows a write error.
    #[must_use]
    pub fn write_fails(self) -> Self {
        Self { write_fails: true, ..self }
    }

    /// Pings a silent peer after this many seconds, and closes after two missed pings.
    #[must_use]
    pub fn keepalive(self, seconds: u64) -> Self {
        Self { keepalive: Some(Keepalive { interval: Duration::from_secs(seconds), max_missed: 2 }), ..self }
    }

    /// Lets the connection respond to requests that the application has not answered after this many seconds.
    #[must_use]
    pub fn replies_within(self, seconds: u64) -> Self {
        Self { reply_timeout: Some(Duration::from_secs(seconds)), ..self }
    }

    /// Limits the requests in flight in each direction and the bytes of the outbox. Reading does not pause.
    #[must_use]
    pub fn limited_to(self, calls: usize, requests: usize, outbox_bytes: usize) -> Self {
        let mut limits = Limits::default();
        (limits.calls, limits.requests, limits.outbox_bytes) = (calls, requests, outbox_bytes);
        limits.input_pause = Duration::ZERO;
        Self { limits: Some(limits), ..self }
    }

    /// Pauses reading for this many seconds when limits are reached. Call it after [`limited_to`](Self::limited_to).
    #[must_use]
    pub fn input_pause(mut self, seconds: u64) -> Self {
        let limits = self.limits.get_or_insert_default();
        limits.input_pause = Duration::from_secs(seconds);
        self
    }
}

/// The state in which a scenario starts.
#[derive(Clone, Copy, Debug)]
pub enum Opening {
    /// After the handshake or the discovery of this revision.
    Ready(ProtocolVersion),
    /// Before the first byte, with the revisions of the client and of the server.
    Fresh(VersionSet, VersionSet),
}

/// Two applications and the links between them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    opening: Opening,
    pub(super) client: Plan,
    pub(super) server: Plan,
    pub(super) capacity: usize,
    pub(super) duplicates: u8,
    pub(super) batches: u8,
    pub(super) cut: bool,
    pub(super) ends: u8,
    pub(super) second_client: bool,
    pub(super) ticks: u8,
    pub(super) eager: bool,
    pub(super) injected: Option<InjectedFault>,
}

impl Scenario {
    /// Returns a scenario with these plans, over lossless links that hold one frame.
    #[must_use]
    pub fn new(name: &'static str, opening: Opening, client: Plan, server: Plan) -> Self {
        let ticks = u8::MAX;
        Self {
            name,
            opening,
            client,
            server,
            capacity: 1,
            duplicates: 0,
            batches: 0,
            cut: false,
            ends: 0,
            second_client: false,
            ticks,
            eager: false,
            injected: None,
        }
    }

    /// Sets the number of frames in flight that a link holds. The sender keeps the rest.
    #[must_use]
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Allows this many frames to be delivered twice: at once, and again after all frames in flight.
    #[must_use]
    pub fn duplicates(self, duplicates: u8) -> Self {
        Self { duplicates, ..self }
    }

    /// Allows this many times that two frames in flight become a batch.
    #[must_use]
    pub fn batches(self, batches: u8) -> Self {
        Self { batches, ..self }
    }

    /// Allows the links to break and to lose all frames in flight.
    #[must_use]
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// Allows a gateway between the two sides to end this many subscriptions. It sends the cancellation to both sides.
    #[must_use]
    pub fn ends(self, ends: u8) -> Self {
        Self { ends, ..self }
    }

    /// Allows another client behind the same gateway to open a session on the connection of the client.
    #[must_use]
    pub fn second_client(self) -> Self {
        Self { second_client: true, ..self }
    }

    /// Limits how often time passes to the next deadline. The default is unlimited.
    #[must_use]
    pub fn ticks(self, ticks: u8) -> Self {
        Self { ticks, ..self }
    }

    /// Lets time pass only if no other action is possible.
    #[must_use]
    pub fn eager(self) -> Self {
        Self { eager: true, ..self }
    }

    /// Injects a fault.
    #[must_use]
    pub fn with_fault(self, injected: InjectedFault) -> Self {
        Self { injected: Some(injected), ..self }
    }

    /// Returns the revision that is negotiated before the first action.
    pub(super) fn negotiated(&self) -> Option<ProtocolVersion> {
        match self.opening {
            Opening::Ready(version) => Some(version),
            Opening::Fresh(..) => None,
        }
    }

    /// Returns whether conforming peers may report violations: frames are duplicated, limits are small, or a probe
    /// reaches a server of the legacy era.
    pub(super) fn is_lenient(&self) -> bool {
        let tight = self.client.limits.is_some() || self.server.limits.is_some();
        self.duplicates > 0
            || tight
            || matches!(self.opening, Opening::Fresh(client, server) if client.intersection(server) != client)
    }

    fn versions(&self) -> (VersionSet, VersionSet) {
        match self.opening {
            Opening::Ready(version) => (VersionSet::only(version), VersionSet::only(version)),
            Opening::Fresh(client, server) => (client, server),
        }
    }

    /// Returns the client's configuration. The declarations are short, because each state contains them.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        let mut declared = json!({"roots": {"listChanged": true}, "elicitation": {"form": {}}});
        self.add_tasks(&mut declared);
        config.capabilities = serde_json::from_value::<ClientCapabilities>(declared).expect("these are capabilities");
        config.settings.versions = self.versions().0;
        config.settings.keepalive = self.client.keepalive;
        config.settings.reply_timeout = self.client.reply_timeout;
        config.settings.limits = self.client.limits.clone().unwrap_or_default();
        config.settings.limits.resubscriptions = 2;
        // A client polls a task less often while the task requires input. The interval must not be longer than the call
        // lasts.
        config.settings.polling.max = INTERVAL;
        config
    }

    /// Declares the tasks extension on both sides if the scenario has tasks.
    fn add_tasks(&self, declared: &mut Value) {
        if self.server.tasks > 0 {
            declared["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        }
    }

    /// Returns the server's configuration.
    pub(super) fn server_config(&self) -> ServerConfig {
        let mut config = ServerConfig::new(Implementation::new("s", "1"), 1);
        let mut declared = json!({"tools": {"listChanged": true}});
        self.add_tasks(&mut declared);
        config.capabilities = serde_json::from_value::<ServerCapabilities>(declared).expect("these are capabilities");
        config.settings.versions = self.versions().1;
        config.settings.keepalive = self.server.keepalive;
        config.settings.reply_timeout = self.server.reply_timeout;
        config.settings.limits = self.server.limits.clone().unwrap_or_default();
        config
    }
}
