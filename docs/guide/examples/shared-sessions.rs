//! Two instances of a server as routes of axum, with tokens and with sessions that both share.
//!
//! ```sh
//! cargo run -p mcp-guide --example shared-sessions -- 127.0.0.1:8000 127.0.0.1:8001
//! ```
//!
//! The tokens are `alice` and `bob`. Only Alice sees the tool `slow`. Ctrl-C finishes calls in
//! flight. In two processes, `RedisStore` takes the place of `MemoryStore`.

use std::{env, error::Error, time::Duration};

use axum::Router;
use mcp_proto::auth::ResourceMetadata;
use mcp_service::{CallError, Context, RegisterError, Service, Tool};
use mcp_tokio::{
    DriverOptions,
    http::{
        AccessToken, Endpoint, EndpointOptions, MemoryStore, Policy, ResourceServer, Store,
        StoreLimits, TokenError,
    },
};
use tokio::net::TcpListener;

const ISSUER: &str = "https://auth.example.com";

/// Accepts two fixed tokens. A real server verifies signatures: see `JwtVerifier`.
fn verify(token: &str) -> Result<AccessToken, TokenError> {
    match token {
        "alice" | "bob" => Ok(AccessToken::new(ISSUER, token)),
        _ => Err(TokenError::Refused("it is unknown")),
    }
}

fn user(context: Context) -> Option<String> {
    context
        .info()
        .principal
        .as_ref()
        .map(|principal| principal.id.clone())
}

async fn slow(context: Context) -> Result<&'static str, CallError> {
    context.sleep(Duration::from_secs(2)).await?;
    Ok("done")
}

fn service() -> Result<Service, RegisterError> {
    Service::builder("shared", env!("CARGO_PKG_VERSION"))
        .tool(Tool::new("whoami", user))
        .tool(Tool::new_async("slow", slow))
        .visible(|item, info| {
            let id = info
                .principal
                .as_ref()
                .map_or("", |principal| &principal.id);
            item.name() != "slow" || id.ends_with("alice")
        })
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new(MemoryStore::new(StoreLimits::default()));
    let mut instances = Vec::new();
    for address in env::args().skip(1) {
        let listener = TcpListener::bind(&address).await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let metadata = ResourceMetadata::new(url.parse()?, ISSUER.parse()?);
        let options = EndpointOptions::new(Policy::loopback());
        let endpoint = Endpoint::sharing(
            &service()?,
            options,
            &DriverOptions::default(),
            store.clone(),
        )?
        .protect(ResourceServer::of(metadata, verify));
        let app = Router::new()
            .route_service("/mcp", endpoint.clone())
            .route_service(
                "/.well-known/oauth-protected-resource/{*path}",
                endpoint.clone(),
            );
        eprintln!("at {url}");
        instances.push(tokio::spawn(async move {
            let stopped = async move {
                let _ = tokio::signal::ctrl_c().await;
                endpoint.close().await;
            };
            axum::serve(listener, app)
                .with_graceful_shutdown(stopped)
                .await
        }));
    }
    for instance in instances {
        instance.await??;
    }
    Ok(())
}
