//! JSON Schemas of a server, which its client measures, compiles, and holds against results.

use mcp_proto::schema::{CallToolResult, Tool};
use mcp_service::OutputSchema;
use serde_json::{Value, json};

use super::{Case, Work};

pub(super) const CASES: &[Case] = &[
    Case { name: "schema/a result with many properties", make: properties },
    Case { name: "schema/long patterns", make: long_patterns },
    Case {
        name: "schema/a text held against patterns",
        make: |size| {
            // An automaton that remembers no more than some KiB of states has to follow each of them for each byte.
            let patterns: Vec<_> =
                (40..48).map(|length| json!({"pattern": format!("1[01]{{{length}}}[2-9]")})).collect();
            checked(size, &json!({"anyOf": patterns}), &json!(binary(size)), false)
        },
    },
    Case {
        name: "schema/a text that is too long for its pattern",
        make: |size| checked(size, &json!({"pattern": "1[01]{2000}[2-9]"}), &json!(binary(64 * size)), false),
    },
    Case {
        name: "schema/many references to one schema",
        make: |size| {
            let references = vec![json!({"$ref": "#/$defs/a"}); size / 20];
            measured(size, &json!({"$defs": {"a": {}}, "allOf": references}))
        },
    },
    Case {
        name: "schema/many references to a list",
        make: |size| {
            let (list, references) = (vec![0; size / 4], vec![json!({"$ref": "#/$defs/a"}); size / 40]);
            measured(size, &json!({"$defs": {"a": list}, "anyOf": references}))
        },
    },
    Case {
        name: "schema/many references to many anchors",
        make: |size| {
            let anchors = (0..size / 60).map(|index| json!({"$anchor": format!("a{index}")}));
            let references = (0..size / 60).map(|index| json!({"$ref": format!("#a{index}")}));
            measured(size, &json!({"anyOf": anchors.chain(references).collect::<Vec<_>>()}))
        },
    },
    Case {
        name: "schema/many references to one anchor of many",
        make: |size| {
            let (anchors, references) =
                (vec![json!({"$anchor": "a"}); size / 30], vec![json!({"$ref": "#a"}); size / 30]);
            let all = [anchors, references].concat();
            measured(size, &json!({"anyOf": all}))
        },
    },
    Case {
        name: "schema/many references beside a long identity",
        make: |size| {
            let id = format!("x:{}", "#".repeat(size / 2));
            measured(
                size,
                &json!({"$id": id, "$defs": {"a": {}}, "allOf": vec![json!({"$ref": "#/$defs/a"}); size / 40]}),
            )
        },
    },
    Case {
        name: "schema/definitions that use the next one",
        make: |size| {
            let next = |index: usize| (format!("d{index}"), json!({"$ref": format!("#/$defs/d{}", index + 1)}));
            let definitions: serde_json::Map<_, _> = (0..size / 32).map(next).collect();
            measured(size, &json!({"$defs": definitions, "$ref": "#/$defs/d0"}))
        },
    },
    Case {
        name: "schema/an enum of many values",
        make: |size| {
            let values: Vec<_> = (0..size / 8).map(|index| json!(format!("v{index}"))).collect();
            checked(size, &json!({"enum": values}), &json!(format!("v{}", size / 8 - 1)), true)
        },
    },
    Case {
        name: "schema/many values held against an enum",
        make: |size| {
            let values: Vec<_> = (0..50).map(|index| json!({"v": index})).collect();
            checked(
                size,
                &json!({"type": "array", "items": {"enum": values}}),
                &json!(vec![&values[49]; size / 8]),
                true,
            )
        },
    },
];

/// Zeros and ones in an order without a period.
fn binary(length: usize) -> String {
    let mut state = 1_u64;
    let bit = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { '0' } else { '1' }
    };
    (0..length).map(bit).collect()
}

fn tool(schema: &Value) -> Tool {
    serde_json::from_value(json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}))
        .expect("a tool")
}

/// A schema that is measured, and compiled if it is not refused.
fn measured(size: usize, schema: &Value) -> Work {
    let tool = tool(&as_object(schema));
    Work::new(size, move || drop(OutputSchema::of(&tool)))
}

/// A result that is held against a schema.
fn checked(size: usize, schema: &Value, value: &Value, fits: bool) -> Work {
    let schema = json!({"type": "object", "properties": {"a": schema}});
    let result: CallToolResult =
        serde_json::from_value(json!({"content": [], "structuredContent": {"a": value}})).expect("a result");
    let tool = tool(&schema);
    Work::new(size, move || {
        let schema = OutputSchema::of(&tool).expect("a schema");
        assert_eq!(schema.check(&result).is_ok(), fits);
    })
}

fn as_object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!("object");
    schema
}

/// The schema of a server names its properties, and its result has as many.
fn properties(size: usize) -> Work {
    let properties: serde_json::Map<_, _> =
        (0..size / 64).map(|index| (format!("m{index}"), json!({"type": "integer"}))).collect();
    let values: serde_json::Map<_, _> = (0..size / 64).map(|index| (format!("m{index}"), json!(index))).collect();
    checked(size, &json!({"type": "object", "properties": properties}), &values.into(), true)
}

/// As many patterns as there may be, of texts that are as long as possible.
fn long_patterns(size: usize) -> Work {
    let pattern = |index: usize| json!({"pattern": format!("^{index}({})$", "a|".repeat(size / 128))});
    measured(size, &json!({"properties": {"a": {"anyOf": (0..64).map(pattern).collect::<Vec<_>>()}}}))
}
