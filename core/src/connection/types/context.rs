//! The context of a request of the peer.

use alloc::string::String;

use crate::{
    connection::types::{ArrivalExtension, Principal},
    protocol::{Era, ProtocolVersion},
    schema::{ClientCapabilities, Implementation, LoggingLevel, TraceContext},
    wire::RequestId,
};

/// The context of a request: its revision, and data about its client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestContext<'a> {
    /// The revision of the request.
    pub version: ProtocolVersion,
    /// The capabilities of the client.
    pub client_capabilities: &'a ClientCapabilities,
    /// The name and version that the client claims.
    pub client_info: Option<&'a Implementation>,
    /// The least severe level of log messages that the client requests, if it has set one.
    pub log_level: Option<LoggingLevel>,
    /// The token for progress notifications, if the client has requested them.
    pub progress_token: Option<&'a RequestId>,
    /// The distributed trace of the request.
    pub trace: Option<&'a TraceContext>,
    /// The authenticated sender, if the binding has one.
    pub principal: Option<&'a Principal>,
    /// The value that the binding has passed with the request, such as the head of an HTTP request.
    pub extension: Option<&'a ArrivalExtension>,
    /// Whether the binding has streams, as HTTP has.
    pub has_stream: bool,
}

impl RequestContext<'_> {
    /// Returns the era of [`version`](Self::version).
    #[must_use]
    pub const fn era(&self) -> Era {
        self.version.era()
    }
}

/// The progress of a task, which is reported also after the response to the request that started it.
#[derive(Clone, Debug)]
pub struct TaskProgress {
    pub(crate) token: RequestId,
    pub(crate) last: Option<f64>,
    /// The id of the task.
    pub(crate) task: String,
}
