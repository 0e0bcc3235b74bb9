//! The example `counter` of rmcp, ported: tools, prompts and resources around a shared number.
//!
//! ```sh
//! cargo run -p mcp-guide --example counter -- 127.0.0.1:8000   # without an address: over stdio
//! ```

use std::{
    sync::atomic::{AtomicI32, Ordering::SeqCst},
    time::Duration,
};

use mcp_proto::{
    schema::{GetPromptResult, PromptMessage},
    wire::JsonObject,
};
use mcp_service::{CallError, Context, Prompt, RegisterError, Resource, Service, Tool};
use mcp_tokio::http::{EndpointOptions, ExposedHeads, Listener, Policy, RequestHead};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

const SESSION_ID: &str = "mcp-session-id";

#[derive(Deserialize, JsonSchema)]
struct Terms {
    a: i32,
    b: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Example {
    /// What the prompt says
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Analysis {
    /// The value to get to
    goal: i32,
    /// How to get there: `fast` or `careful`
    strategy: Option<String>,
}

#[derive(Default)]
struct Counter(AtomicI32);

impl Counter {
    fn add(&self, number: i32) -> i32 {
        self.0.fetch_add(number, SeqCst) + number
    }

    fn analysis(&self, analysis: Analysis) -> GetPromptResult {
        let (goal, value) = (analysis.goal, self.0.load(SeqCst));
        let strategy = analysis.strategy.as_deref().unwrap_or("careful");
        let difference = goal - value;
        let mut prompt = GetPromptResult::new([
            PromptMessage::assistant("I look at the counter and propose what to do."),
            PromptMessage::user(format!(
                "Value: {value}\nGoal: {goal}\nDifference: {difference}\nStrategy: {strategy}\n\
                 What is the best way to reach the goal?"
            )),
        ]);
        prompt.description = Some(format!("How to get from {value} to {goal}"));
        prompt
    }
}

async fn long_task(context: Context) -> Result<&'static str, CallError> {
    context.sleep(Duration::from_secs(10)).await?;
    Ok("ten seconds are over")
}

/// Returns the id of the session. Over stdio and in 2026-07-28 there is none.
fn get_session_id(context: Context) -> Option<String> {
    let head = context.info().extension::<RequestHead>()?;
    head.header(SESSION_ID).map(str::to_owned)
}

fn echo(arguments: Map<String, Value>) -> String {
    Value::Object(arguments).to_string()
}

pub(crate) fn service() -> Result<Service, RegisterError> {
    let any_object = JsonObject::parse(r#"{"type":"object"}"#).expect("an object");
    Service::builder("counter", env!("CARGO_PKG_VERSION"))
        .instructions("A counter with tools, two prompts and two resources.")
        .with_state(Counter::default())
        .tool(Tool::new("increment", |it: &Counter| it.add(1)).description("Adds 1"))
        .tool(Tool::new("decrement", |it: &Counter| it.add(-1)).description("Subtracts 1"))
        .tool(Tool::new("get_value", |it: &Counter| it.add(0)).description("Returns the value"))
        .tool(Tool::new_async("long_task", long_task).description("Takes ten seconds"))
        .tool(Tool::new("get_session_id", get_session_id).description("Returns the session"))
        .tool(Tool::new("say_hello", || "hello").description("Says hello"))
        .tool(Tool::with_schema("echo", any_object, echo).description("Returns its arguments"))
        .tool(Tool::new("sum", |it: Terms| it.a + it.b).description("Adds two numbers"))
        .prompt(Prompt::new("example_prompt", |it: Example| {
            format!("Repeat this: {}", it.message)
        }))
        .prompt(Prompt::new("counter_analysis", Counter::analysis))
        .resource(Resource::new(
            "str:////Users/to/some/path/",
            "cwd",
            || "/Users/to/some/path/",
        ))
        .resource(Resource::new("memo://insights", "memo-name", || "Buy milk"))
        .build()
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(address) = std::env::args().nth(1) else {
        return Ok(mcp_tokio::serve_stdio(&service()?).await?);
    };
    let mut options = EndpointOptions::new(Policy::loopback());
    // The id of a session is exposed only if it is named.
    options.heads = Some(ExposedHeads::only([SESSION_ID.parse()?]));
    let listener = Listener::bind(address).await?.endpoint(options);
    Ok(listener.serve(&service()?).await?)
}
