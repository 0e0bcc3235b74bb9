//! What has happened in an exploration, so that it can be seen that nothing was left out.

use std::{cell::Cell, fmt, rc::Rc};

use mcp_proto::connection::{Event, Outcome};

/// Something that can happen to a request, or to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It is answered with a result.
    Result,
    /// It is answered with an error.
    Error,
    /// It makes progress.
    Progress,
    /// Its application gives up on it.
    Cancelled,
    /// It runs out of time.
    TimedOut,
    /// One end closes the connection, and it ends with that.
    Closed,
    /// The connection breaks, and it ends with that.
    Dropped,
    /// A frame comes twice.
    Repeated,
    /// It is answered after it has ended.
    Late,
    /// It is answered with questions, or put off (2026-07-28).
    Asked,
    /// It becomes a task (2026-07-28).
    Task,
    /// An end stops reading because of what it holds.
    Paused,
}

impl Happening {
    /// Each, with the letter that stands for it.
    pub const ALL: [(Self, char); 12] = [
        (Self::Result, 'r'),
        (Self::Error, 'e'),
        (Self::Progress, 'p'),
        (Self::Cancelled, 'c'),
        (Self::TimedOut, 't'),
        (Self::Closed, 'x'),
        (Self::Dropped, 'd'),
        (Self::Repeated, '2'),
        (Self::Late, 'l'),
        (Self::Asked, 'q'),
        (Self::Task, 'k'),
        (Self::Paused, 'w'),
    ];

    /// What an event of the connection says has happened.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        Some(match event {
            Event::Response { outcome, .. } => match outcome {
                Outcome::Result(_) => Self::Result,
                Outcome::Error(_) => Self::Error,
                Outcome::TimedOut { .. } => Self::TimedOut,
                Outcome::Cancelled => Self::Cancelled,
                Outcome::Closed(reason) if reason.is_clean() => Self::Closed,
                Outcome::Closed(_) => Self::Dropped,
                _ => return None,
            },
            Event::Progress { .. } => Self::Progress,
            Event::Late(_) => Self::Late,
            Event::Task { .. } => Self::Task,
            _ => return None,
        })
    }
}

/// A set of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Happened(u16);

impl Happened {
    /// Whether this has happened.
    #[must_use]
    pub const fn has(self, what: Happening) -> bool {
        self.0 & (1 << what as u16) != 0
    }

    /// What has happened here or there.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A letter for each.
impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String =
            Happening::ALL.into_iter().map(|(what, letter)| if self.has(what) { letter } else { '.' }).collect();
        f.pad(&letters)
    }
}

/// Where it is noted.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(Rc<Cell<Happened>>);

impl Notes {
    /// This has happened.
    pub(super) fn note(&self, what: Happening) {
        self.0.set(self.0.get().or(Happened(1 << what as u16)));
    }

    /// What has happened so far.
    pub(super) fn all(&self) -> Happened {
        self.0.get()
    }
}
