//! The state of a legacy session that another process needs to continue it.

use crate::{
    protocol::ProtocolVersion,
    schema::{InitializeParams, LoggingLevel},
};

/// How a session of the legacy era stands: what its handshake has come to, and what its client has set since. Whoever knows
/// it can go on with the session as if it had been begun there.
///
/// What is in flight is not in it: requests of either side, tasks, subscriptions to resources.
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
