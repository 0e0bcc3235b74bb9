//! Tasks that can be cancelled.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// A task. Dropping it cancels the task, whose future is dropped when the host runs its tasks the next time.
pub struct Task(Option<Arc<TaskState>>);

#[derive(Default)]
struct TaskState {
    is_cancelled: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// The future of a task. It is ready when the task has ended or was cancelled.
pub(crate) struct TaskFuture<F> {
    future: Pin<Box<F>>,
    state: Arc<TaskState>,
}

impl Task {
    /// Creates a task and the future that the host has to run.
    pub(crate) fn new<F: Future<Output = ()>>(future: F) -> (Self, TaskFuture<F>) {
        let state = Arc::<TaskState>::default();
        (Self(Some(state.clone())), TaskFuture { future: Box::pin(future), state })
    }

    /// Lets the task run to its end.
    pub(crate) fn detach(mut self) {
        self.0 = None;
    }
}

impl TaskState {
    /// Exchanges the waker of the task.
    fn set_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut *self.waker.lock().unwrap_or_else(PoisonError::into_inner), waker)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.is_cancelled.store(true, Ordering::Release);
            if let Some(waker) = state.set_waker(None) {
                waker.wake();
            }
        }
    }
}

impl<F: Future<Output = ()>> Future for TaskFuture<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The waker is set first, so that a cancellation during the poll wakes the task.
        drop(self.state.set_waker(Some(cx.waker().clone())));
        if self.state.is_cancelled.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.future.as_mut().poll(cx)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::pending, sync::atomic::AtomicUsize, task::Wake};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reports when it is dropped.
    struct Held(Arc<AtomicBool>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn poll(future: &mut TaskFuture<impl Future<Output = ()>>, count: &Arc<Count>) -> Poll<()> {
        Pin::new(future).poll(&mut Context::from_waker(&Waker::from(count.clone())))
    }

    #[test]
    fn dropping_a_task_wakes_and_ends_its_future() {
        let (count, dropped) = (Arc::<Count>::default(), Arc::<AtomicBool>::default());
        let held = Held(dropped.clone());
        let (task, mut future) = Task::new(async move {
            let _held = held;
            pending::<()>().await;
        });
        assert!(poll(&mut future, &count).is_pending());
        drop(task);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(poll(&mut future, &count).is_ready());
        drop(future);
        assert!(dropped.load(Ordering::Relaxed));
    }

    #[test]
    fn detached_task_goes_on() {
        let count = Arc::<Count>::default();
        let (task, mut future) = Task::new(pending());
        assert!(poll(&mut future, &count).is_pending());
        task.detach();
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert!(poll(&mut future, &count).is_pending());
    }

    #[test]
    fn task_that_is_cancelled_before_its_first_poll_does_nothing() {
        let (task, mut future) = Task::new(async { panic!("it is polled") });
        drop(task);
        assert!(poll(&mut future, &Arc::default()).is_ready());
    }
}
