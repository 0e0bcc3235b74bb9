//! Failures of a binding to deliver a request or its response.

use alloc::{string::String, vec::Vec};
use core::{fmt, time::Duration};

/// The reason why a request or its response could not be delivered, although the connection stays open.
///
/// `Debug` and `Display` show no challenge, and no body of a response with status 401, 403 or 407: such texts may quote
/// the token that was sent.
#[derive(Clone, PartialEq, Eq)]
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

/// Returns the body of a response, unless it is about credentials.
const fn shown(status: u16, body: &str) -> &str {
    if matches!(status, 401 | 403 | 407) { "" } else { body }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Status { status, challenges: _, retry_after, body } => {
                let mut out = f.debug_struct("Status");
                out.field("status", status).field("retry_after", retry_after).field("body", &shown(*status, body));
                return out.finish_non_exhaustive();
            }
            Self::Redirected(location) => return f.debug_tuple("Redirected").field(location).finish(),
            Self::Network(why) => return f.debug_tuple("Network").field(why).finish(),
            Self::NoStream => "NoStream",
            Self::StreamLost => "StreamLost",
            Self::SessionLost => "SessionLost",
            Self::NoAnswer => "NoAnswer",
            Self::TooLarge => "TooLarge",
            Self::NoHeader => "NoHeader",
        };
        f.write_str(name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream => f.write_str("there is no stream to the peer"),
            Self::StreamLost => f.write_str("the stream ended before the response"),
            Self::SessionLost => f.write_str("the session ended before the response"),
            Self::Status { status, body, .. } => match shown(*status, body) {
                "" => write!(f, "HTTP status {status}"),
                body => write!(f, "HTTP status {status}: {body}"),
            },
            Self::Redirected(location) => write!(f, "redirected to {location}, which the client does not follow"),
            Self::NoAnswer => f.write_str("the HTTP response does not contain a JSON-RPC response"),
            Self::TooLarge => f.write_str("the HTTP response is larger than the limit"),
            Self::NoHeader => f.write_str("an argument cannot be sent in a header"),
            Self::Network(why) => f.write_str(why),
        }
    }
}

impl core::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;

    #[test]
    fn shows_neither_challenges_nor_bodies_about_credentials() {
        for (status, is_shown) in [(400, true), (401, false), (403, false), (404, true), (407, false), (500, true)] {
            let (challenges, body) = (vec!["Bearer error_description=\"canary\"".into()], "parrot".into());
            let failure = Failure::Status { status, challenges, retry_after: None, body };
            let (debug, display) = (format!("{failure:?}"), format!("{failure}"));
            assert!(!debug.contains("canary") && !display.contains("canary"), "{status}: {debug}, {display}");
            for text in [debug, display] {
                assert!(text.contains(&format!("{status}")), "{text}");
                assert_eq!(text.contains("parrot"), is_shown, "{text}");
            }
        }
    }
}
