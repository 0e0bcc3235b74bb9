//! JSON Schemas: made from types, and held against values.
//!
//! Schemas are understood in the dialects draft 4, 6, 7, 2019-09 and 2020-12, of which the last one is meant where a
//! schema does not say. References lead to places in the same schema only: nothing is fetched.

mod simple;

use std::{fmt, sync::Arc};

use jsonschema::{Draft, PatternOptions, Validator};
use mcp_proto::{
    schema::{CallToolResult, Tool},
    wire::{JsonObject, RawJson},
};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::Value;

use self::simple::Simple;
use crate::{CallError, Pending};

/// The schema of a type as it is read, in 2020-12.
pub(crate) fn of<T: JsonSchema>() -> Value {
    make::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a type as it is written, in 2020-12.
pub(crate) fn of_written<T: JsonSchema>() -> Value {
    make::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn make<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    tidy(&mut schema);
    // The name of a Rust type is nobody's business. Arguments and structured results are objects, so it is always true to say
    // so, and it has to be said at the root.
    schema.remove("title");
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| "object".into());
    }
    schema.to_value()
}

/// Removes the formats that are names of Rust's number types: no dialect knows them.
fn tidy(schema: &mut Schema) {
    const OURS: [&str; 14] = [
        "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64", "uint128", "uint",
        "float", "double",
    ];
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| OURS.contains(&format)) {
        schema.remove("format");
    }
    transform_subschemas(&mut tidy, schema);
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

/// A schema that is ready to be held against values.
#[derive(Clone, Debug)]
pub(crate) struct Checker(Arc<(Option<Simple>, Validator)>);

impl Checker {
    pub(crate) fn new(schema: &JsonObject) -> Result<Self, SchemaError> {
        let error = |what: &dyn fmt::Display| SchemaError(what.to_string());
        let schema: Value = schema.decode().map_err(|why| error(&why))?;
        if let Some(dialect) = schema.get("$schema") {
            let known = dialect.as_str().is_some_and(|dialect| DIALECTS.contains(&dialect.trim_end_matches('#')));
            if !known {
                return Err(error(&format_args!("the schema dialect {dialect} is not supported")));
            }
        }
        jsonschema::meta::validate(&schema).map_err(|why| error(&format_args!("not a valid schema: {why}")))?;
        // Patterns may come from a peer, so they run on an engine that cannot be made to take forever.
        let mut options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        if schema.get("$schema").is_none() {
            options = options.with_draft(Draft::Draft202012);
        }
        let validator = options.build(&schema).map_err(|why| error(&why))?;
        Ok(Self(Arc::new((Simple::of(&schema), validator))))
    }

    /// Whether a value fits. The text says where it does not, and does not repeat the value.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.0.1.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let what = error.masked_with("the value");
            if place.is_empty() { what.to_string() } else { format!("{what} at {place}") }
        })
    }

    /// [`check`](Self::check) for a value that was not read yet.
    pub(crate) fn check_text(&self, text: &RawJson<'_>) -> Result<(), String> {
        if self.0.0.as_ref().is_some_and(|simple| simple.fits(text)) {
            return Ok(());
        }
        let value: Value = text.decode().map_err(|error| error.to_string())?;
        self.check(&value)
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
/// are refused: they could keep a client busy forever.
#[derive(Clone, Debug)]
pub struct OutputSchema(Option<Checker>);

impl OutputSchema {
    /// The output schema of a tool. Anything fits if it has none.
    ///
    /// # Errors
    /// If the schema is not valid, or in a dialect that is not supported.
    pub fn of(tool: &Tool) -> Result<Self, SchemaError> {
        tool.output_schema.as_ref().map(Checker::new).transpose().map(Self)
    }

    /// Whether a result fits. Results of failed calls always do.
    ///
    /// # Errors
    /// Says where it does not.
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
