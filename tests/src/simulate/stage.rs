//! What everybody in a run shares: the clock, chance, the trace, and what is going to happen.

use std::{collections::BTreeMap, fmt, time::Duration};

use mcp_proto::{
    rpc::{CallId, ReplyKey, Timestamp},
    schema::LoggingLevel,
};

use super::{
    dice::Dice,
    tasks::Tasks,
    trace::{Trace, Who},
};

/// Something that an application, or the world, is going to do.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    /// A client of the plan opens a connection.
    Connect(usize),
    /// An application does something of its own.
    Step(Who),
    /// An application goes on with a request.
    Work(Who, ReplyKey),
    /// An application does not want an answer any more.
    GiveUp(Who, CallId),
    /// An application ends the connection.
    Close(Who),
    /// A process dies.
    Vanish(Who),
    /// An end does not read for a while.
    Stall(Who, Duration),
    /// What the server offers has changed, for all of its clients.
    Change(u64),
    /// A task of a session (2025-11-25) goes on.
    Task(Who, u64),
    /// A task of the server (2026-07-28) goes on.
    Advance(u64),
}

/// The clock, chance, the trace, and what is going to happen.
pub struct Stage<'a> {
    /// The virtual clock.
    pub now: Timestamp,
    /// Chance.
    pub dice: Dice,
    /// What has happened.
    pub trace: Trace<'a>,
    /// The tasks of the server (2026-07-28).
    pub tasks: Tasks,
    /// Whether everything is to come to an end: no peer begins anything, and none is silent.
    pub winding_down: bool,
    agenda: BTreeMap<(Timestamp, u64), Deed>,
    planned: u64,
    numbers: u64,
}

impl<'a> Stage<'a> {
    /// A stage on which nothing has happened.
    #[must_use]
    pub fn new(dice: Dice, trace: Trace<'a>) -> Self {
        Self {
            now: Timestamp::ZERO,
            dice,
            trace,
            tasks: Tasks::default(),
            winding_down: false,
            agenda: BTreeMap::new(),
            planned: 0,
            numbers: 0,
        }
    }

    /// Adds to the trace what has happened to a peer.
    pub fn note(&mut self, who: Who, what: &str, detail: impl fmt::Display) {
        self.trace.note(self.now, who, what, detail);
    }

    /// Has something done after a time.
    pub fn plan(&mut self, after: Duration, deed: Deed) {
        self.planned += 1;
        self.agenda.insert((self.now + after, self.planned), deed);
    }

    /// Has something done within a time, sooner or later.
    pub fn plan_within(&mut self, most: Duration, deed: Deed) {
        let after = self.dice.time(most);
        self.plan(after, deed);
    }

    /// What is to be done now.
    pub fn due(&mut self) -> Option<Deed> {
        let entry = self.agenda.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        Some(entry.remove())
    }

    /// When something is to be done next.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// A number that is new.
    pub const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Any log level.
    pub fn level(&mut self) -> LoggingLevel {
        *self.dice.pick(&[LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Emergency])
    }
}
