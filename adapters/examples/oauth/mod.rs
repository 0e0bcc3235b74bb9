//! A client of a protected server, on any adapter: with a user and a browser, or with credentials of its own.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use mcp_driver::http::auth::{
    AuthRuntime, Browser, ClientIdentity, FileTokenStore, Loopback, OAuth, ProofKey, Registration, Secret, Settings,
};
use mcp_proto::{connection::ClientRole, schema::ContentBlock};
use mcp_service::{Host, Peer};
use serde_json::json;

/// The server and the identity of the client.
pub(crate) struct Wanted {
    pub(crate) url: String,
    /// The issuer of the authorization server, the identifier of the client there, and its secret. Without them the
    /// client opens a browser, where the user consents.
    client: Option<[String; 3]>,
    /// The tool that is called. Without it the tools are listed.
    tool: Option<String>,
}

impl Wanted {
    /// Reads the command line and the environment.
    pub(crate) fn from_env() -> Result<Self, Box<dyn Error>> {
        let mut args = env::args().skip(1);
        let url = args.next().ok_or("usage: oauth-client URL [TOOL]")?;
        let names = ["OAUTH_ISSUER", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET"];
        let client = match names.map(env::var) {
            [Ok(issuer), Ok(id), Ok(secret)] => Some([issuer, id, secret]),
            _ => None,
        };
        Ok(Self { url, client, tool: args.next() })
    }

    pub(crate) fn host() -> Host {
        Host::builder("oauth-client", env!("CARGO_PKG_VERSION")).build()
    }

    /// Calls the tool and prints its text, or prints the names of all tools.
    pub(crate) async fn use_server(&self, server: &Peer<ClientRole>) -> Result<(), Box<dyn Error>> {
        if let Some(tool) = &self.tool {
            let result = server.call_tool(tool, json!({}))?.await?;
            for block in &result.content {
                if let ContentBlock::Text(text) = block {
                    writeln!(io::stdout(), "{}", text.text)?;
                }
            }
            return Ok(());
        }
        let mut tools = server.all_tools();
        while let Some(tool) = tools.try_next().await? {
            writeln!(io::stdout(), "{}", tool.name)?;
        }
        Ok(())
    }

    /// The credentials of the client.
    pub(crate) fn credentials<R: AuthRuntime>(&self) -> Result<OAuth<R>, Box<dyn Error>> {
        let (mut builder, mut settings) = (OAuth::builder(&self.url)?, Settings::default());
        if let Some(file) = env::var_os("OAUTH_DPOP_KEY") {
            // Stored tokens are used with the same key only.
            builder = builder.proofs(ProofKey::es256(&fs::read_to_string(file)?)?);
        }
        let Some([issuer, client_id, secret]) = self.client.clone() else {
            settings.identities.registration = Some(Registration::new("oauth-client", []));
            settings.offline_access = true;
            let browser = env::var_os("BROWSER").map_or_else(Browser::system, Browser::new);
            let user_agent = Loopback::new()?.open_with(move |url| {
                eprintln!("If no browser opens, go to {}", url.as_str());
                // If no browser could be opened, the user can follow the printed address.
                let _ = browser.open(url);
                Ok(())
            });
            // Stored tokens are used at the next start.
            let folder = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
            let folder = folder.or_else(|| Some(env::home_dir()?.join(".local/state"))).ok_or("there is no home")?;
            let store = FileTokenStore::new(folder.join("mcp-oauth-client/tokens.json"))?;
            return Ok(builder.settings(settings).user_agent(user_agent).store(store).build()?);
        };
        settings.identities.pre_registered = vec![ClientIdentity {
            issuer,
            client_id,
            secret: Some(Secret::new(secret)),
            secret_expires_at: None,
            redirect_uris: Vec::new(),
            auth_method: None,
        }];
        Ok(builder.settings(settings).build()?)
    }
}
