//! How a connection is run.

use mcp_proto::connection::Opening;

/// What the threads of a connection may take. How much the connection itself may hold is in its
/// [`Limits`](mcp_proto::connection::Limits).
#[derive(Clone, Debug)]
pub struct Options {
    /// Handlers that run at the same time, each on a thread of its own; at least one. Default 32: enough for handlers
    /// that wait for each other's slow friends, few enough for a small machine.
    pub handlers: usize,
    /// Bytes of notifications and progress that wait for their handlers; what comes on top is dropped, the newest first.
    /// Default 16 MiB. Requests that wait are bounded by the limits of the connection, and refused beyond them.
    pub backlog: usize,
    /// What is known of the server (clients): the [era](mcp_proto::protocol::ProtocolVersion::era) that it was of the
    /// last time saves the question. Default: nothing.
    pub opening: Opening,
}

impl Default for Options {
    fn default() -> Self {
        Self { handlers: 32, backlog: 16 << 20, opening: Opening::unknown() }
    }
}
