//! The executor of the tasks of this crate: one queue, and a thread for each processor.
//!
//! The threads wait in the reactor while there are tasks that need it, such as those of servers. Otherwise they leave
//! it to the threads of the application: a thread there that waits for a response then gets the events of its socket
//! without a change of threads.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
    thread,
};

use async_task::{Runnable, Task};
use mcp_driver::os::thread::{self as threads, lock};
use mcp_service::block_on;
use pin_project_lite::pin_project;

/// The most tasks that a thread runs before it polls the reactor.
const BATCH: usize = 64;

static STATE: Mutex<State> =
    Mutex::new(State { ready: VecDeque::new(), idle: Vec::new(), reactor_tasks: 0, started: false });

struct State {
    /// The tasks that are ready to run.
    ready: VecDeque<Runnable>,
    /// The threads that wait for a task. The last one to wait is woken first: its caches are warm.
    idle: Vec<IdleThread>,
    /// The number of tasks for which the threads wait in the reactor.
    reactor_tasks: usize,
    started: bool,
}

struct IdleThread {
    number: usize,
    /// Whether it waits in the reactor.
    in_reactor: bool,
    waker: Waker,
}

pin_project! {
    /// A future, and a guard that is dropped after it.
    pub(crate) struct Guarded<F, G> {
        #[pin]
        pub(crate) future: F,
        pub(crate) guard: G,
    }
}

impl<F: Future, G> Future for Guarded<F, G> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// Counts a task for which the threads wait in the reactor.
struct ReactorTask;

impl ReactorTask {
    fn new() -> Self {
        lock(&STATE).reactor_tasks += 1;
        Self
    }
}

impl Drop for ReactorTask {
    fn drop(&mut self) {
        let leaving = {
            let mut state = lock(&STATE);
            state.reactor_tasks -= 1;
            if state.reactor_tasks > 0 {
                return;
            }
            let (leaving, idle): (Vec<_>, _) =
                mem::take(&mut state.idle).into_iter().partition(|thread| thread.in_reactor);
            state.idle = idle;
            leaving
        };
        leaving.into_iter().for_each(|thread| thread.waker.wake());
    }
}

/// Starts the threads of the executor if they do not run yet.
///
/// # Errors
/// If not a single thread can be started.
pub(crate) fn start() -> io::Result<()> {
    let mut state = lock(&STATE);
    let count = if state.started { 0 } else { thread::available_parallelism().map_or(1, Into::into) };
    for number in 0..count {
        match threads::spawn("mcp-smol", move || run(number)) {
            Ok(_) => state.started = true,
            // With fewer threads it takes longer; without any, nothing can be run.
            Err(error) if number == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(())
}

/// Runs a future. It is cancelled if the task is dropped, or if no thread can be started.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Task<()> {
    spawn_without_reactor(in_reactor(future))
}

/// Returns a future for which the threads wait in the reactor, until it is dropped.
pub(crate) fn in_reactor(
    future: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    Guarded { future, guard: ReactorTask::new() }
}

/// Runs a future as [`spawn`] does. The threads do not wait in the reactor for it. So its events can take 10 ms longer
/// while the only thread in `block_on` computes.
pub(crate) fn spawn_without_reactor(future: impl Future<Output = ()> + Send + 'static) -> Task<()> {
    let (runnable, task) = async_task::spawn(future, schedule);
    if start().is_ok() {
        runnable.schedule();
    }
    task
}

fn schedule(runnable: Runnable) {
    let idle = {
        let mut state = lock(&STATE);
        state.ready.push_back(runnable);
        state.idle.pop()
    };
    if let Some(thread) = idle {
        thread.waker.wake();
    }
}

/// Runs a thread, which never ends.
fn run(number: usize) {
    loop {
        let in_reactor = lock(&STATE).reactor_tasks > 0;
        let work = poll_fn(|cx| work(number, in_reactor, cx));
        if in_reactor { async_io::block_on(work) } else { block_on(work) }
    }
}

/// Runs ready tasks. Completes if the thread should wait in another place than it does.
fn work(number: usize, in_reactor: bool, cx: &mut Context<'_>) -> Poll<()> {
    let mut state = lock(&STATE);
    state.idle.retain(|thread| thread.number != number);
    for _ in 0..BATCH {
        let Some(runnable) = state.ready.pop_front() else {
            if in_reactor != (state.reactor_tasks > 0) {
                return Poll::Ready(());
            }
            state.idle.push(IdleThread { number, in_reactor, waker: cx.waker().clone() });
            return Poll::Pending;
        };
        drop(state);
        // A panic ends the task, not the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| runnable.run()));
        state = lock(&STATE);
    }
    drop(state);
    cx.waker().wake_by_ref();
    Poll::Pending
}
