#![cfg(feature = "schemas")]

use std::collections::BTreeMap;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{CallToolResult, Tool as ListedTool},
    wire::{Json, JsonObject},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::object;
use super::pair::{Pair, code};
use crate::{
    client::Host,
    json_schema::OutputSchema,
    outbound::error::CallError,
    server::{register_error::RegisterError, service::Service, tool::Tool, tool_result::Structured},
};

/// Where to go.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Trip {
    /// The name of the town.
    town: String,
    days: Option<u8>,
    #[serde(default)]
    by: Vehicle,
    stops: Vec<Stop>,
    notes: Option<BTreeMap<String, f64>>,
}

#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Vehicle {
    #[default]
    Train,
    Bike,
}

/// A stop, with the next one.
#[derive(Deserialize, Serialize, JsonSchema)]
struct Stop {
    name: String,
    next: Option<Box<Stop>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Circle {
        radius: f64,
    },
    #[allow(dead_code, reason = "it only has to be there")]
    Square {
        side: f64,
    },
}

#[derive(Deserialize, JsonSchema)]
struct Empty {}

#[test]
fn doc_comment_becomes_tool_description() {
    let of = |tool: Tool| listed(tool).get("description").cloned();
    assert_eq!(of(Tool::new("a", |_: Trip| ())), Some(json!("Where to go.")));
    assert_eq!(of(Tool::new_async("a", async |_: Trip| ())), Some(json!("Where to go.")));
    assert_eq!(of(Tool::new("a", |_: Trip| ()).description("Goes there")), Some(json!("Goes there")));
    assert_eq!(of(Tool::new("a", |_: Empty| ())), None);
    assert_eq!(of(Tool::new("a", || ())), None);
}

fn listed(tool: Tool) -> Value {
    let service = Service::builder("test", "1").tool(tool).build().expect("a good service");
    let listed = Pair::simple(&service).send_request("tools/list", json!({})).expect("a list");
    listed["tools"][0].clone()
}

// req: SCHEMA-005 TOOL-004
#[test]
fn generated_schemas_match_expected_json() {
    let golden = [
        (listed(Tool::new("a", || ())), json!({"type": "object", "additionalProperties": false})),
        (
            listed(Tool::new("a", |_: Empty| ())),
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}),
        ),
        (
            listed(Tool::new("a", |_: Trip| ())),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "description": "Where to go.",
                "properties": {
                    "town": {"type": "string", "description": "The name of the town."},
                    "days": {"type": ["integer", "null"], "minimum": 0, "maximum": 255},
                    "by": {"$ref": "#/$defs/Vehicle", "default": "train"},
                    "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
                    "notes": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}
                },
                "required": ["town", "stops"],
                "$defs": {
                    "Vehicle": {"type": "string", "enum": ["train", "bike"]},
                    "Stop": {
                        "type": "object",
                        "description": "A stop, with the next one.",
                        "properties": {
                            "name": {"type": "string"},
                            "next": {"anyOf": [{"$ref": "#/$defs/Stop"}, {"type": "null"}]}
                        },
                        "required": ["name"]
                    }
                }
            }),
        ),
        (
            listed(Tool::new("a", |_: Shape| ())),
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"type": "string", "const": "circle"}, "radius": {"type": "number"}},
                        "required": ["kind", "radius"]
                    },
                    {
                        "type": "object",
                        "properties": {"kind": {"type": "string", "const": "square"}, "side": {"type": "number"}},
                        "required": ["kind", "side"]
                    }
                ]
            }),
        ),
    ];
    for (tool, schema) in golden {
        assert_eq!(tool["inputSchema"], schema);
        #[cfg(feature = "json-schema")]
        assert!(jsonschema::meta::is_valid(&schema));
    }
    let stop = listed(Tool::new("a", |_: Stop| ()));
    assert_eq!(stop["inputSchema"]["type"], "object");
    assert_eq!(stop["inputSchema"].get("title"), None);
    // Arguments are objects, so a type that is none is refused.
    let list = Service::builder("test", "1").tool(Tool::new("a", |_: Vec<u8>| ())).build();
    assert!(matches!(list, Err(RegisterError::Schema { .. })));
}

#[test]
fn arguments_are_checked_against_generated_schemas() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("trip", |trip: Trip| trip.town))
        .tool(Tool::new("shape", |shape: Shape| match shape {
            Shape::Circle { radius } => radius.to_string(),
            Shape::Square { .. } => "square".into(),
        }))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let call = |name: &str, arguments: Value| {
        let result = pair.send_request("tools/call", json!({"name": name, "arguments": arguments})).expect("a result");
        (result["isError"] != json!(true), result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(
        call("trip", json!({"town": "Bern", "stops": [{"name": "a", "next": {"name": "b"}}], "days": 3})),
        (true, "Bern".into())
    );
    assert_eq!(call("shape", json!({"kind": "circle", "radius": 1.5})), (true, "1.5".into()));
    for (name, bad, place) in [
        ("trip", json!({"stops": []}), "town"),
        ("trip", json!({"town": "Bern", "stops": [], "days": 256}), "/days"),
        ("trip", json!({"town": "Bern", "stops": [{"name": "a", "next": {"name": 1}}]}), "/stops/0/next"),
        ("trip", json!({"town": "Bern", "stops": [], "by": "plane"}), "/by"),
        ("shape", json!({"kind": "circle"}), ""),
    ] {
        let (fine, why) = call(name, bad);
        assert!(!fine && why.contains(place), "{why}");
    }
}

// req: SCHEMA-007
#[test]
fn schemas_of_users_are_sent_byte_for_byte() {
    let text = r##"{ "type" : "object", "$schema":"https://json-schema.org/draft/2020-12/schema", "properties":{"z":{"$ref":"#/$defs/n"},"a":{"minimum":1.0}},
        "allOf":[{"anyOf":[{"required":["z"]},{"required":["a"]}]}], "if":{"required":["a"]}, "then":{}, "else":{}, "$defs":{"n":{"type":"number","$anchor":"n"}}, "additionalProperties" : false, "x-own":[1e2,12345678901234567890] }"##;
    let schema = JsonObject::parse(text.replace('\n', " ")).expect("an object");
    let service = Service::builder("test", "1")
        .tool(Tool::with_schema("a", schema.clone(), |_: Value| ()).output_schema(schema.clone()))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let server = pair.to_server();
    let listed = pair.wait(server.list_tools(None).expect("it can be sent")).expect("a list");
    assert_eq!(listed.tools[0].input_schema.get(), schema.get());
    assert_eq!(listed.tools[0].output_schema.as_ref().map(JsonObject::get), Some(schema.get()));
    assert!(pair.server.lines.lock().expect("no panic").iter().any(|line| line.contains(schema.get())));
}

// req: SCHEMA-001 SCHEMA-002 SCHEMA-003 SCHEMA-004
// req: M-SCHEMA-001 M-SCHEMA-002 M-SCHEMA-003 M-SCHEMA-004 M-SCHEMA-006
#[cfg(feature = "json-schema")]
#[test]
fn schemas_follow_their_declared_dialect() {
    let tool = |schema: Value| {
        Service::builder("test", "1").tool(Tool::with_schema("a", object(&schema), |_: Value| "fits")).build()
    };
    // An array of a text and then numbers: each dialect has its own keyword for it, and ignores the others.
    let tuple = |dialect: Option<&str>, word: &str| {
        let mut schema = json!({"type": "object", "properties": {"list": {word: [{"type": "string"}]}}});
        if let Some(dialect) = dialect {
            schema["$schema"] = dialect.into();
        }
        let service = tool(schema).expect("a known dialect");
        let [old, new] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28].map(|version| {
            let pair = Pair::new(&Host::builder("client", "1").build(), &service, version);
            let result =
                pair.send_request("tools/call", json!({"name": "a", "arguments": {"list": [1]}})).expect("a result");
            result["isError"] == json!(true)
        });
        assert_eq!(old, new);
        new
    };
    assert!(tuple(None, "prefixItems"), "2020-12 is meant where nothing is said");
    assert!(tuple(Some("https://json-schema.org/draft/2020-12/schema"), "prefixItems"));
    assert!(tuple(Some("https://json-schema.org/draft/2019-09/schema"), "items"));
    assert!(tuple(Some("http://json-schema.org/draft-07/schema#"), "items"));
    assert!(!tuple(Some("http://json-schema.org/draft-07/schema#"), "prefixItems"));

    let refused = |schema: Value| match tool(schema) {
        Err(RegisterError::Schema { tool, why }) if tool == "a" => why,
        other => panic!("{other:?}"),
    };
    let why = refused(json!({"type": "object", "$schema": "https://example.com/my-dialect"}));
    assert!(why.contains("https://example.com/my-dialect") && why.contains("not supported"), "{why}");
    refused(json!({"type": "object", "$schema": 7}));
    refused(json!({"type": "object", "properties": {"a": {"type": "strnig"}}}));
    refused(json!({"type": "array"}));
    refused(json!({}));
    refused(json!({"type": ["object"]}));
}

// req: M-SCHEMA-007 M-SCHEMA-008 M-SCHEMA-004
#[test]
fn schema_references_are_not_fetched() {
    // It would accept a connection.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.set_nonblocking(true).expect("it is a socket");
    let address = listener.local_addr().expect("it has an address");
    for place in
        [format!("http://{address}/schema"), format!("http://{address}/schema#/$defs/a"), "file:///etc/passwd".into()]
    {
        let schema = |member: &str| object(&json!({"type": "object", member: {"a": {"$ref": place}}}));
        for member in ["properties", "$defs"] {
            let tool = Tool::with_schema("a", schema(member), |_: Value| ());
            let registered = Service::builder("test", "1").tool(tool).build();
            assert!(matches!(registered, Err(RegisterError::Schema { .. })), "{place} in {member}");
            let listed =
                ListedTool { output_schema: Some(schema(member)), ..ListedTool::new("a", JsonObject::empty()) };
            assert!(OutputSchema::of(&listed).is_err(), "{place} in {member}");
        }
    }
    let dialect = object(&json!({"type": "object", "$schema": format!("http://{address}/dialect")}));
    assert!(Service::builder("test", "1").tool(Tool::with_schema("a", dialect, |_: Value| ())).build().is_err());
    assert!(listener.accept().is_err(), "no connection was made");
}

// req: TOOL-030 TOOL-032
#[test]
fn clients_check_results_against_output_schema() {
    #[derive(Serialize, JsonSchema)]
    struct Sum {
        sum: i64,
    }
    let service = Service::builder("test", "1")
        .tool(Tool::new("add", || Structured(Sum { sum: 3 })))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let server = pair.to_server();
    let tool = pair.wait(server.list_tools(None).expect("it can be sent")).expect("a list").tools.remove(0);
    let schema = OutputSchema::of(&tool).expect("a good schema");
    let result =
        pair.wait(server.call_tool("add", ()).expect("it can be sent").conforming(&schema)).expect("it conforms");
    assert_eq!(result.structured_content.as_ref().map(Json::get), Some("{\"sum\":3}"));

    let structured = |text: &str| CallToolResult {
        structured_content: Some(Json::parse(text).expect("JSON")),
        ..CallToolResult::new([])
    };
    assert_eq!(schema.check(&structured(r#"{"sum":1}"#)), Ok(()));
    assert!(schema.check(&structured(r#"{"sum":"1"}"#)).is_err());
    assert!(schema.check(&CallToolResult::text("no data")).is_err());
    assert_eq!(schema.check(&CallToolResult::error("failed")), Ok(()));
    let none = OutputSchema::of(&ListedTool::new("free", JsonObject::empty())).expect("nothing is fine");
    assert_eq!(none.check(&CallToolResult::text("no data")), Ok(()));
    let unknown = ListedTool {
        output_schema: Some(object(&json!({"type": "object", "$schema": "urn:unknown"}))),
        ..ListedTool::new("odd", JsonObject::empty())
    };
    assert!(OutputSchema::of(&unknown).is_err());

    let pair = Pair::scripted(&Host::builder("client", "1").build(), |_, _| {
        Ok(json!({"content": [], "structuredContent": {"sum": []}}))
    });
    let pending = pair.to_server().call_tool("add", ()).expect("it can be sent").conforming(&schema);
    assert!(matches!(pair.wait(pending), Err(CallError::Invalid(_))));
}

#[test]
fn evil_patterns_are_checked_in_bounded_time() {
    let evil = object(&json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}));
    let tool = ListedTool { output_schema: Some(evil), ..ListedTool::new("evil", JsonObject::empty()) };
    let schema = OutputSchema::of(&tool).expect("a good schema");
    let content = Json::new(&json!({"a": format!("{}!", "a".repeat(50_000))})).expect("JSON");
    let start = std::time::Instant::now();
    assert!(schema.check(&CallToolResult { structured_content: Some(content), ..CallToolResult::new([]) }).is_err());
    assert!(start.elapsed() < std::time::Duration::from_secs(2));
}

/// A rule is never left out: without the feature for all keywords, a schema with another one is refused.
#[cfg(not(feature = "json-schema"))]
#[test]
fn schemas_that_need_the_feature_are_refused_by_its_name() {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        #[allow(dead_code, reason = "only its schema is used")]
        #[schemars(regex(pattern = r"^\p{L}+$"))]
        name: String,
    }
    let schema = object(&json!({"type": "object", "properties": {"a": {"contains": {}, "minContains": 2}}}));
    for (tool, keyword) in [
        (Tool::new("a", |_: Name| ()), "\"pattern\" at /properties/name"),
        (Tool::with_schema("a", schema.clone(), |_: Value| ()), "\"minContains\" at /properties/a"),
        (Tool::new("a", || json!({})).output_schema(schema.clone()), "\"minContains\" at /properties/a"),
    ] {
        let refused = Service::builder("test", "1").tool(tool).build().expect_err("it says too much").to_string();
        assert!(refused.contains(keyword), "{refused}");
        assert!(refused.contains("the feature `json-schema` of mcp-service"), "{refused}");
    }
    let listed = ListedTool { output_schema: Some(schema), ..ListedTool::new("a", JsonObject::empty()) };
    let refused = OutputSchema::of(&listed).expect_err("it says too much").to_string();
    assert!(refused.contains("the feature `json-schema` of mcp-service"), "{refused}");
}

#[test]
fn all_wrong_arguments_of_a_type_are_reported() {
    let service = Service::builder("test", "1").tool(Tool::new("trip", |trip: Trip| trip.town)).build();
    let pair = Pair::simple(&service.expect("a good service"));
    let arguments = json!({"days": 300, "by": "plane", "stops": [{"name": 1}, {}], "notes": {"a": "b"}});
    let result = pair.send_request("tools/call", json!({"name": "trip", "arguments": arguments})).expect("a result");
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    for part in [
        "\"town\" is a required property",
        "greater than 255 at /days",
        "none of \"train\", \"bike\" at /by",
        "not of type \"string\" at /stops/0/name",
        "\"name\" is a required property at /stops/1",
        "not of type \"number\" at /notes/a",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn prompt_arguments_come_from_the_type() {
    #[derive(Deserialize, JsonSchema)]
    struct Letter {
        /// How formal.
        style: Option<String>,
        to: String,
        copies: Option<u8>,
    }
    let service = Service::builder("test", "1")
        .prompt(crate::server::prompt::Prompt::new("letter", |letter: Letter| {
            format!("{} {:?} {:?}", letter.to, letter.style, letter.copies)
        }))
        .build()
        .expect("a good service");
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_11_25);
    let listed = pair.send_request("prompts/list", json!({})).expect("a list");
    let arguments = listed["prompts"][0]["arguments"].as_array().expect("arguments");
    assert_eq!(arguments[0], json!({"name": "to", "required": true}));
    assert!(arguments.contains(&json!({"name": "style", "description": "How formal."})));
    let got = pair
        .send_request("prompts/get", json!({"name": "letter", "arguments": {"to": "Ada", "copies": "2"}}))
        .expect("a prompt");
    assert_eq!(got["messages"][0]["content"]["text"], "Ada None Some(2)");
    assert_eq!(
        code(&pair.send_request("prompts/get", json!({"name": "letter", "arguments": {"copies": "2"}}))),
        -32602
    );
}
