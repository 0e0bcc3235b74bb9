//! A request of the peer: what it says, and in which circumstances it was made.

use std::sync::Arc;

use mcp_proto::{
    connection::Principal,
    protocol::{Method, MethodName, ProtocolVersion},
    rpc::ReplyKey,
    schema::{
        ClientCapabilities, CompletionReference, Implementation, LoggingLevel, Meta, ProgressToken, PromptReference,
        ResourceTemplateReference, TraceContext,
    },
    wire::{ErrorObject, RawJson, RequestId, decode_params},
};
use serde_core::de::DeserializeOwned;

use super::answer::Answer;
use crate::{driver_api::connection_handle::ConnectionHandle, util::text_arguments::excerpt};

/// Reads params, or says what is wrong with them.
pub(crate) fn params<T: DeserializeOwned>(params: Option<&RawJson<'_>>) -> Answer<T> {
    decode_params(params)
        .map_err(|error| ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {error}"))))
}

/// In which circumstances a request was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The revision that it is made in.
    pub version: ProtocolVersion,
    /// Who the peer says it is.
    pub peer: Option<Implementation>,
    /// What the client can do for the server.
    pub client_capabilities: ClientCapabilities,
    /// The least severe log messages that the client wants, if it has said so.
    pub log_level: Option<LoggingLevel>,
    /// The token under which the peer wants to hear of progress.
    pub progress_token: Option<ProgressToken>,
    /// Which distributed trace it belongs to (requests of clients).
    pub trace: Option<TraceContext>,
    /// Who the client is, if the binding was told. A pipe is not.
    #[doc(alias = "auth")]
    #[doc(alias = "user")]
    pub principal: Option<Principal>,
}

/// What a request says of itself.
#[derive(Debug)]
pub(crate) struct RequestSummary {
    pub(crate) id: Option<RequestId>,
    pub(crate) method: String,
    pub(crate) name: Option<String>,
}

/// What a request says of itself.
pub(crate) fn summary<E: 'static>(asked: &Asked<'_, E>) -> RequestSummary {
    let Asked { connection, key, method, params } = asked;
    let id = connection.read(|conn| conn.request_id(*key).cloned());
    let name = params.as_ref().and_then(|params| match method.known()? {
        Method::Complete => Some(match params.member("ref")?.decode().ok()? {
            CompletionReference::Prompt(PromptReference { name, .. }) => name,
            CompletionReference::Resource(ResourceTemplateReference { uri, .. }) => uri,
            CompletionReference::Other(_) => return None,
        }),
        method => params.member(method.subject_param()?)?.decode().ok(),
    });
    RequestSummary { id, method: method.as_str().to_owned(), name }
}

/// A request of the peer before it is handled.
pub struct Asked<'a, E> {
    pub(crate) connection: &'a Arc<dyn ConnectionHandle<E>>,
    pub(crate) key: ReplyKey,
    pub(crate) method: MethodName<'a>,
    pub(crate) params: Option<RawJson<'a>>,
}

impl<E> Asked<'_, E> {
    /// Its `_meta`, if there is one that can be read.
    pub(crate) fn meta(&self) -> Option<Meta> {
        self.params.as_ref()?.member("_meta")?.decode().ok()
    }
}
