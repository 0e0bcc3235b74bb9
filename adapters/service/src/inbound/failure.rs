//! Failures of handlers.

use std::{any::Any, fmt::Display};

use mcp_proto::{
    protocol::ProtocolVersion,
    wire::{ErrorCode, ErrorObject, Json},
};

/// The failure of a handler.
///
/// Any type that implements `Display` becomes one with `?`: its text is the reason. The failure of a tool reaches the
/// model, as a result with `isError`; the failure of another handler is the message of an error -32603. An
/// [`ErrorObject`] remains an error of the protocol.
#[derive(Debug)]
pub struct Failure(Kind);

#[derive(Debug)]
enum Kind {
    Said(String),
    Rpc(ErrorObject),
    NoResource(String),
}

impl Failure {
    /// Creates a failure with this reason.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(Kind::Said(what.into()))
    }

    /// Creates a failure that is an error of the protocol, which models do not see.
    #[must_use]
    pub const fn rpc(error: ErrorObject) -> Self {
        Self(Kind::Rpc(error))
    }

    /// Creates the failure of a request for an unknown resource. Its code depends on the revision.
    #[must_use]
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self(Kind::NoResource(uri.into()))
    }

    /// Creates the failure of a `sampling/createMessage` that the user has rejected (-1).
    #[must_use]
    pub fn rejected() -> Self {
        Self::rpc(ErrorObject::new(ErrorCode::USER_REJECTED, "User rejected the request"))
    }

    /// Returns the text for a model, or else an error of the protocol.
    pub(crate) fn split(self, version: ProtocolVersion) -> Result<String, ErrorObject> {
        match self.0 {
            Kind::Said(text) => Ok(text),
            Kind::Rpc(_) | Kind::NoResource(_) => Err(self.into_error(version)),
        }
    }

    /// Converts it into an error of the protocol.
    pub(crate) fn into_error(self, version: ProtocolVersion) -> ErrorObject {
        match self.0 {
            Kind::Said(text) => ErrorObject::internal(text),
            Kind::Rpc(error) => error,
            Kind::NoResource(uri) => resource_not_found(&uri, version),
        }
    }
}

impl<E: Display + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<ErrorObject>() {
            Some(error) => Self::rpc(error.clone()),
            None => Self::new(error.to_string()),
        }
    }
}

/// Returns the error for an unknown resource.
pub(crate) fn resource_not_found(uri: &str, version: ProtocolVersion) -> ErrorObject {
    let error = ErrorObject::new(ErrorCode(version.resource_not_found()), "Resource not found");
    match Json::new(&NotFound { uri }) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

struct NotFound<'a> {
    uri: &'a str,
}

impl serde_core::Serialize for NotFound<'_> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("uri", self.uri)])
    }
}
