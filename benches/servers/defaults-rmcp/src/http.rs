//! A server with rmcp over HTTP. With the argument `json` its responses are JSON and it has no sessions, in which it is
//! the fastest.

#[path = "../../ten-lines.rs"]
mod ten_lines;

mod echo;

use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_json = std::env::args().nth(1).as_deref() == Some("json");
    let mut config = StreamableHttpServerConfig::default();
    if is_json {
        config = config.with_legacy_session_mode(false).with_json_response(true);
    }
    let service = StreamableHttpService::new(|| Ok(echo::Echo), LocalSessionManager::default().into(), config);
    let listener = tokio::net::TcpListener::bind(ten_lines::address()).await?;
    println!("{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    Ok(axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?)
}
