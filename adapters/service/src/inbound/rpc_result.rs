//! The result of a request or its error, and how they are sent.

use std::any::Any;

use mcp_proto::{
    connection::{Connection, SendError},
    protocol::ProtocolVersion,
    rpc::ReplyKey,
    schema::{EmptyResult, Encode, JsonLine},
    wire::{ErrorObject, Json},
};
use serde_core::{Serialize, Serializer, ser::Error as _};

use super::log;

/// The result of a request, or its error.
pub(crate) type RpcResult<T> = Result<T, ErrorObject>;

/// A response that is always an error.
pub(crate) type EmptyRpcResult = RpcResult<EmptyResult>;

/// A result of any type. Methods that are rarely requested share the code that sends their results. Code for each type
/// would be the largest part of a small server.
pub(crate) struct AnyResult(Box<dyn Sendable>);

trait Sendable: Send + Sync {
    fn append(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error>;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Encode + Send + Sync + 'static> Sendable for T {
    fn append(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        self.append_at(version, out)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl AnyResult {
    pub(crate) fn new(result: impl Encode + Send + Sync + 'static) -> Self {
        Self(Box::new(result))
    }

    /// Returns the result itself.
    pub(crate) fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}

impl Encode for AnyResult {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        self.0.append(version, &mut JsonLine::new(&mut text)).map_err(S::Error::custom)?;
        serde_json::from_slice::<Json>(&text).map_err(S::Error::custom)?.serialize(serializer)
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        self.0.append(version, out)
    }
}

/// Responds to a request; returns `false` if the outbox has no room. A response that cannot be sent is replaced by an
/// error.
pub(crate) fn respond<E, T: Encode>(conn: &mut Connection<E>, key: ReplyKey, result: Result<&T, &ErrorObject>) -> bool {
    let sent = match result {
        Ok(result) => conn.respond_or_error(key, result).map(|unsent| unsent.iter().for_each(log::unsent)),
        Err(error) => match conn.respond_error(key, error) {
            Err(why @ SendError::TooLarge) => {
                log::unsent(&why);
                conn.respond_error(key, &ErrorObject::internal("Internal error: the error is larger than the limit"))
            }
            sent => sent,
        },
    };
    // In all other cases the request needs no response any more, or it cannot be sent.
    sent != Err(SendError::Busy)
}

/// Responds to a request that nothing serves any more, without waiting for room.
pub(crate) fn refuse<E>(conn: &mut Connection<E>, key: ReplyKey, error: &ErrorObject) {
    if let Err(why @ SendError::TooLarge) = conn.refuse(key, error) {
        log::unsent(&why);
        // The short one fits, or the request is not open.
        let _ = conn.refuse(key, &ErrorObject::internal("Internal error: the error is larger than the limit"));
    }
}

/// The kind of the response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseKind {
    /// A result.
    Result,
    /// The result of a failed tool (`isError`).
    Failed,
    /// An `input_required` result: the client sends the request again with the input (2026-07-28).
    InputRequired,
    /// An error.
    Error(ErrorObject),
}

impl ResponseKind {
    /// Returns the kind of a response that is no result of a handler.
    pub(crate) fn of<T>(result: &RpcResult<T>) -> Self {
        result.as_ref().map_or_else(|error| Self::Error(error.clone()), |_| Self::Result)
    }
}
