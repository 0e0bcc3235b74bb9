//! Connecting to a server over HTTP.

use std::{fmt, io, sync::Arc};

use http::uri::Scheme;
use mcp_driver::http::{AuthProvider, Bearer, HttpClient, seed};
use mcp_service::Host;
use ureq::config::Config;

use super::{
    threads::Threads,
    ureq_client::{UreqClient, default_config},
};
use crate::client::Client;
use mcp_driver::{DriverOptions, Error};
use mcp_proto::http::client::ClientOptions;

/// The configuration of a connection to a server over HTTP: its address, its credentials, and the HTTP client that
/// sends the requests.
#[derive(Clone)]
pub struct Connector {
    pub(super) client_options: ClientOptions,
    pub(super) options: DriverOptions,
    pub(super) auth: Option<Arc<dyn AuthProvider>>,
    /// Set if the credentials are a token of the application, so that the provider does not block.
    pub(super) has_token: bool,
    /// The configuration of ureq, if the application has set one.
    config: Option<Config>,
    /// The HTTP client that sends the requests, if it is not ureq.
    http_client: Option<Arc<dyn HttpClient>>,
}

impl Connector {
    /// Creates a connector to a server at an address such as `http://localhost:8000/mcp`.
    ///
    /// # Errors
    /// If it is not an HTTP address.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |error| Error::Io(io::Error::new(io::ErrorKind::InvalidInput, error));
        Ok(Self::with_client_options(ClientOptions::new(url, seed()).map_err(invalid)?))
    }

    /// Creates a connector with more options: headers, limits, the order of attempts. Whether there are
    /// [credentials](Self::auth) decides how a challenge is handled.
    #[must_use]
    pub fn with_client_options(client_options: ClientOptions) -> Self {
        let options = DriverOptions::default();
        Self { client_options, options, auth: None, has_token: false, config: None, http_client: None }
    }

    /// Sets the options of the connection.
    #[must_use]
    pub fn options(mut self, options: DriverOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets a token that is sent with each request. It is sent to the origin of the address only, and is not shown.
    ///
    /// # Errors
    /// If the token has characters that no token has.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        Ok(Self { has_token: true, ..self.auth(Bearer::new(token)?) })
    }

    /// Sets the provider of credentials. Its futures run on a few threads of the client and may block.
    #[must_use]
    pub fn auth(mut self, auth: impl AuthProvider) -> Self {
        self.auth = Some(Arc::new(auth));
        self.has_token = false;
        self
    }

    /// Sets the configuration of ureq: proxies, certificates, timeouts. Redirects are never followed. A timeout of
    /// whole requests would cut streams off.
    ///
    /// Without it, requests to an `http` address are sent directly, on the thread that waits for their response. Those
    /// to an `https` address, or through a proxy of the environment, are sent by ureq with its own defaults, 10 seconds
    /// for connecting, and the certificates that the system trusts. With ureq, each request takes a thread.
    #[must_use]
    pub fn ureq(mut self, config: Config) -> Self {
        (self.config, self.http_client) = (Some(config), None);
        self
    }

    /// Sets the HTTP client that sends the requests, instead of ureq. Its futures share a few threads and must not
    /// block.
    #[must_use]
    pub fn http_client(mut self, http_client: impl HttpClient) -> Self {
        self.http_client = Some(Arc::new(http_client));
        self
    }

    /// Connects, in the newest revision that the server supports.
    ///
    /// # Errors
    /// If no server listens at the address, or the host cannot talk to it.
    pub fn connect(mut self, host: &Host) -> Result<Client, Error> {
        self.client_options.authenticates = self.auth.is_some();
        Client::over_http(&self, host)
    }

    /// Returns the HTTP client that sends the requests: that of the application, or ureq. `None` if requests are sent
    /// directly: without TLS, a proxy, or a configuration of ureq.
    pub(super) fn requests(&self) -> Option<Requests> {
        if let Some(client) = &self.http_client {
            return Some(Requests::Custom(client.clone()));
        }
        let is_plain = self.client_options.url.scheme() == Some(&Scheme::HTTP);
        let config = self.config.clone().unwrap_or_else(default_config);
        let is_direct = self.config.is_none() && is_plain && config.proxy().is_none();
        (!is_direct).then(|| Requests::Ureq(Box::new(config)))
    }
}

/// The HTTP client of requests that are not sent directly.
pub(super) enum Requests {
    Custom(Arc<dyn HttpClient>),
    Ureq(Box<Config>),
}

impl Requests {
    /// Returns the client, whose requests run on these threads.
    pub(super) fn on(self, threads: &Threads) -> Arc<dyn HttpClient> {
        match self {
            Self::Custom(client) => client,
            Self::Ureq(config) => Arc::new(UreqClient::new(threads.clone(), *config)),
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("client_options", &self.client_options).finish_non_exhaustive()
    }
}
