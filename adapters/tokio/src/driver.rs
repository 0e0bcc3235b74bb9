//! tokio as a runtime for connections: tasks, threads that may block, and timers. The event loop of a connection is the
//! same on every runtime and is in `mcp_driver`.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Instant,
};

use mcp_driver::{Runtime, Timer};
use tokio::{
    runtime::Handle,
    task::{JoinHandle, unconstrained},
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
        SleepTimer { sleep: None, waker: None }
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
pub struct SleepTimer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The waker of the task that it wakes.
    waker: Option<Waker>,
}

impl Timer for SleepTimer {
    fn poll_until(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let at = at.into();
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        // With its unstable features, tokio may take a dump of a task. In that poll, timers do not register.
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let is_registered = is_known && !cfg!(tokio_unstable);
        if sleep.deadline() > at {
            sleep.as_mut().reset(at);
        } else if is_registered && !sleep.is_elapsed() {
            // To register again would take two atomic operations in each iteration of an event loop.
            return Poll::Pending;
        }
        // A deadline often moves away while its timer runs. The timer is reset when it fires too early.
        // Without the budget of the task: if that is used up, a poll does not register.
        while pin!(unconstrained(sleep.as_mut())).poll(cx).is_ready() {
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
        if !is_known {
            self.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
        time::Duration,
    };

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_wakes_the_task_that_polled_it_last() {
        let [first, second] = [Arc::<Wakes>::default(), Arc::<Wakes>::default()];
        let counts = || [&first, &second].map(|wakes| wakes.0.swap(0, Ordering::Relaxed));
        let wakers = [&first, &second].map(|wakes| Waker::from(wakes.clone()));
        let [mut here, mut there] = wakers.each_ref().map(Context::from_waker);
        let start = tokio::time::Instant::now().into_std();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timer = SleepTimer { sleep: None, waker: None };
        // Nothing is due, and each waker is registered in turn.
        for seconds in [4, 4, 9] {
            assert!(timer.poll_until(at(seconds), &mut here).is_pending());
        }
        for seconds in [9, 5, 5] {
            assert!(timer.poll_until(at(seconds), &mut there).is_pending());
        }
        tokio::time::sleep(Duration::from_millis(4500)).await;
        assert_eq!(counts(), [0, 1], "it fires at the earliest time");
        // It fired too early, and is set anew.
        for _ in 0..2 {
            assert!(timer.poll_until(at(6), &mut there).is_pending());
        }
        tokio::time::sleep(Duration::from_millis(1000)).await;
        assert_eq!(counts(), [0, 0]);
        tokio::time::sleep(Duration::from_millis(1000)).await;
        assert_eq!(counts(), [0, 1]);
        assert!(timer.poll_until(at(6), &mut there).is_ready());
        // An earlier time than that of the timer.
        assert!(timer.poll_until(at(20), &mut here).is_pending());
        assert!(timer.poll_until(at(8), &mut here).is_pending());
        tokio::time::sleep(Duration::from_millis(2000)).await;
        assert_eq!(counts(), [1, 0]);
        assert!(timer.poll_until(at(8), &mut here).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_though_the_budget_of_its_task_is_used_up() {
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(wakes.clone());
        let start = tokio::time::Instant::now().into_std();
        let mut timer = SleepTimer { sleep: None, waker: None };
        poll_fn(|cx| {
            while pin!(tokio::task::consume_budget()).poll(cx).is_ready() {}
            for seconds in [9, 5, 5] {
                let at = start + Duration::from_secs(seconds);
                assert!(timer.poll_until(at, &mut Context::from_waker(&waker)).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        // A task whose budget is used up is woken at once.
        tokio::task::yield_now().await;
        wakes.0.store(0, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }
}
