//! Most tools take a few texts and numbers. Whether arguments fit such a schema is seen on their text, without making a
//! value of it first.

#[cfg(any(test, not(feature = "schemas")))]
use std::fmt;

use mcp_proto::wire::RawJson;
use serde_json::{Map, Value};

/// An object whose members only have to be of a type, or to be there.
#[derive(Clone, Debug)]
pub(super) struct Simple {
    properties: Vec<(String, Types)>,
    /// The first so many properties that are required, as bits.
    required: u64,
    is_closed: bool,
}

/// What a member may be: one bit for each of [`TYPES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Types(u8);

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "null", "array", "object"];

/// What says nothing about which values fit.
const REMARKS: [&str; 10] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
    "x-mcp-header",
];

/// There 1.0 is no integer.
const DRAFT_4: &str = "http://json-schema.org/draft-04/schema";

impl Simple {
    /// `None` if the schema says more than that.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut simple = Self { properties: Vec::new(), required: 0, is_closed: false };
        let schema = schema.as_object()?;
        let mut required = Vec::new();
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("type", Value::String(name)) if name == "object" => {}
                ("properties", Value::Object(properties)) => {
                    let properties = properties.iter().map(|(name, schema)| Some((name.clone(), Types::of(schema)?)));
                    simple.properties = properties.collect::<Option<_>>()?;
                }
                ("required", Value::Array(names)) => {
                    required = names.iter().map(Value::as_str).collect::<Option<_>>()?
                }
                ("additionalProperties", Value::Bool(open)) => simple.is_closed = !open,
                ("$schema", Value::String(dialect)) if dialect.starts_with(DRAFT_4) => return None,
                (remark, _) if REMARKS.contains(&remark) => {}
                _ => return None,
            }
        }
        for name in required {
            let place = simple.properties.iter().position(|(known, _)| known == name)?;
            simple.required |= 1_u64.checked_shl(place.try_into().ok()?)?;
        }
        let has_bits = simple.properties.len() <= 64;
        (has_bits && schema.contains_key("type")).then_some(simple)
    }

    /// Whether a text fits for sure. What does not may fit all the same.
    pub(super) fn fits(&self, text: &RawJson<'_>) -> bool {
        let mut seen = 0_u64;
        for (name, value) in text.members() {
            match self.properties.iter().position(|(known, _)| *known == name) {
                // Of two of the same name, who knows which is meant.
                Some(place) if seen & 1 << place == 0 && self.properties[place].1.has(value.get()) => {
                    seen |= 1 << place
                }
                None if !self.is_closed => {}
                _ => return false,
            }
        }
        text.is_object() && self.required & !seen == 0
    }

    /// Whether a value fits, and where it does not.
    #[cfg(any(test, not(feature = "schemas")))]
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        let object = value.as_object().ok_or("the value is not of type \"object\"")?;
        for (place, (name, types)) in self.properties.iter().enumerate() {
            match object.get(name) {
                None if self.required >> place & 1 == 1 => return Err(format!("{name:?} is a required property")),
                Some(member) if !types.has_value(member) => {
                    return Err(format!("the value is not of type {types} at /{}", escaped(name)));
                }
                _ => {}
            }
        }
        let is_unknown = |name: &&String| self.properties.iter().all(|(known, _)| known != *name);
        match object.keys().find(is_unknown).filter(|_| self.is_closed) {
            Some(name) => Err(format!("{name:?} is unexpected")),
            None => Ok(()),
        }
    }
}

/// A name as part of a JSON pointer (RFC 6901).
#[cfg(any(test, not(feature = "schemas")))]
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Types {
    fn of(schema: &Value) -> Option<Self> {
        let schema: &Map<String, Value> = match schema {
            Value::Bool(true) => return Some(Self(u8::MAX)),
            schema => schema.as_object()?,
        };
        if schema.keys().any(|keyword| keyword != "type" && !REMARKS.contains(&keyword.as_str())) {
            return None;
        }
        let bit =
            |name: &Value| TYPES.iter().position(|known| Some(*known) == name.as_str()).map(|place| 1_u8 << place);
        match schema.get("type") {
            None => Some(Self(u8::MAX)),
            Some(Value::Array(names)) if !names.is_empty() => {
                names.iter().try_fold(Self(0), |types, name| Some(Self(types.0 | bit(name)?)))
            }
            Some(name) => bit(name).map(Self),
        }
    }

    fn contains(self, name: &str) -> bool {
        TYPES.iter().position(|known| *known == name).is_some_and(|at| self.0 >> at & 1 == 1)
    }

    /// Whether the text of a value is one of these for sure.
    fn has(self, value: &str) -> bool {
        let is = |name| self.contains(name);
        match value.as_bytes() {
            [b'"', ..] => is("string"),
            [b't' | b'f', ..] => is("boolean"),
            [b'n', ..] => is("null"),
            [b'[', ..] => is("array"),
            [b'{', ..] => is("object"),
            // 1.0 is an integer, too, but not for sure.
            number => is("number") || is("integer") && !number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')),
        }
    }

    /// Whether a value is one of these.
    #[cfg(any(test, not(feature = "schemas")))]
    fn has_value(self, value: &Value) -> bool {
        match value {
            Value::String(_) => self.contains("string"),
            Value::Bool(_) => self.contains("boolean"),
            Value::Null => self.contains("null"),
            Value::Array(_) => self.contains("array"),
            Value::Object(_) => self.contains("object"),
            Value::Number(number) => {
                let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
                self.contains("number") || self.contains("integer") && is_whole
            }
        }
    }
}

/// As the texts of errors name them.
#[cfg(any(test, not(feature = "schemas")))]
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for name in TYPES.into_iter().filter(|name| self.contains(name)) {
            write!(f, "{between}{name:?}")?;
            between = " or ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Checker;
    use super::*;
    use mcp_proto::wire::JsonObject;
    use serde_json::json;

    #[test]
    fn what_it_takes_for_fitting_fits() {
        let open = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "description": "What to say",
            "properties": {
                "text": { "type": "string", "description": "A text" },
                "times": { "type": ["integer", "null"], "default": 1 },
                "loud": { "type": "boolean" },
                "any": true,
                "list": { "type": "array" },
                "share": { "type": "number" },
            },
            "required": ["text", "share"],
        });
        let mut closed = open.clone();
        closed["additionalProperties"] = json!(false);
        let values = [
            "\"a\"",
            "\"\\u0041\"",
            "1",
            "-2",
            "1.0",
            "1e2",
            "1.5",
            "true",
            "false",
            "null",
            "[]",
            "[1]",
            "{}",
            "{\"a\":1}",
        ];
        for schema in [&open, &closed] {
            let simple = Simple::of(schema).expect("it is simple");
            let checker = Checker::new(&JsonObject::new(schema).expect("an object")).expect("it is valid");
            let check = |text: &str, is_doubtful: bool| {
                let object = JsonObject::parse(text).expect("an object");
                let value = serde_json::from_str(text).expect("JSON");
                let fits = checker.check(&value).is_ok();
                assert_eq!(simple.check(&value).is_ok(), fits, "{text}");
                assert_eq!(simple.fits(&RawJson::from(&object)), fits && !is_doubtful, "{text}");
            };
            check("{}", false);
            for (name, others) in [
                ("text", r#""share":1"#),
                ("te\\u0078t", r#""share":1"#),
                ("share", r#""text":"a""#),
                ("times", r#""text":"a" , "share":0.5"#),
                ("loud", r#""text":"a","share":-1"#),
                ("any", r#""text":"a","share":1e3"#),
                ("list", r#""text":"a","share":1"#),
                ("more", r#""text":"a","share":1"#),
            ] {
                for value in values {
                    let has_point = name == "times" && ["1.0", "1e2"].contains(&value);
                    check(&format!("{{\"{name}\":{value}}}"), has_point);
                    check(&format!("{{\"{name}\":{value},{others}}}"), has_point);
                    check(&format!("{{ {others} , \"{name}\" : {value} }}"), has_point);
                }
                // Of two of the same name, who knows which is meant.
                check(&format!("{{{others},\"text\":\"a\",\"text\":\"b\",\"share\":1}}"), true);
            }
        }
    }

    #[test]
    fn what_says_more_is_not_simple() {
        for property in [
            json!({ "type": "string", "minLength": 1 }),
            json!({ "type": "string", "format": "uri" }),
            json!({ "enum": ["a"] }),
            json!({ "$ref": "#/$defs/a" }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "text" }),
            json!({ "type": [] }),
            json!(false),
        ] {
            assert!(Simple::of(&json!({ "type": "object", "properties": { "a": property } })).is_none(), "{property}");
        }
        for schema in [
            json!({}),
            json!({ "type": ["object", "null"] }),
            json!({ "type": "object", "required": ["a"] }),
            json!({ "type": "object", "minProperties": 1 }),
            json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            json!({ "$schema": DRAFT_4, "type": "object" }),
            json!(true),
        ] {
            assert!(Simple::of(&schema).is_none(), "{schema}");
        }
        assert!(Simple::of(&json!({ "type": "object" })).is_some());
    }

    #[test]
    fn it_says_what_does_not_fit() {
        let properties = json!({"a/b": {"type": ["string", "null"]}, "n": {"type": "integer"}});
        let schema =
            json!({"type": "object", "properties": properties, "required": ["n"], "additionalProperties": false});
        let simple = Simple::of(&schema).expect("it is simple");
        for (value, why) in [
            (json!([]), "the value is not of type \"object\""),
            (json!({}), "\"n\" is a required property"),
            (json!({"n": 1.5}), "the value is not of type \"integer\" at /n"),
            (json!({"n": 1, "a/b": 2}), "the value is not of type \"string\" or \"null\" at /a~1b"),
            (json!({"n": 1, "c": 2}), "\"c\" is unexpected"),
        ] {
            assert_eq!(simple.check(&value), Err(why.into()));
        }
    }
}
