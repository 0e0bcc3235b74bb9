//! The client that gets the log messages of a request (feature `log-layer`).

use std::{
    any::Any,
    cell::RefCell,
    sync::{Arc, Weak},
};

use mcp_proto::{
    connection::{SendError, ServerRole},
    rpc::ReplyKey,
    schema::{LogMessageParams, LoggingLevel},
};

use crate::driver_api::{connection_handle::ConnectionHandle, lock_depth::LockDepth};

/// A request of a client, for log messages that belong to it. It does not keep the connection alive.
#[derive(Clone)]
pub(crate) struct LogTarget {
    connection: Weak<dyn ConnectionHandle<ServerRole>>,
    key: ReplyKey,
}

thread_local! {
    /// The request whose span this thread creates.
    static OFFERED: RefCell<Option<LogTarget>> = const { RefCell::new(None) };
}

impl LogTarget {
    /// Runs `f`, which creates the span of a request. While `f` runs, a subscriber can [take](Self::take) the target.
    pub(crate) fn offer<E: 'static, T>(
        connection: &Arc<dyn ConnectionHandle<E>>,
        key: ReplyKey,
        f: impl FnOnce() -> T,
    ) -> T {
        let connection: &dyn Any = connection;
        let connection = connection.downcast_ref::<Arc<dyn ConnectionHandle<ServerRole>>>();
        OFFERED.set(connection.map(|connection| Self { connection: Arc::downgrade(connection), key }));
        let created = f();
        OFFERED.set(None);
        created
    }

    /// Returns the request whose span is being created.
    pub(crate) fn take() -> Option<Self> {
        OFFERED.try_with(|offered| offered.try_borrow_mut().ok()?.take()).ok().flatten()
    }

    /// Returns whether the client wants messages of this level. `false` if this thread holds the lock of a connection.
    pub(crate) fn wants(&self, level: LoggingLevel) -> bool {
        let Some(connection) = self.connection.upgrade().filter(|_| LockDepth::is_free()) else { return false };
        connection.read(|conn| conn.wants_log(self.key, level))
    }

    /// Sends a message, unless there is no room for it.
    pub(crate) fn send(&self, message: &LogMessageParams) -> Result<(), SendError> {
        match self.connection.upgrade().filter(|_| LockDepth::is_free()) {
            Some(connection) => connection.update(|conn, _| conn.log(self.key, message)),
            None => Err(SendError::Answered),
        }
    }
}
