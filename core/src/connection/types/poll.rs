//! What a connection wants of its driver.

use core::time::Duration;

use crate::rpc::{CallId, ReplyKey, Timestamp};

/// A message has been appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its bytes, line feed included.
    pub len: usize,
    /// What it belongs to, for bindings that have more than one stream. A pipe does not care.
    pub route: Route,
    /// The [`Arrival::stream`](crate::connection::Arrival::stream) of the frame that caused it. A [`Route::Connection`] that has one is
    /// an answer of the core's own, after which nothing follows on that stream.
    pub stream: Option<u64>,
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
    /// Nothing was appended: the stream on which this request waits for its answer may be closed for now. Only where
    /// [`Arrival::stream`](crate::connection::Arrival::stream) was given.
    StreamReleased {
        /// The request.
        key: ReplyKey,
        /// When the peer should come back.
        retry: Option<Duration>,
    },
    /// Nothing was appended: the peer has cancelled all that it asked on this stream, and no answer follows there. A batch
    /// without requests has none from the start. Only where [`Arrival::stream`](crate::connection::Arrival::stream) was given.
    Unanswered,
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
    /// A request of the peer was not answered before its [deadline](crate::connection::Connection::set_deadline).
    ReplyTimeout,
    /// A request is due again: the peer has put it off, or it has become a task that is looked at.
    Retry,
    /// A ping is due.
    Keepalive,
    /// The time for last answers is up.
    Drain,
    /// Reading has been [paused](crate::connection::Connection::wants_input) for as long as it may be.
    InputPause,
}

/// What there is room for again after a verb was refused as [`SendError::Busy`](crate::connection::SendError::Busy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Room {
    /// An answer, a notification, progress or a log message.
    Message,
    /// A request.
    Request,
}
