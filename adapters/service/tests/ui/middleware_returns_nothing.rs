//! A middleware that drops the outcome.

//~ RUSTC E0308

use mcp_service::{IncomingRequest, Next, Service};

fn main() {
    Service::builder("digger", "1.0.0").layer(async |_request: IncomingRequest, next: Next| {
        next.run().await;
    });
}
