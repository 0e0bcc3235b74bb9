//! tokio as a runtime for connections: tasks, threads that may block, and timers. The event loop of a connection is the
//! same on every runtime and is in `mcp_driver`.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use mcp_driver::{Runtime, Timer};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{Sleep, sleep_until},
};

use crate::threads;

/// The runtime that a connection runs on.
#[derive(Clone, Debug)]
pub struct Tokio(Handle);

impl Runtime for Tokio {
    type Task = Task;
    type Timer = SleepTimer;

    /// Returns the runtime of the current task.
    fn current() -> io::Result<Self> {
        Handle::try_current().map(Self).map_err(io::Error::other)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(Some(self.0.spawn(future)))
    }

    fn detach(mut task: Task) {
        task.0 = None;
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        threads::run(&self.0, f);
    }

    fn timer(&self) -> SleepTimer {
        SleepTimer(None)
    }
}

/// A task that is aborted when this handle is dropped.
pub struct Task(Option<JoinHandle<()>>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// A timer that is created when it is first needed.
pub struct SleepTimer(Option<Pin<Box<Sleep>>>);

impl Timer for SleepTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let at = at.into();
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        // A deadline often moves away while its timer runs. The timer is reset when it fires too early.
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
        Poll::Pending
    }
}
