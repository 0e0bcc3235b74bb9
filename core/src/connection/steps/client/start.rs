//! How a client starts over with a server that left instead of answering.

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::client_start::StartState,
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
    pub(crate) const fn start_state(&mut self) -> Option<&mut StartState> {
        match &mut self.role_state {
            RoleState::Client { start_state, .. } => Some(start_state),
            RoleState::Server { .. } => None,
        }
    }

    /// The connection ends: whether it is worth to start the server once more.
    pub(crate) fn note_exit(&mut self, reason: &CloseReason) {
        let left = matches!(reason, CloseReason::Eof | CloseReason::ConnectionLost | CloseReason::TransportError(_));
        if self.phase != Phase::Opening || !left {
            return;
        }
        let versions = self.settings().versions;
        if let Some(start_state) = self.start_state() {
            start_state.next = start_state.after_exit(versions);
        }
    }
}
