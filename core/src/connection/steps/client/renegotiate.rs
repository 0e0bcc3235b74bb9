//! Renegotiation (2026-07-28): if a server refuses the revision of a request although it announced it before, the
//! client sends the request once more in another common revision.

use crate::{
    connection::{
        engine::Engine,
        state::keepalive::KeepaliveState,
        types::{Event, Outcome},
    },
    protocol::{CapabilitySet, Phase, ProtocolVersion, Role, VersionSet, check},
    rpc::{CallId, Timestamp},
    schema::UnsupportedProtocolVersion,
    wire::{ErrorCode, ErrorObject},
};

/// The longest list of revisions that is decoded, in bytes.
const NAMED_BYTES: usize = 16 << 10;

/// Returns the revisions that the server supports, if the error refuses a request because of its revision.
pub(crate) fn supported(error: &ErrorObject) -> Option<alloc::vec::Vec<alloc::string::String>> {
    if error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION {
        return None;
    }
    // A real list of revisions is shorter. A longer one is ignored.
    let data = error.data.as_ref().filter(|data| data.get().len() <= NAMED_BYTES);
    let data = data.and_then(|data| data.decode::<UnsupportedProtocolVersion>().ok());
    Some(data.map(|data| data.supported).unwrap_or_default())
}

impl Engine {
    /// Sends a refused request again and returns `true`. Returns `false` if it was renegotiated before or if there is
    /// no common revision; the error then ends the call.
    pub(crate) fn renegotiate(&mut self, now: Timestamp, call: CallId, error: &ErrorObject) -> bool {
        let Some(supported) = supported(error).filter(|_| self.is_modern_client()) else { return false };
        let again = self.retries.change(call, |retry| core::mem::replace(&mut retry.renegotiated, true));
        if again != Some(false) {
            return false;
        }
        if let Some(version) = self.common(&supported, VersionSet::MODERN) {
            self.version = Some(version);
            self.resend(call);
            return true;
        }
        match self.common(&supported, VersionSet::LEGACY) {
            Some(version) if self.may_start_session(call, version) => {
                self.start_session(now, call, version, error);
                true
            }
            _ => false,
        }
    }

    /// Returns whether the connection can become a session. No other call may be in flight, because its response would
    /// follow the rules of the other era.
    fn may_start_session(&self, call: CallId, version: ProtocolVersion) -> bool {
        let Some(retry) = self.retries.get(call) else { return false };
        let exists = retry.method.known().is_none_or(|method| method.versions().contains(version));
        // Input responses and tasks of the modern era have no meaning in a session.
        let has_begun = retry.round.has_begun() || retry.poller.is_some();
        exists && self.calls.len() == 1 && !has_begun
    }

    fn start_session(&mut self, now: Timestamp, call: CallId, version: ProtocolVersion, error: &ErrorObject) {
        self.calls.suspend(self.clock, call);
        self.retries.defer(call, error.clone());
        (self.phase, self.version, self.peer) = (Phase::Opening, None, CapabilitySet::EMPTY);
        self.cache().clear();
        self.keepalive = KeepaliveState::of(self.settings(), now);
        self.shake_hands(now, Some(version));
    }

    /// Sends the deferred request in the new session, if the server has the capabilities that it needs. Else the
    /// request ends with its error.
    pub(crate) fn session_started(&mut self) -> Option<Event<'static>> {
        let Some((call, error)) = self.retries.allocated_mut().and_then(|retries| retries.take_deferred()) else {
            return Some(Event::Ready);
        };
        let method = self.retries.get(call).and_then(|retry| retry.method.known());
        let allowed = self.version.is_some_and(|version| {
            method.is_none_or(|method| check(method, version, Role::Client, self.declared()).is_ok())
        });
        if allowed {
            self.resend(call);
            return Some(Event::Ready);
        }
        self.events.push_back(Event::Ready);
        let event = self.finish_call(call, Outcome::Error(error));
        self.events.extend(event.map(Event::into_owned));
        None
    }
}
