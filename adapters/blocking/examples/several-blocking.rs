//! A client with threads that drives several servers at once. The shared code is in `adapters/examples/several`.

#[path = "../../examples/several/mod.rs"]
mod several;

use std::error::Error;

use mcp_blocking::{Client, shutdown_on_signals};
use mcp_service::block_on;

use crate::several::Servers;

fn main() -> Result<(), Box<dyn Error>> {
    // Ctrl-C must not leave child processes running.
    shutdown_on_signals()?;
    let (mut servers, mut clients) = (Servers::default(), Vec::new());
    for (name, command) in several::from_args()? {
        match Client::spawn(command, &several::host(&name)) {
            Ok(client) => {
                servers.join(name, (*client).clone());
                clients.push(client);
            }
            Err(error) => servers.missing(&name, &error),
        }
    }
    block_on(servers.try_out());
    for client in clients {
        client.close();
    }
    Ok(())
}
