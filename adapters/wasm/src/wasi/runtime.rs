//! The thread of a WASI program as a runtime for connections.

use std::{
    future::Future,
    io,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use async_task::Task;
use mcp_driver::{Runtime, Timer};
use mcp_service::driver_api::set_detached_timer;

use super::executor::{Executor, TimerEntry};

/// The thread of a WASI program, as a runtime for connections: tasks and timers. They run in
/// [`block_on`](super::block_on).
#[derive(Clone)]
pub struct Wasi(Arc<Executor>);

/// A timer of the thread.
pub struct WasiTimer {
    executor: Arc<Executor>,
    entry: Option<TimerEntry>,
}

impl Runtime for Wasi {
    type Task = Task<()>;
    type Timer = WasiTimer;

    /// Returns the executor of this thread.
    fn current() -> io::Result<Self> {
        if cfg!(not(any(target_os = "wasi", test))) {
            let why = "this runtime is for WASI: on this system use mcp-blocking, for example";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        set_detached_timer(|at, waker| Box::new(Executor::current().set_timer(at, waker)));
        Ok(Self(Executor::current()))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        self.0.spawn(future)
    }

    fn detach(task: Self::Task) {
        task.detach();
    }

    /// Runs a function on this thread. It blocks all tasks until it returns or waits.
    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        self.0.spawn_function(f);
    }

    fn timer(&self) -> WasiTimer {
        WasiTimer { executor: self.0.clone(), entry: None }
    }
}

impl Timer for WasiTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at <= Instant::now() {
            return Poll::Ready(());
        }
        let is_set = self.entry.as_ref().is_some_and(|entry| entry.at() == at && entry.set_waker(cx.waker()));
        if !is_set {
            self.entry = Some(self.executor.set_timer(at, Waker::clone(cx.waker())));
        }
        Poll::Pending
    }
}
