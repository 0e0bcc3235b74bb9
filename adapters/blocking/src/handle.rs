//! The handle of a running connection.

use std::{
    fmt, io,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use mcp_proto::{
    connection::{CloseReason, Connection},
    rpc::Timestamp,
};
use mcp_service::{
    block_on,
    driver_api::{Application, ConnectionHandle},
};

use crate::{thread_driver::driver::Driver, transport::Transport};
use mcp_driver::DriverOptions;
use mcp_driver::os::thread::{lock, spawn};

/// A connection that runs on its own threads, with any [`Application`]. [`Client`](crate::Client) and
/// [`Server`](crate::Server) contain one.
///
/// Dropping it calls [`close`](Self::close).
pub struct Handle<E: Send + 'static> {
    connection: Arc<dyn ConnectionHandle<E>>,
    end: Arc<dyn End>,
}

/// The end of a connection, with any kind of transport.
pub(crate) trait End: Send + Sync {
    fn wait(&self) -> Option<CloseReason>;
    fn is_over(&self) -> bool;
}

/// A connection over a pipe.
struct Piped<E> {
    driver: Arc<Driver<E>>,
    timer_thread: Mutex<Option<JoinHandle<()>>>,
}

impl<E: Send + 'static> Handle<E> {
    /// Runs a connection over a transport.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        transport: Transport,
        options: &DriverOptions,
    ) -> io::Result<Self> {
        let (driver, run) = Driver::begin(connection, application, transport, options);
        let timer_thread = spawn("mcp-timer", run)?;
        Ok(Self::new(driver.clone(), Piped { driver, timer_thread: Mutex::new(Some(timer_thread)) }))
    }

    pub(crate) fn new(connection: Arc<dyn ConnectionHandle<E>>, end: impl End + 'static) -> Self {
        Self { connection, end: Arc::new(end) }
    }

    /// Returns the connection.
    #[must_use]
    pub fn connection(&self) -> Arc<dyn ConnectionHandle<E>> {
        self.connection.clone()
    }

    /// Begins to close the connection, without waiting. Pending calls of this side end at once, and no new requests
    /// begin. Requests of the peer may still get their responses for a while.
    pub fn begin_close(&self) {
        self.connection.with_mut(&mut |connection, now| connection.close(now));
    }

    /// Waits until the connection and its threads have ended, and returns why it ended.
    ///
    /// In a handler this does not wait, since the end of the connection itself waits for handlers.
    pub fn wait(&self) -> Option<CloseReason> {
        self.end.wait()
    }

    /// Returns whether [`wait`](Self::wait) would return at once.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_over()
    }

    /// Ends the connection and waits until its threads have ended. That takes a bounded time, however the peer behaves.
    /// A second call has no further effect.
    pub fn close(&self) -> Option<CloseReason> {
        self.begin_close();
        self.wait()
    }
}

impl<E: Send + 'static> End for Piped<E> {
    fn wait(&self) -> Option<CloseReason> {
        let reason = || self.driver.lifecycle.read(|lifecycle| lifecycle.closed.clone());
        if self.driver.workers.handler_scope.is_current() {
            return reason();
        }
        block_on(self.driver.lifecycle.wait_for(|lifecycle| lifecycle.finished.then_some(())));
        let timer_thread =
            lock(&self.timer_thread).take().filter(|timer_thread| timer_thread.thread().id() != thread::current().id());
        if let Some(timer_thread) = timer_thread {
            // The connection has finished, so the thread ends at once.
            let _ = timer_thread.join();
        }
        reason()
    }

    fn is_over(&self) -> bool {
        self.driver.lifecycle.read(|lifecycle| lifecycle.finished)
    }
}

impl<E: Send + 'static> Drop for Handle<E> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<E: Send + 'static> fmt::Debug for Handle<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.connection.update(|connection, _| connection.phase());
        f.debug_struct("Handle").field("phase", &phase).finish_non_exhaustive()
    }
}
