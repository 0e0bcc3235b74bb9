//! A client on smol of a protected server, whose tools it lists or calls.
//!
//! ```sh
//! # The user consents in a browser, and the tokens are stored for the next start.
//! oauth-client-smol https://mcp.example/mcp [TOOL]
//! # The client uses its own credentials.
//! OAUTH_ISSUER=https://as.example OAUTH_CLIENT_ID=… OAUTH_CLIENT_SECRET=… \
//!     oauth-client-smol https://mcp.example/mcp
//! # The tokens are bound to a key (DPoP), which is on the curve P-256 and in PEM (PKCS#8).
//! OAUTH_DPOP_KEY=key.pem oauth-client-smol https://mcp.example/mcp
//! ```
//!
//! The shared code is in `adapters/examples/oauth`. Servers over `https` need the feature `tls`.

#[path = "../../examples/oauth/mod.rs"]
mod oauth;

use std::error::Error;

use mcp_smol::http::{Connector, OAuth};
use oauth::Wanted;

fn main() -> Result<(), Box<dyn Error>> {
    smol::block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let wanted = Wanted::from_env()?;
    let credentials: OAuth = wanted.credentials()?;
    let connector = Connector::new(&wanted.url)?.auth(credentials.clone());
    let client = match connector.connect(&Wanted::host()).await {
        Ok(client) => client,
        // The provider of credentials has a more detailed error than the refusal of the server.
        Err(error) => return Err(credentials.error().map_or(error.into(), Into::into)),
    };
    let used = wanted.use_server(&client).await;
    client.close().await;
    used
}
