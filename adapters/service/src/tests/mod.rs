//! Tests of two connected sessions. Tests of a single file are in that file.

mod asynchronous;
mod caching;
mod calls;
mod cancellation;
mod client;
#[cfg(feature = "testing")]
mod debug_output;
mod elicitation;
mod excerpts;
mod extension;
mod files;
mod input_requests;
mod layered_calls;
mod listening;
mod lists;
mod middleware;
mod middleware_replacement;
mod modern;
pub(crate) mod pair;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod scopes;
mod sessions;
#[cfg(feature = "skills")]
mod skills;
mod stateless;
mod tasks;
mod tools;
mod visibility;

use mcp_proto::protocol::{Era, ProtocolVersion};
use serde_json::{Value, json};

use crate::server::{builder::ServiceBuilder, service::Service, tool::Tool};

/// Returns the members of a result without those that every result of 2026-07-28 has: its type, the name of the server
/// and, if `cacheable`, the time to live.
fn body(version: ProtocolVersion, cacheable: bool, result: Result<Value, Value>) -> Value {
    let mut result = result.expect("a result");
    if version.era() == Era::Modern {
        let members = result.as_object_mut().expect("an object");
        assert_eq!(members.remove("resultType"), Some(json!("complete")));
        let meta = members.remove("_meta").expect("it says who gives it");
        assert_eq!(meta["io.modelcontextprotocol/serverInfo"], json!({"name": "test", "version": "1"}));
        let hints = (members.remove("ttlMs"), members.remove("cacheScope"));
        let expected = (json!(0), json!("private"));
        assert_eq!(hints, if cacheable { (Some(expected.0), Some(expected.1)) } else { (None, None) });
    }
    result
}

/// A service with a tool that returns its message.
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
