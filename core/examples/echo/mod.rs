//! A small echo server for the examples of embedding the protocol.

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::BuildHasher,
};

use mcp_proto::{connection::*, protocol::*, schema::*, wire::*};

/// Returns the configuration of the server.
pub(crate) fn config() -> ServerConfig {
    // Random bits, from the keys of a hash table.
    let hash_seed = RandomState::new().hash_one(0);
    let mut config = ServerConfig::new(Implementation::new("embedded", "1.0.0"), hash_seed);
    config.capabilities = ServerCapabilities::default().with(Capability::Tools);
    config
}

/// Handles an event of the server: the tool `echo` returns its message, and the tool `brood` never ends.
pub(crate) fn answer(server: &mut Server, event: Event<'_>) -> Result<(), SendError> {
    let Event::Request { key, method, params } = event else { return Ok(()) };
    let schema = r#"{"type":"object","properties":{"message":{"type":"string"}}}"#;
    match (method.known(), decode_params::<CallToolParams>(params.as_ref())) {
        (Some(Method::ListTools), _) => {
            let tools = ["echo", "brood"].map(|name| Ok(Tool::new(name, JsonObject::parse(schema)?)));
            server.respond(key, &ListToolsResult::new(tools.into_iter().collect::<Result<Vec<_>, SendError>>()?))
        }
        (Some(Method::CallTool), Ok(call)) if call.name == "brood" => Ok(()),
        (Some(Method::CallTool), Ok(call)) if call.name == "echo" => {
            let message = call.arguments.and_then(|it| it.decode::<BTreeMap<String, String>>().ok()?.remove("message"));
            server.respond(key, &message.map_or_else(|| CallToolResult::error("no message"), CallToolResult::text))
        }
        (Some(Method::CallTool), _) => server.respond_error(key, &ErrorObject::invalid_params("Unknown tool")),
        _ => server.respond_error(key, &ErrorObject::method_not_found(method.as_str())),
    }
}
