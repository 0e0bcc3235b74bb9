//! Where the answer to one request of ours is waited for.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use mcp_proto::{connection::Progress, wire::RawJson};

use crate::{CallError, sync::lock};

/// How much progress is kept for somebody who does not look. The oldest is dropped: it is out of date.
const PROGRESS_KEPT: usize = 64;

/// What comes next for whoever waits.
pub(crate) enum Step {
    /// The request makes progress.
    Progress(Progress<'static>),
    /// It has ended.
    End(Result<RawJson<'static>, CallError>),
}

/// The meeting point of a reader thread that brings answers and the thread or task that wants one.
#[derive(Default)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    progress: VecDeque<Progress<'static>>,
    end: Option<Result<RawJson<'static>, CallError>>,
    waker: Option<Waker>,
}

impl State {
    fn next(&mut self) -> Option<Step> {
        self.progress.pop_front().map(Step::Progress).or_else(|| self.end.take().map(Step::End))
    }
}

impl Waiter {
    pub(crate) fn progress(&self, progress: Progress<'static>) {
        self.change(|state| {
            if state.progress.len() == PROGRESS_KEPT {
                state.progress.pop_front();
            }
            state.progress.push_back(progress);
        });
    }

    pub(crate) fn end(&self, end: Result<RawJson<'static>, CallError>) {
        self.change(|state| state.end = Some(end));
    }

    /// Takes over the progress that nobody has looked at.
    pub(crate) fn take_progress(&self) -> VecDeque<Progress<'static>> {
        std::mem::take(&mut lock(&self.state).progress)
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = lock(&self.state);
            f(&mut state);
            state.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Blocks until something comes.
    pub(crate) fn wait(&self) -> Step {
        let mut state = lock(&self.state);
        loop {
            if let Some(step) = state.next() {
                return step;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Step> {
        let mut state = lock(&self.state);
        match state.next() {
            Some(step) => Poll::Ready(step),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
