//! A server that does not speak the revision of a request, although it said before that it does (2026-07-28): the
//! request goes again, once, in a revision that both ends speak.

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

/// The longest list of revisions that is looked at.
const NAMED_BYTES: usize = 16 << 10;

/// What the server speaks, if it has refused a request because of its revision.
pub(crate) fn supported(error: &ErrorObject) -> Option<alloc::vec::Vec<alloc::string::String>> {
    if error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION {
        return None;
    }
    // The revisions that a server supports fit into this.
    let data = error.data.as_ref().filter(|data| data.get().len() <= NAMED_BYTES);
    let data = data.and_then(|data| data.decode::<UnsupportedProtocolVersion>().ok());
    Some(data.map(|data| data.supported).unwrap_or_default())
}

impl Engine {
    /// Whether a request that was refused is sent again. It is not if that has happened before, or if there is no
    /// revision that it could be sent in: then the error is its end.
    pub(crate) fn renegotiate(&mut self, now: Timestamp, call: CallId, error: &ErrorObject) -> bool {
        let Some(supported) = supported(error).filter(|_| self.is_modern_client()) else { return false };
        let again = self.retries.change(call, |kept| core::mem::replace(&mut kept.renegotiated, true));
        if again != Some(false) {
            return false;
        }
        if let Some(version) = self.common(&supported, VersionSet::MODERN) {
            self.version = Some(version);
            self.send_again(call);
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

    /// Whether the connection can become a session: nothing else may be under way, since it would be answered under
    /// other rules than it was asked.
    fn may_start_session(&self, call: CallId, version: ProtocolVersion) -> bool {
        let Some(kept) = self.retries.get(call) else { return false };
        let exists = kept.method.known().is_none_or(|method| method.versions().contains(version));
        // Neither answers nor tasks of this era mean anything there.
        let has_begun = kept.round.has_begun() || kept.poller.is_some();
        exists && self.calls.len() == 1 && !has_begun
    }

    fn start_session(&mut self, now: Timestamp, call: CallId, version: ProtocolVersion, error: &ErrorObject) {
        self.calls.suspend(call);
        self.retries.defer(call, error.clone());
        (self.phase, self.version, self.peer) = (Phase::Opening, None, CapabilitySet::EMPTY);
        self.cache().clear();
        self.keepalive = KeepaliveState::of(self.settings(), now);
        self.shake_hands(now, Some(version));
    }

    /// The session has begun: the request that it was begun for is sent, if the server has what it asks for.
    pub(crate) fn session_started(&mut self) -> Option<Event<'static>> {
        let Some((call, error)) = self.retries.made().and_then(|retries| retries.take_deferred()) else {
            return Some(Event::Ready);
        };
        let method = self.retries.get(call).and_then(|kept| kept.method.known());
        let allowed = self.version.is_some_and(|version| {
            method.is_none_or(|method| check(method, version, Role::Client, self.declared()).is_ok())
        });
        if allowed {
            self.send_again(call);
            return Some(Event::Ready);
        }
        self.events.push_back(Event::Ready);
        let event = self.finish_call(call, Outcome::Error(error));
        self.events.extend(event.map(Event::into_owned));
        None
    }
}
