//! Cover points of an exploration. The tests check that all of them were reached.

use std::{cell::Cell, fmt, rc::Rc};

use mcp_proto::connection::{Event, Outcome};

/// An outcome or an event of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoverPoint {
    /// A request ends with a result.
    Result,
    /// A request ends with an error.
    Error,
    /// A request makes progress.
    Progress,
    /// The application cancels a request.
    Cancelled,
    /// A request times out.
    TimedOut,
    /// A request ends because one side closes the connection.
    Closed,
    /// A request ends because the connection breaks.
    Dropped,
    /// A frame is delivered twice.
    Duplicated,
    /// A response arrives after the end of its request.
    Late,
    /// The response to a request is `input_required` (2026-07-28).
    InputRequired,
    /// A request becomes a task (2026-07-28).
    Task,
    /// A connection pauses reading because of its limits.
    Paused,
}

impl CoverPoint {
    /// All cover points, with the letter of each.
    pub const ALL: [(Self, char); 12] = [
        (Self::Result, 'r'),
        (Self::Error, 'e'),
        (Self::Progress, 'p'),
        (Self::Cancelled, 'c'),
        (Self::TimedOut, 't'),
        (Self::Closed, 'x'),
        (Self::Dropped, 'd'),
        (Self::Duplicated, '2'),
        (Self::Late, 'l'),
        (Self::InputRequired, 'q'),
        (Self::Task, 'k'),
        (Self::Paused, 'w'),
    ];

    /// Returns the cover point of an event.
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

/// A set of cover points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoverPoints(u16);

impl CoverPoints {
    /// Returns whether the set contains this cover point.
    #[must_use]
    pub const fn contains(self, what: CoverPoint) -> bool {
        self.0 & (1 << what as u16) != 0
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Prints one letter for each cover point.
impl fmt::Display for CoverPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters: String =
            CoverPoint::ALL.into_iter().map(|(what, letter)| if self.contains(what) { letter } else { '.' }).collect();
        f.pad(&letters)
    }
}

/// The shared record of the cover points that were reached.
#[derive(Clone, Debug, Default)]
pub(super) struct CoverRecorder(Rc<Cell<CoverPoints>>);

impl CoverRecorder {
    /// Records a cover point.
    pub(super) fn record(&self, what: CoverPoint) {
        self.0.set(self.0.get().union(CoverPoints(1 << what as u16)));
    }

    /// Returns all cover points recorded so far.
    pub(super) fn all(&self) -> CoverPoints {
        self.0.get()
    }
}
