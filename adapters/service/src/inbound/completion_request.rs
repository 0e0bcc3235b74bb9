//! A request for completion, as its handler gets it.

use mcp_proto::schema::Map;

use super::context::Context;

/// A request for proposals for the value of an argument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompletionRequest {
    /// The value so far.
    pub value: String,
    /// The other arguments, as far as the client sent them (2025-06-18).
    pub known: Map<String>,
    /// The context of the request.
    pub context: Context,
}
