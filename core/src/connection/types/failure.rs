//! Failures of a binding to deliver a request or its response.

use alloc::{string::String, vec::Vec};
use core::{fmt, time::Duration};

/// The reason why a request or its response could not be delivered, although the connection stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// No stream to the peer is open, and too many messages wait for one.
    NoStream,
    /// The stream of the response has ended and cannot be resumed.
    StreamLost,
    /// The session of the request has ended.
    SessionLost,
    /// An HTTP response with an unsuccessful status.
    Status {
        /// The status.
        status: u16,
        /// The challenges of the peer: the values of `WWW-Authenticate`.
        challenges: Vec<String>,
        /// The delay that the peer requests before another attempt: the seconds of `Retry-After`, which responses with
        /// 429 and 503 usually have. `None` if there is no such header, or it is a date.
        retry_after: Option<Duration>,
        /// The beginning of the body.
        body: String,
    },
    /// An HTTP redirect, which the client does not follow. The field is its target.
    Redirected(String),
    /// The response is neither JSON nor a stream of events, or contains no JSON-RPC response.
    NoAnswer,
    /// The response is larger than the limit.
    TooLarge,
    /// An argument that must be sent in a header cannot be expressed there.
    NoHeader,
    /// A failure of the network, with a description.
    Network(String),
}

#[cfg(feature = "http")]
impl Failure {
    /// Returns whether another attempt may succeed.
    pub(crate) const fn may_pass(&self) -> bool {
        match self {
            Self::StreamLost | Self::Network(_) => true,
            Self::Status { status, .. } => Self::status_may_pass(*status),
            _ => false,
        }
    }

    /// Returns whether a server that has responded with this status may respond with another one later.
    pub(crate) const fn status_may_pass(status: u16) -> bool {
        matches!(status, 408 | 425 | 429 | 500 | 502..=504)
    }

    /// Returns whether this failure of the probe shows a legacy server. It does if the server did not understand the
    /// probe, and does not if the failure has a reason that is independent of the probe.
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
            Self::StreamLost => f.write_str("the stream ended before the response"),
            Self::SessionLost => f.write_str("the session ended before the response"),
            Self::Status { status, body, .. } if body.is_empty() => write!(f, "HTTP status {status}"),
            Self::Status { status, body, .. } => write!(f, "HTTP status {status}: {body}"),
            Self::Redirected(location) => write!(f, "redirected to {location}, where this client does not go"),
            Self::NoAnswer => f.write_str("the HTTP response does not contain a JSON-RPC response"),
            Self::TooLarge => f.write_str("the HTTP response is larger than the limit"),
            Self::NoHeader => f.write_str("an argument cannot be sent in a header"),
            Self::Network(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Failure {}
