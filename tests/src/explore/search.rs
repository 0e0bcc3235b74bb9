//! The search: visits each state once, depth first.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    fmt::Write as _,
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

use super::{
    cover_points::CoverPoints,
    scenario::{Scenario, Side},
    system::{Action, System},
    violation::{Rule, Violation},
};

/// The results of an exploration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The number of distinct states.
    pub states: u64,
    /// The number of steps between them.
    pub steps: u64,
    /// The number of states in which no action is possible.
    pub ends: u64,
    /// The number of paths from the start to such a state: the schedules to run if equal states were not merged.
    pub schedules: f64,
    /// The length of the longest path.
    pub longest: u32,
    /// The cover points that were reached in any order.
    pub covered: CoverPoints,
    /// The duration.
    pub time: Duration,
}

/// A schedule that breaks a rule.
#[derive(Debug)]
pub struct Failure {
    /// The scenario.
    pub scenario: &'static str,
    /// The violation.
    pub violation: Violation,
    /// The steps, one per line. No step can be left out.
    pub script: String,
    /// The number of states visited before the failure.
    pub states: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}  (found after {} states)", self.scenario, self.violation, self.script, self.states)
    }
}

impl std::error::Error for Failure {}

/// Explores a scenario in all orders.
///
/// # Errors
/// If an order breaks a rule.
pub fn explore(scenario: &Scenario) -> Result<Report, Box<Failure>> {
    Search::default().run(scenario)
}

/// Explores a scenario in all orders, one by one, without merging equal states.
///
/// # Errors
/// If an order breaks a rule.
pub fn enumerate(scenario: &Scenario) -> Result<Report, Box<Failure>> {
    Search { unmerged: true, ..Search::default() }.run(scenario)
}

#[derive(Default)]
struct Search {
    /// The continuation of each state, or `None` while the state is on the path.
    seen: HashMap<u64, Option<Continuation>>,
    /// The states of single sides that were probed with invalid calls.
    probed: HashSet<u64>,
    path: Vec<Action>,
    report: Report,
    unmerged: bool,
}

/// The paths that start at a state.
#[derive(Clone, Copy)]
struct Continuation {
    /// The number of schedules from here to an end.
    schedules: f64,
    /// The steps of the longest one.
    longest: u32,
}

impl Search {
    fn run(mut self, scenario: &Scenario) -> Result<Report, Box<Failure>> {
        let start = Instant::now();
        let explored = System::new(scenario).and_then(|system| Ok((self.visit(&system)?, system.covered())));
        match explored {
            Ok((Continuation { schedules, longest }, covered)) => {
                Ok(Report { schedules, longest, covered, time: start.elapsed(), ..self.report })
            }
            Err(violation) => {
                let (path, violation) = shrink(scenario, &self.path, violation);
                let (script, states) = (script(scenario, &path), self.report.states);
                Err(Box::new(Failure { scenario: scenario.name, violation, script, states }))
            }
        }
    }

    /// Visits all states that follow.
    fn visit(&mut self, system: &System) -> Result<Continuation, Violation> {
        let digest = system.digest();
        match self.seen.entry(digest) {
            Entry::Occupied(seen) if seen.get().is_none() => {
                return Err(Violation::new(Rule::Livelock, "a state repeats"));
            }
            Entry::Occupied(seen) => {
                if let Some(continuation) = seen.get().filter(|_| !self.unmerged) {
                    return Ok(continuation);
                }
                *seen.into_mut() = None;
            }
            Entry::Vacant(unseen) => {
                unseen.insert(None);
            }
        }
        self.report.states += 1;
        for (side, digest) in Side::BOTH.into_iter().zip(system.ends()) {
            if self.probed.insert(digest) {
                catch_panic(|| system.probe(side))?;
            }
        }
        let mut continuation = Continuation { schedules: 0.0, longest: 0 };
        for action in system.actions() {
            self.path.push(action);
            if let Some(next) = catch_panic(|| system.after(action))? {
                self.report.steps += 1;
                let behind = self.visit(&next)?;
                continuation.schedules += behind.schedules;
                continuation.longest = continuation.longest.max(behind.longest + 1);
            }
            self.path.pop();
        }
        if continuation.longest == 0 {
            system.check_idle()?;
            self.report.ends += 1;
            continuation.schedules = 1.0;
        }
        self.seen.insert(digest, Some(continuation));
        Ok(continuation)
    }
}

/// Turns a panic into a violation.
fn catch_panic<T>(step: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Violation::new(Rule::Panic, text.unwrap_or("a panic")))
    })
}

/// Replays a schedule. Returns the violation at its last step.
fn replay(scenario: &Scenario, path: &[Action]) -> Option<Violation> {
    let mut system = System::new(scenario).ok()?;
    for (step, action) in path.iter().enumerate() {
        if !system.actions().contains(action) {
            return None;
        }
        match catch_panic(|| system.after(*action)) {
            Ok(Some(next)) => system = next,
            Ok(None) => return None,
            Err(violation) => return (step + 1 == path.len()).then_some(violation),
        }
    }
    let probed = Side::BOTH.into_iter().find_map(|side| catch_panic(|| system.probe(side)).err());
    let stuck = || system.actions().into_iter().all(|action| matches!(catch_panic(|| system.after(action)), Ok(None)));
    probed.or_else(|| if stuck() { system.check_idle().err() } else { None })
}

/// Removes all steps that are not necessary to break the same rule.
fn shrink(scenario: &Scenario, path: &[Action], violation: Violation) -> (Vec<Action>, Violation) {
    let (mut path, mut violation) = (path.to_vec(), violation);
    loop {
        let mut shorter = None;
        'sizes: for size in [4, 3, 2, 1] {
            for at in (0..path.len().saturating_sub(size - 1)).rev() {
                let mut candidate = path.clone();
                candidate.drain(at..at + size);
                if let Some(same) = replay(scenario, &candidate).filter(|found| found.rule == violation.rule) {
                    shorter = Some((candidate, same));
                    break 'sizes;
                }
            }
        }
        match shorter {
            Some(shorter) => (path, violation) = shorter,
            None => return (path, violation),
        }
    }
}

fn script(scenario: &Scenario, path: &[Action]) -> String {
    let mut script = String::new();
    let Ok(mut system) = System::new(scenario) else { return "in the opening".into() };
    for action in path {
        writeln!(script, "  {}", system.describe(*action)).expect("a string takes everything");
        match catch_panic(|| system.after(*action)) {
            Ok(Some(next)) => system = next,
            _ => break,
        }
    }
    script
}
