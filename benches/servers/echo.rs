// What the servers of this project have in common: one tool, described by hand.

use mcp_proto::wire::JsonObject;
use mcp_service::{Service, Tool};

const SCHEMA: &str = r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#;

#[derive(serde::Deserialize)]
pub(crate) struct Echo {
    pub(crate) message: String,
}

pub(crate) fn service(tool: impl FnOnce(JsonObject) -> Tool) -> Service {
    let schema = JsonObject::parse(SCHEMA).expect("an object");
    Service::builder("echo", "1.0.0").tool(tool(schema)).build().expect("a service of one tool")
}
