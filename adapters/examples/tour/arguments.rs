//! Arguments that fit a schema, as far as they can be generated.

use mcp_proto::schema::Tool;
use serde_json::{Map, Value, json};

/// How deep schemas are followed. A recursive one has no end.
const DEPTH: usize = 16;

/// Words with which names of read-only tools begin.
const LOOKING: [&str; 12] =
    ["get", "list", "read", "search", "find", "show", "describe", "echo", "count", "check", "query", "help"];

/// Returns arguments for a tool that can be called without harm, or the reason why it is not called.
pub(crate) fn safe(tool: &Tool) -> Result<Value, &'static str> {
    let hints = tool.annotations.clone().unwrap_or_default();
    let schema: Value = tool.input_schema.decode().map_err(|_| "its schema cannot be read")?;
    let name = tool.name.to_ascii_lowercase();
    let looks = match hints.read_only_hint {
        Some(read_only) => read_only,
        None => LOOKING.iter().any(|word| name.starts_with(word)),
    };
    let needs_nothing = schema["required"].as_array().is_none_or(Vec::is_empty);
    if !looks && hints.destructive_hint == Some(true) {
        Err("may destroy something")
    } else if !looks && hints.open_world_hint == Some(true) {
        Err("may do something out in the world")
    } else if !looks && !needs_nothing {
        Err("may change something")
    } else {
        generate(&schema).ok_or("needs arguments that cannot be guessed")
    }
}

/// Generates a value that fits a schema: of an object only the required members.
pub(crate) fn generate(schema: &Value) -> Option<Value> {
    value(schema, schema, DEPTH)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    for name in ["const", "default"] {
        if let Some(value) = schema.get(name) {
            return Some(value.clone());
        }
    }
    for name in ["enum", "examples"] {
        if let Some(first) = schema.get(name).and_then(|values| values.get(0)) {
            return Some(first.clone());
        }
    }
    if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
        return value(root.pointer(path.strip_prefix('#')?)?, root, depth);
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        let variants = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        if let Some(value) = variants.into_iter().find_map(|variant| value(variant, root, depth)) {
            return Some(value);
        }
    }
    let kind = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind));
    let least = |name: &str| schema.get(name).and_then(Value::as_u64).unwrap_or(0);
    match kind.and_then(Value::as_str) {
        Some("string") => Some(json!(text(schema, least("minLength")))),
        Some("integer" | "number") => Some(schema.get("minimum").cloned().unwrap_or(json!(1))),
        Some("boolean") => Some(json!(true)),
        Some("null") => Some(Value::Null),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            (0..least("minItems")).map(|_| value(items, root, depth)).collect::<Option<Vec<_>>>().map(Value::from)
        }
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let members = required.map(|name| {
                let name = name.as_str()?;
                Some((name.to_owned(), value(schema.get("properties")?.get(name)?, root, depth)?))
            });
            members.collect::<Option<Map<_, _>>>().map(Value::from)
        }
        _ => None,
    }
}

fn text(schema: &Value, least: u64) -> String {
    let text = match schema.get("format").and_then(Value::as_str) {
        Some("email") => "ada@example.com",
        Some("uri") => "https://example.com/",
        Some("date") => "2025-11-25",
        Some("date-time") => "2025-11-25T12:00:00Z",
        _ => "tour",
    };
    let missing = usize::try_from(least).unwrap_or(0).saturating_sub(text.len());
    text.to_owned() + &"r".repeat(missing)
}
