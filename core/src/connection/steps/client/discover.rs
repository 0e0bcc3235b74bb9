//! Detection of the server's era: the client sends `server/discover` as a probe, and the response decides.

use alloc::{boxed::Box, string::ToString};

use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::{client_start::Probe, tags::CallTag},
        steps::client::renegotiate::{ServerVersions, supported},
        types::{CloseReason, Event, RequestOptions},
    },
    protocol::{Era, Method, Phase, ProtocolVersion, VersionSet},
    rpc::{Priority, Timestamp},
    schema::{DiscoverResult, Implementation, InitializeResult, Meta, keys},
    wire::{ErrorCode, ErrorObject, RawJson, excerpt_of_error},
};

impl Engine {
    /// Sends the client's first message: a probe if the server may be of the modern era, else `initialize`.
    pub(crate) fn open(&mut self, now: Timestamp) {
        let taken_for_old = self.may_fall_back() && self.known_era() == Some(Era::Legacy);
        match self.newest_modern().filter(|_| !taken_for_old) {
            Some(version) => self.probe(now, version, false),
            None => self.shake_hands(now, None),
        }
    }

    fn known_era(&mut self) -> Option<Era> {
        self.start_state().and_then(|start_state| start_state.opening.era())
    }

    fn probe(&mut self, now: Timestamp, version: ProtocolVersion, again: bool) {
        let mut patient = !self.may_fall_back();
        if let Some(start_state) = self.start_state() {
            patient |= start_state.opening.era() == Some(Era::Modern)
                || start_state.refused.is_some()
                || start_state.over_http;
            start_state.probe = Probe::Sent;
            start_state.principal_changed = false;
        }
        let settings = self.settings();
        let hurried = settings.probe_timeout.min(settings.handshake_timeout);
        let timeout = if patient { settings.handshake_timeout } else { hurried };
        let options = RequestOptions::within(timeout);
        let tag = CallTag::Probe { version, again };
        if let Err(error) = self.start(now, Priority::Request, &Method::Discover.into(), tag, &options, &|_| Ok(())) {
            self.end(CloseReason::BadHandshake(error.to_string()));
        }
    }

    /// Returns whether this client also supports revisions of the legacy era.
    fn may_fall_back(&self) -> bool {
        !self.settings().versions.intersection(VersionSet::LEGACY).is_empty()
    }

    /// Handles the result of the probe.
    pub(crate) fn probe_answered(&mut self, now: Timestamp, result: &RawJson<'_>) -> Option<Event<'static>> {
        self.mark_probe_answered();
        if result.weight() > self.limits().described_bytes() {
            self.fall_back(now, "its response to server/discover is larger than the limit");
            return None;
        }
        let discovered: DiscoverResult = match result.decode() {
            Ok(discovered) => discovered,
            // Some legacy servers respond to unknown methods with some result.
            Err(error) => {
                self.fall_back(now, &error.to_string());
                return None;
            }
        };
        let mut supported = ServerVersions::NONE;
        discovered.supported_versions.iter().for_each(|name| supported.add(name));
        let Some(version) = self.common(supported.known, VersionSet::MODERN) else {
            self.handshake_or_close(now, &supported);
            return None;
        };
        self.version = Some(version);
        self.note_discovery(version, result);
        self.peer = discovered.capabilities.set();
        self.phase = Phase::Ready;
        // The modern era has no pings.
        self.keepalive = None;
        let info = discovered.meta.as_ref().and_then(server_info).unwrap_or_else(|| Implementation::new("", ""));
        if let RoleState::Client { server, .. } = &mut self.role_state {
            *server = Some(Box::new(InitializeResult {
                instructions: discovered.instructions,
                ..InitializeResult::new(version.as_str().to_string(), discovered.capabilities, info)
            }));
        }
        Some(Event::Ready)
    }

    /// Handles an error response to the probe.
    pub(crate) fn probe_refused(&mut self, now: Timestamp, again: bool, error: ErrorObject) {
        self.mark_probe_answered();
        match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
                let supported = supported(&error).unwrap_or(ServerVersions::NONE);
                match self.common(supported.known, VersionSet::MODERN) {
                    Some(version) if !again => self.probe(now, version, true),
                    Some(_) => self.end(CloseReason::Refused(error.shortened())),
                    None => self.handshake_or_close(now, &supported),
                }
            }
            // Only servers of the modern era send these codes.
            ErrorCode::HEADER_MISMATCH | ErrorCode::MISSING_CLIENT_CAPABILITY => {
                self.end(CloseReason::Refused(error.shortened()));
            }
            // Legacy servers use various error codes for an unknown method, so any other code means the legacy era.
            _ => self.fall_back(now, &error.to_string()),
        }
    }

    /// Handles a response to the probe that is not an object.
    pub(crate) fn handle_malformed_probe_response(&mut self, now: Timestamp) {
        self.mark_probe_answered();
        self.fall_back(now, "its response to server/discover is not an object");
    }

    pub(crate) fn mark_probe_answered(&mut self) {
        if let Some(start_state) = self.start_state() {
            start_state.probe = Probe::Responded;
        }
    }

    /// Starts the legacy handshake, or closes the connection if this client does not support the legacy era or has
    /// already been refused there. `why` describes the server's response.
    pub(crate) fn fall_back(&mut self, now: Timestamp, why: &str) {
        if let Some(refused) = self.start_state().and_then(|start_state| start_state.refused.clone()) {
            // The server has already refused `initialize`, which led to the probe.
            self.end(CloseReason::Refused(refused));
        } else if self.may_fall_back() {
            self.shake_hands(now, None);
        } else {
            self.end(CloseReason::LegacyServer(excerpt_of_error(why).into_owned()));
        }
    }

    /// Starts the legacy handshake in the newest common revision, or closes the connection if there is none. Called
    /// when no modern revision is common.
    fn handshake_or_close(&mut self, now: Timestamp, supported: &ServerVersions) {
        match self.common(supported.known, VersionSet::LEGACY) {
            Some(version) => self.shake_hands(now, Some(version)),
            None => self.end(CloseReason::UnsupportedVersion(supported.shown().into_owned())),
        }
    }

    /// Handles a timeout of the probe.
    pub(crate) fn probe_unanswered(&mut self, now: Timestamp) {
        let Some(start_state) = self.start_state() else { return };
        start_state.probe = Probe::TimedOut;
        if start_state.over_http {
            self.end(CloseReason::HandshakeTimeout);
        } else {
            self.fall_back(now, "it did not respond to server/discover in time");
        }
    }

    /// Handles an error response to `initialize`. If the server may still be of the modern era, it is probed.
    pub(crate) fn handshake_refused(&mut self, now: Timestamp, error: ErrorObject) {
        if self.phase == Phase::Ready {
            // This handshake was to replace a lost session.
            return self.end(CloseReason::Refused(error.shortened()));
        }
        let newest = self.newest_modern();
        match (newest, self.start_state()) {
            (Some(version), Some(start_state)) if start_state.may_be_modern() => {
                start_state.refused = Some(error.shortened());
                self.probe(now, version, false);
            }
            _ => self.end(CloseReason::Refused(error.shortened())),
        }
    }

    /// Returns the newest revision in `among` that both sides support.
    pub(crate) fn common(&self, theirs: VersionSet, among: VersionSet) -> Option<ProtocolVersion> {
        theirs.intersection(self.settings().versions).intersection(among).newest()
    }

    /// Returns the revision to put into the `_meta` of a request, if the request is of the modern era.
    pub(crate) fn modern_version(&self, tag: CallTag) -> Option<ProtocolVersion> {
        match tag {
            CallTag::Probe { version, .. } => Some(version),
            CallTag::Handshake => None,
            CallTag::Keepalive | CallTag::CancelTask | CallTag::User { .. } => {
                self.version.filter(|version| version.era() == Era::Modern)
            }
        }
    }

    /// Returns whether this client sends no responses: its server is of the modern era, which sends no requests, or has
    /// not responded to the probe yet.
    pub(crate) fn answers_nothing(&self) -> bool {
        let is_probing =
            matches!(&self.role_state, RoleState::Client { start_state, .. } if start_state.probe == Probe::Sent);
        self.is_modern_client() || is_probing
    }

    /// Returns whether this is a client of a server of the modern era.
    pub(crate) fn is_modern_client(&self) -> bool {
        matches!(self.role_state, RoleState::Client { .. })
            && self.version.is_some_and(|version| version.era() == Era::Modern)
    }
}

fn server_info(meta: &Meta) -> Option<Implementation> {
    meta.get(keys::SERVER_INFO)?.decode().ok()
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec::Vec};

    use super::*;
    use crate::{
        codec::Frame,
        connection::{Client, ClientConfig},
    };

    /// The description of a server whose instructions have this many bytes.
    fn described(instructions: usize) -> String {
        let instructions = "x".repeat(instructions);
        format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}},"ttlMs":0,"cacheScope":"private","instructions":"{instructions}"}}"#
        )
    }

    #[test]
    fn descriptions_are_read_up_to_the_limit() {
        let mut config = ClientConfig::new(Implementation::new("c", "1"), 1);
        config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
        config.settings.limits.frame_bytes = 16 << 10;
        let most = config.settings.limits.described_bytes() - RawJson::trusted(&described(0)).weight();
        for (instructions, is_read) in [(most, true), (most + 1, false)] {
            let mut client = Client::new(config.clone(), Timestamp::ZERO);
            assert!(client.poll_transmit(&mut Vec::new()).is_some());
            let frame = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, described(instructions));
            let event = client.handle_frame(Timestamp::ZERO, Frame::new(frame.as_bytes()));
            assert_eq!(event == Some(Event::Ready), is_read, "{event:?}");
        }
    }
}
