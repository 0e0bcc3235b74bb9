//! A service behind an HTTP endpoint.

use super::threads::Threads;

/// A [`Service`](mcp_service::Service) at an HTTP endpoint, on separate threads. [`handle`](super::handle) is for
/// servers with a thread for each request.
pub type Endpoint = mcp_driver::http::Endpoint<Threads>;
