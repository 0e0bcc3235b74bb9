//! Short requests over the sockets of a runtime.

use std::{fmt, io, marker::PhantomData, sync::Arc, time::Duration};

use http::{Request, Response, response::Parts};
use mcp_service::Deferred;

use crate::{
    http::{
        body::Body,
        fetch::HttpFetch,
        net::{
            connect::ConnectPath,
            http1::{ResponseSink, exchange},
            net_runtime::ConnectRuntime,
            pool::Pool,
            proxy::Proxy,
        },
    },
    runtime::timeout,
};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client for short requests, on hyper. A request that takes longer than 10 seconds fails.
pub struct FetchClient<N> {
    route: Arc<ConnectPath>,
    pool: Arc<Pool>,
    net: PhantomData<fn() -> N>,
}

impl<N: ConnectRuntime> FetchClient<N> {
    /// Creates a client that trusts the certificates that this system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self { route: Arc::default(), pool: Arc::default(), net: PhantomData }
    }

    /// Sets the configuration of TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        Arc::make_mut(&mut self.route).tls = config.into();
        self.pool = Arc::default();
        self
    }

    /// Sets the proxy. No connection is shared with clones of the client before.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        Arc::make_mut(&mut self.route).proxy = Some(proxy);
        // A connection of another route must not get the credentials of this one.
        self.pool = Arc::default();
        self
    }
}

impl<N> Clone for FetchClient<N> {
    fn clone(&self) -> Self {
        Self { route: self.route.clone(), pool: self.pool.clone(), net: PhantomData }
    }
}

impl<N: ConnectRuntime> Default for FetchClient<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: ConnectRuntime> HttpFetch for FetchClient<N> {
    fn fetch(&self, request: Request<Vec<u8>>, limit: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        let (route, pool) = (self.route.clone(), self.pool.clone());
        Deferred::new(async move {
            let runtime = N::current()?;
            let mut response = Collected { head: None, body: Vec::new(), limit };
            let mut request = request.map(Body::whole);
            let fetched = exchange::<N>(&route, &pool, &mut request, &mut response);
            match timeout(&runtime, TIMEOUT, fetched).await {
                Some(Ok(())) => {}
                Some(Err(why)) => return Err(io::Error::other(why)),
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "the request takes too long")),
            }
            let head = response.head.ok_or_else(|| io::Error::other("there is no response"))?;
            Ok(Response::from_parts(head, response.body))
        })
    }
}

/// A response that is collected.
struct Collected {
    head: Option<Parts>,
    body: Vec<u8>,
    limit: usize,
}

impl ResponseSink for Collected {
    fn head(&mut self, head: Parts) {
        self.head = Some(head);
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        if chunk.len() > self.limit - self.body.len() {
            return Err("the response is too long".to_owned());
        }
        self.body.extend_from_slice(chunk);
        Ok(())
    }
}

impl<N> fmt::Debug for FetchClient<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchClient").finish_non_exhaustive()
    }
}
