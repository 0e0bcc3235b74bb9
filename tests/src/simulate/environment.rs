//! The state that all parts of a run share: the clock, the random numbers, the trace, and the schedule.

use std::{collections::BTreeMap, fmt, time::Duration};

use mcp_proto::{
    rpc::{CallId, ReplyKey, Timestamp},
    schema::LoggingLevel,
};

use super::{
    rng::Rng,
    tasks::Tasks,
    trace::{PeerId, Trace},
};

/// A scheduled action of an application or of the simulation.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A client of the plan opens a connection.
    Connect(usize),
    /// An application performs its next step.
    Step(PeerId),
    /// An application continues to work on a request.
    Continue(PeerId, ReplyKey),
    /// An application cancels a call.
    Cancel(PeerId, CallId),
    /// An application closes the connection.
    Close(PeerId),
    /// The process of one side ends.
    Kill(PeerId),
    /// A side does not read for some time.
    Stall(PeerId, Duration),
    /// The server's offer changes, for all clients.
    ChangeOffer(u64),
    /// A task of a session (2025-11-25) advances.
    AdvanceSessionTask(PeerId, u64),
    /// A task of the server (2026-07-28) advances.
    AdvanceTask(u64),
}

/// The clock, the random numbers, the trace, and the schedule.
pub struct Environment<'a> {
    /// The virtual clock.
    pub now: Timestamp,
    /// The random number generator.
    pub rng: Rng,
    /// The trace.
    pub trace: Trace<'a>,
    /// The tasks of the server (2026-07-28).
    pub tasks: Tasks,
    /// The run is winding down: applications start nothing new, and respond to all requests.
    pub winding_down: bool,
    schedule: BTreeMap<(Timestamp, u64), Action>,
    planned: u64,
    numbers: u64,
}

impl<'a> Environment<'a> {
    /// Returns an environment before the first action.
    #[must_use]
    pub fn new(rng: Rng, trace: Trace<'a>) -> Self {
        Self {
            now: Timestamp::ZERO,
            rng,
            trace,
            tasks: Tasks::default(),
            winding_down: false,
            schedule: BTreeMap::new(),
            planned: 0,
            numbers: 0,
        }
    }

    /// Adds an entry for a peer to the trace.
    pub fn note(&mut self, peer_id: PeerId, what: &str, detail: impl fmt::Display) {
        self.trace.note(self.now, peer_id, what, detail);
    }

    /// Schedules an action after a delay.
    pub fn schedule(&mut self, after: Duration, action: Action) {
        self.planned += 1;
        self.schedule.insert((self.now + after, self.planned), action);
    }

    /// Schedules an action after a random delay of at most `most`.
    pub fn schedule_within(&mut self, most: Duration, action: Action) {
        let after = self.rng.duration(most);
        self.schedule(after, action);
    }

    /// Takes the next action that is due.
    pub fn take_due(&mut self) -> Option<Action> {
        let entry = self.schedule.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        Some(entry.remove())
    }

    /// Returns when the next action is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.schedule.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns a new number.
    pub const fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Returns a random log level.
    pub fn log_level(&mut self) -> LoggingLevel {
        *self.rng.pick(&[LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Emergency])
    }
}
