//! Roots that change: the user opens another folder, and the server is told.
//!
//! ```sh
//! cargo run -p mcp-guide --example roots
//! ```

use std::error::Error;

use mcp_guide::connect;
use mcp_proto::{
    protocol::{ProtocolVersion, VersionSet},
    schema::{Root, RootsListChangedParams},
};
use mcp_service::{CallError, Context, Host, Roots, Service, Tool};
use tokio::sync::mpsc;

async fn folders(context: Context) -> Result<Vec<String>, CallError> {
    let roots = context.roots().await?;
    Ok(roots.into_iter().map(|root| root.uri).collect())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (changed, mut changes) = mpsc::channel(1);
    let service = Service::builder("folders", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new_async("folders", folders))
        .on(move |_: RootsListChangedParams, _| {
            let _ = changed.try_send(()); // does not wait
        })
        .build()?;

    let roots = Roots::new([Root::new("file:///home/ada/first")])?;
    // In 2026-07-28 a server asks for the roots with each call, and there is no notification.
    let host = Host::builder("editor", env!("CARGO_PKG_VERSION"))
        .versions(VersionSet::only(ProtocolVersion::V2025_11_25))
        .roots(&roots)
        .build();
    let client = connect(&service, &host).await?;
    for folder in ["file:///home/ada/second", "file:///home/ada/third"] {
        roots.set([Root::new(folder)])?;
        changes.recv().await.ok_or("the server has ended")?;
        let result = client.call_tool("folders", ())?.await?;
        println!("the server has seen {:?}", result.content[0].as_text());
    }
    client.close().await;
    Ok(())
}
