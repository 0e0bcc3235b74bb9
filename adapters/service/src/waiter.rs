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
    /// How much of it came before the end. What comes behind is that of a task, and for whoever follows it.
    before_end: usize,
    end: Option<Result<RawJson<'static>, CallError>>,
    waker: Option<Waker>,
}

impl State {
    fn next(&mut self) -> Option<Step> {
        if self.end.is_some() && self.before_end == 0 {
            return self.end.take().map(Step::End);
        }
        self.before_end = self.before_end.saturating_sub(1);
        self.progress.pop_front().map(Step::Progress)
    }
}

impl Waiter {
    pub(crate) fn progress(&self, progress: Progress<'static>) {
        self.change(|state| {
            if state.progress.len() == PROGRESS_KEPT {
                state.progress.pop_front();
                state.before_end = state.before_end.saturating_sub(1);
            }
            state.progress.push_back(progress);
        });
    }

    pub(crate) fn end(&self, end: Result<RawJson<'static>, CallError>) {
        self.change(|state| {
            state.before_end = state.progress.len();
            state.end = Some(end);
        });
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
