//! Errors of a backend.

use std::fmt;

use mcp_proto::wire::{ErrorObject, Json};
use serde_core::{Serialize, Serializer, ser::SerializeMap};

use crate::{inbound::failure::Failure, outbound::error::CallError};

/// The error of a request to which a backend did not respond. The client gets an error of the backend itself unchanged.
///
/// The client gets it as the error -32603, whose data is `{"backend": "..", "reason": ".."}` with the
/// [reason](BackendFault::as_str).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    backend: String,
    fault: BackendFault,
}

/// The reason why a backend did not respond to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendFault {
    /// The backend is not connected. The text is the reason, if there is one.
    NotConnected(Option<String>),
    /// The connection has ended before the response.
    Closed(String),
    /// The response has not arrived in time.
    TimedOut,
    /// Too many requests are in flight at the backend, or too many calls wait for input.
    Busy,
    /// The response is invalid, or a list exceeds a limit.
    Invalid(String),
    /// The backend lacks the capability for the request, or its revision lacks the method.
    Unsupported(String),
    /// The backend has responded to the request for a list with an error. The text is its message.
    Refused(String),
}

impl BackendFault {
    /// Returns the name of the reason in the data of the error: `not-connected`, `closed`, `timed-out`, `busy`,
    /// `invalid`, `unsupported` or `refused`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotConnected(_) => "not-connected",
            Self::Closed(_) => "closed",
            Self::TimedOut => "timed-out",
            Self::Busy => "busy",
            Self::Invalid(_) => "invalid",
            Self::Unsupported(_) => "unsupported",
            Self::Refused(_) => "refused",
        }
    }
}

impl BackendError {
    pub(super) fn new(backend: &str, fault: BackendFault) -> Self {
        Self { backend: backend.to_owned(), fault }
    }

    /// Returns the error for a request to a backend that has ended without a result. `None` for errors of the backend
    /// itself and for cancellations.
    pub(super) fn of(backend: &str, error: &CallError) -> Option<Self> {
        let fault = match error {
            CallError::Rpc(_) | CallError::Cancelled | CallError::InputRequired => return None,
            CallError::Closed(_) | CallError::Failed(_) => BackendFault::Closed(error.to_string()),
            CallError::TimedOut { .. } => BackendFault::TimedOut,
            CallError::Send(error) => BackendFault::Unsupported(error.to_string()),
            error => BackendFault::Invalid(error.to_string()),
        };
        Some(Self::new(backend, fault))
    }

    /// Returns the error for a list that the proxy itself could not read.
    pub(super) fn of_list(backend: &str, error: &CallError) -> Self {
        Self::of(backend, error).unwrap_or_else(|| Self::new(backend, BackendFault::Refused(error.to_string())))
    }

    /// Returns whether the same request may succeed later. A list that is invalid or too large stays so until the
    /// backend announces a change.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(self.fault, BackendFault::Refused(_) | BackendFault::TimedOut | BackendFault::Busy)
    }

    /// Returns the name of the backend.
    #[must_use]
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the reason why the backend did not respond.
    #[must_use]
    pub const fn fault(&self) -> &BackendFault {
        &self.fault
    }

    pub(super) fn into_failure(self) -> Failure {
        let error = ErrorObject::internal(self.to_string());
        Failure::rpc(match Json::new(&Data(&self)) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        })
    }
}

/// The data of the error that the client gets.
struct Data<'a>(&'a BackendError);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(2))?;
        members.serialize_entry("backend", &self.0.backend)?;
        members.serialize_entry("reason", self.0.fault.as_str())?;
        members.end()
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server {:?} ", self.backend)?;
        match &self.fault {
            BackendFault::NotConnected(None) => f.write_str("is not connected"),
            BackendFault::NotConnected(Some(why)) => write!(f, "is not connected: {why}"),
            BackendFault::Closed(why) => write!(f, "did not respond: {why}"),
            BackendFault::TimedOut => f.write_str("did not respond in time"),
            BackendFault::Busy => f.write_str("has too many requests in flight"),
            BackendFault::Invalid(why) => write!(f, "sent an invalid response: {why}"),
            BackendFault::Unsupported(why) => write!(f, "cannot get this request: {why}"),
            BackendFault::Refused(why) => write!(f, "responded with an error: {why}"),
        }
    }
}

impl std::error::Error for BackendError {}

#[cfg(test)]
mod tests {
    use mcp_proto::connection::SendError;

    use super::*;

    #[test]
    fn each_fault_has_a_name_and_a_text() {
        let why = || "why".to_owned();
        for (fault, name, text) in [
            (BackendFault::NotConnected(None), "not-connected", "is not connected"),
            (BackendFault::NotConnected(Some(why())), "not-connected", "is not connected: why"),
            (BackendFault::Closed(why()), "closed", "did not respond: why"),
            (BackendFault::TimedOut, "timed-out", "did not respond in time"),
            (BackendFault::Busy, "busy", "has too many requests in flight"),
            (BackendFault::Invalid(why()), "invalid", "sent an invalid response: why"),
            (BackendFault::Unsupported(why()), "unsupported", "cannot get this request: why"),
            (BackendFault::Refused(why()), "refused", "responded with an error: why"),
        ] {
            let error = BackendError::new("back", fault.clone());
            assert_eq!((error.backend(), error.fault(), fault.as_str()), ("back", &fault, name));
            assert_eq!(error.to_string(), format!("the server \"back\" {text}"));
            let data = serde_json::to_string(&Data(&error)).expect("JSON");
            assert_eq!(data, format!(r#"{{"backend":"back","reason":"{name}"}}"#));
        }
    }

    #[test]
    fn errors_of_requests_have_their_fault() {
        let rpc = CallError::Rpc(ErrorObject::internal("no"));
        for (error, name) in [
            (rpc, None),
            (CallError::Cancelled, None),
            (CallError::InputRequired, None),
            (CallError::TimedOut { total: true }, Some("timed-out")),
            (CallError::TimedOut { total: false }, Some("timed-out")),
            (CallError::Send(SendError::Encode("it is no URL".into())), Some("unsupported")),
            (CallError::Invalid("odd".into()), Some("invalid")),
            (CallError::Decode("odd".into()), Some("invalid")),
        ] {
            let fault = BackendError::of("back", &error).map(|error| error.fault().clone());
            assert_eq!(fault.as_ref().map(BackendFault::as_str), name, "{error}");
            if let Some(BackendFault::Unsupported(why) | BackendFault::Invalid(why)) = fault {
                assert_eq!(why, error.to_string());
            }
        }
    }
}
