//! How a client starts over with a server that left instead of answering.

use crate::{
    connection::{
        engine::{Engine, Side},
        state::client_start::Beginning,
        types::CloseReason,
    },
    protocol::{Era, Phase, ProtocolVersion},
};

impl Engine {
    /// The revision in which to ask which era the server is of.
    pub(crate) fn newest_modern(&self) -> Option<ProtocolVersion> {
        self.settings().versions.iter().rev().find(|version| version.era() == Era::Modern)
    }

    /// How this client has begun.
    pub(crate) const fn begun(&mut self) -> Option<&mut Beginning> {
        match &mut self.side {
            Side::Client { begun, .. } => Some(begun),
            Side::Server { .. } => None,
        }
    }

    /// The connection ends: whether it is worth to start the server once more.
    pub(crate) fn note_exit(&mut self, reason: &CloseReason) {
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
