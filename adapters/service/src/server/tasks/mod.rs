//! Requests that become tasks of the extension (2026-07-28). They belong to the service, and not to the connection over
//! which they began: a client may fetch them over another one.

pub(crate) mod clock;
pub(crate) mod detached_expiry;
pub(crate) mod detached_sleep;
pub(crate) mod execution;
pub(crate) mod input;
pub(crate) mod remote_tasks;
pub(crate) mod requests;
pub(crate) mod running;
pub(crate) mod shares;
pub(crate) mod store;
pub(crate) mod stored_task;
pub(crate) mod task_store;

use mcp_proto::protocol::ProtocolVersion;

/// The extension exists only here.
const VERSION: ProtocolVersion = ProtocolVersion::V2026_07_28;
