//! Connecting to a server.

use std::{fmt, io, sync::Arc};

use mcp_driver::{
    DriverOptions, Error,
    http::{AuthProvider, Bearer, HttpClient, seed},
};
use mcp_proto::http::client::ClientOptions;
use mcp_service::Host;

use crate::{fetch::Fetch, runtime::Wasm};

/// A connection to a server, on the event loop of the page or worker.
pub type Client = mcp_driver::Client<Wasm>;

/// Connects to the server at an address such as `https://example.com/mcp`, in the newest revision that it supports. See
/// [`Connector`] for more options.
///
/// # Errors
/// If the address is no HTTP address, no server answers there that the host can talk to, or this is no JavaScript host.
pub async fn connect(url: &str, host: &Host) -> Result<Client, Error> {
    Connector::new(url)?.connect(host).await
}

/// The configuration of a connection to a server: its address, its credentials, and the client that sends the requests.
#[derive(Clone)]
pub struct Connector {
    client_options: ClientOptions,
    options: DriverOptions,
    http_client: Arc<dyn HttpClient>,
    auth: Option<Arc<dyn AuthProvider>>,
}

impl Connector {
    /// Creates a connector to a server at an address such as `https://example.com/mcp`.
    ///
    /// # Errors
    /// If it is not an HTTP address with a scheme and a host.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |error| Error::Io(io::Error::new(io::ErrorKind::InvalidInput, error));
        Ok(Self::with_client_options(ClientOptions::new(url, seed()).map_err(invalid)?))
    }

    /// Creates a connector with more options: headers, limits, the order of attempts. Whether there are
    /// [credentials](Self::auth) decides how a challenge is handled.
    #[must_use]
    pub fn with_client_options(client_options: ClientOptions) -> Self {
        Self { client_options, options: DriverOptions::default(), http_client: Arc::new(Fetch::new()), auth: None }
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
        Ok(self.auth(Bearer::new(token)?))
    }

    /// Sets the provider of credentials.
    #[must_use]
    pub fn auth(mut self, auth: impl AuthProvider) -> Self {
        self.auth = Some(Arc::new(auth));
        self
    }

    /// Sets the HTTP client that sends the requests. Default: [`Fetch::new`].
    #[must_use]
    pub fn http_client(mut self, http_client: impl HttpClient) -> Self {
        self.http_client = Arc::new(http_client);
        self
    }

    /// Connects, in the newest revision that the server supports.
    ///
    /// # Errors
    /// If no server answers at the address that the host can talk to, or this is no JavaScript host.
    pub async fn connect(self, host: &Host) -> Result<Client, Error> {
        let Self { mut client_options, options, http_client, auth } = self;
        client_options.authenticates = auth.is_some();
        Client::over_http(client_options, http_client, auth, host, &options).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("client_options", &self.client_options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let connector = Connector::new("https://example.com/mcp?key=canary").expect("an address");
        let connector = connector.bearer("canary").expect("a token");
        let text = format!("{connector:?}");
        assert!(text.contains("https://example.com/mcp") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn relative_addresses_are_refused() {
        assert!(matches!(Connector::new("/mcp"), Err(Error::Io(error)) if error.kind() == io::ErrorKind::InvalidInput));
    }
}
