//! Who takes part in a run, and how each of them behaves: all drawn from the seed, before anything happens.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{ClientConfig, Keepalive, Limits, ServerConfig, Settings},
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::{ClientCapabilities, ServerCapabilities},
};

use super::{dice::Dice, way::WayPlan};
use crate::solo::{full_client, full_server};

/// One run.
pub struct Plan {
    /// The server of all clients.
    pub server: Arc<ServerConfig>,
    /// Its clients.
    pub actors: Vec<Actor>,
    /// How long they are at it.
    pub length: Duration,
    /// How often what the server offers changes.
    pub changes: u64,
}

/// Whether the two ends of a connection keep the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// Both are the core.
    Good,
    /// The client is not.
    BadClient,
    /// The server is not.
    BadServer,
}

/// A client and its connections.
pub struct Actor {
    /// Who keeps the rules.
    pub manners: Manners,
    /// Who the client is.
    pub client: Arc<ClientConfig>,
    /// From the client to the server.
    pub up: WayPlan,
    /// From the server to the client.
    pub down: WayPlan,
    /// What each end does of its own.
    pub steps: u64,
    /// The longest pause between two of them.
    pub pause: Duration,
    /// How often it connects once more after a connection has ended.
    pub reconnects: u64,
    /// How its applications are.
    pub habits: Habits,
    /// Nothing disturbs it: no end but the agreed one, nothing is lost, nothing is refused for lack of room.
    pub is_calm: bool,
}

/// How an application is.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The longest that it thinks about a request before it goes on.
    pub thinking: Duration,
    /// The longest that it waits for an answer.
    pub patience: Duration,
    /// Of a hundred requests, how many are never answered of its own accord.
    pub silence: u64,
    /// Of a hundred requests, for how many it asks back.
    pub curiosity: u64,
    /// Of a hundred requests of its own, how many it gives up on.
    pub fickleness: u64,
    /// Of a hundred steps, how many are the end of a connection or of a process, or a pause in reading.
    pub trouble: u64,
    /// What a driver keeps of its own before it asks the connection for more.
    pub high_water: usize,
}

impl Plan {
    /// Draws a run.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        let length = Duration::from_secs(dice.scale(60, 6 * 3600));
        let is_tight = dice.percent(50);
        let mut server = full_server();
        if dice.percent(20) {
            server.capabilities = ServerCapabilities { resources: None, logging: None, ..server.capabilities };
        }
        if dice.percent(80) {
            server.capabilities = server.capabilities.with(Capability::TasksExtension);
        }
        server.hash_seed = dice.below(u64::MAX);
        server.settings = settings(dice, length, is_tight);
        server.settings.versions = versions(dice);
        let count = dice.within(1..=5);
        let is_strict = is_tight || server.settings.keepalive.is_some();
        let actors = (0..count).map(|_| Actor::draw(dice, length, is_strict)).collect();
        Self { server: Arc::new(server), actors, length, changes: dice.scale(1, 30) - 1 }
    }
}

impl Actor {
    fn draw(dice: &mut Dice, length: Duration, server_is_strict: bool) -> Self {
        let manners = dice.weigh(&[(7, Manners::Good), (2, Manners::BadClient), (1, Manners::BadServer)]);
        let is_calm = manners == Manners::Good && !server_is_strict && dice.percent(50);
        let mut client = full_client();
        if dice.percent(20) {
            client.capabilities = ClientCapabilities { sampling: None, elicitation: None, ..client.capabilities };
        }
        if dice.percent(80) {
            client.capabilities = client.capabilities.with(Capability::TasksExtension);
        }
        let is_tight = !is_calm && dice.percent(50);
        client.hash_seed = dice.below(u64::MAX);
        client.settings = settings(dice, length, is_tight);
        client.settings.versions = versions(dice);
        let letters = dice.percent(25);
        let mut up = way(dice, letters);
        let mut down = way(dice, letters);
        match manners {
            // A peer that does not read is found out sooner where little is under way.
            Manners::BadClient if dice.percent(50) => down.capacity = down.capacity.min(500),
            Manners::BadServer if dice.percent(50) => up.capacity = up.capacity.min(500),
            _ => {}
        }
        if is_calm {
            client.settings.keepalive = None;
            client.settings.handshake_timeout = length;
            client.settings.probe_timeout = length;
        } else if dice.percent(40) {
            let cut = if dice.percent(50) { &mut up } else { &mut down };
            let (least, most) = if letters { (1, 60) } else { (100, 20_000) };
            cut.cut_after = Some(dice.scale(least, most));
        }
        let narrow = up.capacity.min(down.capacity) < 32 && !letters;
        let steps = if narrow { dice.within(1..=5) } else { dice.scale(1, 40) };
        let pause = length / u32::try_from(steps).unwrap_or(1);
        Self {
            manners,
            client: Arc::new(client),
            up,
            down,
            steps,
            pause: if dice.percent(30) { pause / 1000 } else { pause },
            reconnects: dice.scale(1, 4) - 1,
            habits: Habits::draw(dice, is_calm),
            is_calm,
        }
    }
}

impl Habits {
    fn draw(dice: &mut Dice, is_calm: bool) -> Self {
        Self {
            thinking: dice.time(Duration::from_secs(3600)),
            patience: dice.time(Duration::from_secs(3600)).max(Duration::from_millis(100)),
            silence: *dice.pick(&[0, 5, 50]),
            curiosity: *dice.pick(&[0, 20, 60]),
            fickleness: *dice.pick(&[0, 20, 60]),
            trouble: if is_calm { 0 } else { *dice.pick(&[0, 3, 10]) },
            high_water: *dice.pick(&[1, 300, 64 << 10]),
        }
    }
}

fn settings(dice: &mut Dice, length: Duration, is_tight: bool) -> Settings {
    let mut settings = Settings::default();
    if is_tight {
        settings.limits = tight(dice);
    }
    if dice.percent(25) {
        let interval = length / u32::try_from(dice.scale(2, 200)).unwrap_or(1);
        settings.keepalive = Some(Keepalive { interval, max_missed: u32::try_from(dice.within(1..=3)).unwrap_or(1) });
    }
    settings.handshake_timeout = dice.time(Duration::from_secs(60)).max(Duration::from_millis(100));
    settings.probe_timeout = dice.time(Duration::from_secs(10)).max(Duration::from_millis(10));
    settings
}

/// Limits that ordinary behaviour runs into.
fn tight(dice: &mut Dice) -> Limits {
    let mut limits = Limits::default();
    limits.frame_bytes = usize::try_from(dice.scale(1500, 20_000)).unwrap_or(20_000);
    limits.json_depth = u32::try_from(dice.scale(8, 128)).unwrap_or(128);
    limits.calls = dice.size(1..=20);
    limits.call_bytes = dice.size(500..=20_000);
    limits.requests = dice.size(1..=20);
    limits.request_bytes = dice.size(500..=5000);
    limits.outbox_bytes = dice.size(500..=20_000);
    limits.control_bytes = dice.size(200..=5000);
    limits.batch_members = dice.size(1..=10);
    limits.parse_errors = u32::try_from(dice.below(4)).unwrap_or(0);
    limits.noise_lines = u32::try_from(dice.scale(1, 50)).unwrap_or(1);
    limits.tasks = dice.size(1..=4);
    limits.rounds = u32::try_from(dice.within(1..=4)).unwrap_or(1);
    limits.questions = dice.size(1..=4);
    limits.task_questions = dice.size(1..=4);
    limits.cache_entries = dice.size(0..=4);
    limits.cache_bytes = dice.size(0..=2000);
    limits.resubscriptions = u32::try_from(dice.within(0..=3)).unwrap_or(0);
    limits.subscriptions = dice.size(1..=4);
    limits.drain = dice.time(Duration::from_secs(10));
    limits
}

fn versions(dice: &mut Dice) -> VersionSet {
    let modern = VersionSet::only(ProtocolVersion::LATEST);
    let one = VersionSet::only(*dice.pick(&ProtocolVersion::LEGACY));
    dice.weigh(&[
        (5, VersionSet::ALL),
        (2, VersionSet::LEGACY),
        (2, modern),
        (1, one),
        (1, one.union(modern)),
        (1, VersionSet::between(ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18)),
    ])
}

fn way(dice: &mut Dice, letters: bool) -> WayPlan {
    let size = |dice: &mut Dice| if dice.percent(50) { usize::MAX } else { dice.size(1..=2000) };
    let (capacity, chunk) = match dice.below(10) {
        0 => (dice.size(1..=16), dice.size(1..=16)),
        _ => (size(dice), size(dice)),
    };
    // A byte at a time, each of which takes long, would be slower than any timeout.
    let delay = if capacity < 500 || dice.percent(30) { Duration::ZERO } else { dice.time(Duration::from_secs(3)) };
    WayPlan { letters, capacity, chunk, delay, cut_after: None }
}
