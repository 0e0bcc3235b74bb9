//! The state of a client's start: how it opened the connection, and the era of the server as far as the probe has
//! determined it.

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
    Unsent,
    /// There is no response yet.
    Sent,
    /// It timed out.
    TimedOut,
    /// The server responded, with a result or an error.
    Responded,
}

/// The state of a client's start.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartState {
    pub(crate) opening: Opening,
    pub(crate) probe: Probe,
    /// The error response to `initialize`, if the client then probed the server.
    pub(crate) refused: Option<ErrorObject>,
    /// The opening of the next connection, if the server is started again.
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
        matches!(self.probe, Probe::TimedOut) || matches!(self.probe, Probe::Unsent) && !self.opening.again
    }

    /// Returns how to open a new connection to a server that exited during the opening, if that is worth another
    /// attempt.
    pub(crate) fn after_exit(&self, versions: VersionSet) -> Option<Opening> {
        let supports = |era| versions.iter().any(|version| version.era() == era);
        if self.opening.again || !supports(Era::Legacy) {
            return None;
        }
        match (self.probe, self.opening.era) {
            // Some legacy servers exit on a request that they do not support.
            (Probe::Sent | Probe::TimedOut | Probe::Responded, _) => Some(Opening::restarted(Some(Era::Legacy))),
            // The cached era was legacy. The server may have been upgraded since.
            (Probe::Unsent, Some(Era::Legacy)) if supports(Era::Modern) => Some(Opening::restarted(None)),
            (Probe::Unsent, _) => None,
        }
    }
}
