//! A service behind an endpoint of HTTP.

use super::threads::Threads;

/// A [`Service`](mcp_service::Service) at an endpoint of HTTP, on threads of its own. [`handle`](super::handle) is for servers that have a
/// thread for each request.
pub type Endpoint = mcp_driver::http::Endpoint<Threads>;
