//! Opening connections to a server, directly or through a proxy, with or without TLS.

#[cfg(feature = "tls")]
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::{
    client::conn::http1,
    rt::{Read, Write},
};

#[cfg(feature = "tls")]
use crate::http::net::tls::{self, Tls};
use crate::http::net::{
    error::error_chain,
    happy_eyeballs::happy_eyeballs,
    net_runtime::ConnectRuntime,
    pool::{Origin, PooledConnection},
    proxy::Proxy,
    tracked_stream::TrackedStream,
};
use crate::runtime::timeout;
#[cfg(feature = "tls")]
use crate::runtime::unblock;

/// The timeout of opening a connection, including those of the proxy and TLS.
const CONNECT: Duration = Duration::from_secs(30);

/// The configuration of connections to a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectPath {
    pub(super) proxy: Option<Proxy>,
    /// The configuration of TLS. The default one is created on first use, unless the application has set one.
    #[cfg(feature = "tls")]
    pub(super) tls: OnceLock<Arc<rustls::ClientConfig>>,
}

impl ConnectPath {
    /// Returns the proxy through which this server is reached.
    fn proxy_of(&self, origin: &Origin) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|proxy| !proxy.is_exempt(&origin.host))
    }

    /// Returns the proxy that forwards requests to this server. Requests over TLS are tunnelled and not forwarded.
    pub(super) fn forward_proxy(&self, origin: &Origin) -> Option<&Proxy> {
        self.proxy_of(origin).filter(|_| !origin.is_secure)
    }

    /// Opens a connection to a server.
    pub(super) async fn open<N: ConnectRuntime>(
        &self,
        runtime: &N,
        origin: &Origin,
    ) -> Result<PooledConnection, String> {
        let opened = match timeout(runtime, CONNECT, self.establish(runtime, origin)).await {
            Some(opened) => opened,
            None => Err("it takes too long".to_owned()),
        };
        opened.map_err(|why| format!("cannot connect to {}:{}: {why}", origin.host, origin.port))
    }

    async fn establish<N: ConnectRuntime>(&self, runtime: &N, origin: &Origin) -> Result<PooledConnection, String> {
        let proxy = self.proxy_of(origin);
        let (host, port) = proxy.map_or((&origin.host, origin.port), |it| (&it.host, it.port));
        let stream = happy_eyeballs(runtime, host, port).await.map_err(|error| match proxy {
            Some(_) => format!("the proxy {host}:{port}: {error}"),
            None => error.to_string(),
        })?;
        let recheck = N::recheck(&stream);
        let connection = match proxy {
            Some(proxy) if origin.is_secure => {
                self.secure(runtime, origin, proxy.tunnel(runtime, origin, stream).await?).await?
            }
            Some(_) => handshake(runtime, origin, stream).await?,
            None => self.start(runtime, origin, stream).await?,
        };
        Ok(connection.with_recheck(recheck))
    }

    /// Starts HTTP/1.1 on a stream to a server, with TLS if its scheme is `https`.
    pub(super) async fn start<N: ConnectRuntime>(
        &self,
        runtime: &N,
        origin: &Origin,
        stream: impl Read + Write + Send + Unpin + 'static,
    ) -> Result<PooledConnection, String> {
        if origin.is_secure {
            self.secure(runtime, origin, stream).await
        } else {
            handshake(runtime, origin, stream).await
        }
    }

    #[cfg(feature = "tls")]
    async fn secure<N: ConnectRuntime>(
        &self,
        runtime: &N,
        origin: &Origin,
        stream: impl Read + Write + Send + Unpin + 'static,
    ) -> Result<PooledConnection, String> {
        let config = match self.tls.get() {
            Some(config) => config.clone(),
            None => {
                let default_config = unblock(runtime, tls::default_config).await.map_err(|error| error.to_string())?;
                self.tls.get_or_init(|| default_config).clone()
            }
        };
        let stream = Tls::client(config, &origin.host, stream).await.map_err(|error| error.to_string())?;
        handshake(runtime, origin, stream).await
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_async, reason = "with the feature `tls` it takes a while")]
    async fn secure<N: ConnectRuntime>(
        &self,
        _: &N,
        _: &Origin,
        _: impl Read + Write,
    ) -> Result<PooledConnection, String> {
        Err("there is no encryption without the feature `tls`".to_owned())
    }
}

/// Starts HTTP/1.1 on a stream.
async fn handshake<N: ConnectRuntime>(
    runtime: &N,
    origin: &Origin,
    stream: impl Read + Write + Send + Unpin + 'static,
) -> Result<PooledConnection, String> {
    let (stream, pending_write) = TrackedStream::new(stream);
    let (sender, connection) = http1::handshake(stream).await.map_err(|error| error_chain(&error))?;
    PooledConnection::new(runtime, origin.clone(), sender, connection, pending_write)
}
