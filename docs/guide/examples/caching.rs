//! Hints for caches: the client of this program answers from its cache until a resource is stale.
//!
//! ```sh
//! cargo run -p mcp-guide --example caching
//! ```

use std::{
    error::Error,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use mcp_guide::connect;
use mcp_proto::schema::{CacheScope, ReadResourceResult, ResourceContents};
use mcp_service::{Host, RegisterError, Resource, Service};

/// The resource says how often it was read.
fn service() -> Result<Service, RegisterError> {
    let hour = Duration::from_secs(3600);
    let read = |reads: &AtomicU32| format!("read {} times", reads.fetch_add(1, SeqCst) + 1);
    Service::builder("docs", env!("CARGO_PKG_VERSION"))
        .with_state(AtomicU32::new(0))
        .resource(
            Resource::new("docs://readme", "readme", read).cache_for(hour, CacheScope::Public),
        )
        .cache_lists_for(hour, CacheScope::Public)
        .build()
}

fn text(result: &ReadResourceResult) -> &str {
    match result.contents.as_slice() {
        [ResourceContents::Text(contents)] => &contents.text,
        _ => "no text",
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::builder("reader", env!("CARGO_PKG_VERSION")).build();
    let client = connect(&service()?, &host).await?;
    for _ in 0..2 {
        let result = client.read_resource("docs://readme")?.await?;
        println!("with the cache: {}", text(&result));
    }
    let result = client
        .bypass_cache()
        .read_resource("docs://readme")?
        .await?;
    println!("past the cache: {}", text(&result));
    client.close().await;
    Ok(())
}
