//! The format of records: JSON Lines with all bytes between a client and a server. `docs/mcp.md` describes it.

mod entry;
mod mask;
mod reader;
mod time;

pub(crate) use entry::{Entry, Header, Origin, What};
pub(crate) use mask::{Kind, Masker};
pub(crate) use reader::Reader;
pub(crate) use time::{file_stamp, iso};
