//! Timings of cases in turns.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mcp_benches::{Case, Work};

/// The number of rounds, and the duration of a case in each.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(20);

/// Nanoseconds and bytes per message, by case.
#[derive(Default)]
pub(crate) struct Times(BTreeMap<String, (f64, f64)>);

impl Times {
    fn get(&self, case: &str) -> (f64, f64) {
        *self.0.get(case).unwrap_or_else(|| panic!("{case} was not timed"))
    }

    /// Returns nanoseconds per message.
    pub(crate) fn of(&self, case: &str) -> f64 {
        self.get(case).0
    }

    /// Returns megabytes per second.
    pub(crate) fn speed(&self, case: &str) -> f64 {
        let (time, bytes) = self.get(case);
        bytes / time * 1e3
    }

    /// Returns all cases of a group: name, nanoseconds and bytes per message.
    pub(crate) fn group(&self, group: &str) -> impl Iterator<Item = (&str, f64, f64)> {
        let prefix = format!("{group}/");
        self.0.iter().filter_map(move |(name, (time, bytes))| Some((name.strip_prefix(&prefix)?, *time, *bytes)))
    }
}

/// Times these cases. Each is timed once in each round, and the median of the rounds counts, so that a disturbance of
/// the machine affects all of them.
#[expect(clippy::cast_precision_loss, reason = "they are not that many")]
pub(crate) fn time(cases: Vec<Case>, times: &mut Times) {
    let mut works: Vec<(String, Work, u64, Vec<f64>)> = Vec::new();
    for case in cases {
        let name = case.to_string();
        let mut work = case.make();
        let runs = runs(&mut work);
        works.push((name, work, runs, Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, work, runs, rounds) in &mut works {
            let begin = Instant::now();
            (0..*runs).for_each(|_| work.run());
            rounds.push(begin.elapsed().as_nanos() as f64 / (*runs * work.messages) as f64);
        }
    }
    for (name, work, _, rounds) in works {
        times.0.insert(name, (median(rounds), work.bytes as f64 / work.messages as f64));
    }
}

/// Returns the number of runs in a round.
fn runs(work: &mut Work) -> u64 {
    let mut runs = 1;
    loop {
        let begin = Instant::now();
        (0..runs).for_each(|_| work.run());
        if begin.elapsed() >= ROUND {
            return runs;
        }
        runs *= 2;
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
