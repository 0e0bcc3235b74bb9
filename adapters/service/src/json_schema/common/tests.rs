use serde_json::{Value, json};

use super::{
    CommonChecker,
    check::{MAX_STEPS, TOO_LONG},
    compile::CompileError,
};

fn common(schema: &Value) -> CommonChecker {
    CommonChecker::new(schema, true).unwrap_or_else(|why| panic!("{schema}: {why}"))
}

fn refused(schema: &Value) -> CompileError {
    CommonChecker::new(schema, true).err().unwrap_or_else(|| panic!("{schema} is accepted"))
}

#[test]
fn uncommon_keywords_are_refused_by_name() {
    for (schema, keyword, place) in [
        (json!({"properties": {"a": {"pattern": "^(?=a)$"}}}), "pattern", "/properties/a"),
        (json!({"patternProperties": {r"^\p{L}": {}}}), "patternProperties", "its root"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "unevaluatedProperties": false}),
            "unevaluatedProperties",
            "its root",
        ),
        (json!({"items": {"unevaluatedItems": false}}), "unevaluatedItems", "/items"),
        (json!({"$defs": {"a": {"$dynamicRef": "#a"}}}), "$dynamicRef", "/$defs/a"),
        (json!({"dependentSchemas": {}}), "dependentSchemas", "its root"),
        (json!({"dependencies": {}}), "dependencies", "its root"),
        (json!({"contains": {}, "minContains": 2}), "minContains", "its root"),
        (json!({"multipleOf": 0.1}), "multipleOf", "its root"),
        (json!({"$defs": {"a": {"$id": "x:y"}}}), "$id", "/$defs/a"),
        (json!({"$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema"}}}), "$schema", "/$defs/a"),
        (json!({"$anchor": "a", "properties": {"b": {"$ref": "#a"}}}), "$ref", "/properties/b"),
        (json!({"$anchor": 1}), "$anchor", "its root"),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "$anchor": "a"}), "$anchor", "its root"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema"}), "$schema", "its root"),
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}), "items", "its root"),
        #[cfg(feature = "json-schema")]
        (json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "uri"}), "format", "its root"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "minimum": 1,
                   "definitions": {"a": {}}}),
            "$ref",
            "its root",
        ),
    ] {
        let why = refused(&schema);
        assert!(matches!(why, CompileError::Uncommon(..)), "{schema}: {why:?}");
        let why = why.to_string();
        for part in [&format!("{keyword:?} at {place}"), "the feature `json-schema` of mcp-service"] {
            assert!(why.contains(part), "{schema}: {why}");
        }
    }
}

/// What has no effect beside a reference of draft 7 may stand there.
#[test]
fn references_of_draft_7_have_definitions_and_annotations() {
    let checker = common(&json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://own.example/", "title": "a",
        "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}, "$defs": {},
    }));
    assert_eq!((checker.check(&json!("text")), checker.check(&json!(1)).is_err()), (Ok(()), true));
}

#[test]
fn invalid_schemas_are_refused() {
    for schema in [
        json!({"type": "strnig"}),
        json!({"type": []}),
        json!({"type": ["string", "string"]}),
        json!({"properties": []}),
        json!({"properties": {"a": 1}}),
        json!({"required": "a"}),
        json!({"required": ["a", "a"]}),
        json!({"minimum": "1"}),
        json!({"pattern": 1}),
        json!({"minLength": -1}),
        json!({"minLength": 0.5}),
        json!({"multipleOf": 0}),
        json!({"multipleOf": -0.5}),
        json!({"enum": "a"}),
        json!({"anyOf": []}),
        json!({"allOf": {}}),
        json!({"items": [{}]}),
        json!({"uniqueItems": 1}),
        json!({"title": 1, "minimum": 0}),
        json!({"readOnly": "yes", "minimum": 0}),
        json!({"examples": 1, "minimum": 0}),
        json!({"$ref": "#/$defs/gone"}),
        json!({"$ref": "#/anyOf", "anyOf": [{}]}),
        json!({"$ref": "https://other.example/schema"}),
        json!({"$defs": {"a": {"$ref": "file:///etc/passwd"}}}),
    ] {
        assert!(matches!(refused(&schema), CompileError::Invalid(..)), "{schema}");
    }
}

#[test]
fn a_schema_that_leads_back_to_itself_for_one_value_is_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"if": {"$ref": "#"}}),
    ] {
        assert_eq!(refused(&schema), CompileError::Circle, "{schema}");
    }
    for is_reversed in [false, true] {
        let link = |n: usize| json!({"$ref": format!("#/$defs/{n:04}")});
        let next = |n: usize| if is_reversed { n.checked_sub(1) } else { Some(n + 1).filter(|next| *next < 1000) };
        let chain: serde_json::Map<_, _> =
            (0..1000).map(|n| (format!("{n:04}"), next(n).map_or(json!({}), link))).collect();
        assert_eq!(refused(&json!({"$defs": chain})), CompileError::TooDeep);
    }
}

/// A schema with all rules.
fn all_rules() -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
            "x": {"exclusiveMinimum": 0, "exclusiveMaximum": 9},
            "even": {"multipleOf": 2},
            "text": {"type": "string", "minLength": 2, "maxLength": 3},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": true},
            "pair": {"prefixItems": [{"type": "integer"}], "items": false},
            "by": {"enum": ["train", "bike"]},
            "kind": {"const": "a"},
            "map": {"additionalProperties": {"type": "number"}, "propertyNames": {"maxLength": 3}},
            "ids": {"patternProperties": {r"^-?\d+$": {"type": "string"}}, "additionalProperties": false},
            "stop": {"anyOf": [{"$ref": "#/$defs/stop"}, {"type": "null"}]},
            "shape": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
                {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]},
            ]},
            "tagged": {"oneOf": [
                {"type": "object", "properties": {"A": {"type": "integer"}}, "required": ["A"], "additionalProperties": false},
                {"type": "object", "properties": {"B": {"type": "integer"}}, "required": ["B"], "additionalProperties": false},
            ]},
            "both": {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            "no": {"not": {"type": "null"}},
            "a/~b": {"type": "null"},
            "has": {"contains": {"const": 1}},
            "card": {"dependentRequired": {"number": ["date"]}, "minProperties": 1},
            "state": {"pattern": "^[A-Z]{2}$"},
            "flat": {"anyOf": [{"properties": {"a": {"type": "integer"}}}], "unevaluatedProperties": false},
            "if": {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        },
        "$defs": {"stop": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/stop"}}, "required": ["name"]}},
        "additionalProperties": false,
    })
}

/// What each error says.
#[test]
fn errors_name_rules_and_places() {
    let checker = common(&all_rules());
    let both = "\"b\" is a required property at /if";
    for (value, expected) in [
        (json!([]), "the value is not of type \"object\""),
        (json!({"n": 1.5}), "the value is not of type \"integer\" at /n"),
        (json!({"n": -1}), "the value is less than 0 at /n"),
        (json!({"n": 10}), "the value is greater than 9 at /n"),
        (json!({"x": 0}), "the value is not greater than 0 at /x"),
        (json!({"x": 9}), "the value is not less than 9 at /x"),
        (json!({"even": 3}), "the value is not a multiple of 2 at /even"),
        (json!({"text": "ä"}), "the value has fewer than 2 characters at /text"),
        (json!({"text": "long"}), "the value has more than 3 characters at /text"),
        (json!({"list": []}), "the value has fewer than 1 items at /list"),
        (
            json!({"list": ["a", "b", 1]}),
            "the value has more than 2 items at /list; the value is not of type \"string\" at /list/2",
        ),
        (json!({"list": ["a", "a"]}), "the value has equal items at /list"),
        (json!({"pair": [1, 2]}), "the value is not allowed at /pair/1"),
        (json!({"by": "plane"}), "the value is none of \"train\", \"bike\" at /by"),
        (json!({"kind": "b"}), "the value is not \"a\" at /kind"),
        (json!({"map": {"a": "b"}}), "the value is not of type \"number\" at /map/a"),
        (json!({"map": {"long": 1}}), "the value has a member whose name is not allowed at /map"),
        (json!({"ids": {"-1": "a", "x": "b"}}), "\"x\" is unexpected at /ids"),
        (json!({"ids": {"1": 1}}), "the value is not of type \"string\" at /ids/1"),
        (json!({"stop": {"name": "a", "next": {"name": 1}}}), "the value is not of type \"string\" at /stop/next/name"),
        (json!({"stop": 1}), "the value fits none of the alternatives at /stop"),
        (json!({"shape": {"kind": "circle", "r": "1"}}), "the value is not of type \"number\" at /shape/r"),
        (json!({"shape": {"kind": "circle"}}), "\"r\" is a required property at /shape"),
        (json!({"shape": {"kind": "oval"}}), "the value fits none of the alternatives at /shape"),
        (json!({"tagged": {"B": "1"}}), "the value is not of type \"integer\" at /tagged/B"),
        (json!({"both": 2}), "the value fits more than one of the alternatives at /both"),
        (json!({"no": null}), "the value is of a kind that is excluded at /no"),
        (json!({"a/~b": 1}), "the value is not of type \"null\" at /a~1~0b"),
        (json!({"has": [2]}), "the value has no item of the kind that is required at /has"),
        (json!({"card": {"number": 1}}), "\"date\" is a required property if there is \"number\" at /card"),
        (json!({"card": {}}), "the value has fewer than 1 members at /card"),
        (json!({"if": {"a": 1}}), both),
        (json!({"if": {}}), "\"c\" is a required property at /if"),
        (json!({"what": 1}), "\"what\" is unexpected"),
        (json!({"state": "Ch"}), "the value does not match \"^[A-Z]{2}$\" at /state"),
        (json!({"flat": {"a": 1, "b": 1}}), "\"b\" is unexpected at /flat"),
    ] {
        assert_eq!(checker.check(&value), Err(expected.to_owned()), "{value}");
    }
    let all = checker.check(&json!({"n": "a", "text": 1, "by": 2, "list": [1, 2]})).expect_err("it does not fit");
    for place in ["/n", "/text", "/by"] {
        assert!(all.contains(place), "{place}: {all}");
    }
    let many =
        common(&json!({"items": {"type": "integer"}})).check(&json!(vec!["x"; 20])).expect_err("it does not fit");
    assert_eq!(many.matches(" at /").count(), super::super::limits::MAX_ERRORS, "{many}");
}

#[test]
fn numbers_are_compared_exactly() {
    let large = 9_007_199_254_740_993_u64; // It is not a double.
    for (schema, value, fits) in [
        (json!({"maximum": large}), json!(large), true),
        (json!({"maximum": large - 1}), json!(large), false),
        (json!({"exclusiveMinimum": -0.5}), json!(0), true),
        (json!({"exclusiveMinimum": -0.5}), json!(-1), false),
        (json!({"minimum": 1e300}), json!(u64::MAX), false),
        (json!({"maximum": 1e300}), json!(u64::MAX), true),
        (json!({"minimum": -1e300}), json!(i64::MIN), true),
        (json!({"maximum": 2.5}), json!(3), false),
        (json!({"const": 1}), json!(1.0), true),
        (json!({"enum": [[1.0, {"a": 2}]]}), json!([1, {"a": 2.0}]), true),
        (json!({"uniqueItems": true}), json!([1, 1.0]), false),
        (json!({"uniqueItems": true}), json!([1, "1", [1], {"1": 1}, true, null, 1.5]), true),
        (json!({"uniqueItems": true}), json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]), false),
        (json!({"uniqueItems": true}), json!([["a", "b"], ["a\", \"b"]]), true),
        (json!({"multipleOf": 3}), json!(9.0), true),
        (json!({"multipleOf": 3}), json!(9.5), false),
        (json!({"multipleOf": 2}), json!(1e300), true),
        (json!({"type": "integer"}), json!(1e300), true),
    ] {
        assert_eq!(common(&schema).check(&value).is_ok(), fits, "{schema} {value}");
    }
}

/// The schema of trees with three kinds of nodes, each of which is tried for each level.
#[test]
fn recursive_choices_take_bounded_time() {
    let branch = |kind: &str| json!({"properties": {"kind": {"const": kind}, "next": {"$ref": "#"}}, "required": ["kind"], "type": "object"});
    let schema = json!({"oneOf": [branch("a"), branch("b"), branch("c")]});
    let tree = |depth, end: Value| (0..depth).fold(end, |tree, _| json!({"kind": "a", "next": tree}));
    for is_ours in [true, false] {
        let checker = CommonChecker::new(&schema, is_ours).expect("a good schema");
        assert_eq!(checker.check(&tree(100, json!({"kind": "b"}))), Ok(()));
        assert!(checker.check(&tree(100, json!({"kind": "d"}))).is_err());
        let small = checker.check(&tree(2, json!({"kind": "d"})));
        assert_eq!(small, Err("the value fits none of the alternatives at /next/next".into()));
    }
    // Definitions that each use the next one twice.
    let twice = |n: usize| json!({"allOf": vec![json!({"$ref": format!("#/$defs/{}", n + 1)}); 2]});
    let mut definitions: serde_json::Map<_, _> = (0..60).map(|n| (n.to_string(), twice(n))).collect();
    definitions.insert("60".into(), json!({"type": "integer"}));
    let doubling = common(&json!({"$defs": definitions, "$ref": "#/$defs/0"}));
    assert_eq!(doubling.check(&json!(1)), Ok(()));
    assert!(doubling.check(&json!("one")).is_err());
}

#[test]
fn errors_are_those_of_the_only_alternative_with_the_type() {
    let checker = common(&json!({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}));
    assert_eq!(checker.check(&json!(0)), Err("the value is less than 1".into()));
}

#[test]
fn checks_with_schemas_of_peers_are_limited() {
    let limited = |schema: &Value, limit| CommonChecker { limit, ..common(schema) };
    let many: Vec<_> = (0..300).map(|_| json!({"minLength": 0})).collect();
    let schema = json!({"type": "array", "items": {"allOf": many}});
    assert_eq!(CommonChecker::new(&schema, false).expect("a good schema").limit, MAX_STEPS);
    assert_eq!(common(&schema).limit, 5 * MAX_STEPS);
    let (small, large) = (json!(vec!["x"; 10]), json!(vec!["x"; 1_000]));
    assert_eq!(limited(&schema, 100_000).check(&small), Ok(()));
    assert_eq!(limited(&schema, 100_000).check(&large), Err(TOO_LONG.into()));
    assert_eq!(common(&schema).check(&large), Ok(()));
    // Not even an inverted result is given then.
    assert_eq!(limited(&json!({"not": schema}), 100_000).check(&large), Err(TOO_LONG.into()));
    // Comparing values, reading texts and keeping results takes steps, too.
    let numbers: Vec<_> = (0..200).map(Value::from).chain(["x".into()]).collect();
    for schema in [
        json!({"items": {"enum": numbers}}),
        json!({"items": {"enum": ["y".repeat(10_000), "x"]}}),
        json!({"$defs": {"a": {"type": "string"}}, "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}),
        json!({"uniqueItems": true, "items": {"maxLength": 1}}),
        json!({"items": {"pattern": "^.{30}|x$"}}),
        json!({"items": {"required": vec!["a"; 1]}, "allOf": vec![json!({"items": {}}); 60]}),
    ] {
        assert_eq!(limited(&schema, 50_000).check(&small), common(&schema).check(&small), "{schema}");
        let long = json!(vec!["x"; 10_000]);
        let result = limited(&schema, 50_000).check(if schema["uniqueItems"] == true { &long } else { &large });
        assert!(
            result == Err(TOO_LONG.into()) || schema["uniqueItems"] == true && result.is_err(),
            "{schema}: {result:?}"
        );
    }
}

/// Alternatives whose shapes are compared with a value: each of many members for each of many references.
#[test]
fn explanations_are_limited() {
    let names = |count: usize| (0..count).map(|number| format!("n{number}"));
    let named = |count| names(count).map(|name| (name, json!({"const": 1}))).collect::<serde_json::Map<_, _>>();
    for definition in [
        |count: usize, named: Value, _: Value| json!({"properties": named, "minProperties": count + 9}),
        |count: usize, _: Value, names: Value| json!({"required": names, "minProperties": count + 9}),
    ] {
        let explained = |count: usize| {
            let definition = definition(count, named(count).into(), names(count).collect::<Vec<_>>().into());
            let references = vec![json!({"$ref": "#/$defs/a"}); count];
            let checker = common(&json!({"$defs": {"a": definition}, "anyOf": references}));
            checker.check(&json!({"other": 1})).expect_err("it has too few members")
        };
        assert_eq!(explained(3), "the value fits none of the alternatives");
        assert_eq!(explained(2_000), "the value does not fit the schema");
    }
}

// A level of references that was not counted, and members that several rules check, took the stack or time without end.
#[test]
fn evaluated_members_and_overlapping_rules_are_bounded() {
    let mut definitions = json!({"d240": {"anyOf": [true, {"properties": {"a": {"$ref": "#"}}}]}});
    for level in 0..240 {
        definitions[format!("d{level}")] = json!({"$ref": format!("#/$defs/d{}", level + 1)});
    }
    let chain = json!({"$ref": "#/$defs/d0", "unevaluatedProperties": true, "$defs": definitions});
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    let check = {
        let (chain, value) = (CommonChecker::new(&chain, false), deep(120));
        move || chain.map(|chain| chain.check(&value).is_ok())
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(check).expect("a thread");
    let _ = thread.join().expect("it does not overflow the stack");
    for schema in [
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}),
        json!({"properties": {"a": {"$ref": "#"}}, "allOf": [{"properties": {"a": {"$ref": "#"}}}]}),
    ] {
        assert_eq!(common(&schema).check(&deep(60)), Ok(()), "{schema}");
    }
    let mut definitions = json!({"s40": {"type": "integer"}});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/s{}", level + 1)});
        definitions[format!("s{level}")] = json!({"allOf": [next, next]});
    }
    let doubling = common(&json!({"$ref": "#/$defs/s0", "$defs": definitions}));
    assert_eq!(doubling.check(&json!(1)), Ok(()));
    assert!(doubling.check(&json!("x")).is_err());
    let arrays = (0..60).fold(json!([1]), |inner, _| json!([inner]));
    let schema = json!({"items": {"$ref": "#"}, "contains": {"$ref": "#"}});
    assert_eq!(common(&schema).check(&arrays), Ok(()));
}

#[test]
fn patterns_of_a_schema_are_bounded_together() {
    let many: Vec<_> = (0..10_000).map(|number| json!({"pattern": format!("{number}a{{665}}")})).collect();
    assert_eq!(CommonChecker::new(&json!({"anyOf": many}), false).err(), Some(CompileError::TooManyPatterns));
    // Classes count with each of their ranges.
    let class: String = (0..3_000).filter_map(|number| char::from_u32(0x4000 + 2 * number)).collect();
    let nested = "((((((a{2000}){2000}){2000}){2000}){2000}){2000}){2000}";
    for pattern in [nested, &format!("[{class}]{{665}}"), &"(a|b){9}".repeat(9_000)] {
        let refused = CommonChecker::new(&json!({"pattern": pattern}), false).err();
        assert!(matches!(refused, Some(CompileError::Uncommon(..))), "{pattern:.20}: {refused:?}");
    }
}

/// A schema that applies many schemas for each level of a value takes the stack of no thread.
#[test]
fn deep_values_take_a_bounded_stack() {
    let nested = (0..100).fold(json!({"properties": {"a": {"$ref": "#"}}}), |inner, _| json!({"allOf": [inner]}));
    let value = (0..120).fold(json!({}), |inner, _| json!({"a": inner}));
    let check = move || common(&nested).check(&value);
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(check).expect("a thread");
    assert_eq!(thread.join().expect("no panic"), Err("the value is nested too deeply".into()));
    // Trees of the depth that JSON may have are no problem.
    let tree = json!({"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}],
        "$defs": {"tree": {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "type": "object"}}});
    let value = (0..126).fold(Value::Null, |inner, _| json!({"a": inner}));
    assert_eq!(common(&tree).check(&value), Ok(()));
}

#[cfg(feature = "schemas")]
mod derived {
    use std::{
        collections::{BTreeMap, BTreeSet, HashMap},
        net::IpAddr,
        num::NonZeroU32,
        path::PathBuf,
        time::Duration,
    };

    use schemars::JsonSchema;
    use serde_json::Value;

    use crate::json_schema::{
        common::CommonChecker,
        derive::{input_schema, output_schema},
    };

    /// All kinds of types that derives know.
    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct All {
        small: u8,
        signed: Option<i64>,
        wide: u128,
        float: f32,
        letter: char,
        unit: (),
        pair: (u8, String),
        array: [f64; 3],
        #[schemars(length(min = 1, max = 5))]
        list: Vec<Unit>,
        set: BTreeSet<String>,
        map: BTreeMap<String, Tagged>,
        #[serde(default)]
        numbers: HashMap<i32, u32>,
        ids: BTreeMap<u16, Untagged>,
        nonzero: NonZeroU32,
        #[schemars(range(min = 0.5, max = 2.5))]
        share: f64,
        path: PathBuf,
        ip: IpAddr,
        wait: Duration,
        any: Value,
        external: External,
        adjacent: Adjacent,
        next: Option<Box<All>>,
        result: Result<u8, String>,
        #[schemars(email)]
        email: String,
        #[schemars(regex(pattern = r"^\d{4}-\d{2}$"))]
        month: String,
        #[schemars(url)]
        url: Option<String>,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    enum Unit {
        /// With a text.
        One,
        Two,
    }

    #[derive(JsonSchema)]
    #[serde(tag = "kind")]
    #[allow(dead_code, reason = "only its schema is used")]
    enum Tagged {
        A { a: u8 },
        B(Flat),
        C,
    }

    #[derive(JsonSchema)]
    #[serde(untagged)]
    #[allow(dead_code, reason = "only its schema is used")]
    enum Untagged {
        Number(u8),
        List(Vec<Untagged>),
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    enum External {
        Unit,
        New(u8),
        Tuple(u8, u8),
        Struct { a: u8 },
    }

    #[derive(JsonSchema)]
    #[serde(tag = "t", content = "c")]
    #[allow(dead_code, reason = "only its schema is used")]
    enum Adjacent {
        Unit,
        New(u8),
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its schema is used")]
    struct Flat {
        own: u8,
        #[serde(flatten)]
        unit: External,
        #[serde(flatten)]
        others: BTreeMap<String, u8>,
    }

    #[test]
    fn schemas_of_types_have_common_keywords() {
        for schema in [input_schema::<All>(), output_schema::<All>(), input_schema::<Flat>(), input_schema::<Tagged>()]
        {
            if let Err(why) = CommonChecker::new(&schema, true) {
                panic!("{why}: {schema:#}");
            }
        }
    }
}
