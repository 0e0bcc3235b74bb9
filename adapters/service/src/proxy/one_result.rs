//! A result that one side waits for and another one provides.

use std::sync::Mutex;

use crate::util::{lock::lock, wait_queue::WaitQueue};

/// A result that is provided at most once.
pub(super) struct OneResult<T> {
    state: Mutex<State<T>>,
    provided: WaitQueue,
}

enum State<T> {
    Waiting,
    Provided(T),
    /// The result was taken, or no receiver waits for it any more.
    Over,
}

impl<T> Default for OneResult<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Waiting), provided: WaitQueue::default() }
    }
}

impl<T> OneResult<T> {
    pub(super) fn provide(&self, value: T) {
        {
            let mut state = lock(&self.state);
            if !matches!(*state, State::Waiting) {
                return;
            }
            *state = State::Provided(value);
        }
        self.provided.notify_all();
    }

    /// Records that no receiver waits for the result any more.
    pub(super) fn abandon(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), State::Over);
        drop(before);
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(*lock(&self.state), State::Over)
    }

    pub(super) async fn wait(&self) -> T {
        let take = || {
            let mut state = lock(&self.state);
            match std::mem::replace(&mut *state, State::Over) {
                State::Provided(value) => Some(value),
                other => {
                    *state = other;
                    None
                }
            }
        };
        self.provided.wait_for(take).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn poll(result: &OneResult<u8>) -> Poll<u8> {
        pin!(result.wait()).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_first_result_is_taken_once() {
        let result = OneResult::default();
        assert_eq!((poll(&result), result.is_over()), (Poll::Pending, false));
        result.provide(1);
        result.provide(2);
        assert!(!result.is_over());
        assert_eq!((poll(&result), result.is_over()), (Poll::Ready(1), true));
        result.provide(3);
        assert_eq!((poll(&result), result.is_over()), (Poll::Pending, true));
        let abandoned = OneResult::default();
        abandoned.abandon();
        abandoned.provide(1);
        assert_eq!((poll(&abandoned), abandoned.is_over()), (Poll::Pending, true));
    }
}
