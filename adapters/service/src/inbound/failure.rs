//! How handlers fail.

use std::{any::Any, fmt::Display};

use mcp_proto::{
    protocol::ProtocolVersion,
    wire::{ErrorCode, ErrorObject, Json},
};

/// Why a handler did not do what it was asked for.
///
/// Anything that can be displayed becomes one with `?`: a text that says what went wrong. From a tool it reaches the
/// model, as a result with `isError`; from any other handler it is the message of an error -32603. An [`ErrorObject`]
/// stays what it is, an error of the protocol.
#[derive(Debug)]
pub struct Failure(Kind);

#[derive(Debug)]
enum Kind {
    Said(String),
    Rpc(ErrorObject),
    NoResource(String),
}

impl Failure {
    /// Something went wrong, and this is what.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(Kind::Said(what.into()))
    }

    /// An error of the protocol, which no model gets to see.
    #[must_use]
    pub const fn rpc(error: ErrorObject) -> Self {
        Self(Kind::Rpc(error))
    }

    /// There is no resource with this URI. The code depends on the revision.
    #[must_use]
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self(Kind::NoResource(uri.into()))
    }

    /// The user said no (-1), as answer to `sampling/createMessage`.
    #[must_use]
    pub fn rejected() -> Self {
        Self::rpc(ErrorObject::new(ErrorCode::USER_REJECTED, "User rejected the request"))
    }

    /// The text for a model, or else an error of the protocol.
    pub(crate) fn split(self, version: ProtocolVersion) -> Result<String, ErrorObject> {
        match self.0 {
            Kind::Said(text) => Ok(text),
            Kind::Rpc(_) | Kind::NoResource(_) => Err(self.into_error(version)),
        }
    }

    /// As an error of the protocol.
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

/// The error for a resource that is not there.
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
