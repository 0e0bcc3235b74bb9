//! A request of ours on its way.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use mcp_proto::{
    connection::Progress,
    rpc::CallId,
    schema::{Task, tasks_extension},
    wire::RawJson,
};
use serde_core::de::DeserializeOwned;

use super::{
    cancel::Desk,
    error::CallError,
    response_slot::{ResponseEvent, ResponseSlot},
};
use crate::driver_api::block_on::block_on;

/// Makes of the result what was asked for.
type Read<T> = Box<dyn FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send>;

/// A request of ours that has been sent, or soon will be. It ends once, whatever happens: with a result, an error,
/// the end of its time or of the connection.
///
/// A thread can [`wait`](Self::wait) for it, a task can await it. Dropping it cancels the request.
#[must_use = "dropping it cancels the request"]
pub struct Pending<T> {
    call: CallId,
    slot: Arc<ResponseSlot>,
    desk: Arc<dyn Desk>,
    /// Taken when the request has ended.
    read: Option<Read<T>>,
    on_progress: Option<Box<dyn FnMut(Progress<'static>) + Send>>,
    /// Reads the task as well: only those who want to see one need to know what it looks like.
    on_task: Option<Box<dyn FnMut(RawJson<'static>) + Send>>,
}

impl<T> Pending<T> {
    pub(crate) fn new(
        call: CallId,
        slot: Arc<ResponseSlot>,
        desk: Arc<dyn Desk>,
        read: impl FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send + 'static,
    ) -> Self {
        Self { call, slot, desk, read: Some(Box::new(read)), on_progress: None, on_task: None }
    }

    /// The request.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.call
    }

    /// What to do about progress. It runs where the result is waited for, in order, and before the result.
    ///
    /// Progress that comes faster than it is looked at is thinned out, the oldest first.
    pub fn on_progress(mut self, f: impl FnMut(Progress<'static>) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(f));
        self
    }

    /// What to do when the request has become a task, and whenever something is heard of that task which is not over
    /// (2026-07-28). The request goes on meanwhile. It runs where the result is waited for, and before the result.
    ///
    /// Of what is heard faster than it is looked at only the last is shown.
    pub fn on_task(mut self, mut f: impl FnMut(Task) + Send + 'static) -> Self {
        self.on_task = Some(Box::new(move |task| {
            // What is no whole task can be followed all the same, but there is nothing to show.
            if let Ok(task) = task.decode::<tasks_extension::Task>() {
                f(task.into());
            }
        }));
        self
    }

    /// Blocks until the request has ended.
    ///
    /// # Errors
    /// How it ended, if not with a result.
    pub fn wait(self) -> Result<T, CallError> {
        block_on(self)
    }

    /// [`wait`](Self::wait) with a callback for progress that may borrow.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_with(self, on_progress: impl FnMut(Progress<'static>)) -> Result<T, CallError> {
        block_on(self.await_with(on_progress))
    }

    /// Waits until the request has ended, with a callback for progress that may borrow.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn await_with(mut self, mut on_progress: impl FnMut(Progress<'static>)) -> Result<T, CallError> {
        loop {
            match poll_fn(|cx| self.slot.poll(cx)).await {
                ResponseEvent::Progress(progress) => on_progress(progress),
                event @ (ResponseEvent::Task(_) | ResponseEvent::End(_)) => {
                    if let Some(result) = self.process(event) {
                        return result;
                    }
                }
            }
        }
    }

    /// Gives up. It ends as [`CallError::Cancelled`] unless it has ended already, and the peer is told.
    pub fn cancel(&self, reason: Option<&str>) {
        self.desk.hang_up(self.call, reason);
    }

    /// Something to cancel it with from elsewhere while it is waited for.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { call: self.call, desk: self.desk.clone() }
    }

    /// The same request with something done about its result.
    pub fn and_then<U: 'static>(mut self, f: impl FnOnce(T) -> Result<U, CallError> + Send + 'static) -> Pending<U>
    where
        T: 'static,
    {
        let read = self.read.take().map(|read| -> Read<U> { Box::new(move |call, result| f(read(call, result)?)) });
        let (on_progress, on_task) = (self.on_progress.take(), self.on_task.take());
        Pending { call: self.call, slot: self.slot.clone(), desk: self.desk.clone(), read, on_progress, on_task }
    }

    pub(crate) const fn slot(&self) -> &Arc<ResponseSlot> {
        &self.slot
    }

    fn process(&mut self, event: ResponseEvent) -> Option<Result<T, CallError>> {
        match event {
            ResponseEvent::Progress(progress) => {
                if let Some(on_progress) = &mut self.on_progress {
                    on_progress(progress);
                }
                None
            }
            ResponseEvent::Task(task) => {
                if let Some(on_task) = &mut self.on_task {
                    on_task(task);
                }
                None
            }
            ResponseEvent::End(end) => {
                let read = self.read.take()?;
                if end.is_err() {
                    // It may have been meant to be followed beyond its end.
                    self.desk.forget(self.call);
                }
                Some(end.and_then(|result| read(self.call, result)))
            }
        }
    }
}

/// Reads a result as what its method promises.
pub(crate) fn decode<T: DeserializeOwned>(_: CallId, result: RawJson<'static>) -> Result<T, CallError> {
    result.decode().map_err(|error| CallError::Decode(error.to_string()))
}

impl<T> Future for Pending<T> {
    type Output = Result<T, CallError>;

    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(self.read.is_some(), "a request ends once");
        loop {
            match self.slot.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(event) => {
                    if let Some(result) = self.process(event) {
                        return Poll::Ready(result);
                    }
                }
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if self.read.is_some() {
            self.desk.forget(self.call);
            self.desk.hang_up(self.call, None);
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("call", &self.call).finish_non_exhaustive()
    }
}

/// Cancels one request of ours. Holding it does not keep the request.
#[derive(Clone)]
pub struct Canceller {
    call: CallId,
    desk: Arc<dyn Desk>,
}

impl Canceller {
    /// Gives up on the request, as [`Pending::cancel`] does.
    pub fn cancel(&self, reason: Option<&str>) {
        self.desk.hang_up(self.call, reason);
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("call", &self.call).finish_non_exhaustive()
    }
}
