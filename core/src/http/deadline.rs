//! When to wake up, and why.

use crate::{connection, rpc::Timestamp};

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
    /// The connection behind it has a reason.
    Connection(connection::Wake),
    /// An answer takes so long that a stream is opened for it.
    Patience,
    /// A stream has been quiet for so long that a comment is due.
    Quiet,
    /// What was kept for a client that comes back has been kept for long enough.
    ReplayBuffer,
    /// Clients of a session that refuses messages as busy have not read for too long.
    Stalled,
    /// A request has waited too long for room in its session.
    Admission,
    /// A session is not used.
    Idle,
    /// A stream that was lost is to be taken up again.
    Reconnect,
    /// The first requests in a session do not wait any longer for the server to be listened to.
    Silence,
    /// The rest of a body is not waited for any longer.
    Linger,
    /// The server has not accepted a message in time that is no request.
    Accept,
    /// The server has not confirmed in time that the session is over.
    Farewell,
}
