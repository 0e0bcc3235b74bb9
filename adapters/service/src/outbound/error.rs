//! Errors of requests of this side.

use std::fmt;

use mcp_proto::{
    connection::{CloseReason, Failure, Outcome, SendError},
    schema::{ElicitUrlParams, UnsupportedProtocolVersion, UrlElicitationRequired},
    wire::{ErrorCode, ErrorObject, RawJson},
};

#[cfg(feature = "skills")]
use crate::skills::verify::SkillFault;

/// The error of a request of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The request was not sent: it is not allowed now.
    Send(SendError),
    /// The peer responded with an error.
    Rpc(ErrorObject),
    /// The response is invalid: not an object, with both a result and an error, or too large.
    Malformed,
    /// The result does not have the type of its method. The text contains the location.
    Decode(String),
    /// The result has the right type but violates a schema or a limit, for example of the pages of a list. The text
    /// describes the violation.
    Invalid(String),
    /// The tool has failed; its texts say why. Only a [typed call](crate::Peer::call_tool_as) ends with this error:
    /// otherwise it is a result with [`is_error`](mcp_proto::schema::CallToolResult::is_error).
    ToolFailed(String),
    /// A file of a skill does not match the server's announcement.
    #[cfg(feature = "skills")]
    Skill(SkillFault),
    /// No response arrived in time.
    TimedOut {
        /// Whether the total timeout has expired; otherwise the idle timeout has.
        total: bool,
    },
    /// The handler's request needs input of the client, which gets it in an `input_required` result (2026-07-28). When
    /// the client sends the request again with the input, the handler runs again from the start. Return this error from
    /// the handler: the `input_required` result is sent in any case.
    InputRequired,
    /// It was cancelled on this side: explicitly, or together with the request for which it was made.
    Cancelled,
    /// The connection ended first.
    Closed(CloseReason),
    /// The request or its response was lost. The connection stays open (only over HTTP).
    Failed(Failure),
}

impl CallError {
    /// Returns the error with which the peer has responded, if it has.
    #[must_use]
    pub const fn rpc(&self) -> Option<&ErrorObject> {
        match self {
            Self::Rpc(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the error of a `resources/read` is that for an unknown resource: -32002 up to 2025-11-25, -32602
    /// later. Only the code is checked, so any error -32602 counts.
    #[must_use]
    pub fn is_resource_not_found(&self) -> bool {
        self.rpc().is_some_and(|error| matches!(error.code, ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_PARAMS))
    }

    /// Returns the revisions that the server supports, if it has refused the request because of its revision (-32022)
    /// and the connection could not switch to another one.
    #[must_use]
    pub fn supported_versions(&self) -> Option<Vec<String>> {
        let error = self.rpc().filter(|error| error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)?;
        error.data.as_ref()?.decode::<UnsupportedProtocolVersion>().ok().map(|data| data.supported)
    }

    /// Returns the pages that the user has to open before the request can be done (-32042, only 2025-11-25).
    ///
    /// They are not opened automatically: show their URLs to the user, and require consent.
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
            Self::Malformed => f.write_str("the response of the peer is invalid"),
            Self::Decode(why) => write!(f, "the result cannot be read: {why}"),
            Self::Invalid(why) => write!(f, "the result cannot be used: {why}"),
            Self::ToolFailed(why) => write!(f, "the tool failed: {why}"),
            #[cfg(feature = "skills")]
            Self::Skill(fault) => fault.fmt(f),
            Self::TimedOut { total: true } => f.write_str("the peer did not finish in time"),
            Self::TimedOut { total: false } => f.write_str("the peer did not respond in time"),
            Self::InputRequired => f.write_str("input of the client is required first"),
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use mcp_proto::wire::Json;
    use serde_json::{Value, json};

    use super::*;

    fn rpc(code: ErrorCode, data: Value) -> CallError {
        CallError::Rpc(ErrorObject::new(code, "refused").with_data(Json::new(&data).expect("JSON")))
    }

    #[test]
    fn data_of_errors_is_read_by_their_code() {
        let versions = json!({"supported": ["2025-11-25", "2026-07-28"], "requested": "2030-01-01"});
        let error = rpc(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, versions.clone());
        assert_eq!(error.supported_versions(), Some(vec!["2025-11-25".to_owned(), "2026-07-28".to_owned()]));
        let pages = json!({"elicitations": [
            {"mode": "url", "message": "Sign in", "url": "https://example.com/", "elicitationId": "1"},
        ]});
        let error = rpc(ErrorCode::URL_ELICITATION_REQUIRED, pages.clone());
        let pages_of = |error: &CallError| error.url_elicitations().map(|pages| pages.len());
        assert_eq!((error.supported_versions(), pages_of(&error)), (None, Some(1)));
        for error in [
            rpc(ErrorCode::INTERNAL_ERROR, versions),
            rpc(ErrorCode::INTERNAL_ERROR, pages),
            rpc(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, json!({})),
            rpc(ErrorCode::URL_ELICITATION_REQUIRED, json!([])),
            CallError::Rpc(ErrorObject::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "no data")),
            CallError::Cancelled,
        ] {
            assert_eq!((error.supported_versions(), pages_of(&error)), (None, None), "{error:?}");
        }
    }

    #[test]
    fn errors_are_texts_with_their_causes() {
        let network = Failure::Network("reset".into());
        for (error, text, has_source) in [
            (CallError::Send(SendError::Busy), SendError::Busy.to_string(), true),
            (CallError::Rpc(ErrorObject::internal("bad")), ErrorObject::internal("bad").to_string(), true),
            (CallError::Malformed, "the response of the peer is invalid".into(), false),
            (CallError::Decode("a".into()), "the result cannot be read: a".into(), false),
            (CallError::Invalid("b".into()), "the result cannot be used: b".into(), false),
            (CallError::ToolFailed("c".into()), "the tool failed: c".into(), false),
            (CallError::TimedOut { total: true }, "the peer did not finish in time".into(), false),
            (CallError::TimedOut { total: false }, "the peer did not respond in time".into(), false),
            (CallError::InputRequired, "input of the client is required first".into(), false),
            (CallError::Cancelled, "cancelled".into(), false),
            (
                CallError::Closed(CloseReason::ConnectionLost),
                format!("the connection ended: {}", CloseReason::ConnectionLost),
                true,
            ),
            (CallError::Failed(network.clone()), network.to_string(), true),
            #[cfg(feature = "skills")]
            (CallError::from(SkillFault::Digest), SkillFault::Digest.to_string(), true),
        ] {
            assert_eq!((error.to_string(), error.source().is_some()), (text, has_source), "{error:?}");
        }
    }
}
