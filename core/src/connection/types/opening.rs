//! A client's knowledge about a server before it connects.

use crate::protocol::Era;

/// The way to open a connection, chosen with the knowledge of an earlier connection to the server.
///
/// The era is a property of a server. It can be stored as long as the server is the same program or has the same
/// address. It saves the next connection the probe for the era, or the wait for its response. A wrong era does no harm:
/// the client detects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub(crate) era: Option<Era>,
    /// Whether the server was started again after the first attempt failed.
    pub(crate) again: bool,
}

impl Opening {
    /// Creates the value for a server of unknown era. A client that supports both eras probes which one the server is
    /// of, and waits [`probe_timeout`](crate::connection::Settings::probe_timeout) for the response.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { era: None, again: false }
    }

    /// Creates the value for a server of this era: that of the [`version`](crate::connection::Connection::version) of
    /// an earlier connection.
    ///
    /// With the legacy era, a client that supports both begins with `initialize`, and probes only if that is refused.
    /// With the modern era, it probes and waits as long as for any handshake. If it supports only one era, this changes
    /// nothing.
    #[must_use]
    pub const fn known(era: Era) -> Self {
        Self { era: Some(era), again: false }
    }

    /// Returns the era that the server is expected to be of.
    #[must_use]
    pub const fn era(self) -> Option<Era> {
        self.era
    }

    pub(crate) const fn restarted(era: Option<Era>) -> Self {
        Self { era, again: true }
    }
}
