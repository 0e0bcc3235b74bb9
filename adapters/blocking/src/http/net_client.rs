//! An HTTP client whose requests run on a thread of the client.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::Request;
#[cfg(feature = "tls")]
use mcp_driver::http::rustls;
use mcp_driver::{
    http::{Http1Client, HttpClient, Proxy, ResponseHandler, ResponseSink},
    run_in_task,
};

use super::{client_loop::ClientLoop, own_loop::OwnLoop};

/// An HTTP client on hyper, with one thread for all requests. It is for clients of the application that send their
/// requests with it, such as one that records them. A [`Connector`](super::Connector) needs none.
#[derive(Clone, Default)]
pub struct NetClient {
    requests: OwnLoop,
    client: Http1Client<ClientLoop>,
}

impl NetClient {
    /// Creates a client that connects directly, and trusts the certificates that this system trusts. Its thread starts
    /// with the first request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the proxy. No connection is shared with clones of the client before.
    #[must_use]
    pub fn proxy(self, proxy: Proxy) -> Self {
        Self { client: self.client.proxy(proxy), ..self }
    }

    /// Sets the configuration of TLS. No connection is shared with clones of the client before.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, config: Arc<rustls::ClientConfig>) -> Self {
        Self { client: self.client.tls(config), ..self }
    }

    /// Sends a request unchanged, and passes its response on as it arrives. Returns the receiver of the response, and
    /// the reason if the request could not be sent or its response broke off. `None` if the receiver has panicked.
    /// Dropping the future closes the connection of the request.
    pub fn send<S: ResponseSink + 'static>(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: S,
    ) -> impl Future<Output = Option<(S, Result<(), String>)>> + Send + use<S> {
        let (client_loop, client) = (self.requests.get(), self.client.clone());
        // The loop runs at least as long as this future.
        let requests = self.requests.clone();
        async move {
            let _requests = requests;
            match client_loop {
                Ok(client_loop) => {
                    let exchange = async move {
                        let done = client.send(request, &mut response).await;
                        (response, done)
                    };
                    run_in_task(&client_loop, exchange).await
                }
                Err(error) => Some((response, Err(error.to_string()))),
            }
        }
    }
}

impl fmt::Debug for NetClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetClient").finish_non_exhaustive()
    }
}

impl HttpClient for NetClient {
    fn make(&self, request: Request<Arc<[u8]>>, response: ResponseHandler) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let sent = self.send(request, response);
        Box::pin(async move {
            match sent.await {
                Some((response, Ok(()))) => response.end(),
                Some((response, Err(why))) => response.fail(why),
                None => {}
            }
        })
    }
}
