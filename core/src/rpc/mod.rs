//! What a JSON-RPC peer needs whatever is spoken over it: requests both ways, deadlines, the outbox. No MCP word in here.

mod deadlines;
mod incoming;
mod outbox;
mod outgoing;
mod slots;
mod time;

pub(crate) use deadlines::Deadlines;
pub use incoming::ReplyKey;
pub(crate) use incoming::{Incoming, Inserted, State};
pub(crate) use outbox::{Lane, Outbox, Owner};
pub use outgoing::CallId;
pub(crate) use outgoing::Outgoing;
pub(crate) use slots::Slots;
pub use time::Timestamp;
