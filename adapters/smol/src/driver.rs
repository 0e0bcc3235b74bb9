//! smol as a runtime for connections: tasks, threads that may block, and timers. The event loop of a connection is the
//! same on every runtime and is in `mcp_driver`.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use mcp_driver::{Runtime, Timer};

use crate::{executor, os};

/// The runtime that a connection runs on.
#[derive(Clone, Copy, Debug)]
pub struct Smol;

impl Runtime for Smol {
    type Task = async_task::Task<()>;
    type Timer = SleepTimer;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        executor::spawn(future)
    }

    fn run_over_pipes(&self, connection: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        os::run_over_pipes(connection)
    }

    fn detach(task: Self::Task) {
        task.detach();
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        blocking::unblock(f).detach();
    }

    fn timer(&self) -> SleepTimer {
        SleepTimer { timer: async_io::Timer::never(), set: None }
    }
}

/// A timer and its current deadline.
pub struct SleepTimer {
    timer: async_io::Timer,
    set: Option<Instant>,
}

impl Timer for SleepTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.is_none_or(|set| set > at) {
            self.set(at);
        }
        // A deadline often moves away while its timer runs. The timer is reset when it fires too early.
        while Pin::new(&mut self.timer).poll(cx).is_ready() {
            let set = self.set.take();
            if set >= Some(at) {
                return Poll::Ready(());
            }
            self.set(at);
        }
        Poll::Pending
    }
}

impl SleepTimer {
    fn set(&mut self, at: Instant) {
        self.timer.set_at(at);
        self.set = Some(at);
    }
}
