//! HTTP/1.1 over the sockets of a runtime, on hyper: a listener for services, and a connector for hosts.

mod connect;
mod connector;
mod error;
mod happy_eyeballs;
mod http1;
mod listener;
mod net_runtime;
mod pool;
mod proxy;
#[cfg(feature = "tls")]
mod tls;

pub use connector::Connector;
pub use listener::{Listener, serve_http};
pub use net_runtime::NetRuntime;
pub use proxy::Proxy;
