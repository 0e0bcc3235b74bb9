//! Clients and servers over HTTP, on threads.

use std::{future::Future, thread, time::Duration};

use mcp_service::block_on;

#[path = "../../tests/http.rs"]
mod http;
#[path = "../../tests/http_cors.rs"]
mod http_cors;
#[path = "../../tests/http_crowds.rs"]
mod http_crowds;
#[path = "../../tests/http_dpop.rs"]
mod http_dpop;
#[path = "../../tests/http_heads.rs"]
mod http_heads;
#[path = "../../tests/http_item_scopes.rs"]
mod http_item_scopes;
#[path = "../../tests/http_peers.rs"]
mod http_peers;
#[path = "../../tests/http_protected.rs"]
mod http_protected;
#[path = "../../tests/http_proxy.rs"]
mod http_proxy;
#[path = "../../tests/http_scopes.rs"]
mod http_scopes;

/// The adapter with async methods, like the others. They block when they are polled.
pub(crate) mod adapter {
    use std::{io, net::SocketAddr, net::ToSocketAddrs, ops::Deref};

    pub(crate) use mcp_blocking::{Error, StopHandle};
    use mcp_driver::Disconnected;
    use mcp_proto::connection::ClientRole;
    use mcp_service::{Host, Peer, Service};

    #[derive(Debug)]
    pub(crate) struct Client(mcp_blocking::Client);

    impl Client {
        pub(crate) async fn connect_http(url: &str, host: &Host) -> Result<Self, Error> {
            mcp_blocking::Client::connect_http(url, host).map(Self)
        }

        pub(crate) async fn close(&self) -> Disconnected {
            self.0.close()
        }
    }

    impl Deref for Client {
        type Target = Peer<ClientRole>;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    pub(crate) mod http {
        use std::time::Duration;

        use super::{Client, Error, Host, Service, SocketAddr, StopHandle, ToSocketAddrs, io};
        pub(crate) use mcp_blocking::http::{
            AccessToken, AuthProvider, Body, ClientOptions, Dpop, Endpoint, EndpointOptions, ExposedHeads, FetchClient,
            HttpClient, HttpFetch, NonceKey, Paths, Policy, Refusal, RequestHead, ResourceServer, ResponseHandler,
            TokenError, TokenVerifier, auth,
        };

        pub(crate) struct Listener(mcp_blocking::http::Listener);

        impl Listener {
            pub(crate) async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
                mcp_blocking::http::Listener::bind(address).map(Self)
            }

            pub(crate) fn with_http_sse(self) -> Self {
                Self(self.0.with_http_sse())
            }

            pub(crate) fn protect(self, server: ResourceServer) -> Self {
                Self(self.0.protect(server))
            }

            pub(crate) fn endpoint(self, endpoint: EndpointOptions) -> Self {
                Self(self.0.endpoint(endpoint))
            }

            pub(crate) fn read_timeout(self, read_timeout: Duration) -> Self {
                Self(self.0.read_timeout(read_timeout))
            }

            pub(crate) fn options(self, options: mcp_driver::DriverOptions) -> Self {
                Self(self.0.options(options))
            }

            pub(crate) fn write_timeout(self, timeout: Duration) -> Self {
                Self(self.0.write_timeout(timeout))
            }

            pub(crate) fn connections(self, connections: usize) -> Self {
                Self(self.0.connections(connections))
            }

            pub(crate) fn local_addr(&self) -> SocketAddr {
                self.0.local_addr()
            }

            pub(crate) fn stop_handle(&self) -> StopHandle {
                self.0.stop_handle()
            }

            pub(crate) async fn serve(self, service: &Service) -> Result<(), Error> {
                self.0.serve(service)
            }
        }

        pub(crate) struct Connector(mcp_blocking::http::Connector);

        impl Connector {
            pub(crate) fn with_client_options(address: ClientOptions) -> Self {
                Self(mcp_blocking::http::Connector::with_client_options(address))
            }

            pub(crate) fn http_client(self, requests: impl HttpClient) -> Self {
                Self(self.0.http_client(requests))
            }

            pub(crate) fn auth(self, credentials: impl AuthProvider) -> Self {
                Self(self.0.auth(credentials))
            }

            pub(crate) async fn connect(self, host: &Host) -> Result<Client, Error> {
                self.0.connect(host).map(Client)
            }
        }
    }
}

pub(crate) fn run(future: impl Future<Output = ()>) {
    block_on(future);
}

pub(crate) fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    let thread = thread::spawn(|| block_on(future));
    async { thread.join().expect("no panic") }
}

/// Limits the time of a future. A future that blocks in `poll` cannot be interrupted, one that is pending can.
pub(crate) async fn timeout<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    use mcp_driver::Watched;
    use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

    let late = Arc::new(Watched::new(false));
    let (watch, mut future) = (late.clone(), pin!(future));
    let done = Arc::new(Watched::new(false));
    let heard = done.clone();
    let alarm = thread::spawn(move || {
        if !heard.wait_until(time, |done| *done) {
            watch.update(|late| *late = true);
        }
    });
    let mut late = pin!(late.wait_for(|late| late.then_some(())));
    let result = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => late.as_mut().poll(cx).map(|()| None),
    })
    .await;
    done.update(|done| *done = true);
    alarm.join().expect("no panic");
    result
}
