//! Tests what types do for handlers and for calls: results with a schema, forms, and results that are read into a type.

use std::borrow::Cow;

use mcp_proto::{
    protocol::ProtocolVersion,
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
        ElicitValue, ImageContent, Role, SamplingContent, SamplingMessage,
    },
};
use mcp_service::{CallError, Context, Elicited, Failure, Host, Service, Structured, Tool, testing::TestClient};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Booking {
    name: String,
    guests: Option<u8>,
    room: Room,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
enum Room {
    Single,
    Double,
}

async fn book(context: Context) -> Result<String, CallError> {
    Ok(match context.elicit_as::<Booking>("Which room?").await? {
        Elicited::Accepted(Booking { name, guests, room }) => format!("{room:?} for {guests:?}: {name}"),
        Elicited::Declined => "declined".into(),
        _ => "no decision".into(),
    })
}

/// Asks for a form with a field that no form can have.
async fn nest(context: Context) -> Result<&'static str, CallError> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nested {
        _sum: Option<Sum>,
    }
    context.elicit_as::<Nested>("Which sum?").await.map(|_| "asked")
}

fn service() -> Service {
    Service::builder("test", "1")
        .tool(Tool::new("sum", || Structured(Sum { sum: 3 })))
        .tool(Tool::new_async("sum_later", async || Ok::<_, Failure>(Structured(Sum { sum: 4 }))))
        .tool(Tool::new("list", || Structured(vec![1, 2])))
        .tool(Tool::new("maybe", || None::<Structured<Sum>>))
        .tool(Tool::new("value", || json!({"sum": 5})))
        .tool(Tool::new("any", || Structured(json!({"sum": 6}))))
        .tool(Tool::new("integer", || 42_u64))
        .tool(Tool::new("number", || Ok::<_, Failure>(0.5)))
        .tool(Tool::new("bool", || true))
        .tool(Tool::new("cow", || Cow::Borrowed("moo")))
        .tool(Tool::new("some", || Some("text")))
        .tool(Tool::new("none", || None::<String>))
        .tool(Tool::new("texts", || vec!["one", "two"]))
        .tool(Tool::new("image", || ImageContent::from_bytes(b"GIF89a", "image/gif")))
        .tool(Tool::new("fails", || Err::<Structured<Sum>, _>("no sum")))
        .tool(Tool::new_async("book", book))
        .tool(Tool::new_async("nest", nest))
        .tool(Tool::new_async("ask", async |context: Context| context.sample_text(String::from("2 + 2?"), 10).await))
        .build()
        .expect("a good service")
}

fn client(answer: ElicitResult) -> TestClient {
    let host = Host::builder("test", "1")
        .elicitation(move |form: ElicitFormParams, _| {
            assert_eq!(form.requested_schema.required, Some(vec!["name".to_owned(), "room".to_owned()]));
            Ok::<_, Failure>(answer.clone())
        })
        .sampling(|params: CreateMessageParams, _| {
            assert_eq!(params.max_tokens, 10);
            assert_eq!(params.messages, [SamplingMessage::user("2 + 2?")]);
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("4"), "model"))
        });
    TestClient::of(&service()).host(&host.build()).connect()
}

// req: TOOL-031 TOOL-033
#[test]
fn the_schema_of_a_result_is_that_of_its_type() {
    let client = TestClient::new(&service());
    let tools = client.wait(client.server().list_tools(None).expect("a request")).expect("a list").tools;
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).expect("it is listed");
        tool.output_schema.as_ref().map(|schema| serde_json::from_str::<Value>(schema.get()).expect("JSON"))
    };
    for name in ["sum", "sum_later", "fails"] {
        let schema = schema(name).expect("a schema");
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["properties"], json!({"sum": {"type": "integer"}}), "{name}");
    }
    assert_eq!(schema("list").expect("a schema")["type"], "array");
    for name in ["maybe", "value", "any", "integer"] {
        assert_eq!(schema(name), None, "{name}");
    }
    let call = |name: &str| client.call_tool(name, ()).expect("a result");
    let structured = |name: &str| call(name).structured_content.map(|content| content.get().to_owned());
    assert_eq!(structured("sum").as_deref(), Some(r#"{"sum":3}"#));
    assert_eq!(structured("list").as_deref(), Some("[1,2]"));
    assert_eq!(structured("value").as_deref(), Some(r#"{"sum":5}"#));
    assert_eq!((call("maybe").content, call("maybe").structured_content), (vec![], None));
    assert!(call("fails").is_error());
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    short_note: Option<String>,
    long_note: Option<String>,
    #[serde(skip)]
    _hidden: u8,
    #[serde(flatten)]
    sum: Sum,
    shape: Shape,
    ratio: f64,
    #[serde(serialize_with = "written")]
    number: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "kind")]
enum Shape {
    Circle { radius: f32 },
}

/// Writes a negative number as its text, which the schema does not say.
fn written<S: serde::Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    if *number < 0 { serializer.collect_str(number) } else { serializer.serialize_i64(*number) }
}

// req: TOOL-031
#[test]
fn data_that_does_not_match_its_schema_is_not_sent() {
    let report = |ratio, number| {
        let (short_note, long_note, shape) = (None, None, Shape::Circle { radius: 0.5 });
        move || Structured(Report { short_note, long_note, _hidden: 1, sum: Sum { sum: 3 }, shape, ratio, number })
    };
    let tool = |name: &'static str, ratio, number| Tool::new(name, move || report(ratio, number)());
    let service = Service::builder("test", "1")
        .tool(tool("good", 0.5, 1))
        .tool(tool("infinite", f64::INFINITY, 1))
        .tool(tool("none", f64::NAN, 1))
        .tool(tool("text", 0.5, -1))
        .tool(Tool::new("shape", || Structured(Shape::Circle { radius: 0.5 })));
    let service = service.build().expect("a good service");
    let newest = TestClient::new(&service);
    let tools = newest.wait(newest.server().list_tools(None).expect("a request")).expect("a list").tools;
    let schema = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).expect("it is listed");
        serde_json::from_str::<Value>(tool.output_schema.as_ref().expect("a schema").get()).expect("JSON")
    };
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let client = TestClient::of(&service).version(version).connect();
        let good = client.call_tool("good", ()).expect("a result");
        let data: Value = serde_json::from_str(good.content[0].as_text().expect("a text")).expect("JSON");
        let shape = json!({"kind": "Circle", "radius": 0.5});
        let required = schema("good")["required"].clone();
        let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|known| known == name));
        assert_eq!(["longNote", "shortNote", "sum"].map(is_required), [true, false, true], "{required}");
        assert_eq!(schema("good")["properties"]["ratio"], json!({"type": "number"}), "no format of Rust");
        assert_eq!(schema("shape")["type"], "object", "each variant is an object");
        assert_eq!(data, json!({"longNote": null, "sum": 3, "shape": shape, "ratio": 0.5, "number": 1}));
        for (tool, place) in [("infinite", "/ratio"), ("none", "/ratio"), ("text", "/number")] {
            let error = client.call_tool(tool, ()).expect_err("it is not sent");
            let error = error.rpc().expect("an error of the server");
            assert_eq!(error.code.0, -32603, "{tool}: {error}");
            let why = &error.message;
            assert!(why.contains("does not fit the output schema") && why.contains(place), "{tool}: {why}");
        }
    }
}

// req: TOOL-015
#[test]
fn handlers_return_what_they_have() {
    let client = TestClient::new(&service());
    let call = |name: &str| client.call_tool(name, ()).expect("a result");
    for (name, text) in [("integer", "42"), ("number", "0.5"), ("bool", "true"), ("cow", "moo"), ("some", "text")] {
        assert_eq!(call(name).content, CallToolResult::text(text).content, "{name}");
    }
    assert_eq!(call("none").content, []);
    assert_eq!(call("texts").content.iter().map(|text| text.as_text()).collect::<Vec<_>>(), [Some("one"), Some("two")]);
    assert_eq!(call("image").content, [ImageContent::from_bytes(b"GIF89a", "image/gif").into()]);
}

#[test]
fn a_typed_call_reads_its_result() {
    let client = TestClient::new(&service());
    fn call<T: serde::de::DeserializeOwned + 'static>(client: &TestClient, name: &str) -> Result<T, CallError> {
        client.wait(client.server().call_tool_as::<T>(name, ()).expect("a request"))
    }
    assert_eq!(call::<Sum>(&client, "sum"), Ok(Sum { sum: 3 }));
    assert_eq!(call::<Vec<u8>>(&client, "list"), Ok(vec![1, 2]));
    assert_eq!(call::<String>(&client, "integer"), Ok("42".to_owned()));
    assert_eq!(call::<i64>(&client, "integer"), Ok(42));
    assert_eq!(call::<f64>(&client, "number"), Ok(0.5));
    assert_eq!(call::<Sum>(&client, "fails"), Err(CallError::ToolFailed("no sum".into())));
    assert_eq!(CallError::ToolFailed("no sum".into()).to_string(), "the tool failed: no sum");
    for (tool, why) in [("texts", "neither"), ("image", "not a text"), ("cow", "expected")] {
        let error = call::<Sum>(&client, tool).expect_err("it is no sum");
        assert!(matches!(&error, CallError::Decode(text) if text.contains(why)), "{tool}: {error}");
    }
    // Before 2025-06-18, structured content is a text.
    let early = TestClient::of(&service()).version(ProtocolVersion::V2025_03_26).connect();
    assert_eq!(call::<Sum>(&early, "sum"), Ok(Sum { sum: 3 }));
    let error = client.server().call_tool("sum", [1]).map(|_| ()).expect_err("they are no object");
    assert!(error.to_string().contains("the arguments of the tool"), "{error}");
}

// req: ELIC-002 ELIC-005
#[test]
fn a_form_is_made_of_a_type_and_read_into_it() {
    let text = |answer: ElicitResult| {
        let result = client(answer).call_tool("book", ()).expect("a result");
        result.content[0].as_text().expect("a text").to_owned()
    };
    let full: [(&str, ElicitValue); 3] =
        [("name", "Ada".into()), ("guests", ElicitValue::Number(2.into())), ("room", "Double".into())];
    assert_eq!(text(ElicitResult::accept(full)), "Double for Some(2): Ada");
    let short: [(&str, ElicitValue); 2] = [("name", "Ada".into()), ("room", "Single".into())];
    assert_eq!(text(ElicitResult::accept(short.clone())), "Single for None: Ada");
    assert_eq!(text(ElicitResult::decline()), "declined");
    assert_eq!(text(ElicitResult::new(ElicitAction::Cancel)), "no decision");
    let nested = client(ElicitResult::accept(short)).call_tool("nest", ()).expect("a result");
    assert!(nested.content[0].as_text().expect("a text").contains("the field `_sum` cannot be part of a form"));
}

// req: SAMP-002
#[test]
fn a_model_responds_with_a_text() {
    let result = client(ElicitResult::decline()).call_tool("ask", ()).expect("a result");
    assert_eq!(result.content, CallToolResult::text("4").content);
    let draws = Host::builder("test", "1").sampling(|_, _| {
        let image = SamplingContent::Image(ImageContent::from_bytes(b"GIF89a", "image/gif"));
        Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, image, "model"))
    });
    let client = TestClient::of(&service()).host(&draws.build()).connect();
    let result = client.call_tool("ask", ()).expect("a result");
    assert!(result.is_error());
    assert!(result.content[0].as_text().expect("a text").contains("the response of the model is not a text"));
}

#[derive(Debug, serde::Deserialize)]
#[allow(dead_code, reason = "only its text is compared")]
struct Text(String);

#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
enum Bed {
    Single,
}

fn results() -> Service {
    Service::builder("test", "1")
        .tool(Tool::new("text", || "hello"))
        .tool(Tool::new("digits", || "42"))
        .tool(Tool::new("word", || "Single"))
        .tool(Tool::new("json", || r#"{"sum":3}"#))
        .tool(Tool::new("sum", || Structured(Sum { sum: 3 })))
        .tool(Tool::new("list", || Structured(vec![1, 2])))
        .tool(Tool::new("string", || Structured(String::from("hello"))))
        .tool(Tool::new("number", || Structured(42)))
        .tool(Tool::new("bed", || Structured(Bed::Single)))
        .tool(Tool::new("null", || Structured(None::<i64>)))
        .tool(Tool::new("none", || None::<String>))
        .tool(Tool::new("two", || vec!["1", "2"]))
        .build()
        .expect("a good service")
}

/// Reads a result, and returns its `Debug` text.
fn read<T: serde::de::DeserializeOwned + std::fmt::Debug + 'static>(client: &TestClient, tool: &str) -> Option<String> {
    let pending = client.server().call_tool_as::<T>(tool, ()).expect("a request");
    client.wait(pending).ok().map(|value| format!("{value:?}"))
}

#[test]
fn a_typed_call_reads_the_same_in_every_revision() {
    type Read = fn(&TestClient, &str) -> Option<String>;
    let (string, option, newtype): (Read, Read, Read) = (read::<String>, read::<Option<String>>, read::<Text>);
    let (number, list, sum, room): (Read, Read, Read, Read) =
        (read::<i64>, read::<Vec<i64>>, read::<Sum>, read::<Room>);
    let (nothing, any): (Read, Read) = (read::<()>, read::<Value>);
    type Row<'a> = (&'a str, &'a [(Read, Option<&'a str>)]);
    let table: &[Row] = &[
        (
            "text",
            &[
                (string, Some(r#""hello""#)),
                (option, Some(r#"Some("hello")"#)),
                (newtype, Some(r#"Text("hello")"#)),
                (any, Some(r#"String("hello")"#)),
                (number, None),
                (list, None),
                (sum, None),
                (room, None),
                (nothing, None),
            ],
        ),
        (
            "digits",
            &[
                (string, Some(r#""42""#)),
                (option, Some(r#"Some("42")"#)),
                (newtype, Some(r#"Text("42")"#)),
                (number, Some("42")),
                (read::<Option<i64>>, Some("Some(42)")),
                (any, Some("Number(42)")),
            ],
        ),
        (
            "word",
            &[(room, Some("Single")), (read::<Option<Room>>, Some("Some(Single)")), (string, Some(r#""Single""#))],
        ),
        ("json", &[(sum, Some("Sum { sum: 3 }")), (string, Some(r#""{\"sum\":3}""#)), (list, None)]),
        (
            "sum",
            &[
                (sum, Some("Sum { sum: 3 }")),
                (read::<Option<Sum>>, Some("Some(Sum { sum: 3 })")),
                (string, Some(r#""{\"sum\":3}""#)),
                (number, None),
            ],
        ),
        ("list", &[(list, Some("[1, 2]")), (string, Some(r#""[1,2]""#)), (sum, None)]),
        (
            "string",
            &[(string, Some(r#""hello""#)), (option, Some(r#"Some("hello")"#)), (newtype, Some(r#"Text("hello")"#))],
        ),
        ("number", &[(number, Some("42")), (string, Some(r#""42""#)), (any, Some("Number(42)"))]),
        ("bed", &[(room, Some("Single")), (string, Some(r#""Single""#))]),
        ("null", &[(read::<Option<i64>>, Some("None")), (option, Some("None")), (nothing, Some("()"))]),
        ("none", &[(option, Some("None")), (read::<Option<Sum>>, Some("None")), (nothing, Some("()")), (string, None)]),
        ("two", &[(string, None), (list, None), (option, None)]),
    ];
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let client = TestClient::of(&results()).version(version).connect();
        for (tool, reads) in table {
            for (place, (read, expected)) in reads.iter().enumerate() {
                assert_eq!(read(&client, tool).as_deref(), *expected, "{version:?} {tool} {place}");
            }
        }
    }
}
