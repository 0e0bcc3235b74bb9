//! Exploration of all orders of events of a session over HTTP.
//!
//! A session cannot be cloned, so a state is reached by replaying its path from the start. Two states are equal if the
//! sessions print the same text and the clients and applications are equal. From each new state the system is wound
//! down, and must become idle.

use std::{
    collections::HashSet,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use mcp_proto::http::Limits;

use super::{ClientMessage, RespondOutcome, System, SystemConfig};
use crate::explore::{Rule, Violation};

/// The possible actions, and how often each may happen.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The configuration of the system.
    pub config: SystemConfig,
    /// The messages of the client, one request after the other: the members, and whether they form a batch.
    pub messages: Vec<(Vec<ClientMessage>, bool)>,
    /// How often a client opens a stream.
    pub listens: u8,
    /// How often a client disconnects.
    pub disconnects: u8,
    /// How often a client resumes a stream.
    pub resumes: u8,
    /// How often an application reports progress of each request.
    pub reports: u64,
    /// How often a session sends a notification that belongs to no request.
    pub notifications: u8,
    /// How often an application releases the stream of a request.
    pub releases: u8,
    /// How often time passes up to the next deadline.
    pub ticks: u8,
    /// The size of results, and of progress.
    pub sizes: [usize; 2],
    /// The client reads only with the actions for reading.
    pub slow: bool,
}

/// A possible action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The client sends the next message.
    Send,
    /// The client opens a stream.
    Listen,
    /// The client reads a stream from now on.
    Read(usize),
    /// The client reads the available part of a stream, and then stops.
    ReadOnce(usize),
    /// The client disconnects.
    Disconnect(usize),
    /// The client resumes a stream.
    Resume(usize),
    /// The application responds.
    Respond(usize),
    /// The application reports progress.
    Progress(usize),
    /// The application releases the stream of a request.
    ReleaseStream(usize),
    /// The session sends a notification that belongs to no request.
    Notify,
    /// Time passes up to the next deadline.
    Tick,
}

/// The results of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// The number of distinct states.
    pub states: u64,
    /// The number of steps between them.
    pub steps: u64,
    /// The length of the longest path.
    pub longest: usize,
}

/// An order that breaks a rule.
#[derive(Debug)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The violation.
    pub violation: Violation,
    /// The actions. After them the system is wound down.
    pub path: Vec<Action>,
    /// The number of states visited before the failure.
    pub states: u64,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.scenario, self.violation)?;
        for action in &self.path {
            writeln!(f, "  {action:?}")?;
        }
        write!(f, "  (found after {} states)", self.states)
    }
}

impl std::error::Error for Failure {}

/// A system, and the actions that remain.
struct State<'a> {
    scenario: &'a Scenario,
    system: System,
    next_message: usize,
    left: [u8; 6],
}

const LISTEN: usize = 0;
const DISCONNECT: usize = 1;
const RESUME: usize = 2;
const NOTIFY: usize = 3;
const RELEASE: usize = 4;
const TICK: usize = 5;

impl<'a> State<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, Violation> {
        let left = [
            scenario.listens,
            scenario.disconnects,
            scenario.resumes,
            scenario.notifications,
            scenario.releases,
            scenario.ticks,
        ];
        Ok(Self { scenario, system: System::new(scenario.config.clone())?, next_message: 0, left })
    }

    fn replayed(scenario: &'a Scenario, path: &[Action]) -> Result<Self, Violation> {
        let mut state = Self::new(scenario)?;
        for action in path {
            state.apply(*action)?;
        }
        Ok(state)
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.next_message < self.scenario.messages.len() {
            actions.push(Action::Send);
        }
        if self.left[LISTEN] > 0 {
            actions.push(Action::Listen);
        }
        let client = &self.system.clients[0];
        for (at, stream) in client.streams.iter().enumerate() {
            if let Some(exchange) = &stream.exchange {
                if !self.system.server.is_reading(exchange.sent) {
                    actions.extend([Action::Read(at), Action::ReadOnce(at)]);
                }
                if self.left[DISCONNECT] > 0 {
                    actions.push(Action::Disconnect(at));
                }
            }
            if self.left[RESUME] > 0 && !stream.over && !stream.last_id.is_empty() {
                actions.push(Action::Resume(at));
            }
        }
        for (at, job) in self.system.jobs.iter().enumerate().filter(|(_, job)| !job.answered) {
            actions.push(Action::Respond(at));
            if job.reports < self.scenario.reports && !job.cancelled {
                actions.push(Action::Progress(at));
            }
            if self.left[RELEASE] > 0 && !job.cancelled {
                actions.push(Action::ReleaseStream(at));
            }
        }
        if self.left[NOTIFY] > 0 {
            actions.push(Action::Notify);
        }
        if self.left[TICK] > 0 && self.system.next_deadline().is_some() {
            actions.push(Action::Tick);
        }
        actions
    }

    fn apply(&mut self, action: Action) -> Result<(), Violation> {
        let Scenario { sizes, slow, messages, .. } = self.scenario;
        let reads = !*slow;
        let system = &mut self.system;
        match action {
            Action::Send => {
                let (kinds, batch) = &messages[self.next_message];
                self.next_message += 1;
                system.send_messages(0, kinds, *batch, reads)?;
            }
            Action::Listen => {
                self.left[LISTEN] -= 1;
                system.listen(0, reads)?;
            }
            Action::Read(at) => system.read(0, at)?,
            Action::ReadOnce(at) => system.read_once(0, at, usize::MAX)?,
            Action::Disconnect(at) => {
                self.left[DISCONNECT] -= 1;
                system.disconnect(0, at)?;
            }
            Action::Resume(at) => {
                self.left[RESUME] -= 1;
                system.resume(0, at, reads)?;
            }
            Action::Respond(job) => {
                let _: RespondOutcome = system.respond(job, sizes[0])?;
            }
            Action::Progress(job) => {
                // The first report is small. It brings an event id to resume with.
                let size = if system.jobs[job].reports == 0 { 1 } else { sizes[1] };
                system.progress(job, size)?;
            }
            Action::ReleaseStream(job) => {
                self.left[RELEASE] -= 1;
                system.release_stream(job)?;
            }
            Action::Notify => {
                self.left[NOTIFY] -= 1;
                let session = system.server.sessions.keys().next().copied();
                if let Some(session) = session {
                    system.notify(session, sizes[1])?;
                }
            }
            Action::Tick => {
                self.left[TICK] -= 1;
                let now = system.server.now;
                let next = system.next_deadline().unwrap_or(now);
                system.advance(next.saturating_since(now))?;
            }
        }
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut text = String::new();
        let system = &self.system;
        let _ =
            write!(text, "{:?}{:?}{:?}{:?}", system.server.sessions, system.clients, system.jobs, system.server.now);
        (text, self.next_message, self.left).hash(&mut hasher);
        for stream in &system.clients[0].streams {
            stream.exchange.as_ref().map(|exchange| system.server.is_reading(exchange.sent)).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Turns a panic into a violation.
fn catch_panic<T>(step: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Violation::new(Rule::Panic, text.unwrap_or("a panic")))
    })
}

/// Replays a path. Returns the violation, if the path is possible and breaks a rule.
fn replay(scenario: &Scenario, path: &[Action]) -> Option<Violation> {
    let completed = catch_panic(|| {
        let mut state = State::new(scenario)?;
        for action in path {
            if !state.actions().contains(action) {
                return Ok(());
            }
            state.apply(*action)?;
        }
        state.system.wind_down()
    });
    completed.err()
}

/// Removes all steps that are not necessary to break the same rule.
fn shrink(scenario: &Scenario, mut path: Vec<Action>, mut violation: Violation) -> (Vec<Action>, Violation) {
    'again: loop {
        for at in (0..path.len()).rev() {
            let mut shorter = path.clone();
            shorter.remove(at);
            if let Some(same) = replay(scenario, &shorter).filter(|same| same.rule == violation.rule) {
                (path, violation) = (shorter, same);
                continue 'again;
            }
        }
        return (path, violation);
    }
}

/// Explores a scenario in all orders.
///
/// # Errors
/// If an order breaks a rule.
pub fn explore(scenario: &Scenario) -> Result<Explored, Box<Failure>> {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        let visited = catch_panic(|| {
            let state = State::replayed(scenario, &path)?;
            if !seen.insert(state.digest()) {
                return Ok(None);
            }
            let actions = state.actions();
            let mut system = state.system;
            system.wind_down()?;
            Ok(Some(actions))
        });
        explored.steps += 1;
        match visited {
            Ok(None) => {}
            Ok(Some(actions)) => {
                explored.states += 1;
                explored.longest = explored.longest.max(path.len());
                todo.extend(
                    actions.into_iter().rev().map(|action| path.iter().copied().chain([action]).collect::<Vec<_>>()),
                );
            }
            Err(violation) => {
                let (path, violation) = shrink(scenario, path, violation);
                return Err(Box::new(Failure { scenario: scenario.name, violation, path, states: explored.states }));
            }
        }
    }
    Ok(explored)
}

/// Returns limits that a few messages reach.
fn tight_limits() -> Limits {
    let mut limits = Limits::default();
    limits.queued_bytes = 1000;
    limits.stream_after = Duration::from_secs(1);
    limits
}

/// Returns [`tight_limits`] with a replay buffer of this many bytes.
fn with_replay_bytes(bytes: usize) -> Limits {
    let mut limits = tight_limits();
    limits.replay_bytes = bytes;
    limits
}

/// Returns a scenario without actions.
fn base(name: &'static str, version: &'static str) -> Scenario {
    let config = SystemConfig {
        clients: vec![version],
        limits: tight_limits(),
        requests: 16,
        outbox_bytes: 4000,
        lossless: true,
    };
    Scenario {
        name,
        config,
        messages: Vec::new(),
        listens: 0,
        disconnects: 0,
        resumes: 0,
        reports: 0,
        notifications: 0,
        releases: 0,
        ticks: 0,
        sizes: [10, 10],
        slow: false,
    }
}

/// Returns the scenarios of each test run.
#[must_use]
pub fn small() -> Vec<Scenario> {
    let call = ClientMessage::Call { progress: true };
    let plain = ClientMessage::Call { progress: false };
    let one = |message| (vec![message], false);
    vec![
        Scenario {
            messages: vec![one(call), one(ClientMessage::Ping), one(ClientMessage::Unknown)],
            reports: 2,
            sizes: [10, 2000],
            slow: true,
            ..base("a reader that stalls", "2025-11-25")
        },
        Scenario {
            messages: vec![one(call)],
            disconnects: 1,
            resumes: 2,
            reports: 2,
            sizes: [10, 2000],
            slow: true,
            ..base("a reader that comes back", "2025-11-25")
        },
        Scenario {
            messages: vec![one(call)],
            resumes: 1,
            reports: 2,
            sizes: [10, 1100],
            slow: true,
            ..base("a connection that dies", "2025-11-25")
        },
        Scenario {
            messages: vec![one(call), one(ClientMessage::Cancel(0))],
            disconnects: 1,
            resumes: 1,
            reports: 1,
            releases: 1,
            ..base("hung up and cancelled", "2025-11-25")
        },
        Scenario {
            messages: vec![one(call), (vec![ClientMessage::Cancel(0)], true), (vec![plain, ClientMessage::Ping], true)],
            disconnects: 1,
            reports: 1,
            ..base("batches", "2025-03-26")
        },
        Scenario {
            config: SystemConfig { limits: with_replay_bytes(500), lossless: false, ..base("", "2025-06-18").config },
            messages: vec![one(call)],
            disconnects: 2,
            resumes: 2,
            reports: 3,
            sizes: [10, 300],
            ..base("more than is kept", "2025-06-18")
        },
        Scenario {
            listens: 2,
            notifications: 1,
            resumes: 1,
            sizes: [10, 700],
            slow: true,
            ..base("listening", "2025-11-25")
        },
        Scenario {
            messages: vec![one(call), one(ClientMessage::Unknown)],
            disconnects: 1,
            reports: 1,
            slow: true,
            ..base("without a session", "2026-07-28")
        },
        Scenario {
            messages: vec![one(call), one(ClientMessage::Ping), one(ClientMessage::Cancel(1))],
            disconnects: 1,
            reports: 1,
            sizes: [10, 2000],
            slow: true,
            ..base("the old transport", "2024-11-05")
        },
    ]
}
