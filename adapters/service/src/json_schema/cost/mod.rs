//! The cost of checking a value, estimated from its schema before the schema is compiled.
//!
//! A few lines of JSON Schema can cause any amount of work: definitions that use each other twice double it with each
//! level, and a short pattern becomes a large automaton. So a schema of a peer is measured before it is compiled.

use std::{cell::Cell, collections::HashMap, ptr};

use jsonschema::PatternOptions;
use serde_json::{Map, Value};

use super::SchemaError;

/// How many schemas, references unrolled, may apply to a value.
const MAX_PATHS: u64 = 100_000;
/// How many patterns there may be.
const MAX_PATTERNS: u64 = 64;
/// How large the automaton of one pattern may be, in bytes. Its cache at run time may be as large again.
pub(super) const PATTERN_BYTES: usize = 256 * 1024;
/// The size of the automaton of a small pattern, in bytes. Larger ones are tried in steps of four times as much.
const SMALL_PATTERN: usize = 1024;
/// The assumed minimum size of an automaton for each byte of its pattern. It saves trying sizes that are too small.
const BYTES_PER_BYTE: usize = 16;
/// The minimum size of a state of an automaton while it is built, in bytes.
const STATE_BYTES: usize = 32;
/// The number of steps that a check of a peer's schema may take. A step is one schema for one part of a value, or one
/// state of a pattern for one byte of a text: a pattern takes time for each of its states and each byte in the worst
/// case.
const MAX_STEPS: u64 = 200_000_000;
/// The maximum number of steps to find where a value is invalid.
const STEPS_TO_EXPLAIN: u64 = 1_000_000;

/// The most parts of a value whose errors are all listed.
const PARTS_TO_LIST: u64 = 256;
/// The most memory of errors that are collected, in bytes. All errors of a value are collected before one is shown, and
/// so are those of each choice.
const MAX_ERROR_BYTES: u64 = 8 << 20;
/// The assumed size of an error without the texts in it, in bytes.
const ERROR_BYTES: u64 = 512;
/// How deep schemas may be nested or refer to each other. Each level takes some of the stack.
const MAX_DEPTH: u32 = 256;

/// The cost of a schema for each part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Schemas that apply, each as often as there are paths to it. A path ends where it leads back to itself.
    paths: u64,
    /// References that lead back to where they are.
    loops: u64,
    patterns: u64,
    /// States of the patterns that apply, each as often as there are paths to it. Only counted for a schema of a peer.
    states: u64,
    /// Whether there are choices. Explaining one collects the errors of each of its schemas.
    has_choices: bool,
    /// The length of the longest text of a rule, in bytes: each error may have a copy.
    longest: u64,
}

/// The size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// The values in it, and one more for every 64 bytes of a text.
    parts: u64,
    values: u64,
    /// Bytes of texts and of names.
    text: u64,
    /// Bytes of the longest place in it, which is a pointer of names.
    place: u64,
    depth: u32,
}

/// The schemas and patterns that apply at a place in a schema and below, with references unrolled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    paths: u64,
    states: u64,
    levels: u32,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.paths = self.paths.saturating_add(other.paths);
        self.states = self.states.saturating_add(other.states);
        self.levels = self.levels.max(other.levels);
    }
}

/// Keywords whose schemas are applied to the same value: one schema, a list, an object.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE_OBJECTS: [&str; 2] = ["dependentSchemas", "dependencies"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose schemas apply only where a reference leads to them.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords with values instead of schemas.
const VALUES: [&str; 5] = ["enum", "const", "default", "examples", "required"];

/// Keywords whose errors have those of all their schemas.
const CHOICES: [&str; 2] = ["anyOf", "oneOf"];
/// Keywords with texts that are copied to errors. Errors share the values of `enum` and `const`.
const COPIED: [&str; 4] = ["required", "dependentRequired", "dependencies", "pattern"];

impl Cost {
    /// Measures a schema, in a time that grows with its size.
    ///
    /// # Errors
    /// If a reference leads out of the schema, or to the same schema for the same value; if two schemas have one name,
    /// or a schema inside has its own `$id`, which may change the meaning of references. Also if it is a schema of a
    /// peer with too many patterns.
    pub(super) fn of(schema: &Value, is_ours: bool) -> Result<Self, SchemaError> {
        CostWalker::new(schema, is_ours)?.cost()
    }

    /// Refuses a schema of a peer that takes too much.
    pub(super) fn admit(self) -> Result<(), SchemaError> {
        if self.paths > MAX_PATHS {
            return Err(SchemaError::new(
                "the schema takes too long to check: its references lead to too many schemas",
            ));
        }
        Ok(())
    }

    /// Returns whether a value can be checked against a schema of a peer within the limit of steps.
    pub(super) fn allows(self, value: &Value) -> bool {
        self.steps(Size::of(value)) <= MAX_STEPS
    }

    /// Returns whether the place of an error can be found within the limits of steps and of memory. Unlike the check
    /// itself, the crate repeats that for each path to a schema, and the paths multiply with each level of a value.
    pub(super) fn can_explain(self, value: &Value) -> bool {
        let size = Size::of(value);
        let is_short = self.steps(size).saturating_mul(self.ways(size)) <= STEPS_TO_EXPLAIN;
        is_short && (!self.has_choices || self.can_collect(size))
    }

    /// Returns whether all errors of a value can be listed. Their number grows with the value, so it has to be small.
    pub(super) fn can_list(self, value: &Value) -> bool {
        let size = Size::of(value);
        size.parts <= PARTS_TO_LIST && self.can_collect(size) && self.can_explain(value)
    }

    /// Returns whether all errors of a value of this size fit into memory.
    fn can_collect(self, size: Size) -> bool {
        let errors = self.paths.saturating_mul(size.values).saturating_mul(self.ways(size));
        // Where an error lists the names of an object, they are no longer than a place for each of them.
        let each = ERROR_BYTES.saturating_add(self.longest).saturating_add(size.place);
        // Each error in a choice has a copy of its value.
        let values = size.text.saturating_add(size.values.saturating_mul(size_of::<Value>() as u64));
        let levels = u64::from(size.depth) + 1;
        let copies = self.paths.saturating_mul(self.ways(size)).saturating_mul(levels).saturating_mul(values);
        let copied = if self.has_choices { copies } else { 0 };
        errors.saturating_mul(each).saturating_add(copied) <= MAX_ERROR_BYTES
    }

    /// Returns how many paths lead to a schema for each path that is counted.
    fn ways(self, size: Size) -> u64 {
        self.loops.max(1).saturating_pow(size.depth)
    }

    fn steps(self, size: Size) -> u64 {
        self.paths.saturating_mul(size.parts).saturating_add(self.states.saturating_mul(size.text))
    }
}

impl Size {
    fn of(value: &Value) -> Self {
        /// The bytes of an index, assumed.
        const INDEX_BYTES: usize = 8;

        let mut size = Self { parts: 1, values: 1, text: 0, place: 0, depth: 0 };
        let mut deepest = 0;
        let mut add = |name: usize, value| {
            let Self { parts, values, text, place, depth } = Self::of(value);
            size.parts += parts;
            size.values += values;
            size.text += text;
            size.place = size.place.max(name as u64 + 1 + place);
            deepest = depth.max(deepest);
        };
        match value {
            Value::Array(items) => items.iter().for_each(|item| add(INDEX_BYTES, item)),
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| add(name.len(), value));
                size.text += members.keys().map(|name| name.len() as u64).sum::<u64>();
            }
            Value::String(text) => {
                size.parts += text.len() as u64 / 64;
                size.text = text.len() as u64;
            }
            _ => return size,
        }
        Self { depth: deepest + 1, ..size }
    }
}

/// Returns the length of the longest text in a value, in bytes.
fn longest_text(value: &Value) -> u64 {
    let of_member = |(name, value): (&String, &Value)| longest_text(value).max(name.len() as u64);
    match value {
        Value::Array(items) => items.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(members) => members.iter().map(of_member).max().unwrap_or(0),
        Value::String(text) => text.len() as u64,
        _ => 0,
    }
}

/// Returns an upper bound of the states of a pattern: that of the smallest size within which it can be built. A pattern
/// that is too large for all sizes is refused when the schema is compiled.
fn states_of(pattern: &str) -> u64 {
    let mut bytes = pattern.len().saturating_mul(BYTES_PER_BYTE).clamp(SMALL_PATTERN, PATTERN_BYTES);
    while bytes < PATTERN_BYTES {
        let options = PatternOptions::regex().size_limit(bytes).dfa_size_limit(bytes);
        let schema = Map::from_iter([("pattern".to_owned(), pattern.into())]);
        if jsonschema::options().with_pattern_options(options).build(&schema.into()).is_ok() {
            break;
        }
        bytes = (4 * bytes).min(PATTERN_BYTES);
    }
    (bytes / STATE_BYTES) as u64
}

/// Finds the schemas that have names.
fn find_anchors<'a>(
    value: &'a Value,
    is_root: bool,
    anchors: &mut HashMap<&'a str, &'a Value>,
) -> Result<(), SchemaError> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| find_anchors(item, false, anchors)),
        Value::Object(members) => {
            if !is_root && members.get("$id").is_some_and(Value::is_string) {
                return Err(SchemaError::new("the schema has another one with an identity of its own in it"));
            }
            for name in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = members.get(name)
                    && anchors.insert(name, value).is_some_and(|other| !ptr::eq(other, value))
                {
                    return Err(SchemaError::new(format_args!("two schemas have the name {name}")));
                }
            }
            let inner = members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
            inner.map(|(_, value)| value).try_for_each(|value| find_anchors(value, false, anchors))
        }
        _ => Ok(()),
    }
}

/// A schema whose weight is counted.
#[derive(Clone, Copy)]
enum Known {
    /// The schema is being counted.
    Open,
    Weight(Weight),
}

struct CostWalker<'a> {
    root: &'a Value,
    /// The `$id` of the whole schema, if it has one.
    id: Option<&'a str>,
    anchors: HashMap<&'a str, &'a Value>,
    known: HashMap<*const Value, Known>,
    used: Vec<&'a Value>,
    is_ours: bool,
    loops: u64,
    patterns: u64,
    has_choices: bool,
    longest: u64,
    /// The number of values visited.
    visits: Cell<u64>,
}

impl<'a> CostWalker<'a> {
    fn new(root: &'a Value, is_ours: bool) -> Result<Self, SchemaError> {
        let mut anchors = HashMap::new();
        find_anchors(root, true, &mut anchors)?;
        let id = root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        let (known, used, visits) = (HashMap::new(), Vec::new(), Cell::new(0));
        let (loops, patterns, has_choices, longest) = (0, 0, false, 0);
        Ok(Self { root, id, anchors, known, used, is_ours, loops, patterns, has_choices, longest, visits })
    }

    fn cost(&mut self) -> Result<Cost, SchemaError> {
        // This also bounds the depth of the search for circles, which follows the same references.
        let Weight { paths, states, .. } = self.weight(self.root, 0)?;
        self.reject_circles()?;
        let Self { loops, patterns, has_choices, longest, .. } = *self;
        Ok(Cost { paths, loops, patterns, states, has_choices, longest })
    }

    fn look(&self) {
        self.visits.set(self.visits.get() + 1);
    }

    /// Resolves a reference. It leads to one schema, so the time for all references is linear in their number.
    fn target(&self, reference: &str) -> Result<&'a Value, SchemaError> {
        let (document, place) = reference.split_once('#').unwrap_or((reference, ""));
        let found = match place {
            _ if !document.is_empty() && Some(document) != self.id => None,
            "" => Some(self.root),
            place if place.starts_with('/') => self.root.pointer(&decoded(place)),
            place => self.anchors.get(place).copied(),
        };
        // A list is no schema, and would be walked for each reference to it.
        let found = found.filter(|value| value.is_object() || value.is_boolean());
        found.ok_or_else(|| SchemaError::new("a reference does not resolve within the schema"))
    }

    fn references(&self, members: &Map<String, Value>) -> Result<Vec<&'a Value>, SchemaError> {
        REFERENCES.iter().filter_map(|name| members.get(*name)?.as_str()).map(|it| self.target(it)).collect()
    }

    /// Counts the schemas and patterns that apply at this place of the schema and below. The place is in so many
    /// `levels`.
    fn weight(&mut self, value: &'a Value, levels: u32) -> Result<Weight, SchemaError> {
        self.look();
        let too_deep = || SchemaError::new(format_args!("the schema has more than {MAX_DEPTH} levels"));
        if levels > MAX_DEPTH {
            return Err(too_deep());
        }
        let members = match value {
            Value::Array(items) => {
                let mut all = Weight::default();
                for item in items {
                    all.add(self.weight(item, levels)?);
                }
                return Ok(all);
            }
            Value::Object(members) => members,
            _ => return Ok(Weight::default()),
        };
        let place: *const Value = value;
        match self.known.get(&place) {
            Some(Known::Weight(weight)) if levels + weight.levels > MAX_DEPTH => return Err(too_deep()),
            Some(Known::Weight(weight)) => return Ok(*weight),
            Some(Known::Open) => {
                self.loops += 1;
                return Ok(Weight { paths: 1, states: 0, levels: 1 });
            }
            None => self.known.insert(place, Known::Open),
        };
        self.used.push(value);
        let mut all = Weight { paths: 1, ..Weight::default() };
        let mut inner = Vec::new();
        for (name, value) in members {
            self.has_choices |= CHOICES.contains(&name.as_str());
            if COPIED.contains(&name.as_str()) {
                self.longest = self.longest.max(longest_text(value));
            }
            match (name.as_str(), value) {
                // Each value of the list is compared.
                (name, Value::Array(values)) if VALUES.contains(&name) => {
                    all.paths = all.paths.saturating_add(values.len() as u64 / 8);
                }
                (name, _) if VALUES.contains(&name) || DEFINITIONS.contains(&name) => {}
                ("pattern", Value::String(pattern)) => all.add(self.pattern(pattern)?),
                ("patternProperties", Value::Object(patterns)) => {
                    for pattern in patterns.keys() {
                        all.add(self.pattern(pattern)?);
                    }
                    inner.push(value);
                }
                _ => inner.push(value),
            }
        }
        inner.extend(self.references(members)?);
        for value in inner {
            all.add(self.weight(value, levels + 1)?);
        }
        all.levels += 1;
        self.known.insert(place, Known::Weight(all));
        Ok(all)
    }

    fn pattern(&mut self, pattern: &str) -> Result<Weight, SchemaError> {
        self.patterns += 1;
        if self.is_ours {
            return Ok(Weight { paths: 16, ..Weight::default() });
        }
        // Each is built to count its states, so their number is bounded before.
        if self.patterns > MAX_PATTERNS {
            return Err(SchemaError::new(format_args!("the schema has more than {MAX_PATTERNS} patterns")));
        }
        Ok(Weight { paths: 16, states: states_of(pattern), levels: 0 })
    }

    /// Refuses a schema that is applied to a value because it is applied to that value.
    fn reject_circles(&self) -> Result<(), SchemaError> {
        let mut seen = HashMap::new();
        // Definitions without references are not in `used`.
        let used: Vec<_> = self.used.clone();
        used.into_iter().try_for_each(|value| self.walk_in_place(value, &mut seen))
    }

    /// Checks that the schemas applied in place form no circle. `seen` maps a schema that is open to `true`, and one
    /// that is done to `false`.
    fn walk_in_place(&self, value: &'a Value, seen: &mut HashMap<*const Value, bool>) -> Result<(), SchemaError> {
        self.look();
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

/// Decodes the percent escapes of a JSON pointer in a URI.
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
mod tests;
