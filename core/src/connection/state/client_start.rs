//! The state of a client's start: how it opened the connection, and what the probe found out about the era of the
//! server.

use crate::{
    connection::types::Opening,
    protocol::{Era, VersionSet},
    wire::ErrorObject,
};

/// The state of the probe (`server/discover`) for the era of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The client did not send it.
    #[default]
    Unasked,
    /// There is no response yet.
    Asked,
    /// It timed out.
    Silent,
    /// The server responded, with a result or an error.
    Answered,
}

/// The state of a client's start.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartState {
    pub(crate) opening: Opening,
    pub(crate) probe: Probe,
    /// The error that `initialize` was answered with, if the client then probed the server.
    pub(crate) refused: Option<ErrorObject>,
    /// How to open the connection if the server is started again.
    pub(crate) next: Option<Opening>,
    /// Whether the principal of the client has changed since the probe was sent.
    pub(crate) principal_changed: bool,
    /// Whether the transport is HTTP. A timeout of the probe then does not show the era of the server.
    pub(crate) over_http: bool,
}

impl StartState {
    pub(crate) fn new(opening: Opening) -> Self {
        Self { opening, ..Self::default() }
    }

    /// Returns whether a server that refused `initialize` may still be of the modern era.
    ///
    /// It may if the client never probed it, or if the probe timed out, which happens while a server starts up.
    pub(crate) const fn may_be_modern(&self) -> bool {
        matches!(self.probe, Probe::Silent) || matches!(self.probe, Probe::Unasked) && !self.opening.again
    }

    /// Returns how to open a new connection to a server that exited during the opening, if that is worth another
    /// attempt.
    pub(crate) fn after_exit(&self, versions: VersionSet) -> Option<Opening> {
        let speaks = |era| versions.iter().any(|version| version.era() == era);
        if self.opening.again || !speaks(Era::Legacy) {
            return None;
        }
        match (self.probe, self.opening.era) {
            // Some legacy servers exit on a request that they do not know.
            (Probe::Asked | Probe::Silent | Probe::Answered, _) => Some(Opening::once_more(Some(Era::Legacy))),
            // The cached era was legacy. The server may have been upgraded since.
            (Probe::Unasked, Some(Era::Legacy)) if speaks(Era::Modern) => Some(Opening::once_more(None)),
            (Probe::Unasked, _) => None,
        }
    }
}
