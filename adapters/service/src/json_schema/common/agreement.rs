//! Random schemas and values, which the checker of all keywords decides in the same way.

use serde_json::{Map, Value, json};

use super::{CommonChecker, compile::CompileError};
use crate::json_schema::full::FullChecker;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn value(&mut self, levels: usize) -> Value {
        match self.below(if levels == 0 { 12 } else { 16 }) {
            0 => json!(null),
            1 => json!(true),
            2 => json!(0),
            3 => json!(1),
            4 => json!(1.0),
            5 => json!(-2),
            6 => json!(2.5),
            7 => json!(7),
            8 => json!(""),
            9 => json!("a"),
            10 => json!("ab"),
            11 => json!("äöü"),
            12 | 13 => (0..self.below(4)).map(|_| self.value(levels - 1)).collect(),
            _ => {
                let names = ["a", "b", "7", "-7"];
                let members = (0..self.below(4)).map(|_| (names[self.below(4)].into(), self.value(levels - 1)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    fn schemas(&mut self, levels: usize) -> Value {
        (0..=self.below(2)).map(|_| self.schema(levels)).collect()
    }

    fn keyword(&mut self, levels: usize) -> (&'static str, Value) {
        const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "null", "array", "object"];
        const SIMPLE: usize = 18;

        let number = |random: &mut Self| [json!(0), json!(1), json!(2.5), json!(-2)][random.below(4)].clone();
        let count = |random: &mut Self| [json!(0), json!(1), json!(2), json!(3.0)][random.below(4)].clone();
        match self.below(if levels == 0 { SIMPLE } else { SIMPLE + 17 }) {
            0 => ("type", json!(TYPES[self.below(7)])),
            1 => ("type", json!(["integer", "object"])),
            2 => ("const", self.value(1)),
            3 => ("enum", json!([self.value(1), self.value(1)])),
            4 => ("minimum", number(self)),
            5 => ("maximum", number(self)),
            6 => ("exclusiveMinimum", number(self)),
            7 => ("exclusiveMaximum", number(self)),
            8 => ("multipleOf", json!(2)),
            9 => ("minItems", count(self)),
            10 => ("maxItems", count(self)),
            11 => ("minProperties", count(self)),
            12 => ("maxLength", count(self)),
            13 => ("minLength", count(self)),
            14 => ("required", json!(["a"])),
            15 => ("uniqueItems", json!(self.below(2) == 0)),
            16 => ("dependentRequired", json!({"a": ["b"]})),
            17 => ("pattern", json!(["^a", "b$", "ö"][self.below(3)])),
            18 => ("properties", json!({"a": self.schema(levels - 1), "b": self.schema(levels - 1)})),
            19 => ("additionalProperties", self.schema(levels - 1)),
            20 => ("patternProperties", json!({r"^\d+$": self.schema(levels - 1)})),
            21 => ("patternProperties", json!({r"^-?\d+$": self.schema(levels - 1)})),
            22 => ("propertyNames", self.schema(levels - 1)),
            23 => ("items", self.schema(levels - 1)),
            24 => ("prefixItems", self.schemas(levels - 1)),
            25 => ("contains", self.schema(levels - 1)),
            26 => ("anyOf", self.schemas(levels - 1)),
            27 => ("oneOf", self.schemas(levels - 1)),
            28 => ("allOf", self.schemas(levels - 1)),
            29 => ("not", self.schema(levels - 1)),
            30 => ("if", self.schema(levels - 1)),
            31 => (["then", "else"][self.below(2)], self.schema(levels - 1)),
            32 => ("unevaluatedProperties", self.schema(levels - 1)),
            _ => ("$ref", json!(["#/$defs/a", "#/$defs/b", "#"][self.below(3)])),
        }
    }

    fn schema(&mut self, levels: usize) -> Value {
        match self.below(12) {
            0 => json!(true),
            1 if self.below(4) == 0 => json!(false),
            _ => {
                let keywords = (0..=self.below(3)).map(|_| self.keyword(levels));
                Value::Object(keywords.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }
        }
    }
}

#[test]
fn common_and_full_checker_agree_on_random_schemas() {
    let mut random = Random(1);
    let (mut fitting, mut checked) = (0, 0);
    for _ in 0..4_000 {
        let mut schema = random.schema(3);
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("$defs".into(), json!({"a": random.schema(2), "b": random.schema(1)}));
        }
        let full = FullChecker::new(&schema, true);
        let common = match CommonChecker::new(&schema, true) {
            Ok(common) => common,
            // The other one allows circles of the application.
            Err(CompileError::Circle) => continue,
            Err(why) => panic!("{schema}: {why}"),
        };
        let full = full.unwrap_or_else(|why| panic!("{schema}: {why}"));
        for _ in 0..8 {
            let value = random.value(3);
            let fits = full.check(&value).is_ok();
            assert_eq!(common.check(&value).is_ok(), fits, "{schema} {value}");
            checked += 1;
            fitting += usize::from(fits);
        }
    }
    // Both results are frequent.
    assert!(checked > 20_000 && fitting > checked / 5 && fitting < checked * 4 / 5, "{fitting} of {checked}");
}

/// Schemas that are not valid are no schemas for either.
#[test]
fn common_checker_accepts_no_schema_that_the_full_one_refuses() {
    let values = [
        json!(0),
        json!(-1),
        json!(0.5),
        json!("a"),
        json!([]),
        json!(["a", "a"]),
        json!([1]),
        json!({}),
        json!({"a": 1}),
        json!({"a": ["b", "b"]}),
        json!(true),
        json!(null),
        json!([{}]),
    ];
    const KEYWORDS: [&str; 42] = [
        "type",
        "const",
        "enum",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "required",
        "dependentRequired",
        "uniqueItems",
        "unevaluatedProperties",
        "properties",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "items",
        "prefixItems",
        "contains",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "$defs",
        "title",
        "description",
        "examples",
        "deprecated",
        "readOnly",
        "format",
        "contentEncoding",
        "$comment",
    ];
    let mut accepted = 0;
    for keyword in KEYWORDS {
        for value in &values {
            for dialect in ["draft/2020-12", "draft/2019-09", "draft-07"] {
                let scheme = if dialect == "draft-07" { "http" } else { "https" };
                let schema = json!({"$schema": format!("{scheme}://json-schema.org/{dialect}/schema"), keyword: value});
                if CommonChecker::new(&schema, true).is_ok() {
                    accepted += 1;
                    assert!(FullChecker::new(&schema, true).is_ok(), "{schema}");
                }
            }
        }
    }
    assert!(accepted > 200, "{accepted}");
}
