//! Servers of configuration files.

use std::{io, thread};

use mcp_service::{Host, block_on, config::ServerConfig};

use crate::client::Client;
use mcp_driver::{DriverOptions, Error, RestartPolicy, Restarter, ServerSource};

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
#[derive(Debug)]
pub struct ConfiguredServer {
    source: ServerSource,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client>,
}

impl ConfiguredServer {
    /// Creates the server without connecting.
    ///
    /// # Errors
    /// If the address or a header is invalid, or this build has no HTTP.
    pub fn new(server: &ServerConfig, host: &Host) -> Result<Self, Error> {
        let (source, clients) =
            (ServerSource::new(server, cfg!(feature = "http"))?, Restarter::new(RestartPolicy::default()));
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
            let options = self.clients.next_options(&self.options);
            match &self.source {
                ServerSource::Program(command) => Client::spawn_with(command.clone(), &self.host, &options),
                #[cfg(feature = "http")]
                ServerSource::Http(http) => {
                    crate::http::Connector::with_client_options(http.clone()).options(options).connect(&self.host)
                }
                _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
            }
        };
        let sleep = |time| async move { thread::sleep(time) };
        block_on(self.clients.client(connect, sleep))
    }

    /// Closes the connection if there is one, and blocks until the program of the server has ended. A later call of
    /// [`client`](Self::client) counts as one after the server has ended.
    ///
    /// A program that ends without it, such as a proxy at the end of its input, may leave a server behind that does not
    /// end by itself.
    pub fn close(&self) {
        if let Some(client) = self.clients.last() {
            client.close();
        }
    }
}
