//! A checker of all keywords of JSON Schema.

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::{
    SchemaError,
    cost::{Cost, PATTERN_BYTES},
    limits::MAX_ERRORS,
};
use crate::util::text_arguments::excerpt;

/// A compiled schema with any keywords.
#[derive(Clone, Debug)]
pub(super) struct FullChecker {
    validator: Validator,
    /// `None` if it cannot be measured: then it is a schema of the application, and its checks have no limit.
    cost: Option<Cost>,
    is_ours: bool,
}

impl FullChecker {
    /// Compiles a schema of the application, or one of a peer, which has limits.
    pub(super) fn new(schema: &Value, is_ours: bool) -> Result<Self, SchemaError> {
        let cost = match Cost::of(schema, is_ours) {
            Ok(cost) => Some(cost),
            Err(_) if is_ours => None,
            Err(error) => return Err(error),
        };
        if !is_ours && let Some(cost) = cost {
            cost.admit()?;
        }
        jsonschema::meta::validate(schema)
            .map_err(|why| SchemaError::new(format_args!("not a valid schema: {why}")))?;
        // Patterns may come from a peer, so they run on an engine with linear time, and their compiled size is limited.
        let mut patterns = PatternOptions::regex();
        if !is_ours {
            patterns = patterns.size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        }
        let mut options = jsonschema::options().with_pattern_options(patterns);
        if schema.get("$schema").is_none() {
            options = options.with_draft(Draft::Draft202012);
        }
        let validator = options.build(schema).map_err(SchemaError::new)?;
        Ok(Self { validator, cost, is_ours })
    }

    /// Checks a value. The error contains the location of the invalid part, and does not repeat the value.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if !self.is_ours && self.cost.is_some_and(|cost| !cost.allows(value)) {
            return Err("the value takes too long to check".into());
        }
        // Results for a value are kept, so the check takes the same time for each part of it. Finding the place of an
        // error may take twice as long with each level.
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if self.cost.is_none_or(|cost| !cost.can_explain(value)) {
            return Err("the value does not fit the schema".into());
        }
        let explain = |error: ValidationError<'_>| {
            let place = error.instance_path().to_string();
            let what = error.masked_with("the value");
            excerpt(&if place.is_empty() { what.to_string() } else { format!("{what} at {place}") })
        };
        if self.cost.is_some_and(|cost| cost.can_list(value)) {
            let all: Vec<_> = self.validator.iter_errors(value).take(MAX_ERRORS).map(explain).collect();
            return Err(excerpt(&all.join("; ")));
        }
        self.validator.validate(value).map_err(explain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A schema whose definitions each use the next one twice.
    fn doubling(levels: usize, with: &str) -> Value {
        let mut definitions = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({with: [next, next]}));
        }
        definitions.insert(format!("d{levels}"), json!({}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    fn patterns(count: usize, pattern: impl Fn(usize) -> String) -> Value {
        json!({"anyOf": (0..count).map(|n| json!({"pattern": pattern(n)})).collect::<Vec<_>>()})
    }

    #[test]
    fn rejects_expensive_peer_schemas() {
        let clique: serde_json::Map<_, _> = (0..12)
            .map(|n| {
                let all: Vec<_> = (0..12).map(|n| json!({"$ref": format!("#/$defs/c{n}")})).collect();
                (format!("c{n}"), json!({"anyOf": all}))
            })
            .collect();
        for (what, schema) in [
            ("allOf", doubling(24, "allOf")),
            ("anyOf", doubling(60, "anyOf")),
            ("oneOf", doubling(100, "oneOf")),
            ("one large pattern", patterns(1, |_| "^\\w{4000}$".into())),
            ("large patterns", patterns(60, |n| format!("^\\w{{{}}}$", 4000 + n))),
            ("many patterns", patterns(1000, |n| format!("^a{{{n}}}$"))),
            ("large names", json!({"patternProperties": {"^\\w{4000}$": {}}})),
            ("everything for everything", json!({"$defs": clique, "properties": {"a": {"$ref": "#/$defs/c0"}}})),
        ] {
            let used = allocation_counter::measure(|| assert!(FullChecker::new(&schema, false).is_err(), "{what}"));
            assert!(used.bytes_max < 16 << 20, "{what}: {} bytes", used.bytes_max);
        }
        // Others are not.
        for schema in [
            doubling(8, "allOf"),
            patterns(20, |n| format!("^[a-z]{{1,{}}}$", n + 1)),
            json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}}),
        ] {
            assert!(FullChecker::new(&schema, false).is_ok(), "{schema}");
        }
    }

    #[test]
    fn rejects_values_that_are_expensive_to_check() {
        let many: Vec<_> = (0..3000).map(|_| json!({"minLength": 0})).collect();
        let full = FullChecker::new(&json!({"type": "array", "items": {"allOf": many}}), false).expect("a good schema");
        assert_eq!(full.check(&json!(vec!["x"; 100])), Ok(()));
        let large = json!(vec!["x"; 1_000_000]);
        let mut refused = Ok(());
        // The validator allocates for each item, so it has not seen any.
        let used = allocation_counter::measure(|| refused = full.check(&large));
        assert_eq!(refused, Err("the value takes too long to check".into()));
        assert!(used.count_total < 10, "{} allocations", used.count_total);
    }

    #[test]
    fn all_errors_of_a_small_value_are_reported() {
        let integers = |names: &[&str]| -> serde_json::Map<_, _> {
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "integer"}))).collect()
        };
        let schema = json!({"type": "object", "properties": integers(&["a", "b"]), "required": ["c"]});
        let full = FullChecker::new(&schema, true).expect("a good schema");
        let all = full.check(&json!({"a": "one", "b": "two"})).expect_err("it does not fit");
        for part in ["\"c\" is a required property", "at /a", "at /b"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        // Only one of a large value, which could have very many.
        let many = FullChecker::new(&json!({"items": {"type": "integer"}}), true).expect("a good schema");
        let one = many.check(&json!(vec!["x"; 1_000])).expect_err("it does not fit");
        assert!(one.ends_with("at /0"), "{one}");
        let some = many.check(&json!(vec!["x"; 20])).expect_err("it does not fit");
        assert_eq!(some.matches(" at /").count(), MAX_ERRORS, "{some}");
    }

    #[test]
    fn a_long_text_does_not_hide_the_place_of_an_error() {
        let schema = json!({
            "properties": {
                "path": {"type": "string"},
                "content": {"type": "string"},
                "mode": {"anyOf": [{"enum": ["append", "truncate"]}, {"type": "null"}]},
            },
            "required": ["path", "content"],
        });
        let full = FullChecker::new(&schema, true).expect("a good schema");
        let error =
            full.check(&json!({"content": "x".repeat(200_000), "mode": "append"})).expect_err("it does not fit");
        assert!(error.contains("\"path\" is a required property"), "{error}");
    }

    #[test]
    fn the_memory_for_errors_is_bounded() {
        let integers: Vec<_> = (0..3_000).map(|n| json!({"type": "integer", "minimum": n})).collect();
        let names: Vec<_> = (0..20_000).map(|n| format!("name {n}")).collect();
        let choices = json!([{"type": "integer"}, {"type": "boolean"}]);
        let long = "x".repeat(200_000);
        let every = |with: Value| json!({"type": "array", "items": with});
        let (some, many) = (json!(vec!["x"; 250]), json!(vec!["x"; 100_000]));
        for (what, schema, value) in [
            ("many items", every(json!({"type": "integer"})), &many),
            ("many items in a choice", json!({"anyOf": [every(choices[0].clone()), every(choices[1].clone())]}), &many),
            ("items with a choice", every(json!({"oneOf": choices})), &many),
            ("many schemas", every(json!({"allOf": integers})), &some),
            ("many schemas in a choice", every(json!({"anyOf": [{"allOf": integers}, false]})), &some),
            ("a long constant", every(json!({"const": long})), &some),
            ("many constants", every(json!({"enum": names})), &some),
            ("a text in a choice of many", json!({"anyOf": [{"allOf": integers}, false]}), &json!("x".repeat(20_000))),
            ("long texts in a choice", every(json!({"anyOf": choices})), &json!([long, long, long])),
            ("a long name", every(json!({"required": [long]})), &json!(vec![json!({}); 250])),
            (
                "a long place",
                json!({"additionalProperties": every(json!(false))}),
                &json!({long.clone(): vec![0; 250]}),
            ),
            ("a long pattern", every(json!({"pattern": format!("^({})$", "a|".repeat(5_000))})), &some),
        ] {
            for is_ours in [true, false] {
                let full = FullChecker::new(&schema, is_ours).expect("a good schema");
                let mut checked = Ok(());
                let used = allocation_counter::measure(|| checked = full.check(value));
                assert!(checked.is_err(), "{what}");
                assert!(used.bytes_max < 8 << 20, "{what}: {} bytes", used.bytes_max);
            }
        }
    }

    /// Zeros and ones in an order without a period, so that no cache of automaton states of a bounded size helps.
    fn binary(length: usize) -> String {
        let mut state = 1_u64;
        let bit = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { '0' } else { '1' }
        };
        (0..length).map(bit).collect()
    }

    #[test]
    fn pattern_cost_is_states_times_text_length() {
        const TOO_LONG: &str = "the value takes too long to check";
        let large = "1[01]{2000}[2-9]";
        let one = FullChecker::new(&json!({"pattern": large}), false).expect("a good schema");
        assert_ne!(one.check(&json!(binary(8_000))), Err(TOO_LONG.into()));
        assert_eq!(one.check(&json!(binary(100_000))), Err(TOO_LONG.into()));
        // As often as it applies.
        let many = FullChecker::new(&patterns(64, |_| large.into()), false).expect("a good schema");
        assert_eq!(many.check(&json!(binary(8_000))), Err(TOO_LONG.into()));
        // Also where it is held against names.
        for schema in [
            json!({"patternProperties": {large: {}}}),
            json!({"propertyNames": {"pattern": large}}),
            json!({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"propertyNames": {"pattern": large}}}}),
        ] {
            let names = FullChecker::new(&schema, false).expect("a good schema");
            assert_eq!(names.check(&json!({"a": {binary(100_000): 0}})), Err(TOO_LONG.into()), "{schema}");
        }
        // A small one is not.
        let small = FullChecker::new(&json!({"pattern": "^[A-Za-z0-9+/]*={0,2}$"}), false).expect("a good schema");
        assert_eq!(small.check(&json!("A".repeat(1 << 20))), Ok(()));
    }

    /// The schema of trees with three kinds of nodes. Without a bound, finding the location of an error takes twice as
    /// long with each level.
    #[test]
    fn error_location_of_recursive_schema_is_bounded() {
        let branch = |kind: &str| json!({"properties": {"kind": {"const": kind}, "next": {"$ref": "#"}}, "required": ["kind"], "type": "object"});
        let schema = json!({"oneOf": [branch("a"), branch("b"), branch("c")]});
        let tree = |depth, end: Value| (0..depth).fold(end, |tree, _| json!({"kind": "a", "next": tree}));
        for is_ours in [true, false] {
            let full = FullChecker::new(&schema, is_ours).expect("a good schema");
            assert_eq!(full.check(&tree(100, json!({"kind": "b"}))), Ok(()));
            assert_eq!(full.check(&tree(100, json!({"kind": "d"}))), Err("the value does not fit the schema".into()));
            let small = full.check(&tree(2, json!({"kind": "d"}))).expect_err("it does not fit");
            assert_ne!(small, "the value does not fit the schema");
        }
    }
}
