//! The smallest client over HTTP on tokio, with and without authorization.

#[cfg(feature = "auth")]
#[path = "../../sizes.rs"]
#[allow(dead_code)]
mod sizes;

pub(crate) use mcp_tokio as adapter;
use adapter::http::Connector;
use mcp_service::Host;

#[derive(serde::Serialize)]
struct Echo {
    message: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: client URL")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
    let connector = Connector::new(&url)?;
    #[cfg(feature = "auth")]
    let connector = connector.auth(sizes::client::credentials(&url)?);
    let client = connector.connect(&Host::builder("size", "1.0.0").build()).await?;
    println!("{:?}", client.call_tool("echo", Echo { message: url })?.await?.content);
    Ok(())
    })
}
