//! HTTP over the sockets of a runtime: a listener for services, and the way to a server for hosts. HTTP/1.1 itself is hyper's.

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
