//! tokio as a runtime for connections. The loop of a connection is the same on every runtime: it is in
//! `mcp_driver`, takes in what was read, hands out what happens, begins jobs, writes what there is to write, and
//! sleeps until one of these is due. Here is what it stands on: tasks, threads that may block, and time.

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
    type Timer = Alarm;

    /// The runtime of the current task.
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

    fn timer(&self) -> Alarm {
        Alarm(None)
    }
}

/// A task that ends when this is dropped.
pub struct Task(Option<JoinHandle<()>>);

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// A timer that is set once it is needed.
pub struct Alarm(Option<Pin<Box<Sleep>>>);

impl Timer for Alarm {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let at = at.into();
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        }
        // Deadlines mostly move away while a timer runs: it is set anew when it has run out too early.
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
        Poll::Pending
    }
}
