// The shared code of the servers of this project: one tool with a hand-written schema.

use mcp_proto::wire::JsonObject;
use mcp_service::{Service, Tool};

const SCHEMA: &str = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;

#[derive(serde::Deserialize)]
pub(crate) struct Echo {
    pub(crate) message: String,
}

pub(crate) fn schema() -> JsonObject {
    JsonObject::parse(SCHEMA).expect("an object")
}

pub(crate) fn service(tool: impl FnOnce(JsonObject) -> Tool) -> Service {
    Service::builder("echo", "1.0.0").tool(tool(schema())).build().expect("a service of one tool")
}
