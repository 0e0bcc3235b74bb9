//! How requests of ours fail.

use std::fmt;

use mcp_proto::{
    connection::{CloseReason, Failure, Outcome, SendError},
    schema::{ElicitUrlParams, UnsupportedProtocolVersion, UrlElicitationRequired},
    wire::{ErrorCode, ErrorObject, RawJson},
};

#[cfg(feature = "skills")]
use crate::skills::verify::SkillFault;

/// Why a request of ours has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// It was never sent: it is not allowed now.
    Send(SendError),
    /// The peer answered with an error.
    Rpc(ErrorObject),
    /// The peer answered with something that is no answer: not an object, both result and error, or too large.
    Malformed,
    /// The result is not what its method promises. The text says where.
    Decode(String),
    /// The result has the right form but breaks what was agreed on: a schema, a page that never ends.
    Invalid(String),
    /// A file of a skill is not what the server has said of it.
    #[cfg(feature = "skills")]
    Skill(SkillFault),
    /// There was no answer in time.
    TimedOut {
        /// Whether the total time was up; otherwise the peer was silent for too long.
        total: bool,
    },
    /// The question is on its way to the client with the answer to the request that is being worked on (2026-07-28).
    /// The handler runs again, from the start, when the client comes back. Hand it on: whatever is made of it, it is
    /// the question that is sent.
    InputRequired,
    /// It was cancelled on this side: by hand, or together with the work that it was made for.
    Cancelled,
    /// The connection ended first.
    Closed(CloseReason),
    /// It did not get to the peer, or its answer not back; the connection goes on (only over HTTP).
    Failed(Failure),
}

impl CallError {
    /// The error that the peer answered with.
    #[must_use]
    pub const fn rpc(&self) -> Option<&ErrorObject> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Whether `resources/read` failed because there is no such resource: -32002 up to 2025-11-25, -32602 later.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.rpc().is_some_and(|error| matches!(error.code, ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_PARAMS))
    }

    /// What the server speaks, if it has refused the request because of its revision (-32022), and the connection could not
    /// do anything about that.
    #[must_use]
    pub fn supported_versions(&self) -> Option<Vec<String>> {
        let error = self.rpc().filter(|error| error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)?;
        error.data.as_ref()?.decode::<UnsupportedProtocolVersion>().ok().map(|data| data.supported)
    }

    /// The pages that the user has to open before the request can be done (-32042, only 2025-11-25).
    ///
    /// Nothing opens them by itself: show the user where they lead, and ask.
    #[must_use]
    pub fn url_elicitations(&self) -> Option<Vec<ElicitUrlParams>> {
        let error = self.rpc().filter(|error| error.code == ErrorCode::URL_ELICITATION_REQUIRED)?;
        error.data.as_ref()?.decode::<UrlElicitationRequired>().ok().map(|required| required.elicitations)
    }

    /// Returns the result of a call with this outcome.
    pub(crate) fn of(outcome: Outcome<'_>) -> Result<RawJson<'static>, Self> {
        Err(match outcome {
            Outcome::Result(result) => return Ok(result.into_owned()),
            Outcome::Error(error) => Self::Rpc(error),
            Outcome::Malformed => Self::Malformed,
            Outcome::TimedOut { total } => Self::TimedOut { total },
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Closed(reason) => Self::Closed(reason),
            Outcome::Failed(failure) => Self::Failed(failure),
        })
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(error) => error.fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::Malformed => f.write_str("the peer answered with something that is no answer"),
            Self::Decode(why) => write!(f, "the result cannot be read: {why}"),
            Self::Invalid(why) => write!(f, "the result cannot be used: {why}"),
            #[cfg(feature = "skills")]
            Self::Skill(fault) => fault.fmt(f),
            Self::TimedOut { total: true } => f.write_str("the peer did not finish in time"),
            Self::TimedOut { total: false } => f.write_str("the peer did not answer in time"),
            Self::InputRequired => f.write_str("the client is asked first"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Closed(reason) => write!(f, "the connection ended: {reason}"),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Send(error) => Some(error),
            Self::Rpc(error) => Some(error),
            #[cfg(feature = "skills")]
            Self::Skill(fault) => Some(fault),
            Self::Closed(reason) => Some(reason),
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

#[cfg(feature = "skills")]
impl From<SkillFault> for CallError {
    fn from(fault: SkillFault) -> Self {
        Self::Skill(fault)
    }
}

impl From<SendError> for CallError {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}
