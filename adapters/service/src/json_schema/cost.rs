//! What it takes to check a value, estimated from its schema before the schema is used.
//!
//! A few lines of JSON Schema can ask for any amount of work: definitions that use each other twice double it with each level, and
//! a short pattern becomes a large automaton. So a schema that comes from a peer is measured before it is compiled.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;

/// How long the text of a peer's schema may be, in bytes.
pub(super) const MOST_BYTES: usize = 256 * 1024;
/// How many schemas, references unrolled, may apply to a value.
const MOST_PATHS: u64 = 100_000;
/// How many patterns there may be.
const MOST_PATTERNS: u64 = 64;
/// How large the automaton of one pattern may be, in bytes; what is kept while it runs may be as large again.
pub(super) const PATTERN_BYTES: usize = 256 * 1024;
/// How many steps a check of a peer's schema may take, which is some seconds at worst.
const MOST_STEPS: u64 = 200_000_000;
/// How many steps it may take to say where a value does not fit.
const STEPS_TO_EXPLAIN: u64 = 1_000_000;
/// How many schemas may be in each other, or refer to each other, one after the other: each takes some of the stack.
const MOST_LEVELS: u32 = 256;

/// What a schema costs for each part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Schemas that apply, each as often as there are ways to it. One that leads back to itself ends there.
    paths: u64,
    /// References that lead back to where they are.
    loops: u64,
    patterns: u64,
}

/// How much there is to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    parts: u64,
    depth: u32,
}

/// Schemas that are applied to the same value: by itself, in a list, in an object.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE_OBJECTS: [&str; 2] = ["dependentSchemas", "dependencies"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// What is only applied where it is referred to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Values and not schemas.
const VALUES: [&str; 5] = ["enum", "const", "default", "examples", "required"];

impl Cost {
    /// Measures a schema.
    ///
    /// # Errors
    /// If it refers to something that is not in it, to itself for the same value, or has schemas in it with an identity of
    /// their own, which may change what a reference means.
    pub(super) fn of(schema: &Value) -> Result<Self, SchemaError> {
        let mut anchors = HashMap::new();
        find_anchors(schema, true, &mut anchors)?;
        let mut walk = Walk { root: schema, anchors, known: HashMap::new(), used: Vec::new(), loops: 0, patterns: 0 };
        // This also bounds how deep the search for circles goes: it follows the same ways.
        let (paths, _) = walk.paths(schema, 0)?;
        walk.reject_circles()?;
        Ok(Self { paths, loops: walk.loops, patterns: walk.patterns })
    }

    /// Refuses a schema of a peer that takes too much.
    pub(super) fn admit(self) -> Result<(), SchemaError> {
        if self.patterns > MOST_PATTERNS {
            return Err(SchemaError::new(format_args!("the schema has more than {MOST_PATTERNS} patterns")));
        }
        if self.paths > MOST_PATHS {
            return Err(SchemaError::new(
                "the schema takes too long to check: its references lead to too many schemas",
            ));
        }
        Ok(())
    }

    /// Whether a value can be held against a schema of a peer in reasonable time.
    pub(super) fn allows(self, value: &Value) -> bool {
        self.paths.saturating_mul(Size::of(value).parts) <= MOST_STEPS
    }

    /// Whether it can be said in reasonable time where a value does not fit. Unlike the check itself, the crate does that anew
    /// for each way to a schema, and the ways multiply with each level of a value.
    pub(super) fn can_explain(self, value: &Value) -> bool {
        let Size { parts, depth } = Size::of(value);
        let ways = self.loops.max(1).saturating_pow(depth);
        self.paths.saturating_mul(parts).saturating_mul(ways) <= STEPS_TO_EXPLAIN
    }
}

impl Size {
    fn of(value: &Value) -> Self {
        let (mut parts, mut deepest) = (1, 0);
        let add = |value| {
            let Self { parts: more, depth } = Self::of(value);
            parts += more;
            deepest = depth.max(deepest);
        };
        match value {
            Value::Array(items) => items.iter().for_each(add),
            Value::Object(members) => members.values().for_each(add),
            Value::String(text) => parts += text.len() as u64 / 64,
            _ => return Self { parts, depth: 0 },
        }
        Self { parts, depth: deepest + 1 }
    }
}

/// Finds the schemas that have names.
fn find_anchors<'a>(
    value: &'a Value,
    is_root: bool,
    anchors: &mut HashMap<&'a str, Vec<&'a Value>>,
) -> Result<(), SchemaError> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| find_anchors(item, false, anchors)),
        Value::Object(members) => {
            if !is_root && members.get("$id").is_some_and(Value::is_string) {
                return Err(SchemaError::new("the schema has another one with an identity of its own in it"));
            }
            for name in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = members.get(name) {
                    anchors.entry(name).or_default().push(value);
                }
            }
            let inner = members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
            inner.map(|(_, value)| value).try_for_each(|value| find_anchors(value, false, anchors))
        }
        _ => Ok(()),
    }
}

/// Whose paths are counted.
#[derive(Clone, Copy)]
enum Known {
    /// It is being counted.
    Open,
    /// So many, in so many levels.
    Paths(u64, u32),
}

struct Walk<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    known: HashMap<*const Value, Known>,
    used: Vec<&'a Value>,
    loops: u64,
    patterns: u64,
}

impl<'a> Walk<'a> {
    /// What a reference leads to.
    fn targets(&self, reference: &str) -> Result<Vec<&'a Value>, SchemaError> {
        // The whole schema may be named by its identity.
        let id = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        let (document, place) = reference.split_once('#').unwrap_or((reference, ""));
        let found = match place {
            _ if !document.is_empty() && Some(document) != id => Vec::new(),
            "" => vec![self.root],
            place if place.starts_with('/') => self.root.pointer(&decoded(place)).into_iter().collect(),
            place => self.anchors.get(place).cloned().unwrap_or_default(),
        };
        if found.is_empty() {
            return Err(SchemaError::new("a reference leads to nothing in the schema"));
        }
        Ok(found)
    }

    fn references(&self, members: &Map<String, Value>) -> Result<Vec<&'a Value>, SchemaError> {
        let mut found = Vec::new();
        for reference in REFERENCES.iter().filter_map(|name| members.get(*name)?.as_str()) {
            found.extend(self.targets(reference)?);
        }
        Ok(found)
    }

    /// How many schemas apply where this one does, and below, and in how many levels. It is in so many `levels` itself.
    fn paths(&mut self, value: &'a Value, levels: u32) -> Result<(u64, u32), SchemaError> {
        let too_deep = || SchemaError::new(format_args!("the schema has more than {MOST_LEVELS} levels"));
        if levels > MOST_LEVELS {
            return Err(too_deep());
        }
        match value {
            Value::Array(items) => {
                let (mut paths, mut below) = (0_u64, 0);
                for item in items {
                    let (more, height) = self.paths(item, levels)?;
                    (paths, below) = (paths.saturating_add(more), height.max(below));
                }
                Ok((paths, below))
            }
            Value::Object(members) => {
                let place: *const Value = value;
                match self.known.get(&place) {
                    Some(Known::Paths(_, height)) if levels + height > MOST_LEVELS => return Err(too_deep()),
                    Some(Known::Paths(paths, height)) => return Ok((*paths, *height)),
                    Some(Known::Open) => {
                        self.loops += 1;
                        return Ok((1, 1));
                    }
                    None => self.known.insert(place, Known::Open),
                };
                self.used.push(value);
                let (mut paths, mut below) = (1_u64, 0);
                let mut inner = Vec::new();
                for (name, value) in members {
                    match (name.as_str(), value) {
                        // Each is looked at.
                        (name, Value::Array(values)) if VALUES.contains(&name) => {
                            paths = paths.saturating_add(values.len() as u64 / 8);
                        }
                        (name, _) if VALUES.contains(&name) || DEFINITIONS.contains(&name) => {}
                        ("pattern", Value::String(_)) => {
                            self.patterns += 1;
                            paths = paths.saturating_add(16);
                        }
                        ("patternProperties", Value::Object(patterns)) => {
                            self.patterns += patterns.len() as u64;
                            paths = paths.saturating_add(16 * patterns.len() as u64);
                            inner.push(value);
                        }
                        _ => inner.push(value),
                    }
                }
                inner.extend(self.references(members)?);
                for value in inner {
                    let (more, height) = self.paths(value, levels + 1)?;
                    (paths, below) = (paths.saturating_add(more), height.max(below));
                }
                self.known.insert(place, Known::Paths(paths, below + 1));
                Ok((paths, below + 1))
            }
            _ => Ok((0, 0)),
        }
    }

    /// Refuses a schema that is applied to a value because it is applied to that value.
    fn reject_circles(&self) -> Result<(), SchemaError> {
        let mut seen = HashMap::new();
        // What nothing refers to is not used.
        let used: Vec<_> = self.used.clone();
        used.into_iter().try_for_each(|value| self.walk_in_place(value, &mut seen))
    }

    /// Whether all that is applied in place comes to an end. `seen` says what is being looked at, and what was.
    fn walk_in_place(&self, value: &'a Value, seen: &mut HashMap<*const Value, bool>) -> Result<(), SchemaError> {
        let Value::Object(members) = value else { return Ok(()) };
        match seen.insert(value, true) {
            Some(true) => return Err(SchemaError::new("the schema is applied to a value because it is applied to it")),
            Some(false) => {
                seen.insert(value, false);
                return Ok(());
            }
            None => {}
        }
        let mut next = self.references(members)?;
        next.extend(IN_PLACE.iter().filter_map(|name| members.get(*name)));
        let lists = IN_PLACE_LISTS.iter().filter_map(|name| members.get(*name)?.as_array());
        next.extend(lists.flatten());
        let objects = IN_PLACE_OBJECTS.iter().filter_map(|name| members.get(*name)?.as_object());
        next.extend(objects.flat_map(Map::values));
        next.into_iter().try_for_each(|next| self.walk_in_place(next, seen))?;
        seen.insert(value, false);
        Ok(())
    }
}

/// A JSON pointer as it stands in a URI.
fn decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%').then(|| tail.split_first_chunk::<2>()).flatten();
        let byte = escaped.and_then(|(digits, _)| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        rest = if byte.is_some() { &tail[2..] } else { tail };
        bytes.push(byte.unwrap_or(*first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(schema: &Value) -> u64 {
        Cost::of(schema).expect("it can be measured").paths
    }

    #[test]
    fn the_ways_to_each_schema_are_counted() {
        assert_eq!(paths(&json!({"type": "object"})), 1);
        // An object of properties counts, too: it is an upper bound.
        assert_eq!(paths(&json!({"properties": {"a": {"type": "string"}, "b": true}})), 3);
        let twice =
            json!({"$defs": {"a": {"allOf": [{}, {}]}}, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/%24defs/a"}]});
        assert_eq!(paths(&twice), 1 + 2 * (1 + 3));
        let named =
            json!({"$id": "x:y", "$defs": {"a": {"$anchor": "n"}}, "allOf": [{"$ref": "#n"}, {"$ref": "x:y#n"}]});
        assert_eq!(paths(&named), 1 + 2 * 2);
        let tree = json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
        let cost = Cost::of(&tree).expect("it can be measured");
        assert_eq!((cost.loops, cost.patterns), (2, 0));
    }

    /// Definitions that each refer to the next one; the last ones are seen first.
    fn chain(length: usize, is_reversed: bool) -> Value {
        let name = |n: usize| format!("#/$defs/{n}");
        let definitions: Map<_, _> = (0..length).map(|n| (n.to_string(), json!({"$ref": name(n + 1)}))).collect();
        let mut schema = json!({"$defs": definitions});
        schema["$defs"][length.to_string()] = json!({});
        let all = (0..length).map(|n| json!({"$ref": name(if is_reversed { length - n } else { n })}));
        schema["allOf"] = all.collect::<Vec<_>>().into();
        schema
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#/$defs/gone"}),
            json!({"$ref": "#gone"}),
            json!({"$ref": "https://other.example/schema"}),
            json!({"$defs": {"a": {"$id": "x:y"}}}),
            chain(1000, false),
            chain(1000, true),
        ] {
            assert!(Cost::of(&schema).is_err(), "{schema}");
        }
    }
}
