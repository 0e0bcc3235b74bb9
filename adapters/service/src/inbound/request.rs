//! A request of the peer, and its circumstances.

use std::{any::Any, sync::Arc};

use mcp_proto::{
    connection::{ArrivalExtension, Principal},
    protocol::{Method, MethodName, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        ClientCapabilities, CompletionReference, Implementation, LoggingLevel, Meta, ProgressToken, PromptReference,
        ResourceTemplateReference, TraceContext,
    },
    wire::{ErrorObject, RawJson, RequestId, decode_params},
};
use serde_core::de::DeserializeOwned;

use super::rpc_result::RpcResult;
use crate::{driver_api::connection_handle::ConnectionHandle, util::text_arguments::excerpt};

/// Decodes params. The error contains the reason.
pub(crate) fn params<T: DeserializeOwned>(params: Option<&RawJson<'_>>) -> RpcResult<T> {
    decode_params(params)
        .map_err(|error| ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {error}"))))
}

/// The circumstances of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The revision of the request.
    pub version: ProtocolVersion,
    /// The name and version of the peer, as it has sent them.
    pub peer: Option<Implementation>,
    /// The capabilities of the client.
    pub client_capabilities: ClientCapabilities,
    /// The level of the least severe log messages for the client, if it has set one.
    pub log_level: Option<LoggingLevel>,
    /// The token for progress notifications, if the peer has requested them.
    pub progress_token: Option<ProgressToken>,
    /// The distributed trace to which it belongs (requests of clients).
    pub trace: Option<TraceContext>,
    /// The authenticated client, if the transport authenticates clients. A pipe does not.
    #[doc(alias = "auth")]
    #[doc(alias = "user")]
    pub principal: Option<Principal>,
    /// The value that the binding has passed with the request.
    pub(crate) extension: Option<ArrivalExtension>,
    /// Whether the request has arrived over a binding with streams, such as HTTP.
    pub(crate) has_stream: bool,
}

impl RequestInfo {
    /// Returns the value of this type that the binding has passed with the request.
    ///
    /// Over HTTP that is the `RequestHead` with the headers and the extensions of the HTTP request, if the options of
    /// the endpoint
    /// [expose](https://docs.rs/mcp-proto/latest/mcp_proto/http/server/struct.EndpointOptions.html#structfield.heads)
    /// it.
    #[must_use]
    #[doc(alias = "headers")]
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.extension.as_ref()?.get()
    }
}

/// The id, the method and the subject of a request, for its span.
#[derive(Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "only spans read it"))]
pub(crate) struct RequestSummary {
    pub(crate) id: Option<RequestId>,
    pub(crate) method: String,
    pub(crate) name: Option<String>,
}

/// Returns the id, the method and the subject of a request.
pub(crate) fn summary<E: 'static>(inbound: &InboundRequest<'_, E>) -> RequestSummary {
    let InboundRequest { connection, key, method, params } = inbound;
    let id = connection.read(|conn| conn.request_id(*key).cloned());
    let name = params.as_ref().and_then(|params| subject(method.known()?, params));
    RequestSummary { id, method: method.as_str().to_owned(), name }
}

/// Returns the subject of a request.
pub(crate) fn subject(method: Method, params: &RawJson<'_>) -> Option<String> {
    match method {
        Method::Complete => match params.member("ref")?.decode().ok()? {
            CompletionReference::Prompt(PromptReference { name, .. }) => Some(name),
            CompletionReference::Resource(ResourceTemplateReference { uri, .. }) => Some(uri),
            CompletionReference::Other(_) => None,
        },
        method => params.member(method.subject_param()?)?.decode().ok(),
    }
}

/// A request of the peer before it is handled.
pub struct InboundRequest<'a, E> {
    pub(crate) connection: &'a Arc<dyn ConnectionHandle<E>>,
    pub(crate) key: ReplyKey,
    pub(crate) method: MethodName<'a>,
    pub(crate) params: Option<RawJson<'a>>,
}

impl<E> InboundRequest<'_, E> {
    /// Returns its `_meta`, if it has a valid one.
    pub(crate) fn meta(&self) -> Option<RawJson<'_>> {
        self.params.as_ref()?.member("_meta").filter(RawJson::is_object)
    }

    /// Returns the distributed trace in its `_meta`, if there is one.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.meta()?.decode::<Meta>().ok()?.trace()
    }
}
