// A server with one tool, with the macros of rmcp.

use rmcp::{ServerHandler, handler::server::wrapper::Parameters, tool, tool_handler, tool_router};

use crate::ten_lines::Echo as Message;

#[derive(Clone)]
pub(crate) struct Echo;

#[tool_router]
impl Echo {
    /// Returns the message
    #[tool]
    async fn echo(&self, Parameters(echo): Parameters<Message>) -> String {
        echo.message
    }
}

#[tool_handler]
impl ServerHandler for Echo {}
