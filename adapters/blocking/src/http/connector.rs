//! Connecting to a server over HTTP.

use std::{fmt, io, sync::Arc};

#[cfg(feature = "tls")]
use mcp_driver::http::rustls;
use mcp_driver::http::{AuthProvider, Bearer, Http1Client, HttpClient, Proxy, seed};
use mcp_service::Host;

use super::client_loop::ClientLoop;
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
    /// The HTTP client of the application, if it has set one.
    pub(super) http_client: Option<Arc<dyn HttpClient>>,
    /// The proxy, if it is not that of the environment.
    proxy: Option<Proxy>,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ClientConfig>>,
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
        Self {
            client_options,
            options: DriverOptions::default(),
            auth: None,
            has_token: false,
            http_client: None,
            proxy: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
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

    /// Sets the proxy of every connection. Without it, the proxy that the environment names is used: see
    /// [`Proxy::from_env`].
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Sets the configuration of TLS. Default: it trusts the certificates that this system trusts, and has no
    /// certificate of the client. Only HTTP/1.1 is spoken.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Sets the HTTP client that sends the requests, instead of hyper. Its futures share a few threads and must not
    /// block. That client is then responsible for proxies and certificates.
    #[must_use]
    pub fn http_client(mut self, http_client: impl HttpClient) -> Self {
        self.http_client = Some(Arc::new(http_client));
        self
    }

    /// Connects, in the newest revision that the server supports.
    ///
    /// # Errors
    /// If no server listens at the address, the host cannot talk to it, or the environment names a proxy that is not
    /// supported.
    pub fn connect(mut self, host: &Host) -> Result<Client, Error> {
        self.client_options.authenticates = self.auth.is_some();
        Client::over_http(&self, host)
    }

    /// Returns the HTTP client of the tasks of a client.
    pub(super) fn net_client(&self) -> Result<Http1Client<ClientLoop>, Error> {
        let mut client = Http1Client::new();
        let proxy = if self.proxy.is_some() { self.proxy.clone() } else { Proxy::from_env()? };
        if let Some(proxy) = proxy {
            client = client.proxy(proxy);
        }
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            client = client.tls(config.clone());
        }
        Ok(client)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("client_options", &self.client_options).finish_non_exhaustive()
    }
}
