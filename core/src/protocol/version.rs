//! Revisions of the specification and their two eras.
//!
//! No other file compares version strings: each is parsed once, into an enum.

use core::fmt;

/// A published revision of the Model Context Protocol, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// The first published revision.
    V2024_11_05,
    /// Audio, tool annotations, JSON-RPC batches.
    V2025_03_26,
    /// Elicitation, structured tool output, titles; no more batches.
    V2025_06_18,
    /// Tasks, icons, url elicitation, tools in sampling. The last one with a handshake.
    V2025_11_25,
    /// The stateless revision: no handshake, no session, no requests from the server.
    V2026_07_28,
}

/// The lifecycle that a group of revisions shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Revisions with a session: `initialize`, requests in both directions, negotiated capabilities.
    Legacy,
    /// Revisions without a session: the `_meta` of each request has the revision, the identity and the capabilities.
    Modern,
}

impl ProtocolVersion {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revisions with a handshake, oldest first.
    pub const LEGACY: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The newest revision with a handshake.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// Returns the identifier on the wire, for example `2025-11-25`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with this identifier, compared as a whole string, or `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// Returns the era of this revision.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }
}

/// Further rules that depend on the revision.
impl ProtocolVersion {
    /// Returns whether several messages may come in one JSON array.
    #[must_use]
    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Returns whether an error response omits `id` if the id of the request could not be read. Earlier revisions send
    /// `null`.
    #[must_use]
    pub const fn omits_unreadable_id(self) -> bool {
        self as u8 >= Self::V2025_11_25 as u8
    }

    /// Returns whether requests can become tasks of the core specification (2025-11-25). Later tasks are an extension.
    #[must_use]
    pub const fn has_tasks(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Returns whether arguments that do not fit a tool's schema lead to an `isError` result, which the model sees. In
    /// earlier revisions they lead to a JSON-RPC error.
    #[must_use]
    pub const fn reports_bad_arguments_as_result(self) -> bool {
        self as u8 >= Self::V2025_11_25 as u8
    }

    /// Returns whether an empty cursor means that there is no further page.
    ///
    /// Some older servers end their lists with an empty cursor. Since 2026-07-28 it is a cursor like any other.
    #[must_use]
    pub const fn takes_empty_cursor_for_none(self) -> bool {
        matches!(self.era(), Era::Legacy)
    }

    /// Returns the error code for a resource that does not exist.
    #[must_use]
    pub const fn resource_not_found(self) -> i64 {
        match self.era() {
            Era::Legacy => -32002,
            Era::Modern => -32602,
        }
    }

    /// Returns whether every HTTP request after the first one names the revision in `MCP-Protocol-Version`.
    #[must_use]
    pub const fn has_version_header(self) -> bool {
        self as u8 >= Self::V2025_06_18 as u8
    }

    /// Returns whether an event stream begins with an event id for resumption, and names the delay for a reconnection
    /// before the server closes it early.
    #[must_use]
    pub const fn primes_streams(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Returns whether this HTTP status in answer to `initialize` makes a client of this revision fall back to the
    /// HTTP+SSE transport of 2024-11-05.
    ///
    /// 401 and 403 never do, since they do not concern the transport.
    #[must_use]
    pub const fn means_http_sse(self, status: u16) -> bool {
        match status {
            400 | 404 | 405 => true,
            401 | 403 => false,
            400..500 => (self as u8) < (Self::V2025_11_25 as u8),
            _ => false,
        }
    }

    /// Returns the code that is sent for an error to which a handler gave `code`.
    ///
    /// Since 2026-07-28 the codes from -32099 to -32000 belong to the specification, and only -32022 to -32020 are
    /// sent. -32002, the code for a resource that does not exist, becomes -32602. All others become -32603.
    #[must_use]
    pub const fn error_code(self, code: i64) -> i64 {
        match (self.era(), code) {
            (Era::Modern, -32002) => -32602,
            (Era::Modern, -32022..=-32020) => code,
            (Era::Modern, -32099..=-32000) => -32603,
            _ => code,
        }
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of revisions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionSet(u8);

impl VersionSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Every revision of the legacy era.
    pub const LEGACY: Self = Self::between(ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25);
    /// Every revision of the modern era.
    pub const MODERN: Self = Self::since(ProtocolVersion::V2026_07_28);
    /// Every revision.
    pub const ALL: Self = Self::since(ProtocolVersion::V2024_11_05);

    /// Creates the set of one revision.
    #[must_use]
    pub const fn only(version: ProtocolVersion) -> Self {
        Self(1 << version as u8)
    }

    /// Creates the set of `first` and all later revisions.
    #[must_use]
    pub const fn since(first: ProtocolVersion) -> Self {
        Self::between(first, ProtocolVersion::LATEST)
    }

    /// Creates the set of the revisions from `first` to `last`, both included.
    #[must_use]
    pub const fn between(first: ProtocolVersion, last: ProtocolVersion) -> Self {
        Self((u8::MAX << first as u8) & (u8::MAX >> (7 - last as u8)))
    }

    /// Returns whether `version` is in the set.
    #[must_use]
    pub const fn contains(self, version: ProtocolVersion) -> bool {
        self.0 & (1 << version as u8) != 0
    }

    /// Returns the set of the revisions that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the set of the revisions that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns an iterator over the revisions, oldest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = ProtocolVersion> + Clone {
        ProtocolVersion::ALL.into_iter().filter(move |version| self.contains(*version))
    }

    /// Returns the newest revision of the set.
    #[must_use]
    pub fn newest(self) -> Option<ProtocolVersion> {
        self.iter().next_back()
    }
}

impl FromIterator<ProtocolVersion> for VersionSet {
    fn from_iter<I: IntoIterator<Item = ProtocolVersion>>(versions: I) -> Self {
        versions.into_iter().fold(Self::NONE, |set, version| set.union(Self::only(version)))
    }
}

impl fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(ProtocolVersion::as_str)).finish()
    }
}

/// Returns the version with which a server answers `initialize`: the requested one if the server supports it, otherwise
/// its newest one with a handshake.
///
/// Returns `None` if the server supports no revision with a handshake.
#[must_use]
pub fn negotiate(requested: &str, served: VersionSet) -> Option<ProtocolVersion> {
    let served = served.intersection(VersionSet::LEGACY);
    ProtocolVersion::parse(requested).filter(|version| served.contains(*version)).or_else(|| served.newest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProtocolVersion as V;

    #[test]
    fn version_ranges_contain_their_bounds() {
        for (first, a) in V::ALL.into_iter().enumerate() {
            for (last, b) in V::ALL.into_iter().enumerate().skip(first) {
                let set = VersionSet::between(a, b);
                for (i, version) in V::ALL.into_iter().enumerate() {
                    assert_eq!(set.contains(version), (first..=last).contains(&i), "{version} in {set:?}");
                }
            }
        }
    }

    #[test]
    fn debug_output_of_a_set_lists_its_revisions() {
        assert_eq!(
            alloc::format!("{:?}", VersionSet::between(V::V2025_06_18, V::V2025_11_25)),
            r#"{"2025-06-18", "2025-11-25"}"#
        );
        assert_eq!(alloc::format!("{:?}", VersionSet::NONE), "{}");
    }

    // req: LIFE-012 LIFE-013 LIFE-014 LIFE-016 LIFE-017
    #[test]
    fn negotiates_requested_or_newest_version() {
        let junk = ["", "2025", "2025-06-18 ", "2024-11-5", "1.0", "2031-01-01", "DRAFT"];
        for bits in 0..32u8 {
            let served = VersionSet(bits);
            let fallback = V::LEGACY.into_iter().rev().find(|version| served.contains(*version));
            for text in V::ALL.map(V::as_str).into_iter().chain(junk) {
                let expected = V::LEGACY.into_iter().find(|v| v.as_str() == text && served.contains(*v)).or(fallback);
                assert_eq!(negotiate(text, served), expected, "{text:?} of {served:?}");
            }
        }
    }
}
