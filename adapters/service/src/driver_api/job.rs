//! Units of user code for a driver to run.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{block_on::block_on, deferred::Deferred};

/// The order in which a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// After every earlier serial job has ended and every earlier concurrent job has begun, and before any later job.
    /// Notifications are serial: they change the meaning of later messages.
    Serial,
    /// At the same time as other jobs. Requests are concurrent.
    Concurrent,
}

/// User code that is ready to run. It sends its messages through the connection handle.
///
/// A job that is a function may block, and has ended when it returns. A job that is a future does not block, has begun
/// after its first poll, and has ended when it is ready. Dropping a job cancels it: its request gets an error response.
pub struct Job {
    schedule: Schedule,
    outlives: bool,
    kind: JobKind,
}

/// The code of a job.
pub enum JobKind {
    /// A function for a thread that may block.
    Blocking(JobFunction),
    /// A future for a task. Many are ready at the first poll.
    Async(JobFuture),
}

/// A function that is run once.
pub struct JobFunction(Box<dyn Start>);

/// A future that may be moved between polls.
pub struct JobFuture(FutureState);

/// The state of a job's future.
enum FutureState {
    /// Taken when it begins.
    NotStarted(Option<Box<dyn Start>>),
    Started(Deferred<()>),
}

/// The start of a job. A type that is not a closure can take its memory from a pool.
pub(crate) trait Start: Send {
    /// Runs it until it has to wait.
    fn start(self: Box<Self>) -> Deferred<()>;
}

impl<F: FnOnce() -> Deferred<()> + Send> Start for F {
    fn start(self: Box<Self>) -> Deferred<()> {
        (*self)()
    }
}

impl JobFunction {
    /// Runs it on this thread, and blocks until it has ended.
    pub fn run(self) {
        self.0.start().wait();
    }
}

impl Future for JobFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.0 {
                FutureState::NotStarted(start) => {
                    let started = start.take().map_or_else(|| Deferred::ready(()), Start::start);
                    self.0 = FutureState::Started(started);
                }
                FutureState::Started(rest) => return Pin::new(rest).poll(cx),
            }
        }
    }
}

/// The kind of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerKind {
    /// A function, which may block.
    Blocking,
    /// A function that returns a future.
    Async,
}

impl Job {
    /// Creates a job that runs a function. The function should not panic: the code that creates jobs of user code
    /// catches panics.
    pub fn new(schedule: Schedule, run: impl FnOnce() + Send + 'static) -> Self {
        Self::of(HandlerKind::Blocking, schedule, move || {
            run();
            Deferred::ready(())
        })
    }

    /// Creates a job that runs a future. The future should neither block nor panic.
    pub fn future(schedule: Schedule, future: impl Future<Output = ()> + Send + 'static) -> Self {
        let kind = JobKind::Async(JobFuture(FutureState::Started(Deferred::new(future))));
        Self { schedule, outlives: false, kind }
    }

    /// Creates a job of a handler of this kind. `start` runs it until it has to wait, which is to its end in most
    /// cases: only a handler that waits becomes a boxed future.
    pub(crate) fn of(
        kind: HandlerKind,
        schedule: Schedule,
        start: impl FnOnce() -> Deferred<()> + Send + 'static,
    ) -> Self {
        Self::starting(kind, schedule, Box::new(start))
    }

    /// Creates a concurrent job whose memory is reused.
    pub(crate) fn pooled(kind: HandlerKind, start: Box<dyn Start>) -> Self {
        Self::starting(kind, Schedule::Concurrent, start)
    }

    fn starting(kind: HandlerKind, schedule: Schedule, start: Box<dyn Start>) -> Self {
        let kind = match kind {
            HandlerKind::Blocking => JobKind::Blocking(JobFunction(start)),
            HandlerKind::Async => JobKind::Async(JobFuture(FutureState::NotStarted(Some(start)))),
        };
        Self { schedule, outlives: false, kind }
    }

    /// Returns the order in which the job may run.
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        self.schedule
    }

    pub(crate) const fn kind(&self) -> &JobKind {
        &self.kind
    }

    /// Makes the job continue after the end of its connection.
    #[must_use]
    pub(crate) const fn outliving(mut self) -> Self {
        self.outlives = true;
        self
    }

    /// Returns whether the job continues after the end of its connection: its request may have become a task by then,
    /// whose result the client gets over another connection (2026-07-28).
    #[must_use]
    pub const fn outlives_connection(&self) -> bool {
        self.outlives
    }

    /// Runs it on this thread, and blocks until it has ended.
    pub fn run(self) {
        match self.kind {
            JobKind::Blocking(function) => function.run(),
            JobKind::Async(future) => block_on(future),
        }
    }

    /// Returns the code of the job.
    #[must_use]
    pub fn into_kind(self) -> JobKind {
        self.kind
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("schedule", &self.schedule).field("kind", &self.kind).finish()
    }
}

impl fmt::Debug for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blocking(_) => "Blocking",
            Self::Async(_) => "Async",
        })
    }
}

/// A handler, converted into a function of one type, and its kind.
pub(crate) struct BoxedHandler<F: ?Sized> {
    pub(crate) kind: HandlerKind,
    pub(crate) run: Box<F>,
}
