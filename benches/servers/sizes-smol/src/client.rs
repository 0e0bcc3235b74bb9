//! The smallest client on smol: of a program, over HTTP, and with authorization.

#[cfg(feature = "auth")]
#[path = "../../sizes.rs"]
#[allow(dead_code)]
mod sizes;

use mcp_service::Host;
pub(crate) use mcp_smol as adapter;

#[derive(serde::Serialize)]
struct Echo {
    message: String,
}

#[cfg(not(feature = "http"))]
async fn connect(program: &str, host: &Host) -> Result<adapter::Client, Box<dyn std::error::Error>> {
    Ok(adapter::Client::spawn(adapter::Command::new(program), host).await?)
}

#[cfg(feature = "http")]
async fn connect(url: &str, host: &Host) -> Result<adapter::Client, Box<dyn std::error::Error>> {
    let connector = adapter::http::Connector::new(url)?;
    #[cfg(feature = "auth")]
    let connector = connector.auth(sizes::client::credentials(url)?);
    Ok(connector.connect(host).await?)
}

async fn run(target: String) -> Result<(), Box<dyn std::error::Error>> {
    let client = connect(&target, &Host::builder("size", "1.0.0").build()).await?;
    println!("{:?}", client.call_tool("echo", Echo { message: target })?.await?.content);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: client PROGRAM, or client URL")?;
    smol::block_on(run(target))
}
