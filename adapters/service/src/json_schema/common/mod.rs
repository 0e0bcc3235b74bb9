//! A checker of the keywords in common use, which are those that schemas of Rust types have.
//!
//! It takes a fraction of the code of a checker of all keywords, and compiles a schema in microseconds.

mod check;
mod compile;
mod explain;
mod numbers;
mod pattern;
mod rule;

use serde_json::Value;

use check::Check;
use rule::Node;

/// The number of steps that a check of a peer's schema may take. A step is one schema for one part of a value.
const MAX_STEPS: u64 = 200_000_000;
/// The maximum number of steps to find where a value is invalid.
const STEPS_TO_EXPLAIN: u64 = 1_000_000;

/// A compiled schema whose keywords are in common use. The first node is the root.
#[derive(Clone, Debug)]
pub(super) struct CommonChecker {
    nodes: Vec<Node>,
    /// Whether results for references are kept: there are references, and choices that may lead to one several times.
    keeps_results: bool,
    /// The number of steps that a check may take.
    limit: u64,
}

impl CommonChecker {
    /// Checks a value. The error contains the locations of invalid parts, and does not repeat the value.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        let mut check = Check::new(self, self.limit);
        let is_valid = check.is_valid(0, value, 0);
        match check.stopped {
            Some(why) => Err(why.into()),
            None if is_valid => Ok(()),
            None => Err(explain::explain(self, value)),
        }
    }
}

#[cfg(test)]
mod tests;
