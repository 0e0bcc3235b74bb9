//! Checks a value against a compiled schema.

use std::{cmp::Ordering, collections::HashMap, ptr};

use serde_json::Value;

use super::{
    numbers::{compare, has_equal_values, is_equal, is_multiple},
    rule::{CommonChecker, Counted, Id, Rule},
};

/// The number of steps that a check of a peer's schema may take. A step is one schema for one part of a value.
pub(super) const MAX_STEPS: u64 = 200_000_000;

pub(super) const TOO_LONG: &str = "the value takes too long to check";
pub(super) const TOO_DEEP: &str = "the value is nested too deeply";

/// How many schemas may be open at once. Each takes some of the stack.
pub(super) const MAX_OPEN: u32 = 512;
/// The steps of an entry in the table of results, which takes memory.
const STEPS_OF_RESULT: u64 = 256;

/// A check of one value.
#[derive(Debug)]
pub(super) struct Check<'a> {
    schema: &'a CommonChecker,
    /// The number of steps that it may still take.
    steps: u64,
    /// Whether the schema of a reference holds for the value at an address.
    results: HashMap<(Id, *const Value), bool>,
    /// The reason for which the check ended early. Then its result is worthless.
    pub(super) stopped: Option<&'static str>,
}

impl<'a> Check<'a> {
    pub(super) fn new(schema: &'a CommonChecker, steps: u64) -> Self {
        Self { schema, steps, results: HashMap::new(), stopped: None }
    }

    pub(super) fn rules(&self, id: Id) -> &'a [Rule] {
        &self.schema.nodes[id as usize].rules
    }

    /// Takes steps, and returns whether there are enough.
    pub(super) fn take(&mut self, steps: u64) -> bool {
        match self.steps.checked_sub(steps) {
            Some(steps) => self.steps = steps,
            None => self.stopped = Some(TOO_LONG),
        }
        self.stopped.is_none()
    }

    /// Returns whether a value is valid, below so many schemas that are open.
    pub(super) fn is_valid(&mut self, id: Id, value: &Value, open: u32) -> bool {
        if open >= MAX_OPEN {
            self.stopped = Some(TOO_DEEP);
            return false;
        }
        self.take(1) && self.rules(id).iter().all(|rule| self.holds(rule, value, open + 1))
    }

    /// Returns whether a rule holds.
    pub(super) fn holds(&mut self, rule: &'a Rule, value: &Value, open: u32) -> bool {
        match (rule, value) {
            (Rule::Never, _) => false,
            (Rule::Types(types), _) => types.has_value(value),
            (Rule::Values(values, steps), _) => self.take(*steps) && values.iter().any(|it| is_equal(it, value)),
            (Rule::All(ids), _) => ids.iter().all(|id| self.is_valid(*id, value, open)),
            (Rule::Any(ids), _) => ids.iter().any(|id| self.is_valid(*id, value, open)),
            (Rule::One(ids), _) => self.count_valid(ids, value, open) == 1,
            (Rule::Not(id), _) => !self.is_valid(*id, value, open),
            (Rule::If { condition, then, otherwise }, _) => {
                let branch = if self.is_valid(*condition, value, open) { then } else { otherwise };
                branch.is_none_or(|id| self.is_valid(id, value, open))
            }
            (Rule::Reference(id), _) => self.is_valid_reference(*id, value, open),
            (Rule::Count { counted, limit, is_minimum }, _) => {
                self.take(1 + text_steps(value))
                    && count(*counted, value).is_none_or(|n| if *is_minimum { n >= *limit } else { n <= *limit })
            }
            (Rule::Limit { limit, is_minimum, is_exclusive }, Value::Number(number)) => {
                let order = compare(number, limit);
                let is_inside = order == Some(if *is_minimum { Ordering::Greater } else { Ordering::Less });
                is_inside || order == Some(Ordering::Equal) && !is_exclusive
            }
            (Rule::MultipleOf(divisor), Value::Number(number)) => is_multiple(number, *divisor),
            (Rule::Pattern(pattern, _), Value::String(text)) => {
                self.take(pattern.steps(text)) && pattern.is_match(text)
            }
            (_, Value::Object(_)) => self.holds_for_object(rule, value, open),
            (_, Value::Array(items)) => self.holds_for_array(rule, items, open),
            // Rules for other types.
            _ => true,
        }
    }

    fn holds_for_object(&mut self, rule: &'a Rule, value: &Value, open: u32) -> bool {
        let Value::Object(members) = value else { return true };
        match rule {
            Rule::Required(names) => {
                self.take(names.len() as u64) && names.iter().all(|name| members.contains_key(name))
            }
            Rule::DependentRequired(dependencies) => dependencies.iter().all(|(name, needed)| {
                self.take(1 + needed.len() as u64)
                    && (!members.contains_key(name) || needed.iter().all(|name| members.contains_key(name)))
            }),
            Rule::Members(schemas) => members.iter().all(|(name, value)| {
                self.take(schemas.steps(name)) && schemas.of(name).all(|id| self.is_valid(id, value, open))
            }),
            Rule::Unevaluated { of, schema } => members.iter().all(|(name, member)| {
                self.evaluates(*of, *of, value, name, open) || self.is_valid(*schema, member, open)
            }),
            Rule::Names(id) => members.keys().all(|name| {
                // Addresses are those of the value's parts, so that this text needs a check of its own.
                let name = Value::from(name.as_str());
                let mut check = Check::new(self.schema, self.steps);
                let is_valid = check.is_valid(*id, &name, open);
                (self.steps, self.stopped) = (check.steps, self.stopped.or(check.stopped));
                is_valid
            }),
            _ => true,
        }
    }

    /// Returns whether a schema that holds for an object, or one that it applies to it, has a schema for a member. The
    /// schema `top` asks for its own rules.
    pub(super) fn evaluates(&mut self, id: Id, top: Id, value: &Value, name: &str, open: u32) -> bool {
        if open >= MAX_OPEN {
            self.stopped = Some(TOO_DEEP);
            return false;
        }
        let open = open + 1;
        self.take(1)
            && self.rules(id).iter().any(|rule| match rule {
                Rule::Members(members) => self.take(members.steps(name)) && members.of(name).next().is_some(),
                Rule::Unevaluated { of, .. } => *of != top,
                Rule::Reference(id) => self.evaluates(*id, top, value, name, open),
                Rule::All(ids) => ids.iter().any(|id| self.evaluates(*id, top, value, name, open)),
                Rule::Any(ids) | Rule::One(ids) => {
                    ids.iter().any(|id| self.is_valid(*id, value, open) && self.evaluates(*id, top, value, name, open))
                }
                Rule::If { condition, then, otherwise } => {
                    let is_then = self.is_valid(*condition, value, open);
                    let branch = if is_then { then } else { otherwise };
                    is_then && self.evaluates(*condition, top, value, name, open)
                        || branch.is_some_and(|id| self.evaluates(id, top, value, name, open))
                }
                _ => false,
            })
    }

    fn holds_for_array(&mut self, rule: &'a Rule, items: &[Value], open: u32) -> bool {
        match rule {
            Rule::Items { first, others } => items.iter().enumerate().all(|(index, item)| {
                let id = first.get(index).copied().or(*others);
                self.take(1) && id.is_none_or(|id| self.is_valid(id, item, open))
            }),
            Rule::Contains(id) => items.iter().any(|item| self.is_valid(*id, item, open)),
            Rule::Unique => self.take(items.iter().map(size).sum()) && !has_equal_values(items),
            _ => true,
        }
    }

    fn is_valid_reference(&mut self, id: Id, value: &Value, open: u32) -> bool {
        if !self.schema.keeps_results {
            return self.is_valid(id, value, open);
        }
        let place = (id, ptr::from_ref(value));
        if let Some(known) = self.results.get(&place) {
            return *known;
        }
        let is_valid = self.is_valid(id, value, open);
        if self.take(STEPS_OF_RESULT) {
            self.results.insert(place, is_valid);
        }
        is_valid
    }

    /// Counts the valid schemas, at most two.
    pub(super) fn count_valid(&mut self, ids: &[Id], value: &Value, open: u32) -> usize {
        ids.iter().filter(|id| self.is_valid(**id, value, open)).take(2).count()
    }
}

/// Counts what a rule limits, if the value has it.
pub(super) fn count(counted: Counted, value: &Value) -> Option<u64> {
    let count = match (counted, value) {
        (Counted::Characters, Value::String(text)) => text.chars().count(),
        (Counted::Items, Value::Array(items)) => items.len(),
        (Counted::Members, Value::Object(members)) => members.len(),
        _ => return None,
    };
    Some(count as u64)
}

/// Returns the number of steps for reading a text.
fn text_steps(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.len() as u64 / 64)
}

/// Returns the number of steps for reading a value.
pub(super) fn size(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() as u64 / 64 + size(value)).sum(),
        scalar => text_steps(scalar),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: &Value) -> CommonChecker {
        CommonChecker::new(schema, true).expect("a schema")
    }

    /// Returns whether a value is valid, and the steps that the check takes.
    fn steps(schema: &Value, value: &Value) -> (bool, u64) {
        let checker = compiled(schema);
        let mut check = Check::new(&checker, 10_000);
        let is_valid = check.is_valid(0, value, 0);
        (is_valid, 10_000 - check.steps)
    }

    #[test]
    fn steps_are_taken_up_to_the_limit() {
        let checker = compiled(&json!({}));
        let mut check = Check::new(&checker, 10);
        assert!(check.take(0) && check.take(4) && check.take(6) && check.stopped.is_none());
        assert!(!check.take(1) && check.stopped == Some(TOO_LONG));
        assert!(!check.take(0), "it has ended");
    }

    #[test]
    fn each_rule_takes_its_steps() {
        let text = |length: usize| json!("x".repeat(length));
        let enumerated = json!({"enum": [1, [2, 3], "x"]});
        for (schema, value, expected) in [
            (json!({}), json!(1), (true, 1)),
            (json!({"type": "string"}), json!(1), (false, 1)),
            (json!({"minLength": 2}), text(63), (true, 2)),
            (json!({"minLength": 2}), text(64), (true, 3)),
            (json!({"maxLength": 2}), text(128), (false, 4)),
            (json!({"minItems": 2}), json!([1, 2]), (true, 2)),
            (json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), (false, 2)),
            (json!({"required": ["a", "b"]}), json!({"a": 1, "b": 2}), (true, 3)),
            (json!({"required": ["a", "b"]}), json!({"a": 1}), (false, 3)),
            (json!({"dependentRequired": {"a": ["b", "c"]}}), json!({"b": 1}), (true, 4)),
            (json!({"properties": {"a": {}}}), json!({"a": 1, "b": 2}), (true, 4)),
            (json!({"items": {"type": "integer"}}), json!([1, 2]), (true, 5)),
            (json!({"items": {"type": "integer"}}), json!(["a", 2]), (false, 3)),
            (json!({"uniqueItems": true}), json!([1, [2]]), (true, 4)),
            (json!({"allOf": [{}, {}]}), json!(1), (true, 3)),
            (json!({"anyOf": [{}, {}]}), json!(1), (true, 2)),
            (json!({"oneOf": [{}, {}, {}]}), json!(1), (false, 3)),
            (json!({"not": {"type": "null"}}), json!(1), (true, 2)),
            (json!({"contains": {"type": "null"}}), json!([1, null, 2]), (true, 3)),
            (enumerated.clone(), json!([2, 3]), (true, 1 + size(&enumerated["enum"]) - 1)),
        ] {
            assert_eq!(steps(&schema, &value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn sizes_and_counts_are_exact() {
        let text = |length: usize| json!("x".repeat(length));
        for (value, expected) in [
            (json!(1), 1),
            (text(63), 1),
            (text(64), 2),
            (json!([1, [2]]), 4),
            (json!({"a": 1, "x".repeat(128): [1]}), 6),
        ] {
            assert_eq!(size(&value), expected, "{value}");
        }
        for (value, counts) in [
            (json!("äöü"), [Some(3), None, None]),
            (json!([1, 2]), [None, Some(2), None]),
            (json!({"a": 1}), [None, None, Some(1)]),
            (json!(7), [None, None, None]),
        ] {
            let counted = [Counted::Characters, Counted::Items, Counted::Members].map(|kind| count(kind, &value));
            assert_eq!(counted, counts, "{value}");
        }
    }

    #[test]
    fn the_depth_of_values_is_bounded() {
        // Each level of a list has two schemas: that of the list, and that which the reference leads to.
        let checker = compiled(&json!({"items": {"$ref": "#"}}));
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let deepest = (1..600).take_while(|levels| checker.check(&nested(*levels)).is_ok()).last();
        let deepest = deepest.expect("small values fit");
        assert_eq!(checker.check(&nested(deepest + 1)), Err(TOO_DEEP.into()));
        let mut check = Check::new(&checker, 10_000);
        assert!(check.is_valid(0, &json!(1), 511));
        assert!(!check.is_valid(0, &json!(1), 512) && check.stopped == Some(TOO_DEEP));
    }
}
