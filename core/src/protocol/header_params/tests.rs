//! What annotations mean, and what headers say of arguments.

use super::*;
use alloc::{collections::BTreeMap, format};

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
fn annotations_are_names_on_scalars() {
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
fn names_are_there_once_whatever_their_case() {
    let schema = |a: &str, b: &str| {
        format!(
            r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"{a}"}},
            "o":{{"properties":{{"b":{{"type":"integer","x-mcp-header":"{b}"}}}}}}}}}}"#
        )
    };
    assert_eq!(paths(&schema("A", "B")), [("A".to_owned(), "a".to_owned()), ("B".to_owned(), "o/b".to_owned())]);
    assert_eq!(of(&schema("Row", "rOW")), Err(InvalidHeaderParam::Repeated("rOW".to_owned())));
}

// req: M-HTTP-057 M-HTTP-058
#[test]
fn annotations_stand_where_an_argument_is_meant() {
    let annotated = r#"{"type":"string","x-mcp-header":"N"}"#;
    let misplaced = [
        annotated.to_owned(),
        format!(r#"{{"properties":{{"a":{{"items":{annotated}}}}}}}"#),
        format!(r#"{{"properties":{{"a":{{"items":[true,{annotated}]}}}}}}"#),
        format!(r#"{{"properties":{{"a":{{"prefixItems":[{annotated}]}}}}}}"#),
        format!(r#"{{"properties":{{"a":{{"contains":{annotated}}}}}}}"#),
        format!(r#"{{"additionalProperties":{annotated}}}"#),
        format!(r#"{{"patternProperties":{{"^a":{annotated}}}}}"#),
        format!(r#"{{"oneOf":[{{}}, {annotated} ]}}"#),
        format!(r#"{{"anyOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
        format!(r#"{{"allOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
        format!(r#"{{"not":{{"properties":{{"a":{annotated}}}}}}}"#),
        format!(r#"{{"if":{{"properties":{{"a":{annotated}}}}}}}"#),
        format!(r#"{{"then":{{"properties":{{"a":{annotated}}}}}}}"#),
        format!(r#"{{"else":{{"properties":{{"a":{annotated}}}}}}}"#),
        format!(r#"{{"dependentSchemas":{{"x":{{"properties":{{"a":{annotated}}}}}}}}}"#),
        format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/n"}}}},"$defs":{{"n":{annotated}}}}}"##),
        format!(r#"{{"$defs":{{"properties":{annotated}}}}}"#),
    ];
    for schema in misplaced {
        assert_eq!(of(&schema), Err(InvalidHeaderParam::Misplaced), "{schema}");
    }
    let no_annotation = [
        r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
        r#"{"properties":{"a":{"const":{"x-mcp-header":"N"},"default":{"x-mcp-header":""}}}}"#,
        r#"{"properties":{"a":{"enum":[{"x-mcp-header":"N"}],"examples":[{"x-mcp-header":"N"}]}}}"#,
        r#"{"properties":{"a":{"required":["x-mcp-header"]}},"x-other":{"x-mcp-header":"N"}}"#,
        r#"{"properties":[],"$defs":1,"oneOf":[ ],"items":false,"not":[]}"#,
        "{}",
    ];
    for schema in no_annotation {
        assert_eq!(paths(schema), [], "{schema}");
    }
}

#[test]
fn a_schema_is_read_as_deep_as_json_goes() {
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
        assert_eq!(value(1, &format!(r#"{{"o":{{"i":{bad}}}}}"#)), Err(NotMirrorable), "{bad}");
    }
    assert_eq!(value(2, r#"{"b":false}"#), some("false"));
}

// req: M-HTTP-068 M-HTTP-071 M-HTTP-072 M-HTTP-073 M-HTTP-074 M-HTTP-075 M-HTTP-080
#[test]
fn headers_are_compared_with_arguments() {
    use HeaderFault::{Different, Malformed, Missing, Unfounded};
    let schema = r#"{"properties":{"s":{"type":"string","x-mcp-header":"S"},
        "i":{"type":"integer","x-mcp-header":"I"},"b":{"type":"boolean","x-mcp-header":"B"}}}"#;
    let params: BTreeMap<_, _> =
        of(schema).expect("a good schema").into_iter().map(|param| (param.name.clone(), param)).collect();
    let verify = |name: &str, arguments: &str, header: &[(&str, &str)]| {
        let said = |text: &&str| Said::from(Some(text.as_bytes()));
        let headers = header.iter().map(|(name, text)| ((*name).to_owned(), said(text))).collect();
        let headers = Mirrored { params: headers, ..Mirrored::default() };
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
