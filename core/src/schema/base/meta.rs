//! The `_meta` member: metadata of the protocol, of extensions and of applications.

use alloc::string::String;
use core::fmt;

use serde_core::{Deserialize, Deserializer, Serialize};

use super::{
    decode::{Member, read_from},
    encode::{Output, through_write},
};
use crate::{
    protocol::{InvalidMetaKey, ProtocolVersion, check_meta_key},
    schema::{Extra, ExtraIter},
    wire::{Json, RawJson, RequestId, reader::Reader},
};

/// The token that relates progress to a request: a string or an integer, chosen by the sender of the request.
pub type ProgressToken = RequestId;

/// Keys of `_meta` that the specification defines.
pub mod keys {
    /// The progress token of a request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The task that a message belongs to. Only 2025-11-25.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// A text for the model while a task runs. Only 2025-11-25.
    pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// The revision of a request. Since 2026-07-28.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The name and version of the client that sent a request. Since 2026-07-28.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The capabilities of the client that sent a request. Since 2026-07-28.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The least severe level of the log messages for a request. Since 2026-07-28.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The name and version of the server that sent a result. Since 2026-07-28.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The `subscriptions/listen` request that a notification belongs to. Since 2026-07-28.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// The distributed trace of a message. Since 2026-07-28, as the next two; see
    /// [`TraceContext`](crate::schema::TraceContext).
    pub const TRACEPARENT: &str = "traceparent";
    /// Data of tracing systems about the trace.
    pub const TRACESTATE: &str = "tracestate";
    /// Values of the application for services that handle the request later.
    pub const BAGGAGE: &str = "baggage";
}

/// The members of `_meta`, in their order and as received. They are kept as one text and decoded on access.
///
/// Any key is accepted from a peer. Keys of the application follow a grammar, see [`insert`](Self::insert).
///
/// Spec: [`_meta`](https://modelcontextprotocol.io/specification/2025-11-25/basic#meta)
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Meta(Extra);

impl Meta {
    /// Creates metadata without members, which is sent as `{}`.
    #[must_use]
    pub const fn new() -> Self {
        Self(Extra::new())
    }

    /// Replaces all members by those of a JSON object, as received. The object is copied and not parsed again, into the
    /// memory of the earlier members. Returns whether it is an object; if it is not, no member is left.
    pub fn replace_with(&mut self, object: &RawJson<'_>) -> bool {
        self.0.replace_with(object)
    }

    /// Removes all members. Their memory is kept for [`replace_with`](Self::replace_with), unless it is larger than
    /// `max` bytes.
    pub fn clear(&mut self, max: usize) {
        self.0.clear(max);
    }

    /// Returns the value of the key `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawJson<'_>> {
        self.0.get(name)
    }

    /// Sets the value of a key of the application and returns the former value.
    ///
    /// # Errors
    /// Returns an error if `name` is not a valid key, or if the specification reserves it.
    pub fn insert(&mut self, name: impl AsRef<str>, value: Json) -> Result<Option<Json>, InvalidMetaKey> {
        check_meta_key(name.as_ref())?;
        Ok(self.0.insert(name, value))
    }

    /// Sets the value of a key of the specification, see [`keys`]. The key is not checked.
    ///
    /// # Errors
    /// Returns an error if `value` cannot be written as JSON.
    pub fn set<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), serde_json::Error> {
        self.0.insert(name, Json::new(value)?);
        Ok(())
    }

    /// Removes the key `name` and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Json> {
        self.0.remove(name)
    }

    /// Returns an iterator over the keys and values in their order.
    #[must_use]
    pub fn iter(&self) -> ExtraIter<'_> {
        self.0.iter()
    }

    /// Returns whether there are no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the token with which the sender of the request requests progress.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.decode(keys::PROGRESS_TOKEN)
    }

    /// Returns the text for the model while the task runs. Only 2025-11-25.
    #[must_use]
    pub fn model_immediate_response(&self) -> Option<String> {
        self.decode(keys::MODEL_IMMEDIATE_RESPONSE)
    }

    /// Returns the value of the key `name` decoded as `T`, or `None` if it is missing or does not fit.
    #[must_use]
    pub fn decode<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        self.0.decode(name)
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Meta {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        out.value(&self.0, version)
    }
}

through_write! { Meta }

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_from(deserializer, Self::read)
    }
}

impl Member for Meta {
    fn read(reader: &mut Reader<'_>) -> Result<Self, serde_json::Error> {
        Extra::read(reader).map(Self)
    }
}

#[cfg(feature = "arbitrary")]
impl crate::schema::ArbitraryAt for Meta {
    fn arbitrary_at(u: &mut arbitrary::Unstructured<'_>, version: Option<ProtocolVersion>) -> arbitrary::Result<Self> {
        crate::schema::ArbitraryAt::arbitrary_at(u, version).map(Self)
    }
}
