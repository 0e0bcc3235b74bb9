//! Most tools take a few texts and numbers. Whether arguments fit such a schema is seen on their text, without making a
//! value of it first.

use mcp_proto::wire::RawJson;
use serde_json::{Map, Value};

/// An object whose members only have to be of a type, or to be there.
///
/// It knows texts that fit for sure. About all others [jsonschema] has to be asked: it is the one who says why.
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
const REMARKS: [&str; 8] =
    ["$comment", "$schema", "default", "deprecated", "description", "examples", "readOnly", "title"];

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

    /// Whether a text fits for sure.
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
            Some(Value::Array(names)) => names.iter().try_fold(Self(0), |types, name| Some(Self(types.0 | bit(name)?))),
            Some(name) => bit(name).map(Self),
        }
    }

    /// Whether the text of a value is one of these for sure.
    fn has(self, value: &str) -> bool {
        let is = |name: &str| TYPES.iter().position(|known| *known == name).is_some_and(|at| self.0 >> at & 1 == 1);
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
                let fits = checker.check(&serde_json::from_str(text).expect("JSON")).is_ok();
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
            json!(true),
        ] {
            assert!(Simple::of(&schema).is_none(), "{schema}");
        }
        assert!(Simple::of(&json!({ "type": "object" })).is_some());
    }
}
