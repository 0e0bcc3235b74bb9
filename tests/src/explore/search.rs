//! The search: every state once, depth first.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    fmt::Write as _,
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

use super::{
    fault::{Fault, Rule},
    happened::Happened,
    scenario::{Scenario, Who},
    world::{Act, World},
};

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// States that are different from each other.
    pub states: u64,
    /// Steps from one to the next.
    pub steps: u64,
    /// States in which nothing can happen any more.
    pub ends: u64,
    /// Ways from the beginning to such a state: what would have to be run without looking for states seen before.
    pub schedules: f64,
    /// The longest of them.
    pub longest: u32,
    /// What has happened, in one order or another.
    pub happened: Happened,
    /// How long it took.
    pub time: Duration,
}

/// A schedule that breaks a rule.
#[derive(Debug)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The rule.
    pub fault: Fault,
    /// What happened, one step in each line. No step can be left out.
    pub script: String,
    /// How many states were visited until it was found.
    pub states: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}  (found after {} states)", self.scenario, self.fault, self.script, self.states)
    }
}

impl std::error::Error for Failure {}

/// Plays a scenario in every order.
///
/// # Errors
/// If there is an order that breaks a rule.
pub fn explore(scenario: &Scenario) -> Result<Report, Box<Failure>> {
    Search::default().run(scenario)
}

/// Plays a scenario in every order, one by one, without looking for states that were seen before.
///
/// # Errors
/// If there is an order that breaks a rule.
pub fn enumerate(scenario: &Scenario) -> Result<Report, Box<Failure>> {
    Search { forgetful: true, ..Search::default() }.run(scenario)
}

#[derive(Default)]
struct Search {
    /// What follows on a state; nothing while it is on the path.
    seen: HashMap<u64, Option<Rest>>,
    /// The states of single ends at which everything was tried that must be refused.
    probed: HashSet<u64>,
    path: Vec<Act>,
    report: Report,
    forgetful: bool,
}

/// What follows on a state.
#[derive(Clone, Copy)]
struct Rest {
    /// How many schedules there are from here to an end.
    schedules: f64,
    /// The steps of the longest one.
    longest: u32,
}

impl Search {
    fn run(mut self, scenario: &Scenario) -> Result<Report, Box<Failure>> {
        let start = Instant::now();
        let explored = World::new(scenario).and_then(|world| Ok((self.visit(&world)?, world.happened())));
        match explored {
            Ok((Rest { schedules, longest }, happened)) => {
                Ok(Report { schedules, longest, happened, time: start.elapsed(), ..self.report })
            }
            Err(fault) => {
                let (path, fault) = shortened(scenario, &self.path, fault);
                let (script, states) = (script(scenario, &path), self.report.states);
                Err(Box::new(Failure { scenario: scenario.name, fault, script, states }))
            }
        }
    }

    /// Visits everything that can follow.
    fn visit(&mut self, world: &World) -> Result<Rest, Fault> {
        let digest = world.digest();
        match self.seen.entry(digest) {
            Entry::Occupied(seen) if seen.get().is_none() => {
                return Err(Fault::new(Rule::Livelock, "a state comes back"));
            }
            Entry::Occupied(seen) => {
                if let Some(rest) = seen.get().filter(|_| !self.forgetful) {
                    return Ok(rest);
                }
                *seen.into_mut() = None;
            }
            Entry::Vacant(unseen) => {
                unseen.insert(None);
            }
        }
        self.report.states += 1;
        for (who, digest) in Who::BOTH.into_iter().zip(world.ends()) {
            if self.probed.insert(digest) {
                guarded(|| world.probe(who))?;
            }
        }
        let mut rest = Rest { schedules: 0.0, longest: 0 };
        for act in world.acts() {
            self.path.push(act);
            if let Some(next) = guarded(|| world.after(act))? {
                self.report.steps += 1;
                let behind = self.visit(&next)?;
                rest.schedules += behind.schedules;
                rest.longest = rest.longest.max(behind.longest + 1);
            }
            self.path.pop();
        }
        if rest.longest == 0 {
            world.at_rest()?;
            self.report.ends += 1;
            rest.schedules = 1.0;
        }
        self.seen.insert(digest, Some(rest));
        Ok(rest)
    }
}

/// A panic is a fault.
fn guarded<T>(step: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Fault::new(Rule::Panic, text.unwrap_or("a panic")))
    })
}

/// Where a schedule leads: the fault that it ends with, at its last step.
fn replay(scenario: &Scenario, path: &[Act]) -> Option<Fault> {
    let mut world = World::new(scenario).ok()?;
    for (step, act) in path.iter().enumerate() {
        if !world.acts().contains(act) {
            return None;
        }
        match guarded(|| world.after(*act)) {
            Ok(Some(next)) => world = next,
            Ok(None) => return None,
            Err(fault) => return (step + 1 == path.len()).then_some(fault),
        }
    }
    let probed = Who::BOTH.into_iter().find_map(|who| guarded(|| world.probe(who)).err());
    let stuck = || world.acts().into_iter().all(|act| matches!(guarded(|| world.after(act)), Ok(None)));
    probed.or_else(|| if stuck() { world.at_rest().err() } else { None })
}

/// Leaves out every step without which the same rule is broken.
fn shortened(scenario: &Scenario, path: &[Act], fault: Fault) -> (Vec<Act>, Fault) {
    let (mut path, mut fault) = (path.to_vec(), fault);
    loop {
        let mut shorter = None;
        'sizes: for size in [4, 3, 2, 1] {
            for at in (0..path.len().saturating_sub(size - 1)).rev() {
                let mut candidate = path.clone();
                candidate.drain(at..at + size);
                if let Some(same) = replay(scenario, &candidate).filter(|found| found.rule == fault.rule) {
                    shorter = Some((candidate, same));
                    break 'sizes;
                }
            }
        }
        match shorter {
            Some(shorter) => (path, fault) = shorter,
            None => return (path, fault),
        }
    }
}

fn script(scenario: &Scenario, path: &[Act]) -> String {
    let mut script = String::new();
    let Ok(mut world) = World::new(scenario) else { return "in the opening".into() };
    for act in path {
        writeln!(script, "  {}", world.describe(*act)).expect("a string takes everything");
        match guarded(|| world.after(*act)) {
            Ok(Some(next)) => world = next,
            _ => break,
        }
    }
    script
}
