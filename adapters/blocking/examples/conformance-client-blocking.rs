//! A client with threads for the official conformance suite.
//!
//! ```sh
//! conformance-client-blocking URL
//! ```
//!
//! The shared code is in `adapters/examples/conformance`.

#[path = "../../examples/conformance/mod.rs"]
mod conformance;

use std::error::Error;

use conformance::Scenario;
use mcp_blocking::http::{Connector, OAuth};
use mcp_service::block_on;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::from_env()?;
    let mut connector = Connector::new(&scenario.url)?;
    if let Some(credentials) = scenario.credentials()? {
        let credentials: OAuth = credentials;
        connector = connector.auth(credentials);
    }
    let client = connector.connect(&scenario.host)?;
    let played = block_on(scenario.play(&client));
    let ending = client.close();
    played?;
    Ok(ending.into_result()?)
}
