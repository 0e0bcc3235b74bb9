//! Requests that become tasks of the extension (2026-07-28). They belong to the service, and not to the connection over
//! which they began: a client may come back for them over another one.

mod asking;
mod duty;
mod nap;
mod requests;
mod shares;
mod store;
mod time;

use mcp_proto::protocol::ProtocolVersion;

pub(super) use duty::Beginning;
pub(crate) use duty::Permit;
pub(crate) use store::{Task, Tasks};
pub(super) use time::TaskTime;
pub(crate) use time::outlast;

/// The extension exists only here.
const VERSION: ProtocolVersion = ProtocolVersion::V2026_07_28;
