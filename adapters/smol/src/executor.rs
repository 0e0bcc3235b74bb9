//! The executor of the tasks of this crate: one queue, and a thread for each processor.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    task::{Context, Poll, Waker},
    thread,
};

use async_task::{Runnable, Task};
use mcp_driver::os::thread::{self as threads, lock};

/// The most tasks that a thread runs before it polls the reactor.
const BATCH: usize = 64;

static STATE: Mutex<State> = Mutex::new(State { ready: VecDeque::new(), idle: Vec::new(), started: false });

struct State {
    /// The tasks that are ready to run.
    ready: VecDeque<Runnable>,
    /// The threads that wait for a task. The last one to wait is woken first: its caches are warm.
    idle: Vec<(usize, Waker)>,
    started: bool,
}

/// Starts the threads of the executor if they do not run yet.
///
/// # Errors
/// If not a single thread can be started.
pub(crate) fn start() -> io::Result<()> {
    let mut state = lock(&STATE);
    let count = if state.started { 0 } else { thread::available_parallelism().map_or(1, Into::into) };
    for number in 0..count {
        match threads::spawn("mcp-smol", move || async_io::block_on(poll_fn(|cx| work(number, cx)))) {
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
    if let Some((_, thread)) = idle {
        thread.wake();
    }
}

/// Runs ready tasks, and never completes. While no task is ready, the thread polls the reactor.
fn work(number: usize, cx: &mut Context<'_>) -> Poll<()> {
    let mut state = lock(&STATE);
    state.idle.retain(|(other, _)| *other != number);
    for _ in 0..BATCH {
        let Some(runnable) = state.ready.pop_front() else {
            state.idle.push((number, cx.waker().clone()));
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
