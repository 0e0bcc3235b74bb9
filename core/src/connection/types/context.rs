//! What is known of a request of the peer.

use alloc::string::String;

use crate::{
    connection::types::Principal,
    protocol::{Era, ProtocolVersion},
    schema::{ClientCapabilities, Implementation, LoggingLevel, TraceContext},
    wire::RequestId,
};

/// In which circumstances a request was made.
#[derive(Clone, Copy, Debug)]
pub struct RequestContext<'a> {
    /// The revision that it is made in.
    pub version: ProtocolVersion,
    /// What the client can do for the server.
    pub client_capabilities: &'a ClientCapabilities,
    /// Who the client says it is.
    pub client_info: Option<&'a Implementation>,
    /// The least severe log messages that the client wants, if it has said so.
    pub log_level: Option<LoggingLevel>,
    /// The token under which it wants to hear of progress.
    pub progress_token: Option<&'a RequestId>,
    /// The distributed trace that it belongs to.
    pub trace: Option<&'a TraceContext>,
    /// Who it comes from, if the binding was told.
    pub principal: Option<&'a Principal>,
}

impl RequestContext<'_> {
    /// The era of [`version`](Self::version).
    #[must_use]
    pub const fn era(&self) -> Era {
        self.version.era()
    }
}

/// The progress of a task, which goes on after the request that started it was answered.
#[derive(Clone, Debug)]
pub struct TaskProgress {
    pub(crate) token: RequestId,
    pub(crate) last: Option<f64>,
    /// The id of the task.
    pub(crate) task: String,
}
