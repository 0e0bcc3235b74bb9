//! All that a schema can say.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::SchemaError;

/// A schema that is ready, whatever it says.
#[derive(Clone, Debug)]
pub(super) struct Full(Validator);

impl Full {
    pub(super) fn new(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::meta::validate(schema)
            .map_err(|why| SchemaError::new(format_args!("not a valid schema: {why}")))?;
        // Patterns may come from a peer, so they run on an engine that cannot be made to take forever.
        let mut options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        if schema.get("$schema").is_none() {
            options = options.with_draft(Draft::Draft202012);
        }
        options.build(schema).map(Self).map_err(SchemaError::new)
    }

    /// Whether a value fits. The text says where it does not, and does not repeat the value.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        self.0.validate(value).map_err(|error| {
            let place = error.instance_path().to_string();
            let what = error.masked_with("the value");
            if place.is_empty() { what.to_string() } else { format!("{what} at {place}") }
        })
    }
}
