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
pub(super) use rule::CommonChecker;

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

#[cfg(all(test, feature = "json-schema"))]
mod agreement;
#[cfg(test)]
mod tests;
