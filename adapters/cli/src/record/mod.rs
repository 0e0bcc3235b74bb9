//! The format of records: JSON Lines with all bytes between a client and a server. `docs/mcp.md` describes it.

mod endpoint;
mod entry;
mod events;
mod exchange;
mod mask;
mod pseudonym;
mod reader;
mod text;
mod time;
mod word;

pub(crate) use endpoint::EndpointRewriter;
pub(crate) use entry::{Entry, Header, Origin, What};
pub(crate) use events::EventsMasker;
pub(crate) use exchange::{HttpEvent, Part, Step};
pub(crate) use mask::Masker;
pub(crate) use pseudonym::{HeadMasker, NO_NAME, Pseudonyms, QueryMasker};
pub(crate) use reader::Reader;
pub(crate) use text::Kind;
pub(crate) use time::{file_stamp, iso};
