//! What differs between adapters: how one waits, and what their streams are.

pub(crate) mod blocking;
mod post;
pub(crate) mod smol;
pub(crate) mod tokio;

/// A message as some peers write it: with line breaks.
fn rewritten(message: &[u8]) -> Vec<u8> {
    let json: serde_json::Value = serde_json::from_slice(message).expect("a message is JSON");
    serde_json::to_vec_pretty(&json).expect("JSON")
}
