//! The state of a legacy session that another process needs to continue it.

use crate::{
    protocol::ProtocolVersion,
    schema::{InitializeParams, LoggingLevel},
};

/// The state of a session of the legacy era: the result of its handshake, and the settings that the client changed
/// since. Another process can resume the session from it.
///
/// It does not include requests in flight of either side, tasks, or subscriptions to resources.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSnapshot {
    /// The revision of the session.
    pub version: ProtocolVersion,
    /// The params of the client's `initialize`.
    pub client: InitializeParams,
    /// Whether the client has sent `notifications/initialized`.
    pub ready: bool,
    /// The log level that the client has set.
    pub log_level: Option<LoggingLevel>,
}
