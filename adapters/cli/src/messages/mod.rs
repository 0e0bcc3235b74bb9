//! The messages in a record: lines out of chunks, bodies and events out of HTTP, and which response belongs to which
//! request.

mod exchanges;
mod head;
mod ledger;
mod lines;

pub(crate) use exchanges::{ExchangeEnd, Exchanges, HttpItem, MAX_OPEN};
pub(crate) use head::{RequestHead, ResponseHead};
pub(crate) use ledger::{Call, Fact, Ledger, is_modern, subject};
pub(crate) use lines::{Item, Line, Lines};
