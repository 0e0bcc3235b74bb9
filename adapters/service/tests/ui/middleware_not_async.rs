//! A middleware that returns no future.

//~ RUSTC is not a future

use mcp_service::{IncomingRequest, Next, Service};

fn main() {
    Service::builder("digger", "1.0.0").layer(|_request: IncomingRequest, next: Next| Ok(next.run()));
}
