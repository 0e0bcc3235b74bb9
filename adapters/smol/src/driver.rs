//! smol as a runtime for connections: tasks, threads that may block, and timers. The event loop of a connection is the
//! same on every runtime and is in `mcp_driver`.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use mcp_driver::{CallerTasks, Runtime, Timer, TransportKind};

use crate::{client_tasks::ClientTasks, executor, os};

/// The runtime that a connection runs on.
#[derive(Clone, Debug, Default)]
pub struct Smol {
    /// The tasks of one client, which its callers run.
    client: Option<ClientTasks>,
}

impl Runtime for Smol {
    type Task = async_task::Task<()>;
    type Timer = SleepTimer;

    fn current() -> io::Result<Self> {
        Ok(Self { client: ClientTasks::current() })
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        match &self.client {
            Some(client) => client.spawn(future),
            None => executor::spawn(future),
        }
    }

    fn for_client(&self) -> Self {
        Self { client: Some(ClientTasks::default()) }
    }

    fn caller_tasks(&self) -> Option<Arc<dyn CallerTasks>> {
        self.client.clone().map(|tasks| Arc::new(tasks) as _)
    }

    /// Handlers of a client do not run on the threads of callers, which may hold a lock that a handler needs.
    fn polls_handlers(&self) -> bool {
        self.client.is_none()
    }

    /// Runs it as other tasks, but the task of the connection decides whether threads wait in the reactor.
    fn spawn_handler(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        executor::spawn_without_reactor(future)
    }

    fn run_connection(
        &self,
        connection: impl Future<Output = ()> + Send + 'static,
        kind: TransportKind,
    ) -> io::Result<()> {
        match (&self.client, kind) {
            (Some(client), _) => {
                executor::start()?;
                client.spawn(connection).detach();
            }
            (None, TransportKind::Pipes) => os::run_over_pipes(executor::in_reactor(connection))?,
            (None, TransportKind::Memory) => executor::spawn_without_reactor(connection).detach(),
            (None, TransportKind::Other) => executor::spawn(connection).detach(),
        }
        Ok(())
    }

    /// Returns `true`: a wait in the reactor takes several system calls.
    fn reads_after_writes(&self) -> bool {
        true
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
