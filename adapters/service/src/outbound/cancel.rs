//! Cancellation of calls.

use std::task::Context;

use mcp_proto::rpc::CallId;

use crate::driver_api::block_on::WaitingThread;

/// The operations of a [`Pending`](crate::Pending) on its request, for both roles.
pub(crate) trait CancelCall: Send + Sync {
    /// Cancels a request that has not ended.
    fn cancel(&self, call: CallId, reason: Option<&str>);
    /// Drops the entry of a request that has no waiter any more.
    fn forget(&self, call: CallId);
    /// Does work of the driver on this thread, which waits for a request, until the thread is notified.
    fn drive(&self, thread: &WaitingThread);
    /// Does work of the driver in a task that waits for a request. Returns whether there is such work for tasks: then
    /// [`end_drive`](Self::end_drive) is to be called when the wait ends.
    fn poll_drive(&self, call: CallId, cx: &Context<'_>) -> bool;
    /// Notes that no task waits for a request any more.
    fn end_drive(&self, call: CallId);
}
