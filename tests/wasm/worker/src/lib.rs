//! A server as a `fetch` handler: the function `respond` takes each request, whatever host it comes from. Some tools
//! have the names of those of `everything`, so that a page can use either server.

use std::{
    cell::OnceCell,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mcp_wasm::{
    Endpoint, EndpointOptions, Paths, Policy,
    mcp_proto::schema::{ElicitSchema, TaskSupport},
    mcp_service::{CallError, Context, Failure, Resource, Service, Tool},
    web_sys::{Request, Response},
};
use schemars::JsonSchema;
use serde::Deserialize;
use wasm_bindgen::prelude::*;

/// How many handlers have found that their request was cancelled.
static CANCELLED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static ENDPOINT: OnceCell<Endpoint> = const { OnceCell::new() };
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The name to greet.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Size {
    /// The number of characters.
    size: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// The duration in milliseconds.
    ms: u32,
}

/// Responds to a request.
#[wasm_bindgen]
pub async fn respond(request: Request) -> Result<Response, JsValue> {
    endpoint()?.fetch(&request).await
}

/// Returns the number of sessions.
#[wasm_bindgen]
pub fn sessions() -> Result<usize, JsValue> {
    Ok(endpoint()?.sessions())
}

/// Returns the number of cancelled requests.
#[wasm_bindgen]
pub fn cancelled() -> u32 {
    CANCELLED.load(Ordering::Relaxed)
}

/// Closes the endpoint and waits for its end.
#[wasm_bindgen]
pub async fn close() -> Result<(), JsValue> {
    endpoint()?.close().await;
    Ok(())
}

fn endpoint() -> Result<Endpoint, JsValue> {
    let error = |error: &dyn std::error::Error| JsValue::from(JsError::new(&error.to_string()));
    if let Some(endpoint) = ENDPOINT.with(|it| it.get().cloned()) {
        return Ok(endpoint);
    }
    let service = service().map_err(|it| error(&it))?;
    let policy = Policy::hosts(["127.0.0.1", "worker.example"]).map_err(|it| error(&it))?;
    let policy = policy.allow_origin("https://page.example").map_err(|it| error(&it))?;
    let mut options = EndpointOptions::new(policy);
    options.paths = Paths::at("/mcp");
    let endpoint = Endpoint::new(&service, options).map_err(|it| error(&it))?;
    Ok(ENDPOINT.with(|it| it.get_or_init(|| endpoint).clone()))
}

fn service() -> Result<Service, mcp_wasm::mcp_service::RegisterError> {
    Service::builder("worker", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("greet", |name: Name| format!("Hello, {}!", name.name)).description("Greets a person"))
        .tool(Tool::new("large", |size: Size| "x".repeat(size.size)).description("Answers with a long text"))
        .tool(Tool::new_async("test_tool_with_progress", with_progress).description("Reports progress three times"))
        .tool(
            Tool::new_async("test_input_required_result_elicitation", elicitation)
                .description("Requests a name from the user"),
        )
        .tool(Tool::new_async("test_slow", slow).description("Takes its time, unless it is cancelled"))
        .tool(Tool::new_async("reconnect", reconnect).description("Ends the stream before it answers"))
        .tool(Tool::new_async("job", slow).task_support(TaskSupport::Optional).description("Takes its time as a task"))
        .resource(Resource::new("worker://about", "about", || "a worker"))
        .build()
}

async fn with_progress(context: Context) -> Result<&'static str, Failure> {
    for progress in [0.0, 50.0, 100.0] {
        context.progress(progress, Some(100.0), None).await?;
        context.sleep(Duration::from_millis(30)).await?;
    }
    Ok("counted")
}

async fn elicitation(context: Context) -> Result<String, Failure> {
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;
    let schema: ElicitSchema = serde_json::from_str(schema)?;
    let answer = context.elicit("What is your name?", schema).await?;
    let content = answer.content.ok_or("no name")?;
    let name = content.get("name").ok_or("no name")?;
    let name: String = serde_json::from_value(serde_json::to_value(name)?)?;
    Ok(format!("Hello, {name}!"))
}

async fn slow(wait: Wait, context: Context) -> Result<&'static str, Failure> {
    context.progress(0.0, None, None).await?;
    let slept = context.sleep(Duration::from_millis(wait.ms.into())).await;
    if slept.is_err() {
        CANCELLED.fetch_add(1, Ordering::Relaxed);
    }
    slept?;
    Ok("slept")
}

async fn reconnect(context: Context) -> Result<&'static str, CallError> {
    context.release_stream(Some(Duration::from_millis(100)));
    context.sleep(Duration::from_millis(100)).await?;
    Ok("reconnected")
}
