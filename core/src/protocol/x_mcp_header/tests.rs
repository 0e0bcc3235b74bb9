//! Tests of annotations in schemas, and of the headers that repeat arguments.

use super::*;
use alloc::{collections::BTreeMap, format, vec};

fn of(schema: &str) -> Result<Vec<HeaderParam>, InvalidHeaderParam> {
    HeaderParam::of_schema(&RawJson::trusted(schema))
}

fn one(property: &str) -> Result<Vec<HeaderParam>, InvalidHeaderParam> {
    of(&format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#))
}

fn paths(schema: &str) -> Vec<(String, String)> {
    of(schema).expect("a good schema").into_iter().map(|param| (param.name, param.path.join("/"))).collect()
}

// req: M-HTTP-051 M-HTTP-052 M-HTTP-053 M-HTTP-055
#[test]
fn annotations_require_a_name_and_a_scalar_type() {
    let good = ["a", "Row", "Method", "!#$%&'*+-.^_`|~09azAZ"];
    for name in good {
        let found = one(&format!(r#"{{"type":"string","x-mcp-header":"{name}"}}"#)).expect("it is good");
        assert_eq!(found[0].header(), format!("Mcp-Param-{name}"));
    }
    for name in ["\"\"", "\"a b\"", "\"a:b\"", "\"ä\"", "\"a\\n\"", "\"a/b\"", "1", "null", "true", "[\"a\"]"] {
        let found = one(&format!(r#"{{"type":"string","x-mcp-header":{name}}}"#));
        assert_eq!(found, Err(InvalidHeaderParam::Name(name.to_owned())));
    }
    for good in [r#""string""#, r#""integer""#, r#""boolean""#, r#"["string","null"]"#, r#"["null","integer"]"#] {
        assert_eq!(one(&format!(r#"{{"x-mcp-header":"N","type":{good}}}"#)).map(|found| found.len()), Ok(1));
    }
    let bad =
        [r#""number""#, r#""null""#, r#""array""#, r#""object""#, r#"["string","integer"]"#, r#"["null"]"#, "[]", "1"];
    for bad in bad {
        let found = one(&format!(r#"{{"x-mcp-header":"N","type":{bad}}}"#));
        assert_eq!(found, Err(InvalidHeaderParam::Type("N".to_owned())), "{bad}");
    }
    assert_eq!(one(r#"{"x-mcp-header":"N"}"#), Err(InvalidHeaderParam::Type("N".to_owned())));
    assert_eq!(of("true"), Err(InvalidHeaderParam::Schema));
}

// req: M-HTTP-054
#[test]
fn header_names_are_unique_ignoring_case() {
    let schema = |a: &str, b: &str| {
        format!(
            r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"{a}"}},
            "o":{{"properties":{{"b":{{"type":"integer","x-mcp-header":"{b}"}}}}}}}}}}"#
        )
    };
    assert_eq!(paths(&schema("A", "B")), [("A".to_owned(), "a".to_owned()), ("B".to_owned(), "o/b".to_owned())]);
    assert_eq!(of(&schema("Row", "rOW")), Err(InvalidHeaderParam::Repeated("rOW".to_owned())));
}

/// The meaning of the value of a keyword of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    /// The members are schemas of arguments.
    Arguments,
    /// The value is a schema or an array of schemas, but not of an argument.
    Schema,
    /// The members are schemas, but not of arguments.
    Schemas,
    /// The value is data, in which an annotation has no meaning.
    Data,
}

/// All keywords of the drafts 4, 6, 7, 2019-09 and 2020-12 (core, applicators, unevaluated, validation, metadata,
/// format, content).
const KEYWORDS: &[(&str, Below)] = &[
    ("properties", Below::Arguments),
    ("$defs", Below::Schemas),
    ("definitions", Below::Schemas),
    ("dependencies", Below::Schemas),
    ("dependentSchemas", Below::Schemas),
    ("patternProperties", Below::Schemas),
    ("additionalItems", Below::Schema),
    ("additionalProperties", Below::Schema),
    ("allOf", Below::Schema),
    ("anyOf", Below::Schema),
    ("contains", Below::Schema),
    ("contentSchema", Below::Schema),
    ("else", Below::Schema),
    ("if", Below::Schema),
    ("items", Below::Schema),
    ("not", Below::Schema),
    ("oneOf", Below::Schema),
    ("prefixItems", Below::Schema),
    ("propertyNames", Below::Schema),
    ("then", Below::Schema),
    ("unevaluatedItems", Below::Schema),
    ("unevaluatedProperties", Below::Schema),
    ("$anchor", Below::Data),
    ("$comment", Below::Data),
    ("$dynamicAnchor", Below::Data),
    ("$dynamicRef", Below::Data),
    ("$id", Below::Data),
    ("$recursiveAnchor", Below::Data),
    ("$recursiveRef", Below::Data),
    ("$ref", Below::Data),
    ("$schema", Below::Data),
    ("$vocabulary", Below::Data),
    ("const", Below::Data),
    ("contentEncoding", Below::Data),
    ("contentMediaType", Below::Data),
    ("default", Below::Data),
    ("dependentRequired", Below::Data),
    ("deprecated", Below::Data),
    ("description", Below::Data),
    ("enum", Below::Data),
    ("examples", Below::Data),
    ("exclusiveMaximum", Below::Data),
    ("exclusiveMinimum", Below::Data),
    ("format", Below::Data),
    ("id", Below::Data),
    ("maxContains", Below::Data),
    ("maxItems", Below::Data),
    ("maxLength", Below::Data),
    ("maxProperties", Below::Data),
    ("maximum", Below::Data),
    ("minContains", Below::Data),
    ("minItems", Below::Data),
    ("minLength", Below::Data),
    ("minProperties", Below::Data),
    ("minimum", Below::Data),
    ("multipleOf", Below::Data),
    ("pattern", Below::Data),
    ("readOnly", Below::Data),
    ("required", Below::Data),
    ("title", Below::Data),
    ("type", Below::Data),
    ("uniqueItems", Below::Data),
    ("writeOnly", Below::Data),
    ("x-other", Below::Data),
];

// req: M-HTTP-057 M-HTTP-058
#[test]
fn annotations_are_allowed_on_arguments_only() {
    const ANNOTATED: &str = r#"{"type":"string","x-mcp-header":"N"}"#;
    let misplaced = Err(InvalidHeaderParam::Misplaced);
    assert_eq!(of(ANNOTATED), misplaced, "at the root");
    // The values that each keyword is tried with.
    let inner = [
        ANNOTATED.to_owned(),
        format!("[true, {ANNOTATED} ]"),
        format!(r#"{{"a":{ANNOTATED}}}"#),
        format!(r#"{{"properties":{{"a":{ANNOTATED}}}}}"#),
        format!(r#"[{{"properties":{{"a":{ANNOTATED}}}}}]"#),
        format!(r#"{{"a":{{"properties":{{"b":{ANNOTATED}}}}}}}"#),
    ];
    for (keyword, below) in KEYWORDS {
        let expected = match below {
            Below::Data => [Ok(0), Ok(0), Ok(0), Ok(0), Ok(0), Ok(0)],
            Below::Schema => {
                let bad = Err(InvalidHeaderParam::Misplaced);
                [bad.clone(), bad.clone(), Ok(0), bad.clone(), bad, Ok(0)]
            }
            Below::Schemas => {
                let bad = Err(InvalidHeaderParam::Misplaced);
                [Ok(0), Ok(0), bad.clone(), Ok(0), Ok(0), bad]
            }
            Below::Arguments => [Ok(0), Ok(0), Ok(1), Ok(0), Ok(0), Ok(1)],
        };
        for (inner, expected) in inner.iter().zip(expected) {
            // `type` and the annotation itself are read at the place where they stand.
            let schema = format!(r#"{{"{keyword}":{inner}}}"#);
            assert_eq!(of(&schema).map(|found| found.len()), expected, "{schema}");
            let schema = format!(r#"{{"properties":{{"p":{schema}}}}}"#);
            assert_eq!(of(&schema).map(|found| found.len()), expected, "{schema}");
        }
    }
    let no_annotation = [
        r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
        r#"{"properties":[],"$defs":1,"oneOf":[ ],"items":false,"not":[]}"#,
        "{}",
    ];
    for schema in no_annotation {
        assert_eq!(paths(schema), [], "{schema}");
    }
    // A name with half of a surrogate pair is that of no argument.
    assert_eq!(of(&format!(r#"{{"properties":{{"\ud800":{ANNOTATED}}}}}"#)), misplaced);
}

#[test]
fn annotations_are_bounded_in_number_and_in_bytes() {
    let many = |count: usize| {
        let one = |number: usize| format!(r#""p{number}":{{"type":"string","x-mcp-header":"H{number}"}}"#);
        format!(r#"{{"properties":{{{}}}}}"#, (0..count).map(one).collect::<Vec<_>>().join(","))
    };
    assert_eq!(of(&many(256)).map(|found| found.len()), Ok(256));
    assert_eq!(of(&many(257)), Err(InvalidHeaderParam::TooLarge));
    let below =
        |length: usize, count: usize| format!(r#"{{"properties":{{"{}":{}}}}}"#, "a".repeat(length), many(count));
    // The path `a…a/p0`, and the name as it is written, `"H0"`.
    assert_eq!(of(&below(65_530, 1)).map(|found| found.len()), Ok(1));
    assert_eq!(of(&below(65_531, 1)), Err(InvalidHeaderParam::TooLarge));
    assert_eq!(of(&below(1000, 60)).map(|found| found.len()), Ok(60));
    assert_eq!(of(&below(1000, 70)), Err(InvalidHeaderParam::TooLarge));
    // A name in an error is cut, at a character boundary.
    let long = "\u{e9}".repeat(200);
    let Err(InvalidHeaderParam::Name(name)) = one(&format!(r#"{{"type":"string","x-mcp-header":"{long}"}}"#)) else {
        panic!("it is no name")
    };
    assert_eq!(name.len(), 127);
}

#[test]
fn schema_depth_is_limited_like_json() {
    let nest = |depth: usize| {
        let inner = r#"{"type":"string","x-mcp-header":"N"}"#;
        format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(depth), "}}".repeat(depth))
    };
    assert_eq!(of(&nest(63)).map(|found| found[0].path.len()), Ok(63));
    assert_eq!(of(&nest(64)), Err(InvalidHeaderParam::Schema));
    let nest = |depth: usize| r#"{"allOf":["#.repeat(depth) + "{}" + &"]}".repeat(depth);
    assert_eq!(of(&nest(63)), Ok(Vec::new()));
    assert_eq!(of(&nest(64)), Err(InvalidHeaderParam::Schema));
    assert_eq!(of(&"[".repeat(1_000_000)), Err(InvalidHeaderParam::Schema));
}

// req: M-HTTP-056 M-HTTP-059 M-HTTP-060 M-HTTP-061 M-HTTP-064
#[test]
fn arguments_become_headers() {
    let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},"o":{"properties":{
        "i":{"type":"integer","x-mcp-header":"I"}}},"b":{"type":["boolean","null"],"x-mcp-header":"B"}}}"#;
    let params = of(schema).expect("a good schema");
    let value = |index: usize, arguments: &str| params[index].value(Some(&RawJson::trusted(arguments)));
    let some = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(value(0, r#"{"s":"café"}"#), some("=?base64?Y2Fmw6k=?="));
    assert_eq!(value(0, r#"{"s":""}"#), some(""));
    assert_eq!(value(0, r#"{"s":"a\u0062"}"#), some("ab"));
    assert_eq!(value(0, r#"{"o":{"s":"not here"},"s":null}"#), Ok(None));
    assert_eq!(value(0, r#"{"i":1}"#), Ok(None));
    assert_eq!(params[0].value(None), Ok(None));
    assert_eq!(value(1, r#"{"i":1,"o":{"i":-7}}"#), some("-7"));
    assert_eq!(value(1, r#"{"o":{"i":4.2e1}}"#), some("42"));
    assert_eq!(value(1, r#"{"o":[1]}"#), Ok(None));
    assert_eq!(value(1, r#"{"o":{"i":9007199254740991}}"#), some("9007199254740991"));
    assert_eq!(value(1, r#"{"o":{"i":-9007199254740991}}"#), some("-9007199254740991"));
    for bad in ["9007199254740992", "-9007199254740992", "1.5", "1e999999999", "{}", "[1]"] {
        assert_eq!(value(1, &format!(r#"{{"o":{{"i":{bad}}}}}"#)), Err(NotEncodable), "{bad}");
    }
    assert_eq!(value(2, r#"{"b":false}"#), some("false"));
}

// req: M-HTTP-068 M-HTTP-071 M-HTTP-072 M-HTTP-073 M-HTTP-074 M-HTTP-075 M-HTTP-080
#[test]
fn headers_are_compared_with_arguments() {
    use HeaderError::{Different, Malformed, Missing, Unfounded};
    let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},
        "i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#;
    let params: BTreeMap<_, _> =
        of(schema).expect("a good schema").into_iter().map(|param| (param.name.clone(), param)).collect();
    let verify = |name: &str, arguments: &str, header: &[(&str, &str)]| {
        let mirrored = |text: &&str| MirroredValue::from(Some(text.as_bytes()));
        let headers = header.iter().map(|(name, text)| ((*name).to_owned(), mirrored(text))).collect();
        let headers = MirroredHeaders { params: headers, ..MirroredHeaders::default() };
        params[name].verify(Some(&RawJson::trusted(arguments)), &headers).err().map(|mismatch| mismatch.fault)
    };
    assert_eq!(verify("S", r#"{"s":"café"}"#, &[("s", "=?base64?Y2Fmw6k=?=")]), None);
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", " x ")]), None);
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "=?base64?eA==?="), ("Other", "y")]), None);
    assert_eq!(verify("S", r#"{"s":""}"#, &[("S", "")]), None);
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "X")]), Some(Different));
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[]), Some(Missing));
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("I", "x")]), Some(Missing));
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "x"), ("s", "x")]), Some(Malformed));
    assert_eq!(verify("S", r#"{"s":"x"}"#, &[("S", "=?base64?eA?=")]), Some(Malformed));
    assert_eq!(verify("S", r#"{"s":"\u0001"}"#, &[("S", "\u{1}")]), Some(Malformed));
    assert_eq!(verify("S", "{}", &[]), None);
    assert_eq!(verify("S", r#"{"s":null}"#, &[]), None);
    assert_eq!(verify("S", r#"{"s":null}"#, &[("S", "null")]), Some(Unfounded));
    assert_eq!(verify("S", "{}", &[("S", "")]), Some(Unfounded));
    for same in ["42", "42.0", "4.2e1", "=?base64?NDI=?="] {
        assert_eq!(verify("I", r#"{"i":42}"#, &[("I", same)]), None, "{same}");
        assert_eq!(verify("I", r#"{"i":42.0}"#, &[("I", same)]), None, "{same}");
    }
    for other in ["43", "042", "+42", "42x", "0x2a", "", "true", "42.5", "1e400", "9007199254740993"] {
        assert_eq!(verify("I", r#"{"i":42}"#, &[("I", other)]), Some(Different), "{other}");
    }
    assert_eq!(verify("I", r#"{"i":9007199254740993}"#, &[("I", "9007199254740993")]), Some(Different));
    assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "true")]), None);
    assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "True")]), Some(Different));
    assert_eq!(verify("B", r#"{"b":true}"#, &[("B", "1")]), Some(Different));
}

// req: M-HTTP-071
#[test]
fn duplicate_arguments_match_no_header() {
    let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},"t":{"type":"string","x-mcp-header":"T"},
        "o":{"properties":{"i":{"type":"integer","x-mcp-header":"I"},"j":{"properties":{"k":{"type":"integer",
        "x-mcp-header":"K"}}}}}}}"#;
    let params = of(schema).expect("a good schema");
    // The arguments, and the headers that cannot agree.
    let table = [
        (r#"{"s":"us","o":{"i":1},"t":"x","o ":{}}"#, &[][..]),
        (r#"{"s":"us","s":"eu"}"#, &["S"]),
        (r#"{"s":"us","s":"us"}"#, &["S"]),
        (r#"{"s":"us","\u0073":"eu"}"#, &["S"]),
        (r#"{"s":null,"s":"eu"}"#, &["S"]),
        (r#"{"s":"eu","s":null}"#, &["S"]),
        (r#"{"o":{"i":1,"i":2},"s":"us"}"#, &["I"]),
        (r#"{"o":{"i":1},"o":{"i":2}}"#, &["I", "K"]),
        (r#"{"o":{"i":1},"o":7}"#, &["I", "K"]),
        (r#"{"o":7,"o":{"j":{"k":1}}}"#, &["I", "K"]),
        (r#"{"o":{"j":{"k":1},"j":{}}}"#, &["K"]),
        (r#"{"o":{"j":{"k":1,"x":{"k":1,"k":2}}},"x":1,"x":2}"#, &[]),
        (r#"{"\ud800":1,"\ud800":2,"\ud800s":"eu","s":"us"}"#, &[]),
    ];
    for (arguments, bad) in table {
        let raw = RawJson::trusted(arguments);
        for param in &params {
            let twice = bad.contains(&&*param.name);
            assert_eq!(param.value(Some(&raw)).is_err(), twice, "{arguments} {}", param.name);
            let value = if twice { None } else { param.value(Some(&raw)).expect("it is there once") };
            let mirrored = MirroredValue::from(value.as_deref().map(str::as_bytes));
            let headers =
                MirroredHeaders { params: vec![(param.name.clone(), mirrored)], ..MirroredHeaders::default() };
            let headers = if value.is_some() { headers } else { MirroredHeaders::default() };
            let fault = param.verify(Some(&raw), &headers).err().map(|mismatch| mismatch.fault);
            assert_eq!(fault, twice.then_some(HeaderError::Malformed), "{arguments} {}", param.name);
        }
        assert_eq!(HeaderParam::values(&params, Some(&raw)).is_err(), !bad.is_empty(), "{arguments}");
    }
    let values = HeaderParam::values(&params, Some(&RawJson::trusted(r#"{"o":{"j":{"k":3},"i":2},"t":"x"}"#)));
    assert_eq!(values, Ok(vec![None, Some("x".into()), Some("2".into()), Some("3".into())]));
}
