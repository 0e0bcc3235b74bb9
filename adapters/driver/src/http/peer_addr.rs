//! The address of a client.

use std::net::IpAddr;

/// The address of the client that sends a request, in the extensions of the request. It distinguishes clients without a
/// [`Caller`](mcp_proto::http::server::Caller). A listener sets it; where an `Endpoint` is in another server, that
/// server should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub IpAddr);
