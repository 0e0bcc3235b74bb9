//! JSON-RPC syntax: ids, messages, batches, error codes, encoding.

pub(crate) mod encode;
mod error;
mod escape;
mod excerpt;
mod id;
pub(crate) mod index;
mod json;
mod members;
mod message;
mod one_line;
#[cfg(feature = "http")]
mod outline;
mod plain;
mod raw;
pub(crate) mod reader;
pub(crate) mod scan;
mod sole;
mod text;
mod token;
mod unescape;
mod writer;

pub use error::{ErrorCode, ErrorObject};
pub(crate) use excerpt::{excerpt, excerpt_of_error};
pub use id::RequestId;
pub use json::{Json, JsonObject};
pub use message::{Defect, Malformed, Members, Message, Subject};
#[cfg(feature = "http")]
pub(crate) use outline::Outline;
pub use raw::{KeptJson, RawJson, decode_params};
pub use text::{quote, text};
