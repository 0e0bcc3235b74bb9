//! Sessions against sessions. What concerns a single file is tested there.

mod calls;
mod cancellation;
mod client;
mod lists;
mod modern;
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
    #[derive(serde::Deserialize)]
    struct Echo {
        message: String,
    }
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    Service::builder("test", "1").tool(Tool::with_schema("echo", object(&schema), |echo: Echo| echo.message))
}

fn object(value: &Value) -> mcp_proto::wire::JsonObject {
    mcp_proto::wire::JsonObject::new(value).expect("an object")
}
