//! The outcome of a check.

/// Ids of rows of the requirement tables.
pub(super) type Rules = &'static [&'static str];

/// The reason why a check has not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The server broke a rule.
    Failed {
        why: String,
        /// The broken ones of the rules of the check. Empty is all.
        broken: Vec<&'static str>,
    },
    /// The server has sent no response, or has ended. Which rule that breaks depends on the step of the check.
    NoResponse(String),
    /// The rule does not concern this server.
    NotApplicable(String),
    /// The situation of the rule could not be brought about.
    NotReachable(String),
}

impl Outcome {
    /// Returns the reason.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Failed { why, .. } | Self::NoResponse(why) | Self::NotApplicable(why) | Self::NotReachable(why) => {
                why
            }
        }
    }

    /// Changes the text.
    pub(super) fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Failed { why, broken } => Self::Failed { why: change(why), broken },
            Self::NoResponse(why) => Self::NoResponse(change(why)),
            Self::NotApplicable(why) => Self::NotApplicable(change(why)),
            Self::NotReachable(why) => Self::NotReachable(change(why)),
        }
    }
}

/// The result of a check. `Ok` is passed.
pub(super) type Verdict = Result<(), Outcome>;

/// Decides what the failure of a step of a check means for its outcome.
pub(super) trait Breaks {
    /// Sets the broken rules of a failure, unless it has some: a check accuses a server of no other one.
    fn breaks(self, rules: Rules) -> Self;

    /// Makes a missing response a reason why the check is not reachable: another check reports it.
    fn or_unreachable(self) -> Self;
}

impl<T> Breaks for Result<T, Outcome> {
    fn breaks(self, rules: Rules) -> Self {
        self.map_err(|outcome| match outcome {
            Outcome::Failed { why, broken } if broken.is_empty() => Outcome::Failed { why, broken: rules.to_vec() },
            Outcome::NoResponse(why) => Outcome::Failed { why, broken: rules.to_vec() },
            outcome => outcome,
        })
    }

    fn or_unreachable(self) -> Self {
        self.map_err(|outcome| match outcome {
            Outcome::NoResponse(why) => Outcome::NotReachable(why),
            outcome => outcome,
        })
    }
}

/// Returns a failure that breaks all rules of its check, unless it [names](Breaks::breaks) the broken ones.
pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Failed { why: why.into(), broken: Vec::new() })
}

/// Returns that the server has not responded.
pub(super) fn no_response<T>(why: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::NoResponse(why.into()))
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

/// Judges each item. The first failure decides, and without one the first reason why an item could not be judged.
pub(super) fn judge_each<T>(items: impl IntoIterator<Item = T>, mut judge: impl FnMut(T) -> Verdict) -> Verdict {
    let mut verdict = Ok(());
    for item in items {
        match judge(item) {
            Err(outcome @ (Outcome::Failed { .. } | Outcome::NoResponse(_))) => return Err(outcome),
            other => verdict = verdict.and(other),
        }
    }
    verdict
}
