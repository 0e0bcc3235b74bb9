//! Schemas of a document as JSON Schemas that stand alone.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    budget::Budget,
    error::Refusal,
    names::Names,
    references::{Document, reference},
};

/// Keywords that are left out: they mean nothing in JSON Schema, or would change what references mean.
const LEFT_OUT: [&str; 15] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "definitions",
    "discriminator",
    "example",
    "externalDocs",
    "id",
    "nullable",
    "xml",
];

/// Keywords with one schema.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords with several schemas.
const SEVERAL: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// Keywords with schemas by name.
const NAMED: [&str; 3] = ["dependentSchemas", "patternProperties", "properties"];

/// The direction of the values of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

impl Direction {
    /// Returns the keyword of properties that need not be there.
    const fn optional(self) -> &'static str {
        match self {
            Self::Request => "readOnly",
            Self::Response => "writeOnly",
        }
    }
}

/// The schemas of one operation, with those that they refer to.
pub(super) struct Schemas<'a, 'b> {
    document: &'a Document,
    budget: &'b mut Budget<'a>,
    direction: Direction,
    /// The names of the definitions, by the place of the schema: a reference has many spellings.
    definitions: HashMap<*const Value, String>,
    names: Names,
    /// Definitions that are referred to and not converted yet.
    queue: Vec<(String, &'a Value)>,
}

impl<'a, 'b> Schemas<'a, 'b> {
    /// Creates an empty set of schemas, whose values are counted.
    pub(super) fn new(document: &'a Document, budget: &'b mut Budget<'a>, direction: Direction) -> Self {
        let (definitions, names, queue) = (HashMap::new(), Names::default(), Vec::new());
        Self { document, budget, direction, definitions, names, queue }
    }

    /// Converts a schema. What it refers to is converted by [`definitions`](Self::definitions).
    pub(super) fn convert(&mut self, schema: &'a Value) -> Result<Value, Refusal> {
        self.schema(schema, 0)
    }

    /// Converts a schema that describes only objects. Returns `None` for others.
    pub(super) fn object(&mut self, schema: &'a Value) -> Result<Option<Value>, Refusal> {
        let schema = self.document.resolve(schema)?;
        let is_nullable = schema.get("nullable").and_then(Value::as_bool) == Some(true);
        if schema.get("type") != Some(&json!("object")) || is_nullable {
            return Ok(None);
        }
        self.schema(schema, 0).map(Some)
    }

    /// Converts all that was referred to. Returns the definitions by name.
    pub(super) fn definitions(mut self) -> Result<Map<String, Value>, Refusal> {
        let mut all = Map::new();
        while let Some((name, schema)) = self.queue.pop() {
            let converted = self.schema(schema, 0)?;
            all.insert(name, converted);
        }
        Ok(all)
    }

    fn count(&mut self, depth: usize) -> Result<(), Refusal> {
        self.budget.values(1)?;
        if depth > self.budget.limits.schema_depth {
            return Err(Refusal::SchemaDepth(self.budget.limits.schema_depth));
        }
        Ok(())
    }

    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, Refusal> {
        self.count(depth)?;
        let members = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(members) => members,
            _ => return Err(Refusal::Invalid("a schema".into())),
        };
        let mut converted = Map::new();
        if let Some(to) = reference(schema) {
            converted.insert("$ref".into(), format!("#/$defs/{}", self.definition(to)?).into());
            // In 3.0, what stands beside a reference means nothing.
            if self.document.is_3_0 {
                return Ok(converted.into());
            }
        }
        for (keyword, value) in members {
            let keyword = keyword.as_str();
            if keyword == "$ref" || LEFT_OUT.contains(&keyword) || keyword.starts_with("x-") {
                self.budget.values(1)?;
                continue;
            }
            self.budget.length(keyword)?;
            self.patterns(keyword, value)?;
            if keyword == "$dynamicRef" || keyword == "$recursiveRef" {
                return Err(Refusal::Schema(format!("{keyword} is not supported")));
            }
            converted.insert(keyword.to_owned(), self.keyword(keyword, value, depth + 1)?);
        }
        if let (Some(Value::Array(required)), Some(Value::Object(properties))) =
            (converted.get_mut("required"), members.get("properties"))
        {
            let is_optional = |name: &str| properties.get(name).is_some_and(|property| self.is_optional(property));
            required.retain(|name| !name.as_str().is_some_and(is_optional));
            if required.is_empty() {
                converted.remove("required");
            }
        }
        if self.document.is_3_0 {
            return Ok(updated(members, converted));
        }
        Ok(converted.into())
    }

    fn keyword(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Result<Value, Refusal> {
        match value {
            Value::Object(named) if NAMED.contains(&keyword) => {
                self.count(depth)?;
                let named = named.iter().map(|(name, schema)| {
                    self.budget.length(name)?;
                    Ok((name.clone(), self.schema(schema, depth + 1)?))
                });
                named.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            Value::Array(several) if SEVERAL.contains(&keyword) => {
                self.count(depth)?;
                several.iter().map(|schema| self.schema(schema, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(_) | Value::Bool(_) if ONE.contains(&keyword) => self.schema(value, depth),
            _ => self.copy(value, depth),
        }
    }

    /// Returns whether a property need not be there even if it is required: one that is only in the other direction.
    fn is_optional(&self, property: &Value) -> bool {
        let is_marked = |schema: &Value| schema.get(self.direction.optional()).and_then(Value::as_bool) == Some(true);
        let is_reference = reference(property).is_some();
        // In 3.0, what stands beside a reference means nothing.
        let here = !(is_reference && self.document.is_3_0) && is_marked(property);
        here || is_reference && self.document.resolve(property).is_ok_and(is_marked)
    }

    /// Copies a value that is no schema.
    fn copy(&mut self, value: &Value, depth: usize) -> Result<Value, Refusal> {
        self.count(depth)?;
        match value {
            Value::Array(items) => {
                items.iter().map(|item| self.copy(item, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    self.budget.length(name)?;
                    // It may be a schema of a keyword that is not known here.
                    self.patterns(name, value)?;
                    Ok((name.clone(), self.copy(value, depth + 1)?))
                });
                members.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            Value::String(text) => {
                self.budget.length(text)?;
                Ok(value.clone())
            }
            _ => Ok(value.clone()),
        }
    }

    /// Counts the patterns of a keyword.
    fn patterns(&mut self, keyword: &str, value: &Value) -> Result<(), Refusal> {
        match value {
            Value::String(_) if keyword == "pattern" => self.budget.patterns(1),
            Value::Object(named) if keyword == "patternProperties" => self.budget.patterns(named.len()),
            _ => Ok(()),
        }
    }

    /// Returns the name of the definition that a reference leads to.
    fn definition(&mut self, to: &'a str) -> Result<&str, Refusal> {
        let target = self.document.target(to)?;
        let place = std::ptr::from_ref(target);
        if !self.definitions.contains_key(&place) {
            // References that only lead to each other describe nothing.
            self.document.resolve(target)?;
            let name = self.names.unique(to.rsplit('/').next().unwrap_or_default());
            self.queue.push((name.clone(), target));
            self.definitions.insert(place, name);
        }
        Ok(&self.definitions[&place])
    }
}

/// Returns a schema of 3.0 in the words of JSON Schema 2020-12.
fn updated(members: &Map<String, Value>, mut converted: Map<String, Value>) -> Value {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(is_exclusive) = members.get(exclusive).and_then(Value::as_bool) else { continue };
        converted.remove(exclusive);
        if is_exclusive && let Some(value) = converted.remove(bound) {
            converted.insert(exclusive.into(), value);
        }
    }
    if members.get("nullable").and_then(Value::as_bool) != Some(true) {
        return converted.into();
    }
    match converted.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            *kind = json!([kind.take(), "null"]);
            if let Some(Value::Array(allowed)) = converted.get_mut("enum")
                && !allowed.contains(&Value::Null)
            {
                allowed.push(Value::Null);
            }
            converted.into()
        }
        _ => json!({"anyOf": [converted, {"type": "null"}]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::limits::OpenApiLimits;

    fn convert(is_3_0: bool, root: Value) -> Result<(Value, Map<String, Value>), Refusal> {
        let (document, limits) = (Document { root, is_3_0 }, OpenApiLimits::default());
        let mut budget = Budget::new(&limits);
        let mut schemas = Schemas::new(&document, &mut budget, Direction::Request);
        let converted = schemas.convert(&document.root["schema"])?;
        Ok((converted, schemas.definitions()?))
    }

    #[test]
    fn schemas_of_3_0_become_json_schemas() {
        let schema = json!({
            "type": "object", "xml": {}, "x-mcp-header": "a", "example": {"a": 1},
            "properties": {
                "x-kept": {"type": "string", "nullable": true, "enum": ["a"]},
                "null": {"type": "string", "nullable": true, "enum": ["a", null]},
                "example": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
                "any": {"nullable": true, "allOf": [{"type": "string"}]},
                "referred": {"$ref": "#/other", "description": "nothing"},
            },
            "default": {"x-data": {"nullable": true}},
        });
        let (schema, definitions) =
            convert(true, json!({"schema": schema, "other": {"type": "string"}})).expect("schemas");
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "x-kept": {"type": ["string", "null"], "enum": ["a", null]},
                    "null": {"type": ["string", "null"], "enum": ["a", null]},
                    "example": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9},
                    "any": {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
                    "referred": {"$ref": "#/$defs/other"},
                },
                "default": {"x-data": {"nullable": true}},
            })
        );
        assert_eq!(Value::from(definitions), json!({"other": {"type": "string"}}));
    }

    #[test]
    fn schemas_that_refer_to_each_other_are_definitions() {
        let root = json!({
            "schema": {"$ref": "#/schemas/Tree", "description": "kept in 3.1"},
            "schemas": {
                "Tree": {"$id": "https://example.com/", "properties": {"left": {"$ref": "#/schemas/Tree"}, "leaf": {"$ref": "#/leaves/Tree"}}},
            },
            "leaves": {"Tree": {"type": "string"}},
        });
        let (schema, definitions) = convert(false, root).expect("schemas");
        assert_eq!(schema, json!({"$ref": "#/$defs/Tree", "description": "kept in 3.1"}));
        assert_eq!(
            Value::from(definitions),
            json!({
                "Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}, "leaf": {"$ref": "#/$defs/Tree_2"}}},
                "Tree_2": {"type": "string"},
            })
        );
    }

    #[test]
    fn spellings_of_a_reference_lead_to_one_definition() {
        let schema = json!({"properties": {"a": {"$ref": "#/%61"}, "b": {"$ref": "#/a"}, "c": {"$ref": "#/~0"}, "d": {"$ref": "#/~"}}});
        let (_, definitions) = convert(false, json!({"schema": schema, "a": {}, "~": {}})).expect("schemas");
        assert_eq!(definitions.len(), 2, "{definitions:?}");
    }

    #[test]
    fn schemas_without_an_end_are_refused() {
        let circle = json!({"schema": {"$ref": "#/a"}, "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
        assert!(matches!(convert(false, circle), Err(Refusal::Reference(_))));
        let deep = (0..80).fold(json!({}), |schema, _| json!({"items": schema}));
        assert_eq!(convert(false, json!({"schema": deep})), Err(Refusal::SchemaDepth(64)));
        let deep = (0..80).fold(json!(1), |value, _| json!([value]));
        assert_eq!(convert(false, json!({"schema": {"const": deep}})), Err(Refusal::SchemaDepth(64)));
        for schema in [json!({"const": "x".repeat(400_000)}), json!({"const": {"x".repeat(400_000): 1}})] {
            assert_eq!(convert(false, json!({"schema": schema})), Err(Refusal::SchemaNodes(5_000)));
        }
        for schema in [json!({"x".repeat(400_000): 1}), json!({"properties": {"x".repeat(400_000): {}}})] {
            assert_eq!(convert(false, json!({"schema": schema})), Err(Refusal::SchemaNodes(5_000)));
        }
        let wide = json!({"schema": {"enum": vec![0; 6_000]}});
        assert_eq!(convert(false, wide), Err(Refusal::SchemaNodes(5_000)));
        // One that refers to the next, each with many values.
        let chain: Map<_, _> = (0..100)
            .map(|n| (format!("s{n}"), json!({"enum": vec![n; 100], "items": {"$ref": format!("#/s{}", n + 1)}})))
            .chain([("s100".into(), json!({})), ("schema".into(), json!({"$ref": "#/s0"}))])
            .collect();
        assert_eq!(convert(false, chain.into()), Err(Refusal::SchemaNodes(5_000)));
        assert!(matches!(convert(false, json!({"schema": {"$dynamicRef": "#x"}})), Err(Refusal::Schema(_))));
        assert!(matches!(convert(false, json!({"schema": 1})), Err(Refusal::Invalid(_))));
    }

    /// Each keyword is a level, and so is each map or list in it.
    #[test]
    fn the_depth_of_schemas_has_an_exact_limit() {
        type Wrap = fn(Value) -> Value;
        let item: Wrap = |schema| json!({"items": schema});
        let property: Wrap = |schema| json!({"properties": {"a": schema}});
        let all: Wrap = |schema| json!({"allOf": [schema]});
        for (name, wrap, most) in [("items", item, 64), ("properties", property, 32), ("allOf", all, 32)] {
            let deep = |levels| json!({"schema": (0..levels).fold(json!({}), |schema, _| wrap(schema))});
            assert!(convert(false, deep(most)).is_ok(), "{name}");
            assert_eq!(convert(false, deep(most + 1)), Err(Refusal::SchemaDepth(64)), "{name}");
        }
        let list: Wrap = |value| json!([value]);
        let object: Wrap = |value| json!({"a": value});
        for (name, wrap) in [("lists", list), ("objects", object)] {
            let deep = |levels| json!({"schema": {"const": (0..levels).fold(json!(1), |value, _| wrap(value))}});
            assert!(convert(false, deep(63)).is_ok(), "{name}");
            assert_eq!(convert(false, deep(64)), Err(Refusal::SchemaDepth(64)), "{name}");
        }
    }

    #[test]
    fn boolean_schemas_are_kept() {
        let schema =
            json!({"properties": {"a": true}, "additionalProperties": false, "anyOf": [false, {"items": true}]});
        assert_eq!(convert(false, json!({"schema": schema.clone()})), Ok((schema, Map::new())));
        assert_eq!(convert(false, json!({"schema": true})), Ok((json!(true), Map::new())));
    }
}
