//! A client on smol for the official conformance suite.
//!
//! ```sh
//! conformance-client-smol URL
//! ```
//!
//! What it does is in `adapters/examples/conformance`.

#[path = "../../examples/conformance/mod.rs"]
mod conformance;

use std::error::Error;

use conformance::Scenario;
use mcp_smol::Client;

fn main() -> Result<(), Box<dyn Error>> {
    smol::block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::from_env()?;
    let client = Client::connect_http(&scenario.url, &scenario.host).await?;
    let played = scenario.play(&client).await;
    let ending = client.close().await;
    played?;
    Ok(ending.into_result()?)
}
