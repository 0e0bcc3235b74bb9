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
pub enum Order {
    /// After every job before it has run (those in order) or begun (the concurrent ones), and before any job behind
    /// it. Notifications are like this: they change what later messages mean.
    InSequence,
    /// Beside others. Requests are like this.
    Concurrent,
}

/// User code that is ready to run. It says what it has to say through the connection handle.
///
/// A job that is a function has run when it returns, and may block. One that is a future has begun when it was polled once,
/// has run when it is done, and does not block. Dropping a job gives it up: a request is answered all the same.
pub struct Job {
    order: Order,
    outlives: bool,
    run: Run,
}

/// What a job is made of.
pub enum Run {
    /// For a thread that may block.
    Function(Function),
    /// For a task. Many are done when they are polled once.
    Future(Running),
}

/// A function that is run once.
pub struct Function(Box<dyn Begin>);

/// A future that may be moved between polls.
pub struct Running(Stage);

/// How far it is.
enum Stage {
    /// Taken when it begins.
    Before(Option<Box<dyn Begin>>),
    Begun(Deferred<()>),
}

/// The code that a job begins with. A type that is not a closure can take its memory from a pool.
pub(crate) trait Begin: Send {
    /// Runs it as far as it goes without waiting.
    fn begin(self: Box<Self>) -> Deferred<()>;
}

impl<F: FnOnce() -> Deferred<()> + Send> Begin for F {
    fn begin(self: Box<Self>) -> Deferred<()> {
        (*self)()
    }
}

impl Function {
    /// Runs it, for as long as it takes.
    pub fn run(self) {
        self.0.begin().wait();
    }
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.0 {
                Stage::Before(begin) => {
                    let begun = begin.take().map_or_else(|| Deferred::ready(()), Begin::begin);
                    self.0 = Stage::Begun(begun);
                }
                Stage::Begun(rest) => return Pin::new(rest).poll(cx),
            }
        }
    }
}

/// Which kind of code a handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function, which may block.
    Sync,
    /// A function that hands back a future.
    Async,
}

impl Job {
    /// Creates a job that runs `run`, which should not panic: code that makes jobs of user code catches its panics.
    pub fn new(order: Order, run: impl FnOnce() + Send + 'static) -> Self {
        Self::of(Kind::Sync, order, move || {
            run();
            Deferred::ready(())
        })
    }

    /// A job that is done when `future` is. It should neither block nor panic.
    pub fn future(order: Order, future: impl Future<Output = ()> + Send + 'static) -> Self {
        let run = Run::Future(Running(Stage::Begun(Deferred::new(future))));
        Self { order, outlives: false, run }
    }

    /// A job around a handler of this kind. `begin` runs it as far as it goes without waiting, which mostly is to its end:
    /// so only what has to wait is ever made into a future.
    pub(crate) fn of(kind: Kind, order: Order, begin: impl FnOnce() -> Deferred<()> + Send + 'static) -> Self {
        Self::beginning(kind, order, Box::new(begin))
    }

    /// A concurrent job around code of this kind whose memory is reused.
    pub(crate) fn reusable(kind: Kind, begin: Box<dyn Begin>) -> Self {
        Self::beginning(kind, Order::Concurrent, begin)
    }

    fn beginning(kind: Kind, order: Order, begin: Box<dyn Begin>) -> Self {
        let run = match kind {
            Kind::Sync => Run::Function(Function(begin)),
            Kind::Async => Run::Future(Running(Stage::Before(Some(begin)))),
        };
        Self { order, outlives: false, run }
    }

    /// When it may run.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.order
    }

    pub(crate) const fn kind(&self) -> &Run {
        &self.run
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
        match self.run {
            Run::Function(function) => function.run(),
            Run::Future(future) => block_on(future),
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn into_run(self) -> Run {
        self.run
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("order", &self.order).field("run", &self.run).finish()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Function(_) => "Function",
            Self::Future(_) => "Future",
        })
    }
}

/// Code of the user, turned into a function of one type, and of which kind it was.
pub(crate) struct Code<F: ?Sized> {
    pub(crate) kind: Kind,
    pub(crate) run: Box<F>,
}
