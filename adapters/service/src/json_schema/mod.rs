//! JSON Schemas: made from types, and held against values.
//!
//! Schemas are understood in the dialects draft 4, 6, 7, 2019-09 and 2020-12, of which the last one is meant where a
//! schema does not say. References lead to places in the same schema only: nothing is fetched.
//!
//! What most tools need, the types of members and which of them have to be there, is checked here. The rest takes the feature
//! `schemas`; without it, a schema that says more is refused.

#[cfg(feature = "schemas")]
pub(crate) mod cost;
#[cfg(feature = "schemas")]
pub(crate) mod derive;
#[cfg(feature = "schemas")]
pub(crate) mod full;
pub(crate) mod simple;

use std::{fmt, sync::Arc};

use mcp_proto::{
    schema::{CallToolResult, Tool},
    wire::{JsonObject, RawJson},
};

use crate::{
    outbound::{error::CallError, pending::Pending},
    util::text_arguments::excerpt,
};
use simple::Simple;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    /// What is wrong with it may quote what a peer has sent.
    fn new(why: impl fmt::Display) -> Self {
        Self(excerpt(&why))
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

/// A schema that is ready to be held against values.
#[derive(Clone, Debug)]
pub(crate) struct Checker(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    #[cfg(feature = "schemas")]
    simple: Option<Simple>,
    #[cfg(feature = "schemas")]
    full: full::Full,
    #[cfg(not(feature = "schemas"))]
    simple: Simple,
}

impl Rules {
    #[cfg(feature = "schemas")]
    fn new(schema: &RawJson<'_>, is_ours: bool) -> Result<Self, SchemaError> {
        if !is_ours && schema.get().len() > cost::MOST_BYTES {
            return Err(SchemaError::new(format_args!("the schema has more than {} bytes", cost::MOST_BYTES)));
        }
        let full = full::Full::new(&schema.decode().map_err(SchemaError::new)?, is_ours)?;
        Ok(Self { simple: Simple::of(schema), full })
    }

    #[cfg(not(feature = "schemas"))]
    fn new(schema: &RawJson<'_>, _: bool) -> Result<Self, SchemaError> {
        let simple = Simple::of(schema).ok_or_else(|| SchemaError::new(BEYOND))?;
        Ok(Self { simple })
    }

    /// Whether a text fits for sure.
    fn fits(&self, text: &RawJson<'_>) -> bool {
        #[cfg(feature = "schemas")]
        let simple = self.simple.as_ref();
        #[cfg(not(feature = "schemas"))]
        let simple = Some(&self.simple);
        simple.is_some_and(|simple| simple.fits(text))
    }

    /// Whether a value fits. The text says where it does not, and does not repeat the value.
    fn check(&self, text: &RawJson<'_>) -> Result<(), String> {
        #[cfg(feature = "schemas")]
        return self.full.check(&text.decode().map_err(|error| error.to_string())?);
        #[cfg(not(feature = "schemas"))]
        self.simple.check(text)
    }
}

/// Why a schema is refused by who cannot check all of it.
#[cfg(not(feature = "schemas"))]
const BEYOND: &str = "it says more than which types the members of an object have and which of them are required: checking \
                      that takes the feature `schemas` of mcp-service";

impl Checker {
    /// A schema that the application has written.
    pub(crate) fn new(schema: &JsonObject) -> Result<Self, SchemaError> {
        Self::of(schema, true)
    }

    /// A schema that the application has written, or a peer has sent.
    fn of(schema: &JsonObject, is_ours: bool) -> Result<Self, SchemaError> {
        let schema = RawJson::from(schema);
        if let Some(dialect) = schema.member("$schema") {
            let known = dialect.clone().into_text();
            if !known.is_some_and(|known| DIALECTS.contains(&known.trim_end_matches('#'))) {
                let dialect = dialect.get();
                return Err(SchemaError::new(format_args!("the schema dialect {dialect} is not supported")));
            }
        }
        Rules::new(&schema, is_ours).map(|rules| Self(Arc::new(rules)))
    }

    /// Whether a value fits. The text says where it does not, and does not repeat the value.
    #[cfg(test)]
    pub(crate) fn check(&self, value: &serde_json::Value) -> Result<(), String> {
        let text = mcp_proto::wire::Json::new(value).map_err(|error| error.to_string())?;
        self.0.check(&RawJson::from(&text))
    }

    /// Whether a value that was not read yet fits. The text says where it does not, and does not repeat the value.
    pub(crate) fn check_text(&self, text: &RawJson<'_>) -> Result<(), String> {
        if self.0.fits(text) { Ok(()) } else { self.0.check(text) }
    }
}

const DIALECTS: [&str; 8] = [
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
];

/// What a tool says its structured results look like, ready to be held against them.
///
/// Compiling a schema takes longer than checking a result, so keep this as long as the tool. Patterns with look-around
/// are refused: they could keep a client busy forever. So are schemas that take too much: more than 256 KiB, 64 patterns, a
/// pattern that compiles to more than 256 KiB, more than 256 levels, references that unroll to more than 100,000 schemas, that
/// lead to the same schema for the same value, or that lead out of the schema, and two schemas of one name. Without the feature
/// `schemas`, so is every schema that says more than which types the members of an object have and which of them are required.
///
/// The work of a check is bounded too: 200 million steps. A step is one schema for one part of a result (a value in it, or 64
/// bytes of a text), or one state of a pattern for one byte of all texts and names. An automaton has at most one state for each
/// 32 bytes that it compiles to.
#[derive(Clone, Debug)]
pub struct OutputSchema(Option<Checker>);

impl OutputSchema {
    /// The output schema of a tool. Anything fits if it has none.
    ///
    /// # Errors
    /// If the schema is not valid, in a dialect that is not supported, or cannot be checked without the feature `schemas`.
    pub fn of(tool: &Tool) -> Result<Self, SchemaError> {
        tool.output_schema.as_ref().map(|schema| Checker::of(schema, false)).transpose().map(Self)
    }

    /// Whether a result fits. Results of failed calls always do.
    ///
    /// # Errors
    /// Says where it does not, unless that would take long: for recursive schemas and deep values it only says that it does not.
    /// Also if the check would take more steps than the type's documentation allows: the value is then not looked at.
    pub fn check(&self, result: &CallToolResult) -> Result<(), String> {
        match (&self.0, &result.structured_content) {
            (None, _) => Ok(()),
            _ if result.is_error() => Ok(()),
            (Some(_), None) => Err("structured content is missing".into()),
            (Some(checker), Some(content)) => checker.check_text(&content.into()),
        }
    }
}

impl Pending<CallToolResult> {
    /// The same call, which fails with [`CallError::Invalid`] if its result is not what the tool promised.
    pub fn conforming(self, schema: &OutputSchema) -> Self {
        let schema = schema.clone();
        self.and_then(move |result| match schema.check(&result) {
            Ok(()) => Ok(result),
            Err(why) => Err(CallError::Invalid(why)),
        })
    }
}
