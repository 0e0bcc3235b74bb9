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
