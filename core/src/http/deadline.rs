//! Timeouts of HTTP clients and sessions.

use crate::{connection, rpc::Timestamp};

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
    /// The connection has a timeout.
    Connection(connection::Wake),
    /// A response takes so long that the session opens a stream for it.
    StreamAfter,
    /// A stream was quiet for so long that the session sends a comment.
    Quiet,
    /// The authorization of a stream expires.
    Authorization,
    /// Messages that are kept for replay expire.
    ReplayBuffer,
    /// Clients of a session that refuses messages as busy have not read for too long.
    Stalled,
    /// A request has waited too long for room in its session.
    Admission,
    /// A session is idle for too long, or for long enough to free its buffers.
    Idle,
    /// A lost stream is resumed.
    Reconnect,
    /// The first requests in a session no longer wait for the stream that listens to the server.
    Listen,
    /// The rest of a body is no longer read.
    Drain,
    /// The server has not accepted a message other than a request in time.
    Accept,
    /// The server has not confirmed the end of the session in time.
    DeleteSession,
}
