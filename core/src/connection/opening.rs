//! What a client knows of a server before it talks to it, and what it makes of a server that leaves instead of answering.
//! Whoever starts servers asks here how to begin, and whether to start once more.

use super::{
    ClientEnd, CloseReason, Connection,
    engine::{Engine, Side},
};
use crate::{
    protocol::{Era, Phase, ProtocolVersion, VersionSet},
    wire::ErrorObject,
};

/// How a client begins: with what it knows of the server from an earlier connection.
///
/// The era is a property of a server. Once it is found out it can be kept, for as long as the server is the same
/// program or is at the same address, and saves the next connection the question or the wait for its answer. It is no
/// promise: a server that has become another one is found out, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    era: Option<Era>,
    /// The server was started once more because the first time went wrong.
    again: bool,
}

impl Opening {
    /// Nothing is known. A client that speaks both eras asks which one the server is of, and waits
    /// [`probe_timeout`](super::Settings::probe_timeout) for the answer.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { era: None, again: false }
    }

    /// The server was of this era: the one of the [`version`](Connection::version) that came of an earlier connection.
    ///
    /// A client that speaks both eras begins with `initialize` then, and asks only if that is refused; or it asks and
    /// waits as long as for any handshake. If it speaks only one era, this changes nothing.
    #[must_use]
    pub const fn known(era: Era) -> Self {
        Self { era: Some(era), again: false }
    }

    /// The era that the server is taken to be of.
    #[must_use]
    pub const fn era(self) -> Option<Era> {
        self.era
    }

    const fn once_more(era: Option<Era>) -> Self {
        Self { era, again: true }
    }
}

/// How far the question has come which era a server is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Probe {
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
pub(super) struct Beginning {
    pub(super) opening: Opening,
    pub(super) probe: Probe,
    /// What `initialize` was answered with, when it seemed worth to ask after that.
    pub(super) refused: Option<ErrorObject>,
    /// How to begin if the server is started once more.
    next: Option<Opening>,
    /// The client has become somebody else since it has asked which era the server is of.
    pub(super) principal_changed: bool,
    /// Silence says nothing of the server's era.
    pub(super) over_http: bool,
}

impl Beginning {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, ..Self::default() }
    }

    /// Whether a server that has refused `initialize` may still be of the modern era.
    ///
    /// It is if it was never asked, or did not answer in time because it was being started.
    pub(super) const fn may_be_modern(&self) -> bool {
        matches!(self.probe, Probe::Silent) || matches!(self.probe, Probe::Unasked) && !self.opening.again
    }

    /// How to begin with a server that has left before it was any use.
    fn after_exit(&self, versions: VersionSet) -> Option<Opening> {
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

impl Connection<ClientEnd> {
    /// How to begin if the server is started once more, now that the connection has ended: `None` if that would change
    /// nothing.
    ///
    /// A server that leaves before it has answered `initialize` may have been asked something that it did not know. It
    /// is started again once, and then it is not asked.
    #[must_use]
    pub const fn next_opening(&self) -> Option<Opening> {
        match &self.engine.side {
            Side::Client { begun, .. } => begun.next,
            Side::Server { .. } => None,
        }
    }
}

impl Engine {
    /// The revision in which to ask which era the server is of.
    pub(super) fn newest_modern(&self) -> Option<ProtocolVersion> {
        self.settings().versions.iter().rev().find(|version| version.era() == Era::Modern)
    }

    /// How this client has begun.
    pub(super) const fn begun(&mut self) -> Option<&mut Beginning> {
        match &mut self.side {
            Side::Client { begun, .. } => Some(begun),
            Side::Server { .. } => None,
        }
    }

    /// The connection ends: whether it is worth to start the server once more.
    pub(super) fn note_exit(&mut self, reason: &CloseReason) {
        let left = matches!(reason, CloseReason::Eof | CloseReason::Broken | CloseReason::Lost(_));
        if self.phase != Phase::Opening || !left {
            return;
        }
        let versions = self.settings().versions;
        if let Some(begun) = self.begun() {
            begun.next = begun.after_exit(versions);
        }
    }
}
