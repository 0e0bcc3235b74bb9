//! What a connection wants of its driver.

use crate::rpc::{CallId, ReplyKey, Timestamp};

/// A message has been appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its bytes, line feed included.
    pub len: usize,
    /// What it belongs to, for bindings that have more than one stream. A pipe does not care.
    pub route: Route,
}

/// What a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// The connection as a whole.
    Connection,
    /// It is this request of ours.
    Call(CallId),
    /// It was caused by this request of the peer.
    Reply {
        /// The request.
        key: ReplyKey,
        /// Whether this is its answer, after which nothing follows.
        last: bool,
    },
}

/// When to wake up, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub wake: Wake,
}

/// Why to wake up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// A request runs out of time.
    RequestTimeout,
    /// A request that the peer has put off is due again.
    Retry,
    /// A ping is due.
    Keepalive,
    /// The time for last answers is up.
    Drain,
}
