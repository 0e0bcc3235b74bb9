//! Servers of configuration files.

use std::{fmt, io};

use mcp_service::{
    Host,
    config::{HttpServer, ServerConfig, StdioServer},
};

#[cfg(feature = "net")]
use crate::http::{Connector, NetRuntime, seed};
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

/// A server of a [configuration file](mcp_service::config): started, or connected to over HTTP, when a client is
/// requested and there is no connection, as often as [`RestartPolicy`] allows.
///
/// Its [`client`](Self::client) is what [`Backend::run`](mcp_service::proxy::Backend::run) connects with.
pub struct ConfiguredServer<R> {
    source: Source,
    host: Host,
    options: DriverOptions,
    clients: Restarter<Client<R>>,
}

enum Source {
    Program(Command),
    #[cfg(feature = "net")]
    Http(mcp_proto::http::client::ClientOptions),
}

impl<R> ConfiguredServer<R> {
    /// Creates the server without connecting.
    ///
    /// # Errors
    /// If the address or a header is invalid, or this build has no HTTP.
    pub fn new(server: &ServerConfig, host: &Host) -> Result<Self, Error> {
        let source = match server {
            ServerConfig::Stdio(program) => Source::Program(program.into()),
            ServerConfig::Http(http) => http_source(http)?,
            _ => return Err(invalid("this kind of server is unknown")),
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

    fn next_options(&self) -> DriverOptions
    where
        R: StreamRuntime,
    {
        self.clients.last().map_or_else(|| self.options.clone(), |last| self.options.after(&last))
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
            let options = self.next_options();
            match &self.source {
                Source::Program(command) => Client::spawn_with(command.clone(), &self.host, &options).await,
                Source::Http(http) => {
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
            let Source::Program(command) = &self.source;
            Client::spawn_with(command.clone(), &self.host, &self.next_options()).await
        };
        self.connected(connect).await
    }
}

#[cfg(feature = "net")]
fn http_source(server: &HttpServer) -> Result<Source, Error> {
    http_options(server, seed()).map(Source::Http)
}

#[cfg(not(feature = "net"))]
fn http_source(_: &HttpServer) -> Result<Source, Error> {
    Err(invalid("this build has no client over HTTP"))
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
        let kind = match &self.source {
            Source::Program(command) => command.program(),
            #[cfg(feature = "net")]
            Source::Http(_) => "HTTP".to_owned(),
        };
        f.debug_struct("ConfiguredServer").field("kind", &kind).finish_non_exhaustive()
    }
}
