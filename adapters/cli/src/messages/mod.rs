//! The messages in a record: lines out of chunks, and which response belongs to which request.

mod ledger;
mod lines;

pub(crate) use ledger::{Call, Fact, Ledger, is_modern, subject};
pub(crate) use lines::{Item, Line, Lines};
