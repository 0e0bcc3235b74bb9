//! The start of a client, and the decision whether to start again after a server that exited during the opening.

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::client_start::StartState,
        types::CloseReason,
    },
    protocol::{Era, Phase, ProtocolVersion},
};

impl Engine {
    /// Returns the revision of the probe: the newest of the modern era that this client supports.
    pub(crate) fn newest_modern(&self) -> Option<ProtocolVersion> {
        self.settings().versions.iter().rev().find(|version| version.era() == Era::Modern)
    }

    /// Returns the state of a client's start, or `None` for a server.
    pub(crate) const fn start_state(&mut self) -> Option<&mut StartState> {
        match &mut self.role_state {
            RoleState::Client { start_state, .. } => Some(start_state),
            RoleState::Server { .. } => None,
        }
    }

    /// Decides, when the connection closes during the opening, whether and how to start the server again.
    pub(crate) fn note_exit(&mut self, reason: &CloseReason) {
        let has_exited =
            matches!(reason, CloseReason::Eof | CloseReason::ConnectionLost | CloseReason::TransportError(_));
        if self.phase != Phase::Opening || !has_exited {
            return;
        }
        let versions = self.settings().versions;
        if let Some(start_state) = self.start_state() {
            start_state.next = start_state.after_exit(versions);
        }
    }
}
