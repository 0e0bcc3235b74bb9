// What the READMEs show: one tool with a schema that comes from its type.

/// Returns the message
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Echo {
    /// The message to return.
    pub(crate) message: String,
}

#[allow(dead_code, reason = "the server over standard input and output has no address")]
pub(crate) fn address() -> String {
    format!("127.0.0.1:{}", std::env::var("PORT").expect("PORT"))
}
