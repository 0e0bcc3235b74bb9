//! The types that values may have.

use std::fmt;

use mcp_proto::wire::RawJson;
#[cfg(any(feature = "schemas", feature = "json-schema"))]
use serde_json::Value;

/// The types that a value may have: one bit for each of [`TYPES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types(u8);

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "null", "array", "object"];
/// The indices of the types in [`TYPES`].
const STRING: usize = 0;
const NUMBER: usize = 1;
const INTEGER: usize = 2;
const BOOLEAN: usize = 3;
const NULL: usize = 4;
const ARRAY: usize = 5;
const OBJECT: usize = 6;

impl Types {
    pub(super) const ALL: Self = Self(u8::MAX);

    /// Reads the value of the keyword `type`; `None` if it is no type and no list of types.
    pub(super) fn read(value: &RawJson<'_>) -> Option<Self> {
        match value.clone().into_text() {
            Some(name) => Self::of_names([&*name]),
            None => Self::of_names(value.decode::<Vec<String>>().ok()?.iter().map(String::as_str)),
        }
    }

    /// Returns the types of these names; `None` if there is none, one is unknown, or one is repeated.
    pub(super) fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let types = names.into_iter().try_fold(Self(0), |types, name| {
            let bit = TYPES.iter().position(|known| *known == name).map(|index| 1 << index)?;
            (types.0 & bit == 0).then_some(Self(types.0 | bit))
        });
        types.filter(|types| types.0 != 0)
    }

    const fn contains(self, kind: usize) -> bool {
        self.0 & 1 << kind != 0
    }

    /// Returns whether the JSON text of a value certainly has one of these types.
    pub(super) fn has(self, value: &str) -> bool {
        self.contains(match value.as_bytes() {
            [b'"', ..] => STRING,
            [b't' | b'f', ..] => BOOLEAN,
            [b'n', ..] => NULL,
            [b'[', ..] => ARRAY,
            [b'{', ..] => OBJECT,
            // 1.0 is an integer, too, but not for sure.
            number if self.contains(INTEGER) && !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => {
                INTEGER
            }
            _ => NUMBER,
        })
    }

    /// Returns whether the JSON text of a value has one of these types.
    pub(super) fn has_text(self, value: &RawJson<'_>) -> bool {
        let is_whole = || value.decode::<f64>().is_ok_and(|number| number.fract() == 0.0);
        self.has(value.get()) || self.contains(INTEGER) && is_whole()
    }

    /// Returns whether a value has one of these types.
    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    pub(super) fn has_value(self, value: &Value) -> bool {
        self.contains(match value {
            Value::String(_) => STRING,
            Value::Bool(_) => BOOLEAN,
            Value::Null => NULL,
            Value::Array(_) => ARRAY,
            Value::Object(_) => OBJECT,
            Value::Number(number) if self.contains(INTEGER) => {
                let is_whole = number.is_i64() || number.is_u64();
                if is_whole || number.as_f64().is_some_and(|number| number.fract() == 0.0) { INTEGER } else { NUMBER }
            }
            Value::Number(_) => NUMBER,
        })
    }
}

/// Writes the types as in the texts of errors.
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (_, name) in TYPES.into_iter().enumerate().filter(|(kind, _)| self.contains(*kind)) {
            write!(f, "{between}{name:?}")?;
            between = " or ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_written_by_name() {
        for (names, text) in [
            (&["string"][..], "\"string\""),
            (&["object", "null"], "\"null\" or \"object\""),
            (&["array", "number", "boolean"], "\"number\" or \"boolean\" or \"array\""),
        ] {
            assert_eq!(Types::of_names(names.iter().copied()).expect("types").to_string(), text);
        }
        for names in [&[][..], &["text"], &["string", "string"], &["string", "text"]] {
            assert_eq!(Types::of_names(names.iter().copied()), None, "{names:?}");
        }
        assert!(TYPES.iter().all(|name| Types::ALL.to_string().contains(name)));
    }

    #[test]
    fn each_value_has_its_type_alone() {
        let cases = [
            ("\"a\"", &["string"][..], &["string"][..]),
            ("true", &["boolean"], &["boolean"]),
            ("false", &["boolean"], &["boolean"]),
            ("null", &["null"], &["null"]),
            ("[1]", &["array"], &["array"]),
            ("{}", &["object"], &["object"]),
            ("-1", &["number", "integer"], &["number", "integer"]),
            ("18446744073709551615", &["number", "integer"], &["number", "integer"]),
            ("1.5", &["number"], &["number"]),
            // It is an integer, but its text does not show that.
            ("1.0", &["number"], &["number", "integer"]),
            ("1e2", &["number"], &["number", "integer"]),
            ("1E2", &["number"], &["number", "integer"]),
        ];
        for (text, certain, all) in cases {
            for name in TYPES {
                let types = Types::of_names([name]).expect("a type");
                assert_eq!(types.has(text), certain.contains(&name), "{text} {name}");
                let json = mcp_proto::wire::Json::parse(text).expect("JSON");
                assert_eq!(types.has_text(&RawJson::from(&json)), all.contains(&name), "{text} {name}");
                #[cfg(any(feature = "schemas", feature = "json-schema"))]
                {
                    let value: Value = serde_json::from_str(text).expect("JSON");
                    assert_eq!(types.has_value(&value), all.contains(&name), "{text} {name}");
                }
            }
        }
    }
}
