//! Proxies of HTTP.

use std::{fmt, io};

use http::{HeaderValue, Method, Request, Uri, header, uri::Scheme};
use hyper::{
    client::conn::http1,
    rt::{Read, Write},
    upgrade::{self, Upgraded},
};
use mcp_proto::codec::encode_base64;

use crate::http::net::{error::error_chain, net_runtime::NetRuntime, pool::Origin};
use crate::{error::Error, http::body::Body};

/// A proxy of HTTP: it passes on what is asked of servers without encryption, and connects to those with it (`CONNECT`), where
/// it sees nothing but their names.
#[derive(Clone)]
pub struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Creates a proxy with an address such as `http://proxy.example:3128`. Connections to it are not encrypted.
    ///
    /// # Errors
    /// If it is no such address. The error does not repeat it: there may be a password in it.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::Io(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this is no address of a proxy of HTTP, such as http://proxy.example:3128",
            ))
        };
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().filter(|it| !it.host().is_empty() && !it.as_str().contains('@'));
        let authority = authority.filter(|_| uri.scheme() == Some(&Scheme::HTTP)).ok_or_else(invalid)?;
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self { host: authority.host().to_owned(), port, authorization: None })
    }

    /// Sets credentials of the scheme `Basic`, which are readable on the way to the proxy. A name contains no colon.
    #[must_use]
    pub fn basic(mut self, name: &str, password: &str) -> Self {
        let value = format!("Basic {}", encode_base64(format!("{name}:{password}").as_bytes()));
        self.authorization = HeaderValue::try_from(value).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self
    }

    /// Has the proxy connect to a server.
    pub(super) async fn tunnel<N: NetRuntime>(
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
        let story = |error: hyper::Error| format!("the proxy: {}", error_chain(&error));
        let (mut sender, connection) = http1::handshake(stream).await.map_err(story)?;
        // It ends with the exchange, and its stream becomes the tunnel.
        let exchange = runtime.spawn(async move { _ = connection.with_upgrades().await });
        let answer = sender.send_request(request).await.map_err(story)?;
        if !answer.status().is_success() {
            return Err(format!("the proxy says {}", answer.status()));
        }
        let tunnel = upgrade::on(answer).await.map_err(story)?;
        N::detach(exchange);
        Ok(tunnel)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}
