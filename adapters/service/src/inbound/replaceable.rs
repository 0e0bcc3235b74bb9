//! A result that middleware may have replaced.

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{Encode, JsonLine},
    wire::JsonObject,
};
use serde_core::Serializer;

use super::rpc_result::ResponseKind;

/// The result of a handler, or the result that middleware has set in its place. What only middleware needs is boxed, so
/// that results without middleware stay small.
pub(crate) enum Replaceable<T> {
    /// The result of the handler.
    Handler(T),
    /// The result of the handler, which was encoded for middleware already.
    Encoded(Box<(T, JsonObject)>),
    /// The result that middleware has set.
    Replaced(Box<Replaced>),
}

/// A result that middleware has set.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) result: JsonObject,
    pub(crate) kind: ResponseKind,
}

impl<T> Replaceable<T> {
    /// Returns the reason if the result means that a task has failed. `fault` returns that of a handler's result.
    pub(crate) fn fault(&self, fault: fn(&T) -> Option<String>) -> Option<String> {
        match self {
            Self::Handler(result) => fault(result),
            Self::Encoded(encoded) => fault(&encoded.0),
            Self::Replaced(replaced) => {
                (replaced.kind == ResponseKind::Failed).then(|| "The tool has failed".to_owned())
            }
        }
    }
}

impl<T: Encode> Encode for Replaceable<T> {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Handler(result) => result.encode_at(version, serializer),
            Self::Encoded(encoded) => encoded.1.encode_at(version, serializer),
            Self::Replaced(replaced) => replaced.encode_at(version, serializer),
        }
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        match self {
            Self::Handler(result) => result.append_at(version, out),
            Self::Encoded(encoded) => encoded.1.append_at(version, out),
            Self::Replaced(replaced) => replaced.append_at(version, out),
        }
    }
}

impl Encode for Replaced {
    fn encode_at<S: Serializer>(&self, version: Option<ProtocolVersion>, serializer: S) -> Result<S::Ok, S::Error> {
        self.result.encode_at(version, serializer)
    }

    fn append_at(&self, version: Option<ProtocolVersion>, out: &mut JsonLine<'_>) -> Result<(), serde_json::Error> {
        self.result.append_at(version, out)
    }
}
