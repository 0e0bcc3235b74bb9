//! Connecting to a server over HTTP.

use std::{fmt, io, marker::PhantomData, sync::Arc};

use mcp_proto::http::client::ClientOptions;

use crate::http::net::{connect::ConnectPath, http1::Http1Client, net_runtime::NetRuntime, proxy::Proxy};
use crate::{
    client::Client,
    error::Error,
    http::{
        bearer::Bearer,
        client::{AuthProvider, HttpClient, seed},
    },
    options::DriverOptions,
};
use mcp_service::Host;

/// The configuration of a connection to a server over HTTP: its address, its credentials, and the HTTP client that
/// sends the requests.
pub struct Connector<N> {
    client_options: ClientOptions,
    options: DriverOptions,
    http_client: Option<Arc<dyn HttpClient>>,
    auth: Option<Arc<dyn AuthProvider>>,
    route: ConnectPath,
    net: PhantomData<fn() -> N>,
}

impl<N: NetRuntime> Connector<N> {
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
        let (options, route) = (DriverOptions::default(), ConnectPath::default());
        Self { client_options, options, http_client: None, auth: None, route, net: PhantomData }
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

    /// Sets the proxy of every connection. Without it, the client connects directly, even if the
    /// environment names a proxy: see [`Proxy::from_env`].
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.route.proxy = Some(proxy);
        self
    }

    /// Sets the configuration of TLS. Default: it trusts the certificates that this system trusts, and has no
    /// certificate of the client. Only HTTP/1.1 is spoken.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.route.tls = config.into();
        self
    }

    /// Sets the HTTP client that sends the requests, instead of hyper: another library, or one in memory. That client
    /// is then responsible for proxies and certificates.
    #[must_use]
    pub fn http_client(mut self, http_client: impl HttpClient) -> Self {
        self.http_client = Some(Arc::new(http_client));
        self
    }

    /// Connects, in the newest revision that the server supports.
    ///
    /// # Errors
    /// If there is no runtime, no server listens at the address, or the host cannot talk to it.
    pub async fn connect(self, host: &Host) -> Result<Client<N>, Error> {
        let Self { mut client_options, options, http_client, auth, route, .. } = self;
        client_options.authenticates = auth.is_some();
        let http_client = http_client.unwrap_or_else(|| {
            Http1Client::<N>::add_host(&mut client_options);
            Arc::new(Http1Client::<N>::of(route))
        });
        Client::over_http(client_options, http_client, auth, host, &options).await
    }
}

impl<N: NetRuntime> Client<N> {
    /// Connects to the server at an address such as `http://localhost:8000/mcp`, in the newest revision that it
    /// supports: Streamable HTTP without or with a session, or the transport of 2024-11-05. See [`Connector`] for more
    /// options.
    ///
    /// # Errors
    /// If the address is no HTTP address, no server listens there, or the host does not support it.
    pub async fn connect_http(url: &str, host: &Host) -> Result<Self, Error> {
        Connector::new(url)?.connect(host).await
    }
}

impl<N> Clone for Connector<N> {
    fn clone(&self) -> Self {
        Self {
            client_options: self.client_options.clone(),
            options: self.options.clone(),
            http_client: self.http_client.clone(),
            auth: self.auth.clone(),
            route: self.route.clone(),
            net: PhantomData,
        }
    }
}

impl<N> fmt::Debug for Connector<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("client_options", &self.client_options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command::Command;
    use mcp_service::Service;

    /// The debug output of all types that users pass secrets to.
    #[test]
    fn debug_output_hides_secrets() {
        let mut address = ClientOptions::new("https://example.com/mcp?key=canary", 1).expect("an address");
        address.headers.insert("x-key", "canary".parse().expect("a value"));
        let proxy = Proxy::new("http://proxy.example:3128").expect("a proxy").basic("canary", "canary");
        let connector = Connector::<()> {
            client_options: address.clone(),
            options: DriverOptions::default(),
            http_client: None,
            auth: None,
            route: ConnectPath { proxy: Some(proxy.clone()), ..ConnectPath::default() },
            net: PhantomData,
        };
        let command = Command::new("program").arg("--key=canary").env("KEY", "canary").env_remove("OTHER");
        let key = *b"canarycanarycanarycanarycanary!!";
        let builder = || Service::builder("test", "1").state_key(key);
        let service = builder().build().expect("a good service");
        let refused = |url: &str| Proxy::new(url).expect_err("no proxy");
        let in_bytes = format!("{:?}", &key[..6]);
        let in_bytes = in_bytes.trim_matches(['[', ']']);
        let shown: [(&str, &dyn fmt::Debug); 9] = [
            ("address", &address),
            ("connector", &connector),
            ("route", &connector.route),
            ("proxy", &proxy),
            ("refused proxy", &refused("http://name:canary@proxy.example/")),
            ("no proxy", &refused("canary canary")),
            ("command", &command),
            ("builder", &builder()),
            ("service", &service),
        ];
        for (what, value) in shown {
            for text in [format!("{value:?}"), format!("{value:#?}")] {
                let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(!text.contains("canary") && !flat.contains(in_bytes), "{what}: {text}");
                assert!(text.len() > 6, "{what}: {text}");
            }
        }
        for url in ["http://name:canary@proxy.example/", "canary canary", "https://proxy.example/canary"] {
            assert!(!refused(url).to_string().contains("canary"));
        }
        let shown = format!("{command:?}");
        assert!(["program", "KEY", "OTHER"].iter().all(|name| shown.contains(name)), "{shown}");
    }
}
