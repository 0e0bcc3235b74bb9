// A server with one tool, with little code besides the types of rmcp.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig},
    service::RequestContext,
};
use serde_json::Value;

pub(crate) struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        mut call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match call.arguments.as_mut().and_then(|arguments| arguments.remove("message")) {
            Some(Value::String(message)) if call.name == "echo" => {
                Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into())
            }
            _ => Err(ErrorData::invalid_params("there is nothing but echo, of a message", None)),
        }
    }
}
