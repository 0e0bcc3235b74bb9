//! A service with all features of a server: the fixtures of `tests/interop/README.md`, on any adapter.
//!
//! Handlers that wait are async, except in `rounds`, where they are blocking: both kinds work everywhere.

mod client_requests;
mod content;
mod jobs;
mod prompts;
mod resources;
mod rounds;
mod skills;
mod tools;

use std::{env, error::Error};

use mcp_service::{RegisterError, Service};

/// The settings from the command line.
pub(crate) struct Wanted {
    pub(crate) service: Service,
    /// The address to serve HTTP on, instead of standard input and output.
    pub(crate) http: Option<String>,
    /// The address to serve raw TCP sockets on.
    pub(crate) tcp: Option<String>,
}

impl Wanted {
    /// Reads the command line.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        let (mut page_size, mut http, mut tcp, mut key) = (None, None, None, None);
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match (arg.as_str(), args.next()) {
                ("--page-size", Some(size)) => page_size = Some(size.parse()?),
                ("--http", Some(address)) => http = Some(address),
                ("--tcp", Some(address)) => tcp = Some(address),
                ("--stateless", Some(digits)) => key = Some(key_of(&digits).ok_or("a key has 64 hexadecimal digits")?),
                _ => return Err("arguments: [--page-size N] [--stateless KEY] [--http ADDRESS | --tcp ADDRESS]".into()),
            }
        }
        Ok(Self { service: service(page_size, key)?, http, tcp })
    }
}

fn key_of(digits: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(key)
}

/// Builds the service. With a page size, its lists come in pages of that many items. With a key, it is one of several
/// processes without state between requests: it signs the state in its results with the key, and offers no tasks, since
/// those live in one process. It has another name then.
fn service(page_size: Option<usize>, key: Option<[u8; 32]>) -> Result<Service, RegisterError> {
    let name = if key.is_some() { "everything-stateless" } else { "everything" };
    let mut builder = Service::builder(name, env!("CARGO_PKG_VERSION"))
        .instructions("Everything that a server can have, for clients to be tried with.")
        .subscriptions();
    if let Some(size) = page_size {
        builder = builder.page_size(size);
    }
    builder = match key {
        Some(key) => builder.state_key(key),
        None => jobs::register(builder),
    };
    builder = tools::register(builder);
    builder = client_requests::register(builder);
    builder = rounds::register(builder);
    builder = resources::register(builder);
    builder = prompts::register(builder);
    builder = skills::register(builder);
    builder.build()
}
