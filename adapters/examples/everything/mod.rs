//! A service with everything that servers can have: the fixtures of `tests/interop/README.md`, on any adapter.

mod content;
mod jobs;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod tools;

use mcp_service::{RegisterError, Service};

/// The service. With a page size, its lists come in pages of that many.
pub(crate) fn service(page_size: Option<usize>) -> Result<Service, RegisterError> {
    let mut builder = Service::builder("everything", env!("CARGO_PKG_VERSION"))
        .instructions("Everything that a server can have, for clients to be tried with.")
        .subscriptions();
    if let Some(size) = page_size {
        builder = builder.page_size(size);
    }
    builder = tools::register(builder);
    builder = questions::register(builder);
    builder = rounds::register(builder);
    builder = jobs::register(builder);
    builder = resources::register(builder);
    builder = prompts::register(builder);
    builder.build()
}
