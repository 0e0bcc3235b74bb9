//! Limits of a document.

/// The limits of an OpenAPI document and of the responses to its tools. A document that exceeds one is refused, or the
/// operation that does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenApiLimits {
    /// The most bytes of a document. Default 16 MiB.
    pub document_bytes: usize,
    /// The most operations of a document. Default 1,000.
    pub operations: usize,
    /// The most parameters of an operation. Default 100.
    pub parameters: usize,
    /// The most values in the schemas of one operation, with everything that they refer to. Names and descriptions of
    /// the operation count too, and a text counts once more for each 64 bytes. An operation with more is refused.
    /// Default 5,000.
    pub schema_nodes: usize,
    /// The most values in the schemas of all operations together, counted as in
    /// [`schema_nodes`](Self::schema_nodes). What operations share counts for each of them. Default 500,000.
    pub total_schema_nodes: usize,
    /// The most patterns in the schemas of all operations together. What operations share counts for each of them. An
    /// operation with one more is refused. Default 1,000.
    pub total_patterns: usize,
    /// How deep schemas may be nested. References begin again. Default 64.
    pub schema_depth: usize,
    /// The most bytes of the body of a response: see [`HttpRequest::max_response_bytes`](super::HttpRequest). Default 1
    /// MiB.
    pub response_bytes: usize,
}

impl Default for OpenApiLimits {
    fn default() -> Self {
        Self {
            document_bytes: 16 << 20,
            operations: 1_000,
            parameters: 100,
            schema_nodes: 5_000,
            total_schema_nodes: 500_000,
            total_patterns: 1_000,
            schema_depth: 64,
            response_bytes: 1 << 20,
        }
    }
}
