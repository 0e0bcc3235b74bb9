//! Tools that send no requests to the client.

use std::time::Duration;

use mcp_proto::{
    schema::{ContentBlock, LoggingLevel, ToolAnnotations},
    wire::JsonObject,
};
use mcp_service::{CallError, Context, Failure, Prompt, Resource, ServiceBuilder, Structured, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::{document, picture, sound};

/// The time between two notifications of a tool.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The name to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// The duration in milliseconds.
    ms: u32,
}

#[derive(Deserialize)]
struct Region {
    region: String,
}

#[derive(Deserialize, JsonSchema)]
struct Terms {
    a: f64,
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: f64,
}

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    // Tools that only read are annotated as such.
    let looks = |tool: Tool| {
        tool.annotations(ToolAnnotations {
            read_only_hint: Some(true),
            open_world_hint: Some(false),
            ..ToolAnnotations::default()
        })
    };
    builder
        .tool(looks(
            Tool::new("test_simple_text", || "This is a simple text response for testing.")
                .description("Answers with a text"),
        ))
        .tool(looks(Tool::new("test_image_content", picture).description("Answers with a picture")))
        .tool(looks(Tool::new("test_audio_content", sound).description("Answers with a sound")))
        .tool(looks(
            Tool::new("test_embedded_resource", || {
                document("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            })
            .description("Answers with a resource"),
        ))
        .tool(looks(
            Tool::new("test_multiple_content_types", several)
                .description("Answers with a text, a picture and a resource"),
        ))
        .tool(looks(
            Tool::new("test_error_handling", || {
                Err::<&str, _>(Failure::new("This tool intentionally returns an error for testing"))
            })
            .description("Always fails"),
        ))
        .tool(looks(
            Tool::new_async("test_tool_with_progress", with_progress).description("Reports progress three times"),
        ))
        .tool(looks(
            Tool::new_async("test_tool_with_logging", with_logging).description("Logs what it does, three times"),
        ))
        .tool(looks(
            Tool::with_schema("json_schema_2020_12_tool", schema_2020_12(), || "The schema is what matters here.")
                .description("Tool with JSON Schema 2020-12 features"),
        ))
        .tool(looks(Tool::new("greet", |name: Name| format!("Hello, {}!", name.name)).description("Greets a person")))
        .tool(looks(Tool::new_async("test_slow", slow).description("Takes its time, unless it is cancelled")))
        .tool(looks(
            Tool::new("test_structured", |Terms { a, b }: Terms| Structured(Sum { sum: a + b }))
                .description("Adds two numbers"),
        ))
        .tool(looks(
            Tool::new_async("test_reconnection", reconnection)
                .description("Closes the stream, so that the client resumes it for the response"),
        ))
        .tool(looks(
            Tool::with_schema("test_header", regional(), |Region { region }: Region| format!("in {region}"))
                .description("Has an argument that is repeated in a header"),
        ))
        .tool(looks(Tool::new_async("test_ping_client", ping).description("Pings the client")))
        .tool(Tool::new("test_trigger_tool_change", change_tools).description("Adds a tool, or takes it away again"))
        .tool(
            Tool::new("test_trigger_prompt_change", change_prompts)
                .description("Adds a prompt, or takes it away again"),
        )
        .tool(
            Tool::new("test_trigger_resource_change", change_resources)
                .description("Adds a resource, or takes it away again"),
        )
}

fn several() -> Vec<ContentBlock> {
    let data = r#"{"test":"data","value":123}"#;
    vec![
        ContentBlock::text("Multiple content types test:"),
        picture(),
        document("test://mixed-content-resource", "application/json", data),
    ]
}

async fn with_progress(context: Context) -> Result<&'static str, Failure> {
    for progress in [0.0, 50.0, 100.0] {
        context.progress(progress, Some(100.0), None).await?;
        context.sleep(PAUSE).await?;
    }
    Ok("All of it is done.")
}

async fn with_logging(context: Context) -> Result<&'static str, Failure> {
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        context.log(LoggingLevel::Info, None, said).await?;
        context.sleep(PAUSE).await?;
    }
    Ok("All of it is logged.")
}

async fn slow(wait: Wait, context: Context) -> Result<&'static str, CallError> {
    context.sleep(Duration::from_millis(wait.ms.into())).await?;
    Ok("slow done")
}

async fn reconnection(context: Context) -> Result<&'static str, CallError> {
    context.release_stream(Some(Duration::from_millis(500)));
    context.sleep(2 * PAUSE).await?;
    Ok("You have come back.")
}

/// A schema with an annotation that derived schemas do not have.
fn regional() -> JsonObject {
    let schema =
        r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}"#;
    JsonObject::parse(schema).expect("it is an object")
}

async fn ping(context: Context) -> Result<&'static str, CallError> {
    context.peer().ping()?.await?;
    Ok("pong")
}

fn change_tools(context: Context) -> Result<&'static str, Failure> {
    let service = context.service();
    if service.remove_tool("test_dynamic_tool") {
        return Ok("test_dynamic_tool is gone");
    }
    service.add(Tool::new("test_dynamic_tool", || "dynamic").description("Is not always there"))?;
    Ok("test_dynamic_tool is there")
}

fn change_prompts(context: Context) -> Result<&'static str, Failure> {
    let service = context.service();
    if service.remove_prompt("test_dynamic_prompt") {
        return Ok("test_dynamic_prompt is gone");
    }
    service.add(Prompt::new("test_dynamic_prompt", || "dynamic").description("Is not always there"))?;
    Ok("test_dynamic_prompt is there")
}

fn change_resources(context: Context) -> Result<&'static str, Failure> {
    let service = context.service();
    if service.remove_resource("test://dynamic-resource") {
        return Ok("test://dynamic-resource is gone");
    }
    let resource = Resource::new("test://dynamic-resource", "dynamic", || "dynamic");
    service.add(resource.description("Is not always there").mime_type("text/plain"))?;
    Ok("test://dynamic-resource is there")
}

/// A schema that uses the features of JSON Schema 2020-12, and is listed unchanged.
fn schema_2020_12() -> JsonObject {
    JsonObject::parse(include_str!("schema_2020_12.json")).expect("the file holds an object")
}
