//! What a binding says of a message that it cannot bring to the peer, or whose answer it cannot bring back.

use alloc::{string::String, vec::Vec};
use core::{fmt, time::Duration};

/// Why a request did not get there, or its answer did not get back, although the connection goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// No stream leads to the peer, and too much waits for one.
    NoStream,
    /// The stream on which the answer was to come has ended, and cannot be taken up again.
    StreamLost,
    /// The session in which it was made has ended.
    SessionLost,
    /// An HTTP response that is no answer.
    Status {
        /// The status.
        status: u16,
        /// What the peer wants to be shown: the values of `WWW-Authenticate`.
        challenges: Vec<String>,
        /// How long the peer asks to be left alone before another attempt: the seconds of `Retry-After`, which mostly comes
        /// with 429 and 503. `None` if it says nothing, or a date.
        retry_after: Option<Duration>,
        /// The beginning of the body.
        body: String,
    },
    /// An HTTP response that sends the client elsewhere, where it does not go.
    Redirected(String),
    /// What came is neither JSON nor a stream of events, or holds no answer.
    NoAnswer,
    /// The answer is larger than the limit.
    TooLarge,
    /// An argument that belongs into a header has no form there.
    NoHeader,
    /// The network did not work: what is known of that.
    Network(String),
}

#[cfg(feature = "http")]
impl Failure {
    /// Whether another attempt may go better.
    pub(crate) const fn may_pass(&self) -> bool {
        match self {
            Self::StreamLost | Self::Network(_) => true,
            Self::Status { status, .. } => Self::status_may_pass(*status),
            _ => false,
        }
    }

    /// Whether a server that has answered with this status may answer with another one later.
    pub(crate) const fn status_may_pass(status: u16) -> bool {
        matches!(status, 408 | 425 | 429 | 500 | 502..=504)
    }

    /// Whether a server that answers the question for its era like this is taken for one of the legacy era: it has
    /// understood nothing, and not for a reason that has nothing to do with the question.
    pub(crate) const fn means_legacy(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(status, 400..500) && !matches!(status, 401 | 403 | 407 | 408 | 421 | 425 | 429)
            }
            Self::NoAnswer => true,
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream => f.write_str("there is no stream to the peer"),
            Self::StreamLost => f.write_str("the stream ended before the answer"),
            Self::SessionLost => f.write_str("the session ended before the answer"),
            Self::Status { status, body, .. } if body.is_empty() => write!(f, "HTTP status {status}"),
            Self::Status { status, body, .. } => write!(f, "HTTP status {status}: {body}"),
            Self::Redirected(location) => write!(f, "redirected to {location}, where this client does not go"),
            Self::NoAnswer => f.write_str("the HTTP response holds no answer"),
            Self::TooLarge => f.write_str("the HTTP response is larger than the limit"),
            Self::NoHeader => f.write_str("an argument has no form in a header"),
            Self::Network(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Failure {}
