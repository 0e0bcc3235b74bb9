//! A client with threads for the official conformance suite.
//!
//! ```sh
//! conformance-client-blocking URL
//! ```
//!
//! What it does is in `adapters/examples/conformance`.

#[path = "../../examples/conformance/mod.rs"]
mod conformance;

use std::error::Error;

use conformance::Scenario;
use mcp_blocking::Client;
use mcp_service::block_on;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::from_env()?;
    let client = Client::connect_http(&scenario.url, &scenario.host)?;
    let played = block_on(scenario.play(&client));
    let ending = client.close();
    played?;
    Ok(ending.into_result()?)
}
