//! What must hold, and how it is said that it does not.

use std::fmt;

/// What must hold in every state, whatever happens in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A call ends exactly once, and nothing is said of it afterwards (invariant 3).
    EndsOnce,
    /// A call ends for a reason that is there, with the answer to what it asked.
    EndsRightly,
    /// A request gets at most one answer, and none after its cancellation was handled (invariant 3).
    OneAnswer,
    /// Progress is reported while a request is worked on, to the peer that asked for it, and grows.
    Progress,
    /// No id is used twice, and a server of the modern era asks nothing.
    FreshIds,
    /// What is cancelled on the wire is a request of one's own that is not answered, and only once.
    CancelsOwn,
    /// A subscription is acknowledged before anything else, and over when it has ended.
    Subscriptions,
    /// Requests, cancellations and the end of the connection reach the application once, and in order.
    Events,
    /// What is refused has changed nothing, and what must be refused is.
    Refusals,
    /// Two good peers over a good link find nothing wrong with each other.
    GoodPeers,
    /// Deadlines are neither forgotten nor left behind.
    Deadlines,
    /// Output is there when it is asked for, not behind a timer (invariant 5).
    Output,
    /// Nothing holds more than its limit (invariant 4).
    Limits,
    /// At rest the tables are empty, and whatever was asked has been dealt with (invariants 3 and 5).
    Rest,
    /// A message of a stream over HTTP comes once and in order, however often its client comes back, or the client is told
    /// that it is lost.
    Streams,
    /// Every schedule comes to an end (invariant 5).
    Livelock,
    /// Nothing panics (invariant 4).
    Panic,
}

/// A rule that does not hold.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which.
    pub rule: Rule,
    /// What happened instead.
    pub what: String,
}

impl Fault {
    /// `rule` does not hold.
    pub fn new(rule: Rule, what: impl fmt::Display) -> Self {
        Self { rule, what: what.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Fails unless `held`.
pub(crate) fn demand(held: bool, rule: Rule, what: impl FnOnce() -> String) -> Result<(), Fault> {
    if held { Ok(()) } else { Err(Fault::new(rule, what())) }
}
