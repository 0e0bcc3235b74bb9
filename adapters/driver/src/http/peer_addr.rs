//! The address of a client.

use std::net::IpAddr;

/// The address of the client that sends a request: put into the extensions of the request, it tells clients apart that no
/// [`Caller`](mcp_proto::http::server::Caller) does. A listener does so; where an `Endpoint` is in a server of yours, that server should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub IpAddr);
