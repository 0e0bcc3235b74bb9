//! A service with everything that servers can have: the fixtures of `tests/interop/README.md`, on any adapter.
//!
//! Handlers that wait are futures, except in `rounds`, where they are plain functions: both kinds work everywhere.

mod content;
mod jobs;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod skills;
mod tools;

use std::{env, error::Error};

use mcp_service::{RegisterError, Service};

/// What the command line asks for.
pub(crate) struct Wanted {
    pub(crate) service: Service,
    /// Where to listen for HTTP, instead of standard input and output.
    pub(crate) http: Option<String>,
}

impl Wanted {
    /// What the command line asks for.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        let (mut page_size, mut http) = (None, None);
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match (arg.as_str(), args.next()) {
                ("--page-size", Some(size)) => page_size = Some(size.parse()?),
                ("--http", Some(address)) => http = Some(address),
                _ => return Err("arguments: [--page-size N] [--http ADDRESS]".into()),
            }
        }
        Ok(Self { service: service(page_size)?, http })
    }

    /// The service, where there is nothing but standard input and output.
    #[allow(dead_code, reason = "for adapters without HTTP")]
    pub(crate) fn over_stdio(self) -> Result<Service, Box<dyn Error>> {
        if self.http.is_some() { Err("there is no HTTP on this adapter".into()) } else { Ok(self.service) }
    }
}

/// The service. With a page size, its lists come in pages of that many.
fn service(page_size: Option<usize>) -> Result<Service, RegisterError> {
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
    builder = skills::register(builder);
    builder.build()
}
