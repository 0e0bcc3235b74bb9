//! The event loop of the JavaScript host as a runtime for connections.

use std::{future::Future, io};

use mcp_driver::Runtime;
use mcp_service::driver_api::set_detached_timer;
use wasm_bindgen_futures::spawn_local;

use crate::{
    task::Task,
    timer::{TimeoutTimer, wake_at},
};

/// The event loop of a page or worker, as a runtime for connections: tasks and timers, and no threads.
#[derive(Clone, Copy, Debug)]
pub struct Wasm(());

impl Runtime for Wasm {
    type Task = Task;
    type Timer = TimeoutTimer;

    /// Returns the event loop of this page or worker.
    fn current() -> io::Result<Self> {
        if cfg!(not(all(target_arch = "wasm32", target_os = "unknown"))) {
            let why = "mcp-wasm needs the event loop of JavaScript: on this system use mcp-tokio, for example";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        set_detached_timer(wake_at);
        Ok(Self(()))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let (task, future) = Task::new(future);
        spawn_local(future);
        task
    }

    fn detach(task: Task) {
        task.detach();
    }

    /// Runs a function as a task of its own. It blocks the page or worker until it returns.
    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        spawn_local(async move { f() });
    }

    fn timer(&self) -> TimeoutTimer {
        TimeoutTimer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(target_arch = "wasm32"))]
    fn other_systems_get_an_error_with_a_reason() {
        let error = Wasm::current().expect_err("there is no JavaScript");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("mcp-tokio"), "{error}");
    }
}
