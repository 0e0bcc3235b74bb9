//! JSON-RPC syntax: ids, messages, batches, error codes, encoding.

pub(crate) mod encode;
mod error;
mod escape;
mod excerpt;
mod id;
mod json;
pub(crate) mod member_index;
mod members;
mod message;
pub(crate) mod name_search;
#[cfg(feature = "http")]
mod offsets;
mod one_line;
mod passed_object;
mod raw;
pub(crate) mod reader;
mod repeated;
pub(crate) mod scan;
mod sole;
mod string_scan;
mod text;
mod token;
mod unescape;
mod writer;

pub use error::{ErrorCode, ErrorObject};
pub(crate) use excerpt::{excerpt, excerpt_of_error};
pub use id::RequestId;
pub use json::{Json, JsonObject};
pub use message::{ArrayIter, Malformed, MalformedKind, MalformedSubject, Message};
#[cfg(feature = "http")]
pub(crate) use offsets::MessageOffsets;
pub use raw::{OwnedRawJson, RawJson, RawJsonBuffer, decode_params};
pub(crate) use repeated::{Repeated, RepeatedMembers, Repetition, RunPlace};
pub use text::{quote, text};
