//! What a client knows of a server before it connects to it.

use crate::protocol::Era;

/// How a client begins: with what it knows of the server from an earlier connection.
///
/// The era is a property of a server. Once it is found out it can be kept, for as long as the server is the same
/// program or is at the same address, and saves the next connection the question or the wait for its answer. It is no
/// promise: a server that has become another one is found out, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub(crate) era: Option<Era>,
    /// The server was started once more because the first time went wrong.
    pub(crate) again: bool,
}

impl Opening {
    /// Nothing is known. A client that speaks both eras asks which one the server is of, and waits
    /// [`probe_timeout`](crate::connection::Settings::probe_timeout) for the answer.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { era: None, again: false }
    }

    /// The server was of this era: the one of the [`version`](crate::connection::Connection::version) that came of an earlier connection.
    ///
    /// A client that speaks both eras begins with `initialize` then, and asks only if that is refused; or it asks and
    /// waits as long as for any handshake. If it speaks only one era, this changes nothing.
    #[must_use]
    pub const fn known(era: Era) -> Self {
        Self { era: Some(era), again: false }
    }

    /// The era that the server is taken to be of.
    #[must_use]
    pub const fn era(self) -> Option<Era> {
        self.era
    }

    pub(crate) const fn once_more(era: Option<Era>) -> Self {
        Self { era, again: true }
    }
}
