//! One server of several: a service that is mounted, and one behind a connection. `proxy-tokio`
//! does the second with the programs and URLs of a configuration file.
//!
//! ```sh
//! cargo run -p mcp-guide --example compose
//! ```

use std::error::Error;

use mcp_guide::connect;
use mcp_service::{Host, Service, Tool, proxy::Backend};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let weather = Service::builder("weather", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("now", || "sunny"))
        .build()?;
    let files = Service::builder("files", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("read", || "Buy milk"))
        .build()?;

    let all = Service::builder("all", env!("CARGO_PKG_VERSION"))
        .mount("weather", &weather)
        .enable_backends()
        .build()?;
    let backend = Backend::builder("files").join(&all)?;
    let running = backend.clone();
    tokio::spawn(async move { running.run(|| connect(&files, running.host())).await });
    backend.ready().await?;

    let host = Host::builder("client", env!("CARGO_PKG_VERSION")).build();
    let client = connect(&all, &host).await?;
    for tool in client.all_tools().try_collect().await? {
        let result = client.call_tool(&tool.name, ())?.await?;
        println!(
            "{}: {}",
            tool.name,
            result.content[0].as_text().unwrap_or_default()
        );
    }
    client.close().await;
    Ok(())
}
