//! The outcome of a check.

/// The reason why a check has not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The server broke the rule.
    Failed(String),
    /// The rule does not concern this server.
    NotApplicable(String),
    /// The situation of the rule could not be brought about.
    NotReachable(String),
}

impl Outcome {
    /// Changes the text.
    pub(super) fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(change(why)),
            Self::NotApplicable(why) => Self::NotApplicable(change(why)),
            Self::NotReachable(why) => Self::NotReachable(change(why)),
        }
    }
}

/// The result of a check. `Ok` is passed.
pub(super) type Verdict = Result<(), Outcome>;

/// Returns a failure.
pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Failed(why.into()))
}

/// Returns that the rule does not concern the server.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::NotApplicable(why.into()))
}

/// Returns that the situation of the rule could not be brought about.
pub(super) fn not_reachable<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::NotReachable(why.into()))
}

/// Fails unless a condition holds.
pub(super) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { failed(why()) }
}
