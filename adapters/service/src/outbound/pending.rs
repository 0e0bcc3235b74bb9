//! A pending request of this side.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
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
    call_span::CallSpan,
    cancel::CancelCall,
    error::CallError,
    response_slot::{ResponseEvent, ResponseSlot},
};
use crate::driver_api::block_on::block_on_driving;

/// Decodes the result into the type that was requested.
type Read<T> = Box<dyn FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send>;

/// A request that was sent or queued. It ends exactly once: with a result, an error, a timeout, or the end of the
/// connection.
///
/// A thread can [`wait`](Self::wait) for it, a task can await it. Dropping it cancels the request.
#[must_use = "dropping it cancels the request"]
pub struct Pending<T> {
    call: CallId,
    slot: Arc<ResponseSlot>,
    canceller: Arc<dyn CancelCall>,
    /// Taken when the request has ended.
    read: Option<Read<T>>,
    on_progress: Option<Box<dyn FnMut(Progress<'static>) + Send>>,
    /// It also decodes the task, so that only programs with such a callback link that code.
    on_task: Option<Box<dyn FnMut(RawJson<'static>) + Send>>,
    /// Taken when the request has ended.
    span: Option<CallSpan>,
    /// Set once the task that waits has done work of the driver.
    drives: bool,
}

impl<T> Pending<T> {
    pub(crate) fn new(
        call: CallId,
        slot: Arc<ResponseSlot>,
        canceller: Arc<dyn CancelCall>,
        read: impl FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send + 'static,
    ) -> Self {
        let (read, drives): (Option<Read<T>>, _) = (Some(Box::new(read)), false);
        Self { call, slot, canceller, read, on_progress: None, on_task: None, span: None, drives }
    }

    pub(crate) fn in_span(mut self, span: CallSpan) -> Self {
        self.span = Some(span);
        self
    }

    /// Records the subject of the request in its span.
    pub(crate) fn about(self, name: &str) -> Self {
        self.span.iter().for_each(|span| span.name(name));
        self
    }

    /// Returns the id of the request.
    #[must_use]
    pub const fn id(&self) -> CallId {
        self.call
    }

    /// Sets a callback for progress. It runs on the thread or task that waits for the result, in order, and before the
    /// result.
    ///
    /// If progress arrives faster than it is handled, the oldest is dropped.
    pub fn on_progress(mut self, f: impl FnMut(Progress<'static>) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(f));
        self
    }

    /// Sets a callback for the task that the request has become: it gets the task at first, and after each update until
    /// it has ended (2026-07-28). The request continues. It runs on the thread or task that waits for the result, and
    /// before the result.
    ///
    /// If updates arrive faster than they are handled, only the latest is kept.
    pub fn on_task(mut self, mut f: impl FnMut(Task) + Send + 'static) -> Self {
        self.on_task = Some(Box::new(move |task| {
            // An incomplete task can still be followed, but the callback does not get it.
            if let Ok(task) = task.decode::<tasks_extension::Task>() {
                f(task.into());
            }
        }));
        self
    }

    /// Blocks until the request has ended.
    ///
    /// # Errors
    /// If the request has ended without a result.
    pub fn wait(self) -> Result<T, CallError> {
        let canceller = self.canceller.clone();
        block_on_driving(self, |thread| canceller.drive(thread))
    }

    /// Blocks as [`wait`](Self::wait) does, with a callback for progress that may borrow.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_with(self, on_progress: impl FnMut(Progress<'static>)) -> Result<T, CallError> {
        let canceller = self.canceller.clone();
        block_on_driving(self.await_with(on_progress), |thread| canceller.drive(thread))
    }

    /// Waits until the request has ended, with a callback for progress that may borrow.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn await_with(mut self, mut on_progress: impl FnMut(Progress<'static>)) -> Result<T, CallError> {
        loop {
            match poll_fn(|cx| self.poll_event(cx)).await {
                ResponseEvent::Progress(progress) => on_progress(progress),
                event @ (ResponseEvent::Task(_) | ResponseEvent::End(_)) => {
                    if let Some(result) = self.process(event) {
                        return result;
                    }
                }
            }
        }
    }

    /// Cancels the request. It ends as [`CallError::Cancelled`] unless it has ended already, and the peer is notified.
    pub fn cancel(&self, reason: Option<&str>) {
        self.canceller.cancel(self.call, reason);
    }

    /// Returns a handle with which another thread or task can cancel the request.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller { call: self.call, canceller: self.canceller.clone() }
    }

    /// Returns the same request with a function that is applied to its result.
    pub fn and_then<U: 'static>(self, f: impl FnOnce(T) -> Result<U, CallError> + Send + 'static) -> Pending<U>
    where
        T: 'static,
    {
        self.map_read(|read| Box::new(move |call, result| f(read(call, result)?)))
    }

    /// Returns the same request, whose result comes with the length of its JSON text.
    pub(crate) fn with_len(self) -> Pending<(T, usize)>
    where
        T: 'static,
    {
        self.map_read(|read| {
            Box::new(move |call, result| {
                let len = result.get().len();
                Ok((read(call, result)?, len))
            })
        })
    }

    fn map_read<U>(mut self, map: impl FnOnce(Read<T>) -> Read<U>) -> Pending<U> {
        let read = self.read.take().map(map);
        let (on_progress, on_task) = (self.on_progress.take(), self.on_task.take());
        Pending {
            call: self.call,
            slot: self.slot.clone(),
            canceller: self.canceller.clone(),
            read,
            on_progress,
            on_task,
            span: self.span.take(),
            drives: mem::take(&mut self.drives),
        }
    }

    /// Polls the response. While there is none, does work of the driver, if that is for tasks.
    fn poll_event(&mut self, cx: &Context<'_>) -> Poll<ResponseEvent> {
        let event = self.slot.poll(cx);
        if event.is_ready() || !self.canceller.poll_drive(self.call, cx) {
            return event;
        }
        self.drives = true;
        self.slot.poll(cx)
    }

    /// Notes that no task waits for the response any more.
    fn end_drive(&mut self) {
        if mem::take(&mut self.drives) {
            self.canceller.end_drive(self.call);
        }
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
                self.end_drive();
                self.span.take().inspect(|span| span.end(Some(end.as_ref().err())));
                if end.is_err() {
                    // The entry may have been kept for the progress of a task.
                    self.canceller.forget(self.call);
                }
                Some(end.and_then(|result| read(self.call, result)))
            }
        }
    }
}

/// Decodes a result into the type of its method.
pub(crate) fn decode<T: DeserializeOwned>(_: CallId, result: RawJson<'static>) -> Result<T, CallError> {
    result.decode().map_err(|error| CallError::Decode(error.to_string()))
}

impl<T> Future for Pending<T> {
    type Output = Result<T, CallError>;

    /// Polls the response.
    ///
    /// # Panics
    /// If it was polled to its end before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(self.read.is_some(), "a request ends once");
        loop {
            match self.poll_event(cx) {
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
            self.span.take().inspect(|span| span.end(None));
            self.end_drive();
            self.canceller.forget(self.call);
            self.canceller.cancel(self.call, None);
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("call", &self.call).finish_non_exhaustive()
    }
}

/// A handle that cancels one request. Holding it does not keep the request alive.
#[derive(Clone)]
pub struct Canceller {
    call: CallId,
    canceller: Arc<dyn CancelCall>,
}

impl Canceller {
    /// Cancels the request, as [`Pending::cancel`] does.
    pub fn cancel(&self, reason: Option<&str>) {
        self.canceller.cancel(self.call, reason);
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").field("call", &self.call).finish_non_exhaustive()
    }
}
