//! HTTP proxies.

use std::{fmt, io};

use http::{HeaderValue, Method, Request, Uri, header, uri::Scheme};
use hyper::{
    client::conn::http1,
    rt::{Read, Write},
    upgrade::{self, Upgraded},
};
use mcp_proto::codec::encode_base64;

use crate::http::net::{error::error_chain, net_runtime::ConnectRuntime, pool::Origin, proxy_env::Exemption};
use crate::{error::Error, http::body::Body};

/// An HTTP proxy. It forwards requests to servers without TLS, and tunnels connections to servers with TLS (`CONNECT`),
/// of which it only sees the host and port.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) authorization: Option<HeaderValue>,
    /// The hosts that clients reach without it.
    pub(super) exemptions: Vec<Exemption>,
}

impl Proxy {
    /// Creates a proxy with an address such as `http://proxy.example:3128`. Connections to it are not encrypted.
    ///
    /// # Errors
    /// If it is not such an address. The error does not contain the address, which may hold a password.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = || Self::invalid("this is no address of a proxy of HTTP, such as http://proxy.example:3128");
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().filter(|it| !it.host().is_empty() && !it.as_str().contains('@'));
        let authority = authority.filter(|_| uri.scheme() == Some(&Scheme::HTTP)).ok_or_else(invalid)?;
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => 80,
            // There is something else in its place.
            None => return Err(invalid()),
        };
        Ok(Self { host: authority.host().to_owned(), port, authorization: None, exemptions: Vec::new() })
    }

    pub(super) fn invalid(why: &'static str) -> Error {
        Error::Io(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Sets credentials of the scheme `Basic`, which are sent to the proxy unencrypted. The name must not contain a
    /// colon.
    #[must_use]
    pub fn basic(mut self, name: &str, password: &str) -> Self {
        let value = format!("Basic {}", encode_base64(format!("{name}:{password}").as_bytes()));
        self.authorization = HeaderValue::try_from(value).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    /// Opens a tunnel to a server through the proxy.
    pub(super) async fn tunnel<N: ConnectRuntime>(
        &self,
        runtime: &N,
        origin: &Origin,
        stream: impl Read + Write + Send + Unpin + 'static,
    ) -> Result<Upgraded, String> {
        let target = format!("{}:{}", origin.host, origin.port);
        let mut request = Request::new(Body::whole(Vec::new()));
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = target.parse().map_err(|_| format!("{target} is no name of a server"))?;
        let host = HeaderValue::try_from(target).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        let message = |error: hyper::Error| format!("the proxy: {}", error_chain(&error));
        let (mut sender, connection) = http1::handshake(stream).await.map_err(message)?;
        // The connection to the proxy ends with this exchange, and its stream becomes the tunnel.
        let exchange = runtime.spawn(async move { _ = connection.with_upgrades().await });
        let response = sender.send_request(request).await.map_err(message)?;
        if !response.status().is_success() {
            return Err(format!("the proxy responded with {}", response.status()));
        }
        let tunnel = upgrade::on(response).await.map_err(message)?;
        N::detach(exchange);
        Ok(tunnel)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}
