//! Units of user code for a driver to run.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{block_on::block_on, deferred::Deferred};

/// When a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// After every job before it has run (those in order) or begun (the concurrent ones), and before any job behind
    /// it. Notifications are like this: they change what later messages mean.
    Serial,
    /// Beside others. Requests are like this.
    Concurrent,
}

/// User code that is ready to run. It says what it has to say through the connection handle.
///
/// A job that is a function has run when it returns, and may block. One that is a future has begun when it was polled once,
/// has run when it is done, and does not block. Dropping a job gives it up: a request is answered all the same.
pub struct Job {
    schedule: Schedule,
    outlives: bool,
    kind: JobKind,
}

/// What a job is made of.
pub enum JobKind {
    /// For a thread that may block.
    Blocking(JobFunction),
    /// For a task. Many are done when they are polled once.
    Async(JobFuture),
}

/// A function that is run once.
pub struct JobFunction(Box<dyn Start>);

/// A future that may be moved between polls.
pub struct JobFuture(FutureState);

/// How far it is.
enum FutureState {
    /// Taken when it begins.
    NotStarted(Option<Box<dyn Start>>),
    ResultOrTask(Deferred<()>),
}

/// The code that a job begins with. A type that is not a closure can take its memory from a pool.
pub(crate) trait Start: Send {
    /// Runs it as far as it goes without waiting.
    fn start(self: Box<Self>) -> Deferred<()>;
}

impl<F: FnOnce() -> Deferred<()> + Send> Start for F {
    fn start(self: Box<Self>) -> Deferred<()> {
        (*self)()
    }
}

impl JobFunction {
    /// Runs it, for as long as it takes.
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
                    self.0 = FutureState::ResultOrTask(started);
                }
                FutureState::ResultOrTask(rest) => return Pin::new(rest).poll(cx),
            }
        }
    }
}

/// Which kind of code a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerKind {
    /// A function, which may block.
    Blocking,
    /// A function that hands back a future.
    Async,
}

impl Job {
    /// Creates a job that runs `run`, which should not panic: code that makes jobs of user code catches its panics.
    pub fn new(schedule: Schedule, run: impl FnOnce() + Send + 'static) -> Self {
        Self::of(HandlerKind::Blocking, schedule, move || {
            run();
            Deferred::ready(())
        })
    }

    /// A job that is done when `future` is. It should neither block nor panic.
    pub fn future(schedule: Schedule, future: impl Future<Output = ()> + Send + 'static) -> Self {
        let kind = JobKind::Async(JobFuture(FutureState::ResultOrTask(Deferred::new(future))));
        Self { schedule, outlives: false, kind }
    }

    /// A job around a handler of this kind. `start` runs it as far as it goes without waiting, which mostly is to its end:
    /// so only what has to wait is ever made into a future.
    pub(crate) fn of(
        kind: HandlerKind,
        schedule: Schedule,
        start: impl FnOnce() -> Deferred<()> + Send + 'static,
    ) -> Self {
        Self::starting(kind, schedule, Box::new(start))
    }

    /// A concurrent job around code of this kind whose memory is reused.
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

    /// When it may run.
    #[must_use]
    pub const fn schedule(&self) -> Schedule {
        self.schedule
    }

    pub(crate) const fn kind(&self) -> &JobKind {
        &self.kind
    }

    /// The same job, which goes on when its connection has ended.
    #[must_use]
    pub(crate) const fn outliving(mut self) -> Self {
        self.outlives = true;
        self
    }

    /// Returns whether it continues when its connection has ended: its request may be a task by then, whose result the
    /// client gets over another connection (2026-07-28).
    #[must_use]
    pub const fn outlives_connection(&self) -> bool {
        self.outlives
    }

    /// Runs it on this thread, for as long as it takes.
    pub fn run(self) {
        match self.kind {
            JobKind::Blocking(function) => function.run(),
            JobKind::Async(future) => block_on(future),
        }
    }

    /// What it is made of.
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

/// Code of the user, turned into a function of one type, and of which kind it was.
pub(crate) struct Code<F: ?Sized> {
    pub(crate) kind: HandlerKind,
    pub(crate) run: Box<F>,
}
