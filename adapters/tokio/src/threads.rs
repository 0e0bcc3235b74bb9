//! Threads for functions, which may block for any time.
//!
//! They are not the threads of [`spawn_blocking`](tokio::task::spawn_blocking). A runtime that is dropped waits for
//! those, so a server whose `main` has returned would run until its slowest function has ended. A process ends without
//! waiting for these.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::runtime::Handle;

/// The most threads: as many as tokio has by default.
const MAX_THREADS: usize = 512;

/// How long a thread waits for another function before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The threads of this process.
static THREADS: Threads = Threads { state: Mutex::new(State::new()), more: Condvar::new() };

struct Threads {
    state: Mutex<State>,
    more: Condvar,
}

struct State {
    waiting: VecDeque<Function>,
    threads: usize,
    /// Threads that wait for a function.
    idle: usize,
}

struct Function {
    run: Box<dyn FnOnce() + Send>,
    runtime: Handle,
}

impl State {
    const fn new() -> Self {
        Self { waiting: VecDeque::new(), threads: 0, idle: 0 }
    }
}

/// Runs a function on a thread that has entered the runtime. The function is dropped if no thread exists and none can
/// be started.
pub(crate) fn run(runtime: &Handle, f: impl FnOnce() + Send + 'static) {
    let function = Function { run: Box::new(f), runtime: runtime.clone() };
    let mut state = lock(&THREADS);
    state.waiting.push_back(function);
    let is_short = state.waiting.len() > state.idle && state.threads < MAX_THREADS;
    state.threads += usize::from(is_short);
    drop(state);
    THREADS.more.notify_one();
    if is_short && thread::Builder::new().name("mcp-function".into()).spawn(work).is_err() {
        let mut state = lock(&THREADS);
        state.threads -= 1;
        // Other threads run it when they are free.
        let lost = if state.threads == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() };
        drop(state);
        drop(lost);
    }
}

/// Runs functions until none has arrived for [`IDLE_TIMEOUT`]; the body of a thread.
fn work() {
    let mut state = lock(&THREADS);
    loop {
        while let Some(Function { run, runtime }) = state.waiting.pop_front() {
            drop(state);
            let _entered = runtime.enter();
            // The jobs catch panics of handlers already. This keeps the count of threads right in any case.
            let _ = catch_unwind(AssertUnwindSafe(run));
            state = lock(&THREADS);
        }
        state.idle += 1;
        let (woken, waited) = THREADS
            .more
            .wait_timeout_while(state, IDLE_TIMEOUT, |state| state.waiting.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if waited.timed_out() && state.waiting.is_empty() {
            state.threads -= 1;
            return;
        }
    }
}

fn lock(threads: &Threads) -> MutexGuard<'_, State> {
    threads.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_driver::Runtime;
    use std::sync::mpsc;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    }

    #[test]
    fn dropped_runtime_does_not_wait_for_functions() {
        let (release, wait) = mpsc::channel::<()>();
        let (begun, began) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let (dropped, gone) = mpsc::channel();
        let runtime = runtime();
        let handle = runtime.block_on(async { crate::driver::Tokio::current() }).expect("a runtime");
        handle.spawn_blocking(move || {
            begun.send(()).expect("it is waited for");
            let _ = wait.recv();
            ended.send(()).expect("it is waited for");
        });
        began.recv().expect("it begins");
        thread::spawn(move || {
            drop(runtime);
            dropped.send(()).expect("it is waited for");
        });
        gone.recv_timeout(Duration::from_secs(60)).expect("the function is not waited for");
        assert!(end.try_recv().is_err(), "it has not ended");
        release.send(()).expect("it waits");
        end.recv().expect("it goes on");
    }

    #[test]
    fn blocking_functions_run_in_parallel_in_the_runtime() {
        let runtime = runtime();
        let all = 50;
        let barrier = std::sync::Arc::new(std::sync::Barrier::new(all + 1));
        for _ in 0..all {
            let barrier = barrier.clone();
            run(runtime.handle(), move || {
                Handle::current().block_on(async { tokio::task::yield_now().await });
                barrier.wait();
            });
        }
        barrier.wait();
        // A panic takes no thread away.
        let (send, receive) = mpsc::channel();
        for n in 0..10 {
            let send = send.clone();
            run(runtime.handle(), move || {
                send.send(n).expect("it is waited for");
                std::panic::resume_unwind(Box::new("on purpose"));
            });
        }
        assert_eq!(receive.iter().take(10).sum::<i32>(), 45);
    }
}
