//! Sessions against sessions. What concerns a single file is tested there.

mod calls;
mod cancellation;
mod client;
mod lists;
mod prompts;
mod questions;
mod resources;
mod schemas;
mod sessions;
mod tasks;
mod tools;

use serde_json::{Value, json};

use crate::{Service, ServiceBuilder, Tool};

/// A service with a tool that says the same again.
fn echo() -> ServiceBuilder {
    Service::builder("test", "1").tool(text_tool("echo", "message", |message| message))
}

/// A tool with one text as argument.
fn text_tool(name: &str, argument: &str, f: impl Fn(String) -> String + Send + Sync + 'static) -> Tool {
    let schema = json!({ "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] });
    let argument = argument.to_owned();
    Tool::with_schema(name, object(&schema), move |arguments: Value| {
        f(arguments[argument.as_str()].as_str().expect("the schema says so").to_owned())
    })
}

fn object(value: &Value) -> mcp_proto::wire::JsonObject {
    mcp_proto::wire::JsonObject::new(value).expect("an object")
}
