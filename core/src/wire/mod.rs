//! JSON-RPC syntax: ids, messages, batches, error codes, encoding.

mod json;

pub use json::{Json, JsonObject};
