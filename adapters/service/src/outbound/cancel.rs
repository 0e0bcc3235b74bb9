//! How a call is given up.

use mcp_proto::rpc::CallId;

/// What a [`Pending`](crate::Pending) can do about its request, whatever the role.
pub(crate) trait Desk: Send + Sync {
    /// Cancels a request that has not ended.
    fn hang_up(&self, call: CallId, reason: Option<&str>);
    /// Drops the entry of a request that has no waiter any more.
    fn forget(&self, call: CallId);
}
