//! Every order in which things can happen to a session over HTTP.
//!
//! A session cannot be cloned, so a state is reached by playing its path from the beginning; two states are the same if
//! the sessions print the same, and clients and applications have done and read the same. From every state that was not
//! seen before, everything is wound down, and nothing may be left.

use std::{
    collections::HashSet,
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use mcp_proto::http::Limits;

use super::{Answered, Play, Say, World};
use crate::explore::{Fault, Rule};

/// What may happen in which number.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What to call it.
    pub name: &'static str,
    /// What it begins with.
    pub play: Play,
    /// What the client says, one request after the other: the members, and whether they are a batch.
    pub says: Vec<(Vec<Say>, bool)>,
    /// How often a client opens a stream.
    pub listens: u8,
    /// How often a client hangs up.
    pub hangs: u8,
    /// How often a client comes back to a stream.
    pub resumes: u8,
    /// How often an application says how far it is, for each of its requests.
    pub reports: u64,
    /// How often a session sends a notification that belongs to no request.
    pub tells: u8,
    /// How often an application lets its client come back for the answer.
    pub lets_go: u8,
    /// How often time passes up to the next deadline.
    pub ticks: u8,
    /// The size of answers, and of progress.
    pub sizes: [usize; 2],
    /// The client reads nothing before it is told to.
    pub slow: bool,
}

/// Something that may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The client says the next thing.
    Say,
    /// The client opens a stream.
    Listen,
    /// The client reads all that comes on a stream, from now on.
    Read(usize),
    /// The client reads what there is on a stream, and then nothing more.
    ReadOnce(usize),
    /// The client hangs up.
    HangUp(usize),
    /// The client takes up a stream.
    Resume(usize),
    /// The application answers.
    Answer(usize),
    /// The application says how far it is.
    Progress(usize),
    /// The application lets the client go.
    LetGo(usize),
    /// The session sends a notification that belongs to no request.
    Tell,
    /// Time passes up to the next deadline.
    Tick,
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// States that are different from each other.
    pub states: u64,
    /// Steps from one to the next.
    pub steps: u64,
    /// The longest path to one.
    pub longest: usize,
}

/// An order that breaks a rule.
#[derive(Debug)]
pub struct Broken {
    /// The scenario.
    pub scenario: &'static str,
    /// The rule.
    pub fault: Fault,
    /// What happens; after that, everything is wound down.
    pub path: Vec<Act>,
    /// How many states were visited until it was found.
    pub states: u64,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.scenario, self.fault)?;
        for act in &self.path {
            writeln!(f, "  {act:?}")?;
        }
        write!(f, "  (found after {} states)", self.states)
    }
}

impl std::error::Error for Broken {}

/// A world, and what may still happen in it.
struct State<'a> {
    scenario: &'a Scenario,
    world: World,
    said: usize,
    left: [u8; 6],
}

const LISTEN: usize = 0;
const HANG: usize = 1;
const RESUME: usize = 2;
const TELL: usize = 3;
const LET_GO: usize = 4;
const TICK: usize = 5;

impl<'a> State<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, Fault> {
        let left =
            [scenario.listens, scenario.hangs, scenario.resumes, scenario.tells, scenario.lets_go, scenario.ticks];
        Ok(Self { scenario, world: World::new(scenario.play.clone())?, said: 0, left })
    }

    fn after(scenario: &'a Scenario, path: &[Act]) -> Result<Self, Fault> {
        let mut state = Self::new(scenario)?;
        for act in path {
            state.act(*act)?;
        }
        Ok(state)
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.said < self.scenario.says.len() {
            acts.push(Act::Say);
        }
        if self.left[LISTEN] > 0 {
            acts.push(Act::Listen);
        }
        let client = &self.world.clients[0];
        for (at, stream) in client.streams.iter().enumerate() {
            if let Some(carrier) = &stream.carrier {
                if !self.world.web.is_read(carrier.asked) {
                    acts.extend([Act::Read(at), Act::ReadOnce(at)]);
                }
                if self.left[HANG] > 0 {
                    acts.push(Act::HangUp(at));
                }
            }
            if self.left[RESUME] > 0 && !stream.over && !stream.last_id.is_empty() {
                acts.push(Act::Resume(at));
            }
        }
        for (at, job) in self.world.jobs.iter().enumerate().filter(|(_, job)| !job.answered) {
            acts.push(Act::Answer(at));
            if job.reports < self.scenario.reports && !job.cancelled {
                acts.push(Act::Progress(at));
            }
            if self.left[LET_GO] > 0 && !job.cancelled {
                acts.push(Act::LetGo(at));
            }
        }
        if self.left[TELL] > 0 {
            acts.push(Act::Tell);
        }
        if self.left[TICK] > 0 && self.world.next().is_some() {
            acts.push(Act::Tick);
        }
        acts
    }

    fn act(&mut self, act: Act) -> Result<(), Fault> {
        let Scenario { sizes, slow, says, .. } = self.scenario;
        let reads = !*slow;
        let world = &mut self.world;
        match act {
            Act::Say => {
                let (said, batch) = &says[self.said];
                self.said += 1;
                world.say(0, said, *batch, reads)?;
            }
            Act::Listen => {
                self.left[LISTEN] -= 1;
                world.listen(0, reads)?;
            }
            Act::Read(at) => world.read(0, at)?,
            Act::ReadOnce(at) => world.read_once(0, at, usize::MAX)?,
            Act::HangUp(at) => {
                self.left[HANG] -= 1;
                world.hang_up(0, at)?;
            }
            Act::Resume(at) => {
                self.left[RESUME] -= 1;
                world.resume(0, at, reads)?;
            }
            Act::Answer(job) => {
                let _: Answered = world.answer(job, sizes[0])?;
            }
            Act::Progress(job) => {
                // The first is small: it brings an id to come back with.
                let size = if world.jobs[job].reports == 0 { 1 } else { sizes[1] };
                world.progress(job, size)?;
            }
            Act::LetGo(job) => {
                self.left[LET_GO] -= 1;
                world.release_stream(job)?;
            }
            Act::Tell => {
                self.left[TELL] -= 1;
                let session = world.web.sessions.keys().next().copied();
                if let Some(session) = session {
                    world.tell(session, sizes[1])?;
                }
            }
            Act::Tick => {
                self.left[TICK] -= 1;
                let now = world.web.now;
                let next = world.next().unwrap_or(now);
                world.pass(next.saturating_since(now))?;
            }
        }
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut text = String::new();
        let world = &self.world;
        let _ = write!(text, "{:?}{:?}{:?}{:?}", world.web.sessions, world.clients, world.jobs, world.web.now);
        (text, self.said, self.left).hash(&mut hasher);
        for stream in &world.clients[0].streams {
            stream.carrier.as_ref().map(|carrier| world.web.is_read(carrier.asked)).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// A panic is a fault.
fn guarded<T>(step: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::new(Rule::Panic, text.unwrap_or("a panic")))
    })
}

/// Whether a path can be taken: where it leads, if it breaks a rule.
fn replay(scenario: &Scenario, path: &[Act]) -> Option<Fault> {
    let played = guarded(|| {
        let mut state = State::new(scenario)?;
        for act in path {
            if !state.acts().contains(act) {
                return Ok(());
            }
            state.act(*act)?;
        }
        state.world.wind_down()
    });
    played.err()
}

/// Leaves out every step without which the same rule is broken.
fn shortened(scenario: &Scenario, mut path: Vec<Act>, mut fault: Fault) -> (Vec<Act>, Fault) {
    'again: loop {
        for at in (0..path.len()).rev() {
            let mut shorter = path.clone();
            shorter.remove(at);
            if let Some(same) = replay(scenario, &shorter).filter(|same| same.rule == fault.rule) {
                (path, fault) = (shorter, same);
                continue 'again;
            }
        }
        return (path, fault);
    }
}

/// Plays a scenario in every order.
///
/// # Errors
/// If there is an order that breaks a rule.
pub fn explore(scenario: &Scenario) -> Result<Explored, Box<Broken>> {
    let mut explored = Explored::default();
    let mut seen = HashSet::new();
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        let visited = guarded(|| {
            let state = State::after(scenario, &path)?;
            if !seen.insert(state.digest()) {
                return Ok(None);
            }
            let acts = state.acts();
            let mut world = state.world;
            world.wind_down()?;
            Ok(Some(acts))
        });
        explored.steps += 1;
        match visited {
            Ok(None) => {}
            Ok(Some(acts)) => {
                explored.states += 1;
                explored.longest = explored.longest.max(path.len());
                todo.extend(acts.into_iter().rev().map(|act| path.iter().copied().chain([act]).collect::<Vec<_>>()));
            }
            Err(fault) => {
                let (path, fault) = shortened(scenario, path, fault);
                return Err(Box::new(Broken { scenario: scenario.name, fault, path, states: explored.states }));
            }
        }
    }
    Ok(explored)
}

/// Limits that a few messages reach.
fn little() -> Limits {
    let mut limits = Limits::default();
    limits.queued_bytes = 1000;
    limits.patience = Duration::from_secs(1);
    limits
}

/// As [`little`], and so many bytes are kept for clients that come back.
fn kept(bytes: usize) -> Limits {
    let mut limits = little();
    limits.replay_bytes = bytes;
    limits
}

/// A scenario in which nothing happens yet.
fn base(name: &'static str, version: &'static str) -> Scenario {
    let play = Play { clients: vec![version], limits: little(), requests: 16, outbox_bytes: 4000, roomy: true };
    Scenario {
        name,
        play,
        says: Vec::new(),
        listens: 0,
        hangs: 0,
        resumes: 0,
        reports: 0,
        tells: 0,
        lets_go: 0,
        ticks: 0,
        sizes: [10, 10],
        slow: false,
    }
}

/// The scenarios that every run of the tests plays.
#[must_use]
pub fn small() -> Vec<Scenario> {
    let call = Say::Call { progress: true };
    let plain = Say::Call { progress: false };
    let one = |say| (vec![say], false);
    vec![
        Scenario {
            says: vec![one(call), one(Say::Ping), one(Say::Unknown)],
            reports: 2,
            sizes: [10, 2000],
            slow: true,
            ..base("a reader that stalls", "2025-11-25")
        },
        Scenario {
            says: vec![one(call)],
            hangs: 1,
            resumes: 2,
            reports: 2,
            sizes: [10, 2000],
            slow: true,
            ..base("a reader that comes back", "2025-11-25")
        },
        Scenario {
            says: vec![one(call)],
            resumes: 1,
            reports: 2,
            sizes: [10, 1100],
            slow: true,
            ..base("a connection that dies", "2025-11-25")
        },
        Scenario {
            says: vec![one(call), one(Say::Cancel(0))],
            hangs: 1,
            resumes: 1,
            reports: 1,
            lets_go: 1,
            ..base("hung up and cancelled", "2025-11-25")
        },
        Scenario {
            says: vec![one(call), (vec![Say::Cancel(0)], true), (vec![plain, Say::Ping], true)],
            hangs: 1,
            reports: 1,
            ..base("batches", "2025-03-26")
        },
        Scenario {
            play: Play { limits: kept(500), roomy: false, ..base("", "2025-06-18").play },
            says: vec![one(call)],
            hangs: 2,
            resumes: 2,
            reports: 3,
            sizes: [10, 300],
            ..base("more than is kept", "2025-06-18")
        },
        Scenario { listens: 2, tells: 1, resumes: 1, sizes: [10, 700], slow: true, ..base("listening", "2025-11-25") },
        Scenario {
            says: vec![one(call), one(Say::Unknown)],
            hangs: 1,
            reports: 1,
            slow: true,
            ..base("without a session", "2026-07-28")
        },
        Scenario {
            says: vec![one(call), one(Say::Ping), one(Say::Cancel(1))],
            hangs: 1,
            reports: 1,
            sizes: [10, 2000],
            slow: true,
            ..base("the old transport", "2024-11-05")
        },
    ]
}
