//! The judge is serde_json: the same value, or an error as well, whatever the text and the type.

use alloc::{
    borrow::Cow,
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt::Debug;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Number, Value, value::RawValue};

use super::read;

#[derive(Debug, Deserialize)]
struct Unit;

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "they are compared as what they print")]
struct Fields<'a> {
    a: Option<u8>,
    #[serde(rename = "b \"c\"")]
    quoted: Option<char>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    raw: Option<&'a RawValue>,
    kept: Option<Box<RawValue>>,
    #[serde(default)]
    list: Vec<Variants>,
    float: Option<f64>,
    unit: Option<Unit>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "they are compared as what they print")]
struct Flat {
    a: Option<i16>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "they are compared as what they print")]
struct Closed {
    a: f32,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "they are compared as what they print")]
enum Variants {
    #[serde(rename = "a")]
    Unit,
    #[serde(rename = "b")]
    NewType(String),
    Tuple(u8, f64),
    Struct {
        a: bool,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "text")]
#[expect(dead_code, reason = "they are compared as what they print")]
enum Tagged {
    #[serde(rename = "a")]
    A { a: Option<u64> },
    #[serde(rename = "b")]
    B(Map<String, Value>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "they are compared as what they print")]
enum Any {
    Integer(i64),
    Text(String),
    Pair(u8, Number),
    Fields { a: Option<Box<Any>> },
    Nothing,
}

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Key(Option<i32>);

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct NewTypeKey(String);

#[track_caller]
fn same<'a, T: Deserialize<'a> + Debug>(text: &'a str) -> bool {
    let expected = serde_json::from_str::<T>(text);
    let found = read::<T>(text);
    match (&expected, &found) {
        (Ok(expected), Ok(found)) => assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{text}"),
        (Err(_), Err(error)) => assert!(!error.to_string().is_empty()),
        _ => panic!("{}: {text}: {found:?}, not {expected:?}", core::any::type_name::<T>()),
    }
    expected.is_ok()
}

/// Reads the text as types of all kinds; how many of them it fits.
fn all(text: &str) -> usize {
    let fits = [
        same::<Value>(text),
        same::<IgnoredAny>(text),
        same::<&RawValue>(text),
        same::<Box<RawValue>>(text),
        same::<Option<bool>>(text),
        same::<()>(text),
        same::<Unit>(text),
        same::<String>(text),
        same::<Cow<'_, str>>(text),
        same::<&str>(text),
        same::<char>(text),
        same::<i8>(text),
        same::<u32>(text),
        same::<i64>(text),
        same::<u64>(text),
        same::<i128>(text),
        same::<f32>(text),
        same::<f64>(text),
        same::<Number>(text),
        same::<Vec<Value>>(text),
        same::<Vec<u8>>(text),
        same::<(Value, Option<u8>)>(text),
        same::<[Value; 1]>(text),
        same::<Map<String, Value>>(text),
        same::<BTreeMap<String, Box<RawValue>>>(text),
        same::<BTreeMap<i8, Value>>(text),
        same::<BTreeMap<bool, Value>>(text),
        same::<BTreeMap<char, Value>>(text),
        same::<BTreeMap<Key, IgnoredAny>>(text),
        same::<BTreeMap<NewTypeKey, IgnoredAny>>(text),
        same::<Fields<'_>>(text),
        same::<Flat>(text),
        same::<Closed>(text),
        same::<Variants>(text),
        same::<Vec<Variants>>(text),
        same::<Tagged>(text),
        same::<Any>(text),
        same::<Key>(text),
    ];
    fits.into_iter().filter(|fits| *fits).count()
}

#[test]
fn reads_every_value_as_every_type() {
    let texts = [
        "null",
        "true",
        " false ",
        "\"a\"",
        "\"text\"",
        "\"grün \\u00fc\\n \\ud83e\\udd80\"",
        "\"\\ud83e\"",
        "\"1\"",
        "0",
        "-0",
        "-0.0",
        "7",
        "-7",
        "127",
        "128",
        "1.0",
        "1e2",
        "0.1e-7",
        "65535",
        "999999999999999999",
        "1000000000000000000",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "340282366920938463463374607431768211455",
        "1e999",
        "[]",
        "[1]",
        "[1,2]",
        "[ 1 , 2.5 , 3 ]",
        "[\"a\",{\"b\":\"x\"},{\"Tuple\":[1,2]},{\"Struct\":{\"a\":true}}]",
        "[\"b\"]",
        "{}",
        "{ \"a\" : 1 }",
        "{\"a\":1,\"a\":2}",
        "{\"1\":1,\"-1\":2,\"127\":3}",
        "{\"1 \":1}",
        "{\"\\u0031\":1}",
        "{\"1.0\":1}",
        "{\"128\":1}",
        "{\"true\":1,\"false\":2}",
        "{\"z\":1}",
        "{\"b\":\"x\"}",
        "{\"Tuple\":[1,2]}",
        "{\"Tuple\":[1,2],\"a\":1}",
        "{\"Struct\":{\"a\":true}}",
        "{\"a\":null}",
        "{\"text\":\"a\",\"a\":7}",
        "{\"a\":7,\"text\":\"a\"}",
        "{\"a\":7,\"text\":\"b\",\"list\":[1]}",
        "{\"a\":{\"a\":[1,2.5]}}",
        "{\"b \\\"c\\\"\":\"é\",\"text\":\"\\n\",\"raw\":[1, 2],\"kept\":{\"a\": 1},\"list\":[\"a\",{\"b\":\"\\\\\"}],\"float\":1,\"unit\":null}",
        "{\"text\":\"plain\",\"more\":[{\"a\":[[],{}]}]}",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{1:2}",
        "1 2",
        "nul",
        "\"a",
        "",
        "]",
        "{\"a\":1]",
        "[1}",
    ];
    let fits: usize = texts.into_iter().map(all).sum();
    // Not among the others: as a name that is a boolean serde_json takes it for broken text, and panics.
    assert!(same::<BTreeMap<char, Value>>("{\"é\":1}"));
    assert!(fits > 400, "the texts fit too few of the types: {fits}");
}

#[test]
fn random_texts_are_read_like_serde_json() {
    let parts = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"text\"",
        "\"b\"",
        "1",
        "-2",
        "3.5",
        "null",
        "true",
        " ",
        "\"\\n\"",
        "\"a\":1",
        "\"text\":\"a\"",
        "{\"a\":",
        "[1,",
        "\"1\":",
        "[[",
        "]]",
        "{}",
        "[]",
    ];
    let mut state = 9u64;
    let mut fits = 0;
    for _ in 0..5_000 {
        crate::test_rng::roll(&mut state);
        let mut text = String::new();
        for i in 0..(state >> 61) + 1 {
            text.push_str(parts[(state >> (6 * i)) as usize % parts.len()]);
        }
        fits += usize::from(all(&text) > 0);
    }
    assert!(fits > 75, "too few of the texts are JSON: {fits}");
}

#[test]
fn nesting_limit_equals_that_of_serde_json() {
    for depth in [126, 127, 128, 129, 1000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = [open.repeat(depth).as_str(), "1", &close.repeat(depth)].concat();
            assert_eq!(same::<Value>(&text), depth < 128);
        }
    }
    for pairs in [63, 64] {
        let text = ["{\"a\":[".repeat(pairs), "]}".repeat(pairs)].concat();
        assert_eq!(same::<Value>(&text), pairs < 64, "objects and arrays count together");
    }
}

#[test]
fn errors_contain_their_position() {
    let error = |text| read::<Fields<'_>>(text).expect_err(text).to_string();
    assert_eq!(error("{\"a\":\"x\"}"), "invalid type: string \"x\", expected u8 at line 1 column 8");
    assert_eq!(error("{\n \"a\":\"x\"}"), "invalid type: string \"x\", expected u8 at line 2 column 8");
}

#[test]
fn member_names_can_be_read_raw() {
    /// The names of an object, as they are written.
    struct Names<'a>(Vec<&'a RawValue>);

    impl<'de> Deserialize<'de> for Names<'de> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Members;

            impl<'de> serde::de::Visitor<'de> for Members {
                type Value = Names<'de>;

                fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Names<'de>, A::Error> {
                    let mut names = Vec::new();
                    while let Some((name, _)) = map.next_entry::<&RawValue, IgnoredAny>()? {
                        names.push(name);
                    }
                    Ok(Names(names))
                }
            }

            deserializer.deserialize_map(Members)
        }
    }

    let text = r#"{"a":1,"b\n\u00e9" : 2,"":3,"大":{"x":4}}"#;
    let ours: Vec<_> = read::<Names<'_>>(text).expect("an object").0.iter().map(|name| name.get()).collect();
    let theirs = serde_json::from_str::<Names<'_>>(text).expect("an object").0;
    assert_eq!(ours, theirs.iter().map(|name| name.get()).collect::<Vec<_>>());
    assert_eq!(ours, ["\"a\"", "\"b\\n\\u00e9\"", "\"\"", "\"大\""]);
}
