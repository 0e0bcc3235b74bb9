//! A client of the server `shelf` with the module `shelf`, which this command has written:
//!
//! ```sh
//! cargo build -p mcp-guide --example shelf
//! mcp generate target/debug/examples/shelf -o docs/guide/examples/typed-client/shelf.rs
//! cargo run -p mcp-guide --example typed-client
//! ```

use std::error::Error;

use mcp_service::Host;
use mcp_tokio::{Client, Command};

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the module has everything that a client may need"
)]
mod shelf;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder("reader", env!("CARGO_PKG_VERSION")).build();
    let client = Client::spawn(Command::new("target/debug/examples/shelf"), &host).await?;
    let tools = shelf::Tools::new(&client);
    tools
        .put(&shelf::PutArguments {
            title: "Dune".into(),
            shelf: 3,
        })
        .await?;
    let found = tools
        .find(&shelf::FindArguments { title: "Du".into() })
        .await?;
    println!("{}", found.content[0].as_text().unwrap_or_default());
    client.close().await;
    Ok(())
}
