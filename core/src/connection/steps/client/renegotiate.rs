//! Renegotiation (2026-07-28): if a server refuses the revision of a request although it announced it before, the
//! client sends the request once more in another common revision.

use alloc::{borrow::Cow, string::String};

use crate::{
    connection::{
        engine::Engine,
        state::keepalive::KeepaliveState,
        types::{Event, Outcome},
    },
    protocol::{CapabilitySet, Phase, ProtocolVersion, Role, VersionSet, check},
    rpc::{CallId, Timestamp},
    wire::{ErrorCode, ErrorObject, RawJson, excerpt_of_error, reader::read_all},
};

/// The longest list of revisions that is read, in bytes.
const NAMED_BYTES: usize = 16 << 10;

/// The number of bytes after which no more revisions are shown.
const SHOWN_BYTES: usize = 1 << 10;

/// The revisions that a server supports. A list of a server has any number of names, of which only the known ones and
/// the beginning of the text are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerVersions {
    pub(crate) known: VersionSet,
    /// The beginning of the list; `None` if it is empty.
    shown: Option<String>,
}

impl ServerVersions {
    /// No revision.
    pub(crate) const NONE: Self = Self { known: VersionSet::NONE, shown: None };

    /// Adds a revision.
    pub(crate) fn add(&mut self, name: &str) {
        self.known = self.known.union(ProtocolVersion::parse(name).into_iter().collect());
        match &mut self.shown {
            None => self.shown = Some(excerpt_of_error(name).into_owned()),
            Some(shown) if shown.len() < SHOWN_BYTES => shown.extend([", ", &*excerpt_of_error(name)]),
            Some(_) => {}
        }
    }

    /// Returns an excerpt of the list for errors.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        excerpt_of_error(self.shown.as_deref().unwrap_or_default())
    }
}

/// Returns the revisions that the server supports, if the error refuses a request because of its revision.
pub(crate) fn supported(error: &ErrorObject) -> Option<ServerVersions> {
    if error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION {
        return None;
    }
    // A real list of revisions is shorter. A longer one is ignored.
    let data = error.data.as_ref().filter(|data| data.get().len() <= NAMED_BYTES);
    Some(data.and_then(|data| named(&RawJson::from(data))).unwrap_or(ServerVersions::NONE))
}

/// Reads an [`UnsupportedProtocolVersion`](crate::schema::UnsupportedProtocolVersion) without a list of its names,
/// which would take many times the memory of the text. Returns `None` if it is malformed.
fn named(data: &RawJson<'_>) -> Option<ServerVersions> {
    let [supported, requested] = data.pick(["supported", "requested"]);
    RawJson::trusted(requested?).into_text()?;
    read_all(supported?, |reader| {
        let mut versions = ServerVersions::NONE;
        reader.elements(&"a sequence", |reader| {
            versions.add(&reader.string()?);
            Ok(())
        })?;
        Ok(versions)
    })
    .ok()
}

impl Engine {
    /// Sends a refused request again and returns `true`. Returns `false` if it was renegotiated before or if there is
    /// no common revision; the error then ends the call.
    pub(crate) fn renegotiate(&mut self, now: Timestamp, call: CallId, error: &ErrorObject) -> bool {
        if !self.is_modern_client() {
            return false;
        }
        let Some(supported) = supported(error) else { return false };
        let again = self.retries.change(call, |retry| core::mem::replace(&mut retry.state.renegotiated, true));
        if again != Some(false) {
            return false;
        }
        if let Some(version) = self.common(supported.known, VersionSet::MODERN) {
            self.version = Some(version);
            self.resend(call);
            return true;
        }
        match self.common(supported.known, VersionSet::LEGACY) {
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
        let has_begun = retry.state.round.has_begun() || retry.state.poller.is_some();
        exists && self.calls.len() == 1 && !has_begun
    }

    fn start_session(&mut self, now: Timestamp, call: CallId, version: ProtocolVersion, error: &ErrorObject) {
        self.calls.suspend(self.clock, call);
        self.retries.defer(call, error.clone().shortened());
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

#[cfg(test)]
mod tests {
    use std::{format, vec::Vec};

    use super::*;
    use crate::wire::Json;

    fn versions_in(data: &str) -> ServerVersions {
        let error = ErrorObject::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "no");
        supported(&error.with_data(Json::parse(data).expect("it is JSON"))).expect("it refuses the revision")
    }

    #[test]
    fn known_revisions_and_the_text_of_a_list_are_read() {
        let versions = versions_in(r#"{"requested":"x","supported":["2026-07-28","","a\u0062","2025-\u00311-25"]}"#);
        let known = [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25];
        assert_eq!(versions.known, known.into_iter().collect());
        assert_eq!(versions.shown(), "2026-07-28, , ab, 2025-11-25");
        let first_is_empty = versions_in(r#"{"requested":"x","supported":["","a"]}"#);
        assert_eq!(first_is_empty.shown(), ", a");
        assert_eq!(supported(&ErrorObject::internal("no")), None);
    }

    #[test]
    fn malformed_lists_name_no_revision() {
        for data in [
            "7",
            "[]",
            "{}",
            r#"{"supported":["2026-07-28"]}"#,
            r#"{"supported":["2026-07-28"],"requested":7}"#,
            r#"{"supported":"2026-07-28","requested":"x"}"#,
            r#"{"supported":["2026-07-28",7],"requested":"x"}"#,
            r#"{"supported":["2026-07-28","\ud800"],"requested":"x"}"#,
            r#"{"supported":[],"requested":"x"}"#,
        ] {
            assert_eq!(versions_in(data), ServerVersions::NONE, "{data}");
        }
    }

    #[test]
    fn long_lists_are_shown_in_part() {
        let names: Vec<_> = (0..1000).map(|number| format!("\"{number}\"")).collect();
        let data = format!(r#"{{"supported":[{},"2025-06-18"],"requested":"x"}}"#, names.join(","));
        let versions = versions_in(&data);
        assert_eq!(versions.known, VersionSet::only(ProtocolVersion::V2025_06_18));
        assert!(versions.shown().starts_with("0, 1, 2, ") && versions.shown().ends_with("..."));
        assert!(versions.shown.as_ref().is_some_and(|shown| shown.len() < 2 * SHOWN_BYTES));
        let long = format!(r#"{{"supported":["{}","2025-06-18"],"requested":"x"}}"#, "x".repeat(15 << 10));
        assert!(versions_in(&long).shown.is_some_and(|shown| shown.len() < 2 * SHOWN_BYTES));
        let too_long = format!(r#"{{"supported":["{}","2025-06-18"],"requested":"x"}}"#, "x".repeat(NAMED_BYTES));
        assert_eq!(versions_in(&too_long), ServerVersions::NONE);
    }
}
