//! The slot in which a waiter gets the response to one request of this side.

use std::{
    collections::VecDeque,
    mem,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use mcp_proto::{connection::Progress, wire::RawJson};

use super::error::CallError;
use crate::util::lock::lock;

/// The most progress notifications that a slot keeps. The oldest is dropped first: it is out of date.
const PROGRESS_KEPT: usize = 64;

/// The next step of a request.
pub(crate) enum ResponseEvent {
    /// The request makes progress.
    Progress(Progress<'static>),
    /// The current status of the task that the request has become.
    Task(RawJson<'static>),
    /// It has ended.
    End(Result<RawJson<'static>, CallError>),
}

/// Passes the response from the thread that reads it to the thread or task that waits for it.
#[derive(Default)]
pub(crate) struct ResponseSlot {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    progress: VecDeque<Progress<'static>>,
    /// The number of progress notifications before the response. Later ones are those of a task, and are kept for its
    /// follower.
    before_end: usize,
    /// The status of the task that the request has become, until it is taken. Only the latest is kept.
    task: Option<RawJson<'static>>,
    end: Option<Result<RawJson<'static>, CallError>>,
    waker: Option<Waker>,
}

impl State {
    fn next(&mut self) -> Option<ResponseEvent> {
        if let Some(task) = self.task.take() {
            return Some(ResponseEvent::Task(task));
        }
        if self.end.is_some() && self.before_end == 0 {
            return self.end.take().map(ResponseEvent::End);
        }
        self.before_end = self.before_end.saturating_sub(1);
        self.progress.pop_front().map(ResponseEvent::Progress)
    }
}

impl ResponseSlot {
    pub(crate) fn progress(&self, progress: Progress<'static>) {
        self.update(|state| {
            if state.progress.len() == PROGRESS_KEPT {
                state.progress.pop_front();
                state.before_end = state.before_end.saturating_sub(1);
            }
            state.progress.push_back(progress);
        });
    }

    pub(crate) fn task(&self, task: RawJson<'static>) {
        self.update(|state| state.task = Some(task));
    }

    pub(crate) fn complete(&self, end: Result<RawJson<'static>, CallError>) {
        self.update(|state| {
            state.before_end = state.progress.len();
            state.end = Some(end);
        });
    }

    /// Takes the progress that was not taken yet.
    pub(crate) fn take_progress(&self) -> VecDeque<Progress<'static>> {
        mem::take(&mut lock(&self.state).progress)
    }

    fn update(&self, f: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = lock(&self.state);
            f(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<ResponseEvent> {
        let mut state = lock(&self.state);
        if let Some(event) = state.next() {
            return Poll::Ready(event);
        }
        let is_known = state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let before = if is_known { None } else { state.waker.replace(cx.waker().clone()) };
        drop(state);
        // Dropping the waker may drop a task, which may wait for this slot as well.
        drop(before);
        Poll::Pending
    }
}
