//! The interface between a driver, which owns a connection and its I/O, and the application on it.

use std::{borrow::Cow, sync::Arc, task::Context};

use mcp_proto::{
    connection::{Connection, Event, Principal},
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RawJson,
};

use super::{block_on::WaitingThread, holder::Holder, job::Job, waiters::Waiters};

/// A handle of a driver's connection, which can be used on any thread.
pub trait ConnectionHandle<E>: Send + Sync + 'static {
    /// Runs `f` on the connection, then wakes the driver and the waiters that the change concerns.
    ///
    /// `f` is called exactly once, under the lock of the connection, with the current time. It must be fast, and must
    /// not block or call the handle. This method does not wait for the peer.
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp));

    /// Runs `f` as [`with_mut`](Self::with_mut) does, for changes that do not depend on the time, so that no clock is
    /// read.
    fn with_mut_untimed(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        self.with_mut(&mut |conn, _| f(conn));
    }

    /// Runs `f` as [`with_mut`](Self::with_mut) does, for a change that begins a request: the caller usually waits for
    /// its response next. So the driver may leave work to [`poll_drive`](Self::poll_drive) or [`flush`](Self::flush)
    /// for a short time.
    fn with_mut_before_wait(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        self.with_mut(f);
    }

    /// Returns whether [`flush`](Self::flush) does any work. The result is always the same.
    fn holds_requests(&self) -> bool {
        false
    }

    /// Writes requests that [`with_mut_before_wait`](Self::with_mut_before_wait) has held back. A thread or task that
    /// waits for a response calls this before.
    fn flush(&self) {}

    /// Runs `f` on the connection without changing it.
    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>));

    /// Returns the wait queues of this connection.
    fn waiters(&self) -> &Waiters;

    /// Returns whether the transport authenticates requests, so that they can have principals. Over such a transport a
    /// request without a principal has no scopes. Over others, such as pipes, scopes are not checked.
    fn authenticates(&self) -> bool {
        false
    }

    /// Responds to a request that needs more scopes than its principal has, in the way of the transport. Returns false
    /// if the transport has none.
    fn needs_scopes(&self, _key: ReplyKey, _scopes: &[String]) -> bool {
        false
    }

    /// Records that a request requires scopes, which its principal has, before the request is handled. A transport on
    /// which a client can resume the stream of a response requires them then as well.
    fn require_scopes(&self, _key: ReplyKey, _scopes: &[String]) {}

    /// Does work of the driver on this thread, which waits for a response on this connection, until the thread is
    /// notified. So a response that this thread reads itself reaches it without a change of threads.
    ///
    /// It returns early if other threads do the work. The thread then parks.
    fn drive(&self, _thread: &WaitingThread) {}

    /// Returns whether [`poll_drive`](Self::poll_drive) does any work. The result is always the same.
    fn drives_in_tasks(&self) -> bool {
        false
    }

    /// Does work of the driver that is ready, in a task that waits for the response to `call`. When there is more work,
    /// it wakes that task, or another one that does the work. So a response that the task reads itself reaches it
    /// without a change of threads.
    ///
    /// It does not block. A task that stops to wait calls [`end_drive`](Self::end_drive).
    fn poll_drive(&self, _call: CallId, _cx: &Context<'_>) {}

    /// Notes that no task waits for the response to `call` any more.
    fn end_drive(&self, _call: CallId) {}

    /// Returns the client at the other end, as far as the driver can distinguish clients.
    fn holder(&self) -> Holder {
        Holder::Unknown
    }
}

impl<E: 'static> dyn ConnectionHandle<E> {
    /// Runs a function with a return value as [`with_mut`](ConnectionHandle::with_mut) does.
    ///
    /// # Panics
    /// If the driver violates its contract and does not call `f`.
    pub fn update<R>(&self, f: impl FnOnce(&mut Connection<E>, Timestamp) -> R) -> R {
        #[cfg(feature = "log-layer")]
        let _depth = super::lock_depth::LockDepth::enter();
        let (mut f, mut result) = (Some(f), None);
        self.with_mut(&mut |conn, now| result = f.take().map(|f| f(conn, now)));
        result.expect("a connection handle calls its closure")
    }

    /// Runs a function with a return value as [`with_mut_before_wait`](ConnectionHandle::with_mut_before_wait) does.
    ///
    /// # Panics
    /// As `update`.
    pub fn update_before_wait<R>(&self, f: impl FnOnce(&mut Connection<E>, Timestamp) -> R) -> R {
        #[cfg(feature = "log-layer")]
        let _depth = super::lock_depth::LockDepth::enter();
        let (mut f, mut result) = (Some(f), None);
        self.with_mut_before_wait(&mut |conn, now| result = f.take().map(|f| f(conn, now)));
        result.expect("a connection handle calls its closure")
    }

    /// Runs a function with a return value as [`with_mut_untimed`](ConnectionHandle::with_mut_untimed) does.
    ///
    /// # Panics
    /// As `update`.
    pub fn update_untimed<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        #[cfg(feature = "log-layer")]
        let _depth = super::lock_depth::LockDepth::enter();
        let (mut f, mut result) = (Some(f), None);
        self.with_mut_untimed(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a connection handle calls its closure")
    }

    /// Runs a function with a return value as [`with_ref`](ConnectionHandle::with_ref) does.
    ///
    /// # Panics
    /// As `update`.
    pub fn read<R>(&self, f: impl FnOnce(&Connection<E>) -> R) -> R {
        #[cfg(feature = "log-layer")]
        let _depth = super::lock_depth::LockDepth::enter();
        let (mut f, mut result) = (Some(f), None);
        self.with_ref(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a connection handle calls its closure")
    }
}

/// Requests that a connection has not received yet: their methods and params.
pub type SentRequests<'a> = dyn Iterator<Item = (Cow<'a, str>, Option<RawJson<'a>>)> + 'a;

/// The application on a connection.
pub trait Application<E>: Send + Sync + 'static {
    /// Announces the connection. A driver calls this once, before any event: a client without a session may only
    /// subscribe to changes and never cause an event (2026-07-28).
    fn begin(&self, _connection: &Arc<dyn ConnectionHandle<E>>) {}

    /// Handles an event. A driver calls this with every event, in order, outside of the lock of the connection.
    /// Requests that arrive over HTTP at the same time have no order: they may be handled at the same time, as long as
    /// no other event is.
    ///
    /// It is fast, and runs no user code except the [visibility predicate](crate::ServiceBuilder::visible): longer work
    /// is returned as a job. So responses, progress and cancellations reach their waiters even if all handlers are
    /// busy.
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<E>>, event: Event<'_>) -> Option<Job>;

    /// Returns the scopes that each of these requests of one sender requires, with their methods and params; those
    /// without scopes are left out. A driver calls this, outside of the lock of the connection, before it passes on
    /// requests that it cannot [refuse](ConnectionHandle::needs_scopes) later. It refuses all of them if the sender
    /// lacks a scope.
    fn required_scopes(
        &self,
        _connection: &Arc<dyn ConnectionHandle<E>>,
        _sender: Option<&Principal>,
        _requests: &mut SentRequests<'_>,
    ) -> Vec<Vec<String>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::connection::ServerRole;

    use super::*;
    use crate::{Host, Service, tests::pair::Pair};

    struct Plain;

    impl Application<ServerRole> for Plain {
        fn handle(&self, _: &Arc<dyn ConnectionHandle<ServerRole>>, _: Event<'_>) -> Option<Job> {
            None
        }
    }

    #[test]
    fn an_application_without_scopes_requires_none() {
        let service = Service::builder("test", "1").build().expect("a good service");
        let pair = Pair::new(
            &Host::builder("client", "1").build(),
            &service,
            mcp_proto::protocol::ProtocolVersion::LATEST_LEGACY,
        );
        let connection = pair.server.connection();
        let mut requests = [(Cow::Borrowed("ping"), None)].into_iter();
        assert_eq!(Plain.required_scopes(&connection, None, &mut requests), Vec::<Vec<String>>::new());
    }
}
