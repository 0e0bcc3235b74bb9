//! JSON Schemas: generated from types, and checked against values.
//!
//! The supported dialects are draft 4, 6, 7, 2019-09 and 2020-12; the last one is the default of a schema that names
//! none. References lead to places in the same schema only: nothing is fetched.
//!
//! There are three checkers. A schema is compiled by the first one that has all of its keywords:
//!
//! - [`simple`]: the types of members, and which of them are required. It reads JSON text and is always there.
//! - `common`: the keywords in common use, which schemas of types have. It takes the feature `schemas` or
//!   `json-schema`.
//! - `full`: all keywords. It takes the feature `json-schema`, which adds 46 crates.
//!
//! Without the feature that it takes, a schema is refused when it is registered.

mod annotation;
#[cfg(any(feature = "schemas", feature = "json-schema"))]
mod common;
#[cfg(feature = "json-schema")]
mod cost;
#[cfg(feature = "schemas")]
pub(crate) mod derive;
#[cfg(feature = "schemas")]
pub(crate) mod form;
#[cfg(feature = "json-schema")]
mod full;
mod limits;
mod simple;
mod types;

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
enum Rules {
    Simple(SimpleChecker),
    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    Common(common::CommonChecker),
    #[cfg(feature = "json-schema")]
    Full(full::FullChecker),
}

impl Rules {
    fn new(schema: &RawJson<'_>, is_ours: bool) -> Result<Self, SchemaError> {
        if !is_ours && schema.get().len() > MAX_BYTES {
            return Err(SchemaError::new(format_args!("the schema has more than {MAX_BYTES} bytes")));
        }
        match SimpleChecker::of(schema) {
            Some(simple) => Ok(Self::Simple(simple)),
            None => Self::not_simple(schema, is_ours),
        }
    }

    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    fn not_simple(schema: &RawJson<'_>, is_ours: bool) -> Result<Self, SchemaError> {
        let schema = schema.decode().map_err(SchemaError::new)?;
        match common::CommonChecker::new(&schema, is_ours) {
            Ok(common) => Ok(Self::Common(common)),
            #[cfg(feature = "json-schema")]
            Err(_) => full::FullChecker::new(&schema, is_ours).map(Self::Full),
            #[cfg(not(feature = "json-schema"))]
            Err(why) => Err(SchemaError::new(why)),
        }
    }

    #[cfg(not(any(feature = "schemas", feature = "json-schema")))]
    fn not_simple(_: &RawJson<'_>, _: bool) -> Result<Self, SchemaError> {
        Err(SchemaError::new(UNSUPPORTED))
    }

    /// Checks a value. The error contains the locations of invalid parts, and does not repeat the value.
    fn check(&self, text: &RawJson<'_>) -> Result<(), String> {
        match self {
            Self::Simple(simple) if simple.fits(text) => Ok(()),
            Self::Simple(simple) => simple.check(text),
            #[cfg(any(feature = "schemas", feature = "json-schema"))]
            Self::Common(common) => common.check(&text.decode().map_err(|error| error.to_string())?),
            #[cfg(feature = "json-schema")]
            Self::Full(full) => full.check(&text.decode().map_err(|error| error.to_string())?),
        }
    }
}

/// How long the text of a peer's schema may be, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The reason for which a schema is refused without features.
#[cfg(not(any(feature = "schemas", feature = "json-schema")))]
const UNSUPPORTED: &str = "it contains more than the types of the members of an object and which of them are required: checking \
                      that takes the feature `schemas` of mcp-service, or `json-schema` for all keywords";

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

    /// Checks a value in its JSON text. The error contains the location of the invalid part, and does not repeat the
    /// value.
    pub(crate) fn check_text(&self, text: &RawJson<'_>) -> Result<(), String> {
        self.0.check(text)
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
/// Compiling a schema takes longer than checking a result, so keep this as long as the tool. Which keywords it may
/// have depends on the features of this crate:
///
/// - none: the types of an object's members, and which of them are required
/// - `schemas`: those in common use, in the dialects draft 7, 2019-09 and 2020-12. These are `type`, `enum`, `const`,
///   the limits of numbers, lengths and counts, `multipleOf` a whole number, `pattern` without look-around and
///   properties of Unicode, `properties`, `patternProperties`, `additionalProperties`, `unevaluatedProperties`,
///   `propertyNames`, `required`, `dependentRequired`, `items`, `prefixItems`, `contains`, `uniqueItems`, `allOf`,
///   `anyOf`, `oneOf`, `not`, `if` with `then` and `else`, and `$ref` to a place in the schema. `format` is no rule.
/// - `json-schema`: all of these dialects, and of drafts 4 and 6. `format` is a rule in draft 7 and before.
///
/// Schemas that are too expensive are refused: more than 256 KiB, more than 256 levels, patterns of more than 4 MiB
/// when they are compiled, references that lead to the same schema for the same value, or that lead out of the
/// schema. With a keyword that takes `json-schema`, also more than 64 patterns, a pattern that compiles to more than
/// 256 KiB, references that unroll to more than 100,000 schemas, two schemas of one name, and always patterns with
/// look-around: they could take time without bound.
///
/// The work of a check is bounded too: 200 million steps, and 512 schemas that apply each other. A step is one schema
/// for one part of a result (a value in it, or 64 bytes of a text), or 16 bytes of a compiled pattern for one byte of
/// all texts and names.
#[derive(Clone, Debug)]
pub struct OutputSchema(Option<Checker>);

impl OutputSchema {
    /// Compiles the output schema of a tool. If the tool has none, every result is valid.
    ///
    /// # Errors
    /// If the schema is invalid, in a dialect that is not supported, too expensive, or cannot be checked without a
    /// feature,
    /// which the error names.
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
