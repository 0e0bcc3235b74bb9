//! A checker for simple schemas, such as those of most tools, which take a few texts and numbers. It checks the JSON
//! text of arguments without parsing it into a value first.

use mcp_proto::wire::RawJson;

use super::{annotation::annotation, limits::MAX_ERRORS, types::Types};
use crate::util::text_arguments::excerpt;

/// A schema of an object whose only rules are the types of members and which of them are required.
#[derive(Clone, Debug)]
pub(super) struct SimpleChecker {
    /// Ordered by name.
    properties: Vec<(String, Types)>,
    /// The first so many properties that are required, as bits.
    required: u64,
    is_closed: bool,
}

/// The dialect in which 1.0 is no integer.
const DRAFT_4: &str = "http://json-schema.org/draft-04/schema";

impl SimpleChecker {
    /// Compiles a schema; `None` if it has other keywords.
    pub(super) fn of(schema: &RawJson<'_>) -> Option<Self> {
        let mut simple = Self { properties: Vec::new(), required: 0, is_closed: false };
        let (mut required, mut has_type) = (Vec::new(), false);
        for (keyword, value) in schema.members() {
            match (&*keyword, value.get()) {
                ("type", "\"object\"") => has_type = true,
                ("properties", _) if value.is_object() => simple.properties = properties(&value)?,
                ("required", _) => required = value.decode::<Vec<String>>().ok()?,
                ("additionalProperties", "true") => simple.is_closed = false,
                ("additionalProperties", "false") => simple.is_closed = true,
                ("$schema", _) if value.clone().into_text().is_some_and(|text| text.starts_with(DRAFT_4)) => {
                    return None;
                }
                (keyword, _) if annotation(keyword).is_some_and(|kind| kind.has_text(&value)) => {}
                _ => return None,
            }
        }
        for name in required {
            let index = simple.properties.iter().position(|(known, _)| *known == name)?;
            simple.required |= 1_u64.checked_shl(index.try_into().ok()?)?;
        }
        has_type.then_some(simple)
    }

    /// Returns whether a value is certainly valid. If not, it may still be valid.
    pub(super) fn fits(&self, text: &RawJson<'_>) -> bool {
        let mut seen = 0_u64;
        let all_fit = text.all_members(|name, value| {
            let Some(index) = self.properties.iter().position(|(known, _)| known == name) else {
                return !self.is_closed;
            };
            // A repeated name is ambiguous.
            let is_new = seen & 1 << index == 0;
            seen |= 1 << index;
            is_new && self.properties[index].1.has(value)
        });
        all_fit && text.is_object() && self.required & !seen == 0
    }

    /// Checks a value. The error contains the locations of invalid parts. Of several members of one name the last
    /// counts.
    pub(super) fn check(&self, text: &RawJson<'_>) -> Result<(), String> {
        if !text.is_object() {
            return Err("the value is not of type \"object\"".into());
        }
        let mut errors = Vec::new();
        for (index, (name, types)) in self.properties.iter().enumerate() {
            match text.members().filter(|(found, _)| found == name).last() {
                None if self.required >> index & 1 == 1 => errors.push(format!("{name:?} is a required property")),
                Some((_, member)) if !types.has_text(&member) => {
                    errors.push(format!("the value is not of type {types} at /{}", escaped(name)));
                }
                _ => {}
            }
        }
        if self.is_closed {
            let is_unknown = |name: &str| self.properties.iter().all(|(known, _)| known != name);
            let unknown = text.members().map(|(name, _)| name).filter(|name| is_unknown(name));
            errors.extend(unknown.take(MAX_ERRORS).map(|name| format!("{:?} is unexpected", excerpt(&name))));
        }
        errors.truncate(MAX_ERRORS);
        if errors.is_empty() { Ok(()) } else { Err(excerpt(&errors.join("; "))) }
    }
}

/// Reads the types of the members of an object; `None` if their schemas have other keywords.
fn properties(schemas: &RawJson<'_>) -> Option<Vec<(String, Types)>> {
    let mut properties: Vec<(String, Types)> = Vec::new();
    for (name, schema) in schemas.members() {
        let types = types_of(&schema)?;
        match properties.binary_search_by(|(known, _)| known.as_str().cmp(&name)) {
            Ok(index) => properties[index].1 = types,
            // There is a bit for so many.
            Err(_) if properties.len() == 64 => return None,
            Err(index) => properties.insert(index, (name.into_owned(), types)),
        }
    }
    Some(properties)
}

/// Escapes a name for a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Reads the types of a schema; `None` if it has other rules.
fn types_of(schema: &RawJson<'_>) -> Option<Types> {
    let mut types = Types::ALL;
    if schema.get() == "true" {
        return Some(types);
    }
    if !schema.is_object() {
        return None;
    }
    for (keyword, value) in schema.members() {
        match &*keyword {
            "type" => types = Types::read(&value)?,
            // A schema inside may be in another dialect.
            "$schema" => return None,
            keyword => annotation(keyword).filter(|kind| kind.has_text(&value)).map(drop)?,
        }
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    use crate::json_schema::common::CommonChecker;
    #[cfg(feature = "json-schema")]
    use crate::json_schema::full::FullChecker;
    use mcp_proto::wire::Json;
    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    use mcp_proto::wire::JsonObject;
    use serde_json::{Value, json};

    fn simple(schema: &Value) -> Option<SimpleChecker> {
        SimpleChecker::of(&RawJson::from(&Json::new(schema).expect("JSON")))
    }

    #[cfg(any(feature = "schemas", feature = "json-schema"))]
    #[test]
    fn simple_checker_agrees_with_the_others() {
        let open = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "description": "The message to return",
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
            let simple = simple(schema).expect("it is simple");
            let common = CommonChecker::new(schema, true).expect("it is valid");
            #[cfg(feature = "json-schema")]
            let full = FullChecker::new(schema, true).expect("it is valid");
            let check = |text: &str, is_doubtful: bool| {
                let object = JsonObject::parse(text).expect("an object");
                let object = RawJson::from(&object);
                let value = serde_json::from_str(text).expect("JSON");
                let fits = common.check(&value).is_ok();
                #[cfg(feature = "json-schema")]
                assert_eq!(full.check(&value).is_ok(), fits, "{text}");
                assert_eq!(simple.check(&object).is_ok(), fits, "{text}");
                assert_eq!(simple.fits(&object), fits && !is_doubtful, "{text}");
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
                // A repeated name is ambiguous.
                check(&format!("{{{others},\"text\":\"a\",\"text\":\"b\",\"share\":1}}"), true);
            }
        }
    }

    #[test]
    fn schemas_with_other_keywords_are_not_simple() {
        for property in [
            json!({ "type": "string", "minLength": 1 }),
            json!({ "type": "string", "title": 1 }),
            json!({ "type": ["string", "string"] }),
            json!({ "type": "string", "$schema": "https://json-schema.org/draft/2020-12/schema" }),
            json!({ "type": "string", "format": "uri" }),
            json!({ "enum": ["a"] }),
            json!({ "$ref": "#/$defs/a" }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "text" }),
            json!({ "type": [] }),
            json!(false),
        ] {
            assert!(simple(&json!({ "type": "object", "properties": { "a": property } })).is_none(), "{property}");
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
            assert!(simple(&schema).is_none(), "{schema}");
        }
        assert!(simple(&json!({ "type": "object" })).is_some());
    }

    #[test]
    fn errors_name_the_mismatch() {
        let properties = json!({"a/b": {"type": ["string", "null"]}, "n": {"type": "integer"}});
        let schema =
            json!({"type": "object", "properties": properties, "required": ["n"], "additionalProperties": false});
        let simple = simple(&schema).expect("it is simple");
        for (value, why) in [
            (json!([]), "the value is not of type \"object\""),
            (json!({}), "\"n\" is a required property"),
            (json!({"n": 1.5}), "the value is not of type \"integer\" at /n"),
            (json!({"n": 1, "a/b": 2}), "the value is not of type \"string\" or \"null\" at /a~1b"),
            (json!({"n": 1, "c": 2}), "\"c\" is unexpected"),
            (
                json!({"a/b": 1, "c": 2}),
                "the value is not of type \"string\" or \"null\" at /a~1b; \"n\" is a required property; \
                 \"c\" is unexpected",
            ),
        ] {
            let value = Json::new(&value).expect("JSON");
            assert_eq!(simple.check(&RawJson::from(&value)), Err(why.into()));
        }
    }

    #[test]
    fn there_is_a_bit_for_64_properties() {
        let names = |count: usize| (0..count).map(|at| format!("p{at:02}")).collect::<Vec<_>>();
        let schema = |count: usize| {
            let properties: serde_json::Map<_, _> =
                names(count).into_iter().map(|name| (name, json!({"type": "integer"}))).collect();
            json!({"type": "object", "properties": properties, "required": names(count)})
        };
        assert!(simple(&schema(65)).is_none());
        let all = simple(&schema(64)).expect("it is simple");
        let value = |missing: Option<usize>| {
            let present = (0..64).filter(|at| Some(*at) != missing);
            let members: serde_json::Map<_, _> = present.map(|at| (format!("p{at:02}"), json!(at))).collect();
            Json::new(&members).expect("JSON")
        };
        let whole = value(None);
        assert!(all.fits(&RawJson::from(&whole)) && all.check(&RawJson::from(&whole)).is_ok());
        for missing in [0, 1, 31, 32, 63] {
            let value = value(Some(missing));
            let value = RawJson::from(&value);
            assert!(!all.fits(&value), "{missing}");
            assert_eq!(all.check(&value), Err(format!("\"p{missing:02}\" is a required property")));
        }
    }

    #[test]
    fn at_most_eight_errors_are_listed() {
        let closed = simple(&json!({"type": "object", "additionalProperties": false})).expect("it is simple");
        for (count, listed) in [(1, 1), (7, 7), (8, 8), (9, 8), (20, 8)] {
            let members: serde_json::Map<_, _> = (0..count).map(|at| (format!("m{at}"), json!(1))).collect();
            let value = Json::new(&members).expect("JSON");
            let errors = closed.check(&RawJson::from(&value)).expect_err("they are unexpected");
            assert_eq!(errors.matches("is unexpected").count(), listed, "{errors}");
        }
    }
}
