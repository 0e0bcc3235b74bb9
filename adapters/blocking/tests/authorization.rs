//! Authorization over sockets, on threads.

use std::{future::Future, thread};

use mcp_service::block_on;

#[path = "../../tests/authorization.rs"]
mod authorization;

/// The adapter with async methods, like the others. They block when they are polled.
pub(crate) mod adapter {
    pub(crate) mod http {
        use std::{
            io,
            net::{SocketAddr, ToSocketAddrs},
        };

        pub(crate) use mcp_blocking::http::{
            FetchClient, IntrospectionVerifier, OAuth, ResourceMetadata, ResourceServer, Scopes, auth,
        };
        use mcp_blocking::{Client, Error, StopHandle, http};
        use mcp_driver::http::AuthProvider;
        use mcp_proto::connection::ClientRole;
        use mcp_service::{Host, Peer, Service};

        pub(crate) struct Listener(http::Listener);

        impl Listener {
            pub(crate) async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
                http::Listener::bind(address).map(Self)
            }

            pub(crate) fn protect(self, server: ResourceServer) -> Self {
                Self(self.0.protect(server))
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

        pub(crate) struct Connector(http::Connector);

        impl Connector {
            pub(crate) fn new(url: &str) -> Result<Self, Error> {
                http::Connector::new(url).map(Self)
            }

            pub(crate) fn bearer(self, token: &str) -> Result<Self, Error> {
                self.0.bearer(token).map(Self)
            }

            pub(crate) fn auth(self, credentials: impl AuthProvider) -> Self {
                Self(self.0.auth(credentials))
            }

            pub(crate) async fn connect(self, host: &Host) -> Result<Connected, Error> {
                self.0.connect(host).map(Connected)
            }
        }

        pub(crate) struct Connected(Client);

        impl Connected {
            pub(crate) async fn close(&self) {
                self.0.close();
            }
        }

        impl std::ops::Deref for Connected {
            type Target = Peer<ClientRole>;

            fn deref(&self) -> &Self::Target {
                &self.0
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
