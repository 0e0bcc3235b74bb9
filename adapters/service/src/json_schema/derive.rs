//! Generates schemas from types.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::Value;

/// Generates the schema of a type as it is deserialized, in 2020-12.
pub(crate) fn input_schema<T: JsonSchema>() -> Value {
    make::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// Generates the schema of a type as it is serialized, in 2020-12.
pub(crate) fn output_schema<T: JsonSchema>() -> Value {
    make::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn make<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    strip_formats(&mut schema);
    // The name of a Rust type is an implementation detail. Arguments and structured results are objects, and the root
    // of their schemas has to say so.
    schema.remove("title");
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| "object".into());
    }
    schema.to_value()
}

/// Removes the formats that are names of Rust's number types: no dialect knows them.
fn strip_formats(schema: &mut Schema) {
    const OURS: [&str; 14] = [
        "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64", "uint128", "uint",
        "float", "double",
    ];
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| OURS.contains(&format)) {
        schema.remove("format");
    }
    transform_subschemas(&mut strip_formats, schema);
}
