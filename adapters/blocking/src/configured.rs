//! Servers of configuration files.

use std::{fmt, io, thread};

use mcp_service::{Host, block_on, config::ServerConfig};

use crate::client::Client;
use mcp_driver::{Command, DriverOptions, Error, RestartPolicy, Restarter};

/// A server of a [configuration file](mcp_service::config): started, or connected to over HTTP, when a client is
/// requested and there is no connection, as often as [`RestartPolicy`] allows.
///
/// Its [`client`](Self::client) is what [`Backend::run`](mcp_service::proxy::Backend::run) connects with, on a thread
/// of its own:
///
/// ```no_run
/// # fn example(backend: mcp_service::proxy::Backend, server: mcp_blocking::ConfiguredServer) {
/// std::thread::spawn(move || mcp_service::block_on(backend.run(async || server.client())));
/// # }
/// ```
pub struct ConfiguredServer {
    source: Source,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client>,
}

enum Source {
    Program(Command),
    #[cfg(feature = "http")]
    Http(crate::http::ClientOptions),
}

impl ConfiguredServer {
    /// Creates the server without connecting.
    ///
    /// # Errors
    /// If the address or a header is invalid, or this build has no HTTP.
    pub fn new(server: &ServerConfig, host: &Host) -> Result<Self, Error> {
        let source = match server {
            ServerConfig::Stdio(program) => Source::Program(program.into()),
            #[cfg(feature = "http")]
            ServerConfig::Http(http) => Source::Http(mcp_driver::http_options(http, mcp_driver::http::seed())?),
            _ => {
                let why = "this build cannot connect to this kind of server";
                return Err(Error::Io(io::Error::new(io::ErrorKind::InvalidInput, why)));
            }
        };
        let clients = Restarter::new(RestartPolicy::default());
        Ok(Self { source, host: host.clone(), options: DriverOptions::default(), clients })
    }

    /// Sets how often and how soon it is connected again.
    #[must_use]
    pub fn restart(mut self, policy: RestartPolicy) -> Self {
        self.clients = Restarter::new(policy);
        self
    }

    /// Sets the options of each connection.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns a client of the server: the last one if its connection is still open, otherwise one of a new connection.
    /// Blocks until it is connected.
    ///
    /// # Errors
    /// The error of the very first attempt, or [`Error::GivenUp`] when the policy allows no further one.
    pub fn client(&self) -> Result<Client, Error> {
        let connect = || async {
            let options = self.clients.last().map_or_else(|| self.options.clone(), |last| self.options.after(&last));
            match &self.source {
                Source::Program(command) => Client::spawn_with(command.clone(), &self.host, &options),
                #[cfg(feature = "http")]
                Source::Http(http) => {
                    crate::http::Connector::with_client_options(http.clone()).options(options).connect(&self.host)
                }
            }
        };
        let sleep = |time| async move { thread::sleep(time) };
        block_on(self.clients.client(connect, sleep))
    }
}

impl fmt::Debug for ConfiguredServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.source {
            Source::Program(command) => command.program(),
            #[cfg(feature = "http")]
            Source::Http(_) => "HTTP".to_owned(),
        };
        f.debug_struct("ConfiguredServer").field("kind", &kind).finish_non_exhaustive()
    }
}
