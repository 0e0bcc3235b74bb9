//! The rules, and their violations.

use std::fmt;

/// A rule that holds in every state, for every order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A call ends exactly once, and has no events afterwards (invariant 3).
    EndsOnce,
    /// The outcome of a call has a cause, and its result belongs to the call.
    EndsRightly,
    /// A request gets at most one response, and none after its cancellation was handled (invariant 3).
    OneAnswer,
    /// Progress is sent while a request is open, to the peer that sent a progress token, and increases.
    Progress,
    /// No request id is used twice, and a server of the modern era sends no requests.
    FreshIds,
    /// A side cancels only its own requests, before their response, and only once.
    CancelsOwn,
    /// The first message of a subscription is its acknowledgement, and none follows its end.
    Subscriptions,
    /// Requests, cancellations and the end of the connection reach the application once, and in order.
    Events,
    /// A rejected call of the API changes nothing, and an invalid call is rejected.
    Refusals,
    /// Two conforming peers over a lossless link report no violations.
    GoodPeers,
    /// Deadlines are neither missed nor left over.
    Deadlines,
    /// Output is available when it is polled, not after a timer (invariant 5).
    Output,
    /// No table exceeds its limit (invariant 4).
    Limits,
    /// An idle connection has empty tables, and all requests have ended (invariants 3 and 5).
    Rest,
    /// A message of a stream over HTTP arrives once and in order, also after resumptions. Otherwise the client is told
    /// that it is lost.
    Streams,
    /// Every schedule ends (invariant 5).
    Livelock,
    /// Nothing panics (invariant 4).
    Panic,
}

/// A rule that is broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The description of the violation.
    pub what: String,
}

impl Violation {
    /// Returns the violation of `rule`.
    pub fn new(rule: Rule, what: impl fmt::Display) -> Self {
        Self { rule, what: what.to_string() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Returns a violation unless `held`.
pub(crate) fn ensure(held: bool, rule: Rule, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if held { Ok(()) } else { Err(Violation::new(rule, what())) }
}
