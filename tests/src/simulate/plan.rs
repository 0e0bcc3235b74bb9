//! The participants of a run and their behaviour, all drawn from the seed before the first action.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{ClientConfig, Keepalive, Limits, ServerConfig, Settings},
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::{ClientCapabilities, ServerCapabilities},
};

use super::{rng::Rng, transport::TransportConfig};
use crate::harness::{full_client, full_server};

/// The plan of a run.
pub struct Plan {
    /// The server of all clients.
    pub server: Arc<ServerConfig>,
    /// The clients.
    pub client_plans: Vec<ClientPlan>,
    /// The time in which new actions begin.
    pub length: Duration,
    /// The number of changes of the server's offer.
    pub changes: u64,
}

/// Whether the two sides of a connection follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conformance {
    /// Both sides are the core.
    Conforming,
    /// The client is a rogue peer.
    RogueClient,
    /// The server is a rogue peer.
    RogueServer,
}

/// A client and its connections.
pub struct ClientPlan {
    /// Which side follows the protocol.
    pub conformance: Conformance,
    /// The configuration of the client.
    pub client: Arc<ClientConfig>,
    /// From the client to the server.
    pub up: TransportConfig,
    /// From the server to the client.
    pub down: TransportConfig,
    /// The number of steps of each side.
    pub steps: u64,
    /// The longest pause between two steps.
    pub pause: Duration,
    /// How often it connects again after the end of a connection.
    pub reconnects: u64,
    /// The behaviour of its applications.
    pub behavior: Behavior,
    /// The connections are undisturbed: they end only when closed, lose nothing, and no request exceeds a limit.
    pub is_undisturbed: bool,
}

/// The behaviour of an application.
#[derive(Clone, Copy, Debug)]
pub struct Behavior {
    /// The longest delay before it continues to work on a request.
    pub max_think_time: Duration,
    /// The scale of its timeouts, and the longest time before it cancels a call.
    pub max_wait: Duration,
    /// The percentage of requests without a response until the run winds down.
    pub no_reply_percent: u64,
    /// The percentage of requests that lead to an input request.
    pub input_percent: u64,
    /// The percentage of its calls that it cancels.
    pub cancel_percent: u64,
    /// The percentage of steps that disrupt: the end of a connection or a process, or a pause of reading.
    pub disruption_percent: u64,
    /// The bytes that a driver buffers before it stops polling for output.
    pub high_water: usize,
}

impl Plan {
    /// Draws a run.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let length = Duration::from_secs(rng.log_uniform(60, 6 * 3600));
        let is_tight = rng.percent(50);
        let mut server = full_server();
        if rng.percent(20) {
            server.capabilities = ServerCapabilities { resources: None, logging: None, ..server.capabilities };
        }
        if rng.percent(80) {
            server.capabilities = server.capabilities.with(Capability::TasksExtension);
        }
        server.hash_seed = rng.below(u64::MAX);
        server.settings = draw_settings(rng, length, is_tight);
        server.settings.versions = draw_versions(rng);
        let count = rng.within(1..=5);
        let is_strict = is_tight || server.settings.keepalive.is_some();
        let client_plans = (0..count).map(|_| ClientPlan::draw(rng, length, is_strict)).collect();
        Self { server: Arc::new(server), client_plans, length, changes: rng.log_uniform(1, 30) - 1 }
    }
}

impl ClientPlan {
    fn draw(rng: &mut Rng, length: Duration, server_is_strict: bool) -> Self {
        let conformance =
            rng.weighted(&[(7, Conformance::Conforming), (2, Conformance::RogueClient), (1, Conformance::RogueServer)]);
        let is_undisturbed = conformance == Conformance::Conforming && !server_is_strict && rng.percent(50);
        let mut client = full_client();
        if rng.percent(20) {
            client.capabilities = ClientCapabilities { sampling: None, elicitation: None, ..client.capabilities };
        }
        if rng.percent(80) {
            client.capabilities = client.capabilities.with(Capability::TasksExtension);
        }
        let is_tight = !is_undisturbed && rng.percent(50);
        client.hash_seed = rng.below(u64::MAX);
        client.settings = draw_settings(rng, length, is_tight);
        client.settings.versions = draw_versions(rng);
        let whole_messages = rng.percent(25);
        let mut up = draw_transport(rng, whole_messages);
        let mut down = draw_transport(rng, whole_messages);
        match conformance {
            // A peer that does not read is detected earlier if the transport buffers little.
            Conformance::RogueClient if rng.percent(50) => down.capacity = down.capacity.min(500),
            Conformance::RogueServer if rng.percent(50) => up.capacity = up.capacity.min(500),
            _ => {}
        }
        if is_undisturbed {
            client.settings.keepalive = None;
            client.settings.handshake_timeout = length;
            client.settings.probe_timeout = length;
        } else if rng.percent(40) {
            let cut = if rng.percent(50) { &mut up } else { &mut down };
            let (least, most) = if whole_messages { (1, 60) } else { (100, 20_000) };
            cut.cut_after = Some(rng.log_uniform(least, most));
        }
        let narrow = up.capacity.min(down.capacity) < 32 && !whole_messages;
        let steps = if narrow { rng.within(1..=5) } else { rng.log_uniform(1, 40) };
        let pause = length / u32::try_from(steps).unwrap_or(1);
        Self {
            conformance,
            client: Arc::new(client),
            up,
            down,
            steps,
            pause: if rng.percent(30) { pause / 1000 } else { pause },
            reconnects: rng.log_uniform(1, 4) - 1,
            behavior: Behavior::draw(rng, is_undisturbed),
            is_undisturbed,
        }
    }
}

impl Behavior {
    fn draw(rng: &mut Rng, is_undisturbed: bool) -> Self {
        Self {
            max_think_time: rng.duration(Duration::from_secs(3600)),
            max_wait: rng.duration(Duration::from_secs(3600)).max(Duration::from_millis(100)),
            no_reply_percent: *rng.pick(&[0, 5, 50]),
            input_percent: *rng.pick(&[0, 20, 60]),
            cancel_percent: *rng.pick(&[0, 20, 60]),
            disruption_percent: if is_undisturbed { 0 } else { *rng.pick(&[0, 3, 10]) },
            high_water: *rng.pick(&[1, 300, 64 << 10]),
        }
    }
}

fn draw_settings(rng: &mut Rng, length: Duration, is_tight: bool) -> Settings {
    let mut settings = Settings::default();
    if is_tight {
        settings.limits = tight_limits(rng);
    }
    if rng.percent(25) {
        let interval = length / u32::try_from(rng.log_uniform(2, 200)).unwrap_or(1);
        settings.keepalive = Some(Keepalive { interval, max_missed: u32::try_from(rng.within(1..=3)).unwrap_or(1) });
    }
    settings.handshake_timeout = rng.duration(Duration::from_secs(60)).max(Duration::from_millis(100));
    settings.probe_timeout = rng.duration(Duration::from_secs(10)).max(Duration::from_millis(10));
    settings
}

/// Returns limits that ordinary behaviour reaches.
fn tight_limits(rng: &mut Rng) -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = usize::try_from(rng.log_uniform(1500, 20_000)).unwrap_or(20_000);
    limits.json_depth = u32::try_from(rng.log_uniform(8, 128)).unwrap_or(128);
    limits.calls = rng.size(1..=20);
    limits.call_bytes = rng.size(500..=20_000);
    limits.requests = rng.size(1..=20);
    limits.request_bytes = rng.size(500..=5000);
    limits.outbox_bytes = rng.size(500..=20_000);
    limits.control_bytes = rng.size(200..=5000);
    limits.batch_members = rng.size(1..=10);
    limits.parse_errors = u32::try_from(rng.below(4)).unwrap_or(0);
    limits.noise_lines = u32::try_from(rng.log_uniform(1, 50)).unwrap_or(1);
    limits.tasks = rng.size(1..=4);
    limits.rounds = u32::try_from(rng.within(1..=4)).unwrap_or(1);
    limits.input_requests = rng.size(1..=4);
    limits.task_input_requests = rng.size(1..=4);
    limits.cache_entries = rng.size(0..=4);
    limits.cache_bytes = rng.size(0..=2000);
    limits.resubscriptions = u32::try_from(rng.within(0..=3)).unwrap_or(0);
    limits.subscriptions = rng.size(1..=4);
    limits.drain = rng.duration(Duration::from_secs(10));
    limits
}

fn draw_versions(rng: &mut Rng) -> VersionSet {
    let modern = VersionSet::only(ProtocolVersion::LATEST);
    let one = VersionSet::only(*rng.pick(&ProtocolVersion::LEGACY));
    rng.weighted(&[
        (5, VersionSet::ALL),
        (2, VersionSet::LEGACY),
        (2, modern),
        (1, one),
        (1, one.union(modern)),
        (1, VersionSet::between(ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18)),
    ])
}

fn draw_transport(rng: &mut Rng, whole_messages: bool) -> TransportConfig {
    let size = |rng: &mut Rng| if rng.percent(50) { usize::MAX } else { rng.size(1..=2000) };
    let (capacity, chunk) = match rng.below(10) {
        0 => (rng.size(1..=16), rng.size(1..=16)),
        _ => (size(rng), size(rng)),
    };
    // Single bytes with a delay each would exceed any timeout.
    let delay = if capacity < 500 || rng.percent(30) { Duration::ZERO } else { rng.duration(Duration::from_secs(3)) };
    TransportConfig { whole_messages, capacity, chunk, delay, cut_after: None }
}
