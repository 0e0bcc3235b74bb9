//! smol as a runtime for connections. The loop of a connection is the same on every runtime: it is in
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

use crate::executor;

/// The runtime that a connection runs on.
#[derive(Clone, Copy, Debug)]
pub struct Smol;

impl Runtime for Smol {
    type Task = async_task::Task<()>;
    type Timer = Alarm;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        executor::spawn(future)
    }

    fn detach(task: Self::Task) {
        task.detach();
    }

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        blocking::unblock(f).detach();
    }

    fn timer(&self) -> Alarm {
        Alarm { timer: async_io::Timer::never(), set: None }
    }
}

/// A timer, and when it will wake up.
pub struct Alarm {
    timer: async_io::Timer,
    set: Option<Instant>,
}

impl Timer for Alarm {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.is_none_or(|set| set > at) {
            self.set(at);
        }
        // Deadlines mostly move away while a timer runs: it is set anew when it has run out too early.
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

impl Alarm {
    fn set(&mut self, at: Instant) {
        self.timer.set_at(at);
        self.set = Some(at);
    }
}
