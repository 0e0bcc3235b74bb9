//! What a JSON-RPC peer needs whatever is spoken over it: requests both ways, deadlines, the outbox. No MCP word in here.

mod by_hash;
mod deadlines;
mod in_a_row;
mod incoming;
mod outbox;
mod outgoing;
mod own_answers;
mod rare;
mod slots;
mod time;

pub(crate) use by_hash::ByHash;
pub(crate) use deadlines::Deadlines;
pub(crate) use in_a_row::InARow;
pub use incoming::ReplyKey;
pub(crate) use incoming::{Entry, Incoming, Inserted, State};
pub(crate) use outbox::{Lane, Number, Outbox, Owner};
pub use outgoing::CallId;
pub(crate) use outgoing::Outgoing;
pub(crate) use rare::{Empty, Rare};
pub(crate) use slots::Slots;
pub(crate) use time::Since;
pub use time::Timestamp;
