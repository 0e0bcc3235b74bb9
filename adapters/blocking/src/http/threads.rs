//! A runtime of threads: a few that poll tasks, one for each function that may block, one for each connection, and one
//! that runs timers. A thread ends after it was idle for a while.
//!
//! The thread of a connection also runs the functions of its requests, since most are done before another thread would
//! have woken up. The timer thread checks whether one of them takes longer. Another thread then takes the connection
//! over, to notice when the client disconnects and to write the output of the function.

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use mcp_driver::{Runtime, os::thread::lock};

use super::{
    connection_io::ConnectionIo,
    pool::{Pool, ServedConnection},
    task::{PoolTimer, Running, Task, keep_function},
};

/// A runtime of threads. The threads end after the last clone was dropped and their work is done.
#[derive(Clone)]
pub struct Threads(Arc<Owner>);

struct Owner(Arc<Pool>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Threads {
    /// Creates a pool that starts its threads when they are needed.
    pub(super) fn new() -> Self {
        Self(Arc::new(Owner(Pool::new())))
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.0.0
    }

    /// Serves a connection on a dedicated thread, as soon as one is available.
    pub(super) fn serve_on_thread(&self, conn: &Arc<ConnectionIo>, serving: impl Future<Output = ()> + Send + 'static) {
        let task = Task::new(self.pool(), Some(conn.clone()), serving);
        let served = ServedConnection { task: task.clone(), io: conn.clone(), checked: conn.epoch() };
        lock(&self.pool().state).connections.push(served);
        self.pool().push(task);
    }

    /// Ends all blocking reads that wait for the next request of a client, unless one is arriving.
    pub(super) fn shutdown_idle_reads(&self) {
        let state = lock(&self.pool().state);
        let all = state.connections.iter().map(|served| &served.io);
        all.filter(|io| !io.arrivals().is_arriving()).for_each(|io| io.shutdown_read());
    }

    /// Ends all blocking reads.
    pub(super) fn shutdown_reads(&self) {
        lock(&self.pool().state).connections.iter().for_each(|served| served.io.shutdown_read());
    }

    /// Cancels the tasks of all connections.
    pub(super) fn cancel_connections(&self) {
        let connections: Vec<_> =
            lock(&self.pool().state).connections.iter().map(|served| served.task.clone()).collect();
        connections.iter().for_each(Task::cancel);
        self.shutdown_reads();
    }

    /// Waits until fewer than `connections` connections are served, but no longer than `timeout`, and returns whether
    /// that is the case.
    pub(super) fn wait_for_fewer(&self, connections: usize, timeout: Duration) -> bool {
        self.pool().wait_until(timeout, |state| state.connections.len() < connections)
    }

    /// Closes the pool and waits until all threads have ended, but no longer than `timeout`. Threads that are still
    /// busy then end on their own.
    pub(crate) fn shutdown(self, timeout: Duration) {
        let pool = self.pool().clone();
        drop(self);
        pool.close();
        pool.wait_until(timeout, |state| state.alive == 0 && !state.has_timer_thread);
    }
}

impl Runtime for Threads {
    type Task = Running;
    type Timer = PoolTimer;

    /// Creates a new pool of threads, and starts the thread that runs the timers.
    fn current() -> io::Result<Self> {
        let pool = Pool::new();
        pool.ensure_timer_thread(&mut lock(&pool.state))?;
        Ok(Self(Arc::new(Owner(pool))))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Running {
        let task = Task::new(self.pool(), None, future);
        task.schedule();
        Running(Some(task))
    }

    fn detach(mut task: Running) {
        task.0 = None;
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        if let Err(function) = keep_function(self.pool(), Box::new(f)) {
            self.pool().push_function(function);
        }
    }

    fn timer(&self) -> PoolTimer {
        PoolTimer::new(self.pool().clone())
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.pool().state);
        f.debug_struct("Threads")
            .field("alive", &state.alive)
            .field("blocked", &self.pool().blocked())
            .finish_non_exhaustive()
    }
}
