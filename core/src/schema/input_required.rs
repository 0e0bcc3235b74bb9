//! Questions inside of results. Since 2026-07-28.

use super::Map;
use crate::wire::JsonObject;

/// The answers to questions, by the key of the question. Which result an answer is depends on the method of its
/// question, and is decoded by whoever asked it. Since 2026-07-28.
pub type InputResponses = Map<JsonObject>;
