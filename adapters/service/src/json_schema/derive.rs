//! Generates schemas from types.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::Value;

/// Generates the schema of arguments: of a type as it is deserialized, in 2020-12.
pub(crate) fn input_schema<T: JsonSchema>() -> Value {
    let mut schema = make::<T>(SchemaSettings::draft2020_12().for_deserialize());
    // Arguments are objects, and the root of their schema has to state that.
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// Generates the schema of a result: of a type as it is serialized, in 2020-12.
pub(crate) fn output_schema<T: JsonSchema>() -> Value {
    let mut schema = make::<T>(SchemaSettings::draft2020_12().for_serialize());
    // Sessions have only results that are objects, and the root of their schema has to state that.
    if is_object(&schema, &schema, MAX_LEVELS)
        && let Some(root) = schema.as_object_mut()
    {
        root.insert("type".into(), "object".into());
    }
    schema
}

/// Generates the schema of a form: of a type as it is deserialized, in 2020-12 and without references.
pub(crate) fn form_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    make::<T>(settings.with(|settings| settings.inline_subschemas = true))
}

/// How many references and choices lead from the root of a schema to a type, at most.
const MAX_LEVELS: usize = 8;

/// Returns whether only objects match the schema, as far as its types, choices and references say.
fn is_object(schema: &Value, root: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.is_some_and(|target| is_object(target, root, levels));
    }
    let choices = ["oneOf", "anyOf"].iter().find_map(|keyword| schema.get(keyword)?.as_array());
    choices.is_some_and(|choices| choices.iter().all(|choice| is_object(choice, root, levels)))
}

fn make<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    strip_formats(&mut schema);
    // The name of a Rust type is an implementation detail.
    schema.remove("title");
    schema.to_value()
}

/// Removes the formats that are names of Rust's number types: no dialect defines them.
fn strip_formats(schema: &mut Schema) {
    const RUST_FORMATS: [&str; 14] = [
        "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64", "uint128", "uint",
        "float", "double",
    ];
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| RUST_FORMATS.contains(&format)) {
        schema.remove("format");
    }
    transform_subschemas(&mut strip_formats, schema);
}
