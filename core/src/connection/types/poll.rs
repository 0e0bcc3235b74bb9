//! The values that drivers poll from a connection.

use core::time::Duration;

use crate::rpc::{CallId, ReplyKey, Timestamp};

/// A message that was appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit {
    /// The bytes of the message, line feed included.
    pub len: usize,
    /// The route of the message, for bindings that have more than one stream. A pipe ignores it.
    pub route: Route,
    /// The [`Arrival::stream`](crate::connection::Arrival::stream) of the frame that caused the message. A
    /// [`Route::Connection`] with a stream is a response of the core's own, after which nothing follows on that stream.
    pub stream: Option<u64>,
}

/// The request or stream that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Route {
    /// The message belongs to the connection as a whole.
    Connection,
    /// The message is this request of this side.
    Call(CallId),
    /// The message was caused by this request of the peer.
    Reply {
        /// The request.
        key: ReplyKey,
        /// Whether the message is the response, after which nothing follows.
        last: bool,
    },
    /// Nothing was appended: the stream on which this request waits for its response may be closed now, and the client
    /// reconnects later. Only if [`Arrival::stream`](crate::connection::Arrival::stream) was given.
    StreamReleased {
        /// The request.
        key: ReplyKey,
        /// The delay after which the peer should reconnect.
        retry: Option<Duration>,
    },
    /// Nothing was appended: the peer has cancelled all requests of this stream, and no response follows there. A batch
    /// without requests has none from the start. Only if [`Arrival::stream`](crate::connection::Arrival::stream) was
    /// given.
    Unanswered,
}

/// The time of the next timeout, and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The time.
    pub at: Timestamp,
    /// The reason.
    pub wake: Wake,
}

/// The reason of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wake {
    /// A request of this side times out.
    RequestTimeout,
    /// A request of the peer has no response at its [deadline](crate::connection::Connection::set_deadline).
    ReplyTimeout,
    /// A request that the peer has deferred is sent again, or a task is polled.
    Retry,
    /// A ping is due.
    Keepalive,
    /// The time for responses to open requests after the close has passed.
    Drain,
    /// The maximum duration of a [pause of reading](crate::connection::Connection::wants_input) has passed.
    InputPause,
}

/// The kind of message that can be sent again after a [`SendError::Busy`](crate::connection::SendError::Busy).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writable {
    /// A response, a notification, progress or a log message.
    Message,
    /// A request.
    Request,
}
