//! Revisions of the specification and the two eras they belong to.
//!
//! No other file compares version strings: a version is parsed here once and is an enum from then on.

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

/// How a revision opens a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// A session: `initialize`, symmetric requests, negotiated capabilities.
    Legacy,
    /// A request stands alone: version, identity and capabilities ride in its `_meta`.
    Modern,
}

impl ProtocolVersion {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revisions with a handshake, oldest first.
    pub const LEGACY: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The newest revision that is opened by `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// The identifier on the wire, for example `2025-11-25`.
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

    /// The revision with this identifier, compared as a whole string; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }

    /// The era this revision belongs to.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }
}

/// What else depends on the revision: the only place that says so.
impl ProtocolVersion {
    /// Whether several messages may come in one JSON array.
    #[must_use]
    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Whether an error response leaves `id` out when it could not be read. Before, it is `null`.
    #[must_use]
    pub const fn omits_unreadable_id(self) -> bool {
        self as u8 >= Self::V2025_11_25 as u8
    }

    /// Whether requests can become tasks.
    #[must_use]
    pub const fn has_tasks(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether arguments that do not fit a tool's schema are an `isError` result, which the model sees.
    /// Before, they are a JSON-RPC error.
    #[must_use]
    pub const fn reports_bad_arguments_as_result(self) -> bool {
        self as u8 >= Self::V2025_11_25 as u8
    }

    /// Whether an empty cursor leads nowhere. Some older servers end their lists with one; since 2026-07-28 it is a cursor
    /// like any other.
    #[must_use]
    pub const fn takes_empty_cursor_for_none(self) -> bool {
        matches!(self.era(), Era::Legacy)
    }

    /// The error code for a resource that does not exist.
    #[must_use]
    pub const fn resource_not_found(self) -> i64 {
        match self.era() {
            Era::Legacy => -32002,
            Era::Modern => -32602,
        }
    }

    /// Whether every HTTP request after the first one names the revision in `MCP-Protocol-Version`.
    #[must_use]
    pub const fn has_version_header(self) -> bool {
        self as u8 >= Self::V2025_06_18 as u8
    }

    /// Whether a stream of events begins with an id to come back with, and says when to before it is closed early.
    #[must_use]
    pub const fn primes_streams(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether this HTTP status in answer to `initialize` sends a client of this revision to the HTTP+SSE transport of
    /// 2024-11-05. 401 and 403 say nothing about transports.
    #[must_use]
    pub const fn takes_for_old_transport(self, status: u16) -> bool {
        match status {
            400 | 404 | 405 => true,
            401 | 403 => false,
            400..500 => (self as u8) < (Self::V2025_11_25 as u8),
            _ => false,
        }
    }

    /// The code under which an error leaves that a handler has given this code.
    ///
    /// Since 2026-07-28 -32099 to -32000 belong to the specification: three codes are in use, the one for a resource that
    /// does not exist has become -32602, and nothing else is sent. Whatever a handler meant by another one of them, it is a
    /// fault of the server (-32603).
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
    /// No revision.
    pub const NONE: Self = Self(0);
    /// Every revision that is opened by `initialize`.
    pub const LEGACY: Self = Self::between(ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25);
    /// Every revision of the modern era.
    pub const MODERN: Self = Self::since(ProtocolVersion::V2026_07_28);
    /// Every revision.
    pub const ALL: Self = Self::since(ProtocolVersion::V2024_11_05);

    /// The set of one revision.
    #[must_use]
    pub const fn only(version: ProtocolVersion) -> Self {
        Self(1 << version as u8)
    }

    /// `first` and all later revisions.
    #[must_use]
    pub const fn since(first: ProtocolVersion) -> Self {
        Self::between(first, ProtocolVersion::LATEST)
    }

    /// The revisions from `first` to `last`, both included.
    #[must_use]
    pub const fn between(first: ProtocolVersion, last: ProtocolVersion) -> Self {
        Self((u8::MAX << first as u8) & (u8::MAX >> (7 - last as u8)))
    }

    /// Whether `version` is in the set.
    #[must_use]
    pub const fn contains(self, version: ProtocolVersion) -> bool {
        self.0 & (1 << version as u8) != 0
    }

    /// The revisions that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The revisions that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, oldest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = ProtocolVersion> + Clone {
        ProtocolVersion::ALL.into_iter().filter(move |version| self.contains(*version))
    }

    /// The newest member.
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

/// The version a server answers `initialize` with: the requested one if it serves it, else its newest legacy one.
///
/// `None` if the server serves no legacy revision at all.
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
    fn sets_hold_what_their_bounds_say() {
        for (first, a) in V::ALL.into_iter().enumerate() {
            for (last, b) in V::ALL.into_iter().enumerate().skip(first) {
                let set = VersionSet::between(a, b);
                for (i, version) in V::ALL.into_iter().enumerate() {
                    assert_eq!(set.contains(version), (first..=last).contains(&i), "{version} in {set:?}");
                }
            }
        }
    }

    // req: LIFE-012 LIFE-013 LIFE-014 LIFE-016 LIFE-017
    #[test]
    fn negotiation_repeats_a_served_version_and_else_offers_the_newest() {
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
