use super::*;
use serde_json::json;

/// Returns whether a schema of a peer can be measured, and how often a value of it was looked at.
fn counted(schema: &Value) -> (Result<Cost, SchemaError>, u64) {
    match CostWalker::new(schema, false) {
        Ok(mut walk) => (walk.cost(), walk.visits.get()),
        Err(why) => (Err(why), 0),
    }
}

fn paths(schema: &Value) -> u64 {
    Cost::of(schema, true).expect("it can be measured").paths
}

#[test]
fn counts_paths_to_each_schema() {
    assert_eq!(paths(&json!({"type": "object"})), 1);
    // An object of properties counts, too: it is an upper bound.
    assert_eq!(paths(&json!({"properties": {"a": {"type": "string"}, "b": true}})), 3);
    let twice = json!({"$defs": {"a": {"allOf": [{}, {}]}}, "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/%24defs/a"}]});
    assert_eq!(paths(&twice), 1 + 2 * (1 + 3));
    let named = json!({"$id": "x:y", "$defs": {"a": {"$anchor": "n"}}, "allOf": [{"$ref": "#n"}, {"$ref": "x:y#n"}]});
    assert_eq!(paths(&named), 1 + 2 * 2);
    let tree = json!({"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}});
    let cost = Cost::of(&tree, true).expect("it can be measured");
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

/// Schemas of 256 KiB or less that take many steps for each of their bytes.
#[test]
fn schema_cost_is_computed_in_linear_time() {
    let list = |items: Vec<Value>, more: Vec<Value>| Value::from([items, more].concat());
    let references = |to: &str, count| vec![json!({"$ref": to}); count];
    let id = format!("x:{}", "#".repeat(60_000));
    for (what, schema) in [
        ("one name", json!({"anyOf": list(vec![json!({"$anchor": "a"}); 5_000], references("#a", 5_000))})),
        (
            "one dynamic name",
            json!({"anyOf": list(vec![json!({"$dynamicAnchor": "a"}); 4_000], references("#a", 4_000))}),
        ),
        ("a list", json!({"$defs": {"a": vec![json!({}); 20_000]}, "anyOf": references("#/$defs/a", 5_000)})),
        ("numbers", json!({"$defs": {"a": vec![0; 50_000]}, "anyOf": references("#/$defs/a", 5_000)})),
        ("an identity", json!({"$id": id, "$defs": {"a": {}}, "anyOf": references("#/$defs/a", 5_000)})),
        ("one schema", json!({"$defs": {"a": {}}, "anyOf": references("#/$defs/a", 10_000)})),
    ] {
        let length = schema.to_string().len();
        assert!(length < 256 << 10, "{what}: {length} bytes");
        let (result, steps) = counted(&schema);
        assert!(steps < length as u64, "{what}: {steps} steps for {length} bytes, {:?}", result.err());
    }
}

#[test]
fn rejects_schemas_without_computable_cost() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/gone"}),
        json!({"$ref": "#/anyOf", "anyOf": [{}]}),
        json!({"anyOf": [{"$anchor": "a"}, {"$dynamicAnchor": "a"}]}),
        json!({"$ref": "#gone"}),
        json!({"$ref": "https://other.example/schema"}),
        json!({"$defs": {"a": {"$id": "x:y"}}}),
        chain(1000, false),
        chain(1000, true),
    ] {
        assert!(Cost::of(&schema, true).is_err(), "{schema}");
    }
}

#[test]
fn the_number_of_patterns_of_a_peer_is_bounded() {
    let schema = |count: usize| {
        let properties: Map<_, _> = (0..count / 2).map(|n| (n.to_string(), json!({"pattern": "a"}))).collect();
        let patterns: Map<_, _> = (0..count.div_ceil(2)).map(|n| (format!("a{{{n}}}"), json!(true))).collect();
        json!({"properties": properties, "patternProperties": patterns})
    };
    let cost = Cost::of(&schema(64), false).expect("as many as allowed");
    assert_eq!((cost.patterns, cost.loops), (64, 0));
    assert!(cost.states >= 64 * (SMALL_PATTERN / STATE_BYTES) as u64, "{cost:?}");
    let why = Cost::of(&schema(65), false).expect_err("one too many").to_string();
    assert_eq!(why, "the schema has more than 64 patterns");
    // Those of the application are not counted in states.
    let cost = Cost::of(&schema(65), true).expect("a schema of the application");
    assert_eq!((cost.patterns, cost.states), (65, 0));
}

#[test]
fn the_depth_of_a_schema_is_bounded() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    assert!(Cost::of(&nested(256), true).is_ok());
    let why = Cost::of(&nested(257), true).expect_err("one too many").to_string();
    assert_eq!(why, "the schema has more than 256 levels");
}

#[test]
fn sizes_of_values_are_exact() {
    let text = |length: usize| Value::from("x".repeat(length));
    for (value, parts, values, bytes, place, depth) in [
        (json!(null), 1, 1, 0, 0, 0),
        (text(63), 1, 1, 63, 0, 1),
        (text(64), 2, 1, 64, 0, 1),
        (text(128), 3, 1, 128, 0, 1),
        (json!([]), 1, 1, 0, 0, 1),
        (json!([1, 2]), 3, 3, 0, 9, 1),
        (json!({"ab": 1, "c": [2, "xyz"]}), 5, 5, 6, 11, 3),
        (json!({"abcdefghijklmnop": 1, "c": [2]}), 4, 4, 17, 17, 2),
    ] {
        let expected = Size { parts, values, text: bytes, place, depth };
        assert_eq!(Size::of(&value), expected, "{value}");
    }
}

#[test]
fn longest_texts_are_those_of_values_and_names() {
    for (value, longest) in [
        (json!(1), 0),
        (json!("abc"), 3),
        (json!(["a", "abcd", "ab"]), 4),
        (json!({"abcde": "a", "a": "abc"}), 5),
        (json!({"a": ["abcdef"]}), 6),
    ] {
        assert_eq!(longest_text(&value), longest, "{value}");
    }
    let schema = json!({"title": "x".repeat(99), "required": ["abc", "abcd"], "pattern": "ab"});
    assert_eq!(Cost::of(&schema, true).expect("a schema").longest, 4);
}

const COST: Cost = Cost { paths: 1, loops: 0, patterns: 0, states: 0, has_choices: false, longest: 0 };

#[test]
fn limits_of_costs_are_exact() {
    assert!(Cost { paths: MAX_PATHS, ..COST }.admit().is_ok());
    let why = Cost { paths: MAX_PATHS + 1, ..COST }.admit().expect_err("one too many").to_string();
    assert_eq!(why, "the schema takes too long to check: its references lead to too many schemas");
    let size = |parts, values, text, place, depth| Size { parts, values, text, place, depth };
    let cost = Cost { paths: 3, states: 5, loops: 2, ..COST };
    assert_eq!(cost.steps(size(7, 0, 11, 0, 0)), 3 * 7 + 5 * 11);
    assert_eq!(
        (cost.ways(size(1, 1, 0, 0, 0)), cost.ways(size(1, 1, 0, 0, 3)), COST.ways(size(1, 1, 0, 0, 9))),
        (1, 8, 1)
    );
    // One value of one part.
    assert!(Cost { paths: MAX_STEPS, ..COST }.allows(&json!(1)));
    assert!(!Cost { paths: MAX_STEPS + 1, ..COST }.allows(&json!(1)));
    assert!(Cost { paths: STEPS_TO_EXPLAIN, ..COST }.can_explain(&json!(1)));
    assert!(!Cost { paths: STEPS_TO_EXPLAIN + 1, ..COST }.can_explain(&json!(1)));
    // Loops multiply with the depth: a list of one number has two parts and one level.
    assert!(Cost { paths: STEPS_TO_EXPLAIN / 20, loops: 10, ..COST }.can_explain(&json!([1])));
    assert!(!Cost { paths: STEPS_TO_EXPLAIN / 20 + 1, loops: 10, ..COST }.can_explain(&json!([1])));
}

#[test]
fn memory_of_collected_errors_is_bounded() {
    // Without choices, each error takes 512 bytes, the longest text of a rule, and its place.
    let size = Size { parts: 1, values: 4, text: 0, place: 100, depth: 0 };
    let fits = MAX_ERROR_BYTES / 4 / (512 + 412 + 100);
    assert!(Cost { paths: fits, longest: 412, ..COST }.can_collect(size));
    assert!(!Cost { paths: fits + 1, longest: 412, ..COST }.can_collect(size));
    // In choices each error has a copy of the value, for each of its levels.
    let value = size_of::<Value>() as u64;
    let size = Size { parts: 1, values: 1, text: 1024 - value, place: 0, depth: 1 };
    let choices = |paths| Cost { paths, has_choices: true, ..COST }.can_collect(size);
    let fits = MAX_ERROR_BYTES / (512 + 2 * 1024);
    assert!(choices(fits) && !choices(fits + 1));
    // A choice in whose errors a value does not fit is not explained.
    let long = Value::from("x".repeat(1 << 20));
    let cost = |has_choices| Cost { paths: 5, has_choices, ..COST };
    assert!(cost(false).can_explain(&long) && !cost(true).can_explain(&long));
    // Values of many parts are not listed.
    assert!(COST.can_list(&json!(vec![0; 255])) && !COST.can_list(&json!(vec![0; 256])));
}

#[test]
fn percent_escapes_of_pointers_are_decoded() {
    for (pointer, text) in
        [("/a", "/a"), ("/%24a", "/$a"), ("/%C3%a9", "/é"), ("/%", "/%"), ("/%2", "/%2"), ("/%zz%41", "/%zzA")]
    {
        assert_eq!(decoded(pointer), text, "{pointer}");
    }
}
