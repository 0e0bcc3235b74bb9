//! JSON-RPC without MCP: requests in both directions, deadlines, the outbox.

mod deadlines;
mod incoming;
mod outbox;
mod outgoing;
mod own_responses;
mod pausable_clock;
mod time;

pub(crate) use deadlines::Deadlines;
pub use incoming::ReplyKey;
pub(crate) use incoming::{Entry, EntryState, Incoming};
pub(crate) use outbox::{FrameOwner, Number, Outbox, Priority};
pub use outgoing::CallId;
pub(crate) use outgoing::Outgoing;
pub(crate) use time::StartTime;
pub use time::Timestamp;
