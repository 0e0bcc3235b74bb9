//! The state of a legacy session that another process needs to continue it.

use crate::{
    protocol::ProtocolVersion,
    schema::{InitializeParams, LoggingLevel},
};

/// The state of a session of the legacy era: the result of its handshake, and what the client has set since. Another
/// process can resume the session from it.
///
/// It does not include requests in flight of either side, tasks, or subscriptions to resources.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    /// The revision.
    pub version: ProtocolVersion,
    /// What the client said of itself.
    pub client: InitializeParams,
    /// The client has said that it is ready.
    pub ready: bool,
    /// What it wants logged.
    pub log_level: Option<LoggingLevel>,
}
