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
use mcp_blocking::http::{Address, Connector};
use mcp_service::block_on;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::from_env()?;
    let mut address = Address::new(&scenario.url)?;
    address.listen = scenario.listens;
    let client = Connector::to(address).connect(&scenario.host)?;
    let played = block_on(scenario.play(&client));
    let ending = client.close();
    played?;
    Ok(ending.into_result()?)
}
