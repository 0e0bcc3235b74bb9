//! JSON Schemas: generated from types, and checked against values.
//!
//! The supported dialects are draft 4, 6, 7, 2019-09 and 2020-12; the last one is the default of a schema that names
//! none. References lead to places in the same schema only: nothing is fetched.
//!
//! This module checks the keywords that most tools need: the types of members, and which of them are required. All
//! other keywords take the feature `schemas`; without it, a schema with other keywords is refused.

#[cfg(feature = "schemas")]
pub(crate) mod cost;
#[cfg(feature = "schemas")]
pub(crate) mod derive;
#[cfg(feature = "schemas")]
pub(crate) mod form;
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
use simple::SimpleChecker;

/// The error of a schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    /// Creates an error. The text may quote a peer and is cut to an excerpt.
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

/// A compiled schema.
#[derive(Clone, Debug)]
pub(crate) struct Checker(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    #[cfg(feature = "schemas")]
    simple: Option<SimpleChecker>,
    #[cfg(feature = "schemas")]
    full: full::FullChecker,
    #[cfg(not(feature = "schemas"))]
    simple: SimpleChecker,
}

impl Rules {
    #[cfg(feature = "schemas")]
    fn new(schema: &RawJson<'_>, is_ours: bool) -> Result<Self, SchemaError> {
        if !is_ours && schema.get().len() > cost::MAX_BYTES {
            return Err(SchemaError::new(format_args!("the schema has more than {} bytes", cost::MAX_BYTES)));
        }
        let full = full::FullChecker::new(&schema.decode().map_err(SchemaError::new)?, is_ours)?;
        Ok(Self { simple: SimpleChecker::of(schema), full })
    }

    #[cfg(not(feature = "schemas"))]
    fn new(schema: &RawJson<'_>, _: bool) -> Result<Self, SchemaError> {
        let simple = SimpleChecker::of(schema).ok_or_else(|| SchemaError::new(UNSUPPORTED))?;
        Ok(Self { simple })
    }

    /// Returns whether the simple checker accepts a value. If it does not, the value may still be valid.
    fn fits(&self, text: &RawJson<'_>) -> bool {
        #[cfg(feature = "schemas")]
        let simple = self.simple.as_ref();
        #[cfg(not(feature = "schemas"))]
        let simple = Some(&self.simple);
        simple.is_some_and(|simple| simple.fits(text))
    }

    /// Checks a value. The error contains the location of the invalid part, and does not repeat the value.
    fn check(&self, text: &RawJson<'_>) -> Result<(), String> {
        #[cfg(feature = "schemas")]
        return self.full.check(&text.decode().map_err(|error| error.to_string())?);
        #[cfg(not(feature = "schemas"))]
        self.simple.check(text)
    }
}

/// The reason for which a schema is refused without the feature `schemas`.
#[cfg(not(feature = "schemas"))]
const UNSUPPORTED: &str = "it contains more than the types of the members of an object and which of them are required: checking \
                      that takes the feature `schemas` of mcp-service";

impl Checker {
    /// Compiles a schema of the application, or one of a peer, which has limits.
    pub(crate) fn of(schema: &JsonObject, is_ours: bool) -> Result<Self, SchemaError> {
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

    /// Checks a value. The error contains the location of the invalid part, and does not repeat the value.
    #[cfg(test)]
    pub(crate) fn check(&self, value: &serde_json::Value) -> Result<(), String> {
        let text = mcp_proto::wire::Json::new(value).map_err(|error| error.to_string())?;
        self.0.check(&RawJson::from(&text))
    }

    /// Checks a value in its JSON text. The error contains the location of the invalid part, and does not repeat the
    /// value.
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

/// The compiled output schema of a tool, for checking its structured results.
///
/// Compiling a schema takes longer than checking a result, so keep this as long as the tool. Patterns with look-around
/// are refused: they could take time without bound. So are schemas that are too expensive: more than 256 KiB, more than
/// 64 patterns, a pattern that compiles to more than 256 KiB, more than 256 levels, references that unroll to more than
/// 100,000 schemas, that lead to the same schema for the same value, or that lead out of the schema, and two schemas of
/// one name. Without the feature `schemas`, so is every schema with other rules than the types of an object's members
/// and which of them are required.
///
/// The work of a check is bounded too: 200 million steps. A step is one schema for one part of a result (a value in it,
/// or 64 bytes of a text), or one state of a pattern for one byte of all texts and names. An automaton has at most one
/// state for each 32 bytes that it compiles to.
#[derive(Clone, Debug)]
pub struct OutputSchema(Option<Checker>);

impl OutputSchema {
    /// Compiles the output schema of a tool. If the tool has none, every result is valid.
    ///
    /// # Errors
    /// If the schema is invalid, in a dialect that is not supported, too expensive, or cannot be checked without the
    /// feature `schemas`.
    pub fn of(tool: &Tool) -> Result<Self, SchemaError> {
        tool.output_schema.as_ref().map(|schema| Checker::of(schema, false)).transpose().map(Self)
    }

    /// Checks a result. Results of failed calls are always valid.
    ///
    /// # Errors
    /// The text contains the location of the invalid part, unless finding it would take long or much memory: for
    /// recursive schemas with deep values, and for choices in large values, it only states that the result is invalid.
    /// The same if the check would take more steps than the [type](Self) allows: the value is not checked then.
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
    /// Checks the result of the call: if it does not match the schema, the call fails with [`CallError::Invalid`].
    pub fn conforming(self, schema: &OutputSchema) -> Self {
        let schema = schema.clone();
        self.and_then(move |result| match schema.check(&result) {
            Ok(()) => Ok(result),
            Err(why) => Err(CallError::Invalid(why)),
        })
    }
}
