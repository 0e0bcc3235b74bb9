//! The interface of a driver to its runtime.

#[cfg(feature = "http")]
use std::mem;
#[cfg(any(feature = "net", feature = "auth"))]
use std::sync::Mutex;
use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mcp_proto::rpc::CallId;
use mcp_service::driver_api::{Instant, WaitingThread};

#[cfg(any(feature = "net", feature = "auth"))]
use crate::sync::lock;
#[cfg(feature = "http")]
use crate::watched::Watched;

/// A runtime: tasks, threads that may block, and timers.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// A running task. Dropping it cancels the task, which may take a moment.
    type Task: Send;
    /// A timer.
    type Timer: Timer;

    /// Returns the current runtime.
    ///
    /// # Errors
    /// If there is none.
    fn current() -> io::Result<Self>;

    /// Runs a future.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task;

    /// Returns the runtime for the tasks of one client. Default: this runtime.
    #[must_use]
    fn for_client(&self) -> Self {
        self.clone()
    }

    /// Returns the tasks of this runtime if callers of its client run them. Default: `None`.
    fn caller_tasks(&self) -> Option<Arc<dyn CallerTasks>> {
        None
    }

    /// Returns whether the task of a connection polls handlers once before they become tasks of their own. Default: it
    /// does.
    fn polls_handlers(&self) -> bool {
        true
    }

    /// Runs the future of a handler. Default: as [`spawn`](Self::spawn).
    fn spawn_handler(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Task {
        self.spawn(future)
    }

    /// Runs the task of a connection to its end. A runtime can have a thread for one over pipes, which waits for
    /// them. Default: runs it as other tasks.
    ///
    /// # Errors
    /// If there is no thread for it.
    fn run_connection(
        &self,
        connection: impl Future<Output = ()> + Send + 'static,
        kind: TransportKind,
    ) -> io::Result<()> {
        let _ = kind;
        Self::detach(self.spawn(connection));
        Ok(())
    }

    /// Returns whether a server over HTTP reads once more after it has written a response, before its task waits. The
    /// stream may find the next request then without the runtime. Default: it does not.
    fn reads_after_writes(&self) -> bool {
        false
    }

    /// Lets a task run to its end without its handle.
    fn detach(task: Self::Task);

    /// Runs a function on a thread that may block.
    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static);

    /// Returns a timer.
    fn timer(&self) -> Self::Timer;
}

/// The kind of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// The standard streams of this process, or the pipes of a child process.
    Pipes,
    /// The memory of this process.
    Memory,
    /// Sockets, or a transport of the application.
    Other,
}

/// The tasks of a client, which the threads and tasks that wait for responses run.
pub trait CallerTasks: Send + Sync + 'static {
    /// Calls `change`, which changes the connection. May run tasks that are ready then, on this thread.
    fn run_after(&self, change: &mut dyn FnMut()) {
        change();
    }

    /// Calls `change` as [`run_after`](Self::run_after) does. It begins a request, so the caller usually waits next,
    /// and the tasks that are ready may be left to [`poll_drive`](Self::poll_drive) for a short time.
    fn run_before_wait(&self, change: &mut dyn FnMut()) {
        self.run_after(change);
    }

    /// Runs tasks on this thread, which waits for a response, until the thread is notified. It returns early if another
    /// thread runs them. Default: returns at once.
    fn drive(&self, _thread: &WaitingThread) {}

    /// Returns whether [`poll_drive`](Self::poll_drive) runs any tasks. The result is always the same.
    fn drives_in_tasks(&self) -> bool {
        false
    }

    /// Runs tasks that are ready, in a task that waits for the response to `call`. When more are ready, it wakes that
    /// task, or another thread that runs them.
    fn poll_drive(&self, _call: CallId, _cx: &Context<'_>) {}

    /// Notes that no task waits for the response to `call` any more.
    fn end_drive(&self, _call: CallId) {}
}

/// A timer of a runtime.
pub trait Timer: Send + Unpin + 'static {
    /// Completes at the time `at`, or a little later. Each call may set another time, which replaces the one before.
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;
}

/// Waits for `time`.
#[cfg_attr(not(feature = "os"), allow(dead_code, reason = "only child processes are waited for like this"))]
pub(super) async fn sleep<R: Runtime>(runtime: &R, time: Duration) {
    let (at, mut timer) = (Instant::now() + time, runtime.timer());
    poll_fn(|cx| timer.poll_until(at, cx)).await;
}

/// Returns the result of a future, or `None` if that takes longer than `time`.
#[cfg_attr(not(feature = "os"), allow(dead_code, reason = "only child processes are waited for like this"))]
pub(super) async fn timeout<R: Runtime, T>(runtime: &R, time: Duration, future: impl Future<Output = T>) -> Option<T> {
    race(sleep(runtime, time), future).await
}

/// Returns the result of a future, or `None` if `late` is ready first.
#[cfg_attr(not(feature = "os"), allow(dead_code, reason = "only child processes are waited for like this"))]
pub(super) async fn race<T>(late: impl Future<Output = ()>, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut late) = (pin!(future), pin!(late));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => late.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Returns the result of a future, or the result of another one as an error if that is ready first.
#[cfg(feature = "net")]
pub(crate) async fn select_biased<T, U>(
    future: impl Future<Output = T>,
    other: impl Future<Output = U>,
) -> Result<T, U> {
    let (mut future, mut other) = (pin!(future), pin!(other));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending => other.as_mut().poll(cx).map(Err),
    })
    .await
}

/// Runs a future in a task of the runtime, and returns its result. `None` if it panics. Dropping this future cancels
/// the task.
#[cfg(feature = "http")]
pub async fn run_in_task<R: Runtime, T: Send + 'static>(
    runtime: &R,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let result = Arc::new(Watched::new(TaskResult::Pending));
    let guard = TaskGuard(result.clone());
    let task = runtime.spawn(async move {
        let value = future.await;
        guard.0.update(|result| *result = TaskResult::Ready(value));
    });
    result.wait_for(|result| (!matches!(result, TaskResult::Pending)).then_some(())).await;
    drop(task);
    match result.update(|result| mem::replace(result, TaskResult::Panicked)) {
        TaskResult::Ready(value) => Some(value),
        TaskResult::Pending | TaskResult::Panicked => None,
    }
}

/// The result of the future of a task.
#[cfg(feature = "http")]
enum TaskResult<T> {
    Pending,
    Ready(T),
    Panicked,
}

/// Reports, when it is dropped, that the task has no result.
#[cfg(feature = "http")]
struct TaskGuard<T>(Arc<Watched<TaskResult<T>>>);

#[cfg(feature = "http")]
impl<T> Drop for TaskGuard<T> {
    fn drop(&mut self) {
        self.0.update(|result| {
            if matches!(result, TaskResult::Pending) {
                *result = TaskResult::Panicked;
            }
        });
    }
}

/// Runs a function that may block on another thread, and returns its result.
#[cfg(any(feature = "net", feature = "auth"))]
pub(super) async fn unblock<R: Runtime, T: Send + 'static>(
    runtime: &R,
    f: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let task = Arc::new(UnblockTask { result: Mutex::new(None), over: Watched::default() });
    let done = DoneGuard(task.clone());
    runtime.spawn_blocking(move || {
        let result = f();
        *lock(&done.0.result) = Some(result);
    });
    task.over.wait_for(|over| over.then_some(())).await;
    let result = lock(&task.result).take();
    result.unwrap_or_else(|| Err(io::Error::other("there is no thread for it")))
}

/// A function on another thread, and its result.
#[cfg(any(feature = "net", feature = "auth"))]
struct UnblockTask<T> {
    result: Mutex<Option<io::Result<T>>>,
    over: Watched<bool>,
}

/// Reports, when it is dropped, that the function has ended or will not run.
#[cfg(any(feature = "net", feature = "auth"))]
struct DoneGuard<T>(Arc<UnblockTask<T>>);

#[cfg(any(feature = "net", feature = "auth"))]
impl<T> Drop for DoneGuard<T> {
    fn drop(&mut self) {
        self.0.over.update(|over| *over = true);
    }
}
