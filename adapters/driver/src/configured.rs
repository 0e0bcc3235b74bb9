//! Servers of configuration files.

use std::{fmt, io};

#[cfg(feature = "http")]
use mcp_service::config::HttpServer;
use mcp_service::{
    Host,
    config::{ServerConfig, StdioServer},
};

#[cfg(feature = "net")]
use crate::http::{Connector, NetRuntime};
use crate::{
    client::Client,
    error::Error,
    options::DriverOptions,
    process::{command::Command, restart::RestartPolicy},
    restarter::Restarter,
    runtime::sleep,
    stream::stream_runtime::StreamRuntime,
};

impl From<&StdioServer> for Command {
    /// Creates the command that starts the server. The program inherits the usual variables of this process, and its
    /// standard error is kept for errors.
    fn from(server: &StdioServer) -> Self {
        let mut command = Self::new(&server.command).args(&server.args);
        for (name, value) in &server.env {
            command = command.env(name, value);
        }
        match &server.cwd {
            Some(dir) => command.current_dir(dir),
            None => command,
        }
    }
}

/// How to connect to a server of a configuration file.
#[non_exhaustive]
pub enum ServerSource {
    /// Start a program.
    Program(Command),
    /// Connect over HTTP.
    #[cfg(feature = "http")]
    Http(mcp_proto::http::client::ClientOptions),
}

impl ServerSource {
    /// Reads the configuration of a server. `http` is whether the driver can connect over HTTP.
    ///
    /// # Errors
    /// If the address or a header is invalid, or this build cannot connect to the server.
    pub fn new(server: &ServerConfig, http: bool) -> Result<Self, Error> {
        match server {
            ServerConfig::Stdio(program) => Ok(Self::Program(program.into())),
            #[cfg(feature = "http")]
            ServerConfig::Http(server) if http => http_options(server, crate::http::seed()).map(Self::Http),
            _ if http => Err(invalid("this kind of server is unknown")),
            _ => Err(invalid("this build has no client over HTTP")),
        }
    }
}

impl fmt::Debug for ServerSource {
    /// Prints no secrets: neither arguments nor variables nor headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(command) => f.debug_tuple("Program").field(&command.program()).finish(),
            #[cfg(feature = "http")]
            Self::Http(_) => f.write_str("Http"),
        }
    }
}

/// A server of a [configuration file](mcp_service::config): started, or connected to over HTTP, when a client is
/// requested and there is no connection, as often as [`RestartPolicy`] allows.
///
/// Its [`client`](Self::client) is what [`Backend::run`](mcp_service::proxy::Backend::run) connects with.
pub struct ConfiguredServer<R> {
    source: ServerSource,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client<R>>,
}

impl<R> ConfiguredServer<R> {
    /// Creates the server without connecting.
    ///
    /// # Errors
    /// If the address or a header is invalid, or this build has no HTTP.
    pub fn new(server: &ServerConfig, host: &Host) -> Result<Self, Error> {
        let (source, clients) =
            (ServerSource::new(server, cfg!(feature = "net"))?, Restarter::new(RestartPolicy::default()));
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

    /// Closes the connection if there is one, and waits until the program of the server has ended. A later call of
    /// `client` counts as one after the server has ended.
    ///
    /// A program that ends without it, such as a proxy at the end of its input, may leave a server behind that does not
    /// end by itself.
    pub async fn close(&self)
    where
        R: StreamRuntime,
    {
        if let Some(client) = self.clients.last() {
            client.close().await;
        }
    }

    /// Returns the last client if its connection is open, otherwise a new one.
    async fn connected<F>(&self, connect: impl Fn() -> F) -> Result<Client<R>, Error>
    where
        R: StreamRuntime,
        F: Future<Output = Result<Client<R>, Error>>,
    {
        let sleep = |time| async move {
            // Without a runtime the next attempt returns the error.
            if let Ok(runtime) = R::current() {
                sleep(&runtime, time).await;
            }
        };
        self.clients.client(connect, sleep).await
    }
}

#[cfg(feature = "net")]
impl<R: StreamRuntime + NetRuntime> ConfiguredServer<R> {
    /// Returns a client of the server: the last one if its connection is still open, otherwise one of a new connection.
    ///
    /// # Errors
    /// The error of the very first attempt, or [`Error::GivenUp`] when the policy allows no further one.
    pub async fn client(&self) -> Result<Client<R>, Error> {
        let connect = || async {
            let options = self.clients.next_options(&self.options);
            match &self.source {
                ServerSource::Program(command) => Client::spawn_with(command.clone(), &self.host, &options).await,
                ServerSource::Http(http) => {
                    Connector::with_client_options(http.clone()).options(options).connect(&self.host).await
                }
            }
        };
        self.connected(connect).await
    }
}

#[cfg(not(feature = "net"))]
impl<R: StreamRuntime> ConfiguredServer<R> {
    /// Returns a client of the server: the last one if its connection is still open, otherwise one of a new connection.
    ///
    /// # Errors
    /// The error of the very first attempt, or [`Error::GivenUp`] when the policy allows no further one.
    pub async fn client(&self) -> Result<Client<R>, Error> {
        let connect = || async {
            match &self.source {
                ServerSource::Program(command) => {
                    Client::spawn_with(command.clone(), &self.host, &self.clients.next_options(&self.options)).await
                }
                #[cfg(feature = "http")]
                ServerSource::Http(_) => Err(invalid("this build has no client over HTTP")),
            }
        };
        self.connected(connect).await
    }
}

/// Returns the options of a client over HTTP for a server of a configuration file. `seed` is random.
///
/// # Errors
/// If the address or a header is invalid.
#[cfg(feature = "http")]
pub fn http_options(server: &HttpServer, seed: u64) -> Result<mcp_proto::http::client::ClientOptions, Error> {
    use http::{HeaderName, HeaderValue};

    let mut options = mcp_proto::http::client::ClientOptions::new(&server.url, seed)
        .map_err(|error| Error::Io(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    for (name, value) in &server.headers {
        let parsed = HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::try_from(value.as_str()).ok());
        let Some((name, mut value)) = parsed else { return Err(invalid(&format!("the header {name:?} is invalid"))) };
        value.set_sensitive(true);
        options.headers.append(name, value);
    }
    Ok(options)
}

fn invalid(why: &str) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()))
}

impl<R> fmt::Debug for ConfiguredServer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredServer").field("source", &self.source).finish_non_exhaustive()
    }
}
