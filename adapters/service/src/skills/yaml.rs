//! Parses YAML into JSON, as far as it has a meaning there.
//!
//! The YAML of a server is not trusted, so nothing in it can expand: there are no anchors and no aliases, and the depth
//! is limited.

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::util::text_arguments::excerpt;

/// The maximum depth of nesting.
const MAX_DEPTH: usize = 32;

/// Parses the only document in `text` into JSON.
///
/// # Errors
/// If the text is no such document. The error is the reason.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut whole = None;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.info().to_owned())?;
        let done = match event {
            Event::Scalar(text, style, anchor, tag) => {
                unshared(anchor)?;
                Some(scalar(&text, style, tag.as_deref())?)
            }
            Event::SequenceStart(anchor, _) => {
                unshared(anchor)?;
                open.push(Open::List(Vec::new()));
                None
            }
            Event::MappingStart(anchor, _) => {
                unshared(anchor)?;
                open.push(Open::Object(Map::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(Open::close),
            Event::Alias(_) => return Err("aliases are not supported".into()),
            Event::DocumentStart(_) if whole.is_some() => return Err("there is more than one document".into()),
            _ => None,
        };
        if open.len() > MAX_DEPTH {
            return Err("it is nested too deeply".into());
        }
        match (done, open.last_mut()) {
            (Some(value), Some(parent)) => parent.take(value)?,
            (Some(value), None) => whole = Some(value),
            (None, _) => {}
        }
    }
    whole.ok_or_else(|| "the document is empty".into())
}

fn unshared(anchor: usize) -> Result<(), String> {
    if anchor == 0 { Ok(()) } else { Err("anchors are not supported".into()) }
}

/// A list or an object whose end has not been read yet.
enum Open {
    List(Vec<Value>),
    /// An object, and the key of the next value.
    Object(Map<String, Value>, Option<String>),
}

impl Open {
    fn take(&mut self, value: Value) -> Result<(), String> {
        match self {
            Self::List(list) => list.push(value),
            Self::Object(members, key) => match key.take() {
                None => match value {
                    Value::String(name) if members.contains_key(&name) => {
                        return Err(excerpt(&format_args!("the key {name:?} occurs twice")));
                    }
                    Value::String(name) => *key = Some(name),
                    // JSON has no other keys: they are written as they would be as values.
                    Value::Bool(_) | Value::Number(_) | Value::Null => *key = Some(value.to_string()),
                    Value::Array(_) | Value::Object(_) => return Err("a key is not a text".into()),
                },
                Some(name) => _ = members.insert(name, value),
            },
        }
        Ok(())
    }

    fn close(self) -> Value {
        match self {
            Self::List(list) => Value::Array(list),
            Self::Object(members, _) => Value::Object(members),
        }
    }
}

/// Converts a scalar. A plain one may be a number, a boolean or null, as in the core schema of YAML 1.2; all others are
/// texts.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(text.into()),
        Some(tag) if !tag.is_yaml_core_schema() && tag.handle != "!" => {
            return Err(excerpt(&format_args!("the tag {}{} is not supported", tag.handle, tag.suffix)));
        }
        None if style != ScalarStyle::Plain => return Ok(text.into()),
        _ => {}
    }
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| text.into(), Value::Number),
    })
}

fn number(text: &str) -> Option<Number> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(Number::from);
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // Infinity and NaN are texts, which have no digits.
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = text.strip_prefix('+').unwrap_or(text);
        let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
        if let Ok(whole) = whole {
            return Some(whole);
        }
    }
    text.parse().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_yaml_values_as_json() {
        let text = "name: a\nlist: [1, -2, +3, 0x1F, 0o17, 1.5, 1e3, .5]\nwords: {t: true, f: False, n: ~, e: }\n\
            date: 2026-07-28\nversion: 1.2.3\nquoted: '1'\ntagged: !!str 1\nwhole: !!int '7'\n\
            own: !str 8\nnone: [inf, nan, -Infinity, +, e, ., 1_0, +-1, 0x, 1e999]\nfolded: >-\n  a\n  b\n1: one\ntrue: yes\n";
        let read = parse(text).expect("YAML");
        let expected = json!({
            "name": "a", "list": [1, -2, 3, 31, 15, 1.5, 1000.0, 0.5],
            "words": {"t": true, "f": false, "n": null, "e": null},
            "date": "2026-07-28", "version": "1.2.3", "quoted": "1", "tagged": "1", "whole": 7, "own": 8,
            "none": ["inf", "nan", "-Infinity", "+", "e", ".", "1_0", "+-1", "0x", "1e999"], "folded": "a b",
            "1": "one", "true": "yes",
        });
        assert_eq!(read, expected);
        assert_eq!(parse("18446744073709551615"), Ok(json!(u64::MAX)));
        for text in ["-", "+", "1-2", "e5", "0xg", "1_000", ".", "12:30"] {
            assert_eq!(parse(&format!("a: \"{text}\"")), Ok(json!({"a": text})));
        }
        for text in ["1-2", "e5", "0xg", "1_000", "12:30"] {
            assert_eq!(parse(&format!("a: {text}")), Ok(json!({"a": text})));
        }
    }

    #[test]
    fn rejects_yaml_without_json_equivalent() {
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        for (text, why) in [
            ("a: &x 1\nb: *x", "anchors"),
            ("a: &x [1]", "anchors"),
            ("a: &x {}", "anchors"),
            ("a: 1\na: 2", "twice"),
            ("[a]: 1", "a key is not a text"),
            ("a: 1\n---\nb: 2", "more than one"),
            ("a: !thing 1", ""),
            ("", "empty"),
            (&deep, "deeply"),
            ("a: [1", ""),
        ] {
            let refused = parse(text);
            if text == "a: !thing 1" {
                // An application-specific tag does not change the JSON value.
                assert_eq!(refused, Ok(json!({"a": 1})));
                continue;
            }
            let error = refused.expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let nested = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(parse(&nested).is_ok());
    }
}
