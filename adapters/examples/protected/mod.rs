//! A protected server, on any adapter: its service, and its authorization according to the command line.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
};

use mcp_driver::http::{Dpop, HttpFetch, JwtVerifier, KeySource, ResourceServer};
use mcp_proto::{
    auth::{ResourceMetadata, Scopes},
    http::{
        Policy,
        server::{EndpointOptions, Paths},
    },
};
use mcp_service::{Context, RegisterError, Service, Tool};

/// The settings from the command line.
pub(crate) struct Wanted {
    /// The address to listen on.
    pub(crate) address: String,
    /// The public URL of the server.
    url: String,
    /// The authorization server, and its keys.
    issuer: String,
    keys: String,
    /// Whether tokens have to be bound to a key of the client, and have a proof in each request.
    needs_proofs: bool,
}

impl Wanted {
    /// Reads the command line.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut args: Vec<_> = env::args().skip(1).collect();
        let needs_proofs = args.pop_if(|last| last == "--dpop").is_some();
        let Ok([address, url, issuer, keys]) = <[String; 4]>::try_from(args) else {
            return Err("arguments: ADDRESS PUBLIC-URL ISSUER JWKS-URL [--dpop]".into());
        };
        Ok(Self { address, url, issuer, keys, needs_proofs })
    }

    /// The endpoint: `/mcp`. A proxy in front of it, which has the certificate, checks the name of the host.
    pub(crate) fn endpoint(&self) -> EndpointOptions {
        let mut endpoint = EndpointOptions::new(Policy::any_host());
        endpoint.paths = Paths::at("/mcp");
        endpoint
    }

    /// Prints the URL of the server, once it listens.
    pub(crate) fn announce(&self) -> io::Result<()> {
        writeln!(io::stdout(), "{}", self.url)
    }

    /// Authorizes every client with a token of the authorization server for this server, with the scope `mcp`.
    pub(crate) fn authorization(&self, client: impl HttpFetch) -> Result<ResourceServer, Box<dyn Error>> {
        let metadata = ResourceMetadata::new(self.url.parse()?, self.issuer.parse()?)
            .name("Notes")
            .required_scopes(Scopes::of(["mcp"]).ok_or("no scopes")?)
            .supported_scopes(Scopes::of(["notes:write"]).ok_or("no scopes")?);
        let verifier = JwtVerifier::new(&self.issuer, metadata.resource(), KeySource::remote(&self.keys, client)?);
        let server = ResourceServer::of(metadata, verifier);
        // A nonce in each proof, so that none can be made in advance.
        Ok(if self.needs_proofs { server.dpop(Dpop::new().required().random_nonces()?) } else { server })
    }
}

/// A tool for all callers, and one for those with a scope.
pub(crate) fn service() -> Result<Service, RegisterError> {
    let who = |context: Context| context.info().principal.as_ref().map_or_else(String::new, |who| who.id.clone());
    Service::builder("notes", "1.0.0")
        .tool(Tool::new("whoami", who).description("Returns the subject of the token"))
        .tool(Tool::new("forget", || "All notes are gone").description("Deletes all notes").scope("notes:write"))
        .build()
}
