//! The differences between adapters: how to wait, and the types of streams.

pub(crate) mod blocking;
mod post;
pub(crate) mod smol;
pub(crate) mod tokio;

/// Formats a message with line breaks, as some peers do.
fn rewritten(message: &[u8]) -> Vec<u8> {
    let json: serde_json::Value = serde_json::from_slice(message).expect("a message is JSON");
    serde_json::to_vec_pretty(&json).expect("JSON")
}
