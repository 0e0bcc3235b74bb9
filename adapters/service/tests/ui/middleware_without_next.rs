//! A middleware without the rest of the chain.

//~ RUSTC E0593

use mcp_service::{IncomingRequest, Service};

fn main() {
    Service::builder("digger", "1.0.0").layer(async |request: IncomingRequest| {
        eprintln!("{}", request.method());
    });
}
