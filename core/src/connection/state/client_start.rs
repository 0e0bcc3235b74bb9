//! How a client has started, and what it found out about the era of its server.

use crate::{
    connection::types::Opening,
    protocol::{Era, VersionSet},
    wire::ErrorObject,
};

/// How far the question has come which era a server is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Probe {
    /// It was not asked.
    #[default]
    Unasked,
    /// There is no answer yet.
    Asked,
    /// There was none in time.
    Silent,
    /// There was an answer, whichever.
    Answered,
}

/// How a client has begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartState {
    pub(crate) opening: Opening,
    pub(crate) probe: Probe,
    /// What `initialize` was answered with, when it seemed worth to ask after that.
    pub(crate) refused: Option<ErrorObject>,
    /// How to begin if the server is started once more.
    pub(crate) next: Option<Opening>,
    /// The principal of the client has changed since the era of the server was probed.
    pub(crate) principal_changed: bool,
    /// Silence says nothing of the server's era.
    pub(crate) over_http: bool,
}

impl StartState {
    pub(crate) fn new(opening: Opening) -> Self {
        Self { opening, ..Self::default() }
    }

    /// Whether a server that has refused `initialize` may still be of the modern era.
    ///
    /// It is if it was never asked, or did not answer in time because it was being started.
    pub(crate) const fn may_be_modern(&self) -> bool {
        matches!(self.probe, Probe::Silent) || matches!(self.probe, Probe::Unasked) && !self.opening.again
    }

    /// How to begin with a server that has left before it was any use.
    pub(crate) fn after_exit(&self, versions: VersionSet) -> Option<Opening> {
        let speaks = |era| versions.iter().any(|version| version.era() == era);
        if self.opening.again || !speaks(Era::Legacy) {
            return None;
        }
        match (self.probe, self.opening.era) {
            // Some old servers do not survive a question that they do not know.
            (Probe::Asked | Probe::Silent | Probe::Answered, _) => Some(Opening::once_more(Some(Era::Legacy))),
            // It was taken for an old one, and is none any more.
            (Probe::Unasked, Some(Era::Legacy)) if speaks(Era::Modern) => Some(Opening::once_more(None)),
            (Probe::Unasked, _) => None,
        }
    }
}
