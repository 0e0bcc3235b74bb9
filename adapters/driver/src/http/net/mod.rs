//! HTTP/1.1 over the sockets of a runtime, on hyper: a listener for servers, and a connector for clients.

#[cfg(feature = "auth")]
mod auth_transport;
mod connect;
mod connection_driver;
mod connector;
mod error;
#[cfg(feature = "auth")]
mod fetch;
mod happy_eyeballs;
mod http1;
mod listener;
mod net_runtime;
mod pool;
mod proxy;
mod proxy_env;
#[cfg(feature = "tls")]
mod tls;
mod tracked_stream;

#[cfg(feature = "auth")]
pub use auth_transport::NetTransport;
pub use connector::Connector;
#[cfg(feature = "auth")]
pub use fetch::FetchClient;
pub use http1::{Http1Client, ResponseSink};
pub use listener::{Listener, serve_http};
pub use net_runtime::{ConnectRuntime, NetRuntime, Recheck};
pub use proxy::Proxy;
#[cfg(test)]
mod tests;
