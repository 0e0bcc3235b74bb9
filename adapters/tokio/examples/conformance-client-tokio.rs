//! A client on tokio for the official conformance suite.
//!
//! ```sh
//! conformance-client-tokio URL
//! ```
//!
//! The shared code is in `adapters/examples/conformance`.

#[path = "../../examples/conformance/mod.rs"]
mod conformance;

use std::error::Error;

use conformance::Scenario;
use mcp_tokio::http::{Connector, OAuth};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::from_env()?;
    let mut connector = Connector::new(&scenario.url)?;
    if let Some(credentials) = scenario.credentials()? {
        let credentials: OAuth = credentials;
        connector = connector.auth(credentials);
    }
    let client = connector.connect(&scenario.host).await?;
    let played = scenario.play(&client).await;
    let ending = client.close().await;
    played?;
    Ok(ending.into_result()?)
}
