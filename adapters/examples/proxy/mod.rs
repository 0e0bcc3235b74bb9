//! A server that offers what other servers offer, on any adapter.
//!
//! ```sh
//! proxy-tokio CONFIG.json [--prefix none] [--name NAME] [--http ADDRESS]
//! ```
//!
//! The configuration is a file as Claude Desktop and VS Code write it: see [`mcp_service::config`]. Names of tools and
//! prompts begin with the name of their server, `files__read`, and so do URIs, `files+file:///notes.txt`. With
//! `--prefix none` they do not: then the servers must not have items of the same name.

use std::{env, error::Error, fmt, fs};

use mcp_service::{
    Service,
    config::{ServerConfig, ServersConfig},
    proxy::Backend,
};

/// The settings from the command line, and the service.
pub(crate) struct Proxy {
    pub(crate) service: Service,
    pub(crate) backends: Vec<(Backend, ServerConfig)>,
    /// The address to serve HTTP on, instead of standard input and output.
    pub(crate) http: Option<String>,
}

impl Proxy {
    /// Reads the command line and the configuration file.
    pub(crate) fn from_args() -> Result<Self, Box<dyn Error>> {
        const USAGE: &str = "arguments: CONFIG [--prefix none] [--name NAME] [--page-size N] [--http ADDRESS]";
        let (mut file, mut name, mut has_prefix) = (None, "proxy".to_owned(), true);
        let (mut page_size, mut http) = (None, None);
        let mut args = env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--prefix" if args.next().as_deref() == Some("none") => has_prefix = false,
                "--name" => name = args.next().ok_or(USAGE)?,
                "--page-size" => page_size = Some(args.next().ok_or(USAGE)?.parse()?),
                "--http" => http = Some(args.next().ok_or(USAGE)?),
                path if file.is_none() && !path.starts_with("--") => file = Some(path.to_owned()),
                _ => return Err(USAGE.into()),
            }
        }
        let file = file.ok_or(USAGE)?;
        let config = ServersConfig::from_env(&fs::read_to_string(&file)?)?;
        for warning in config.warnings() {
            eprintln!("{file}: {warning}");
        }
        let names: Vec<_> = config.servers().map(|(name, _)| name).collect();
        let mut builder = Service::builder(name, env!("CARGO_PKG_VERSION"))
            .instructions(format!("Offers what these servers offer: {}.", names.join(", ")))
            .enable_backends();
        if let Some(size) = page_size {
            builder = builder.page_size(size);
        }
        let service = builder.build()?;
        let mut backends = Vec::new();
        for (name, server) in config.servers() {
            let builder = Backend::builder(name);
            let builder = if has_prefix { builder } else { builder.prefix("") };
            backends.push((builder.join(&service)?, server.clone()));
        }
        Ok(Self { service, backends, http })
    }
}

/// Waits until each server is connected, or cannot be. The service works without those that are not, too.
pub(crate) async fn ready(backends: &[Backend]) {
    for backend in backends {
        if let Err(error) = backend.ready().await {
            eprintln!("{error}");
        }
        for refused in backend.refused() {
            eprintln!("{}: {refused}", backend.name());
        }
    }
}

/// Reports that a server is not connected again.
pub(crate) fn report(backend: &Backend, outcome: Result<(), impl fmt::Display>) {
    if let Err(error) = outcome {
        eprintln!("{}: {error}", backend.name());
    }
}
