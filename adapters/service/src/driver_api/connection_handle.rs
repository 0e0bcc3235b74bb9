//! The seam between a driver, which owns a connection and its I/O, and what runs on it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};

use super::{
    deferred::{Later, block_on},
    holder::Holder,
    waiters::Lobby,
};
use crate::server::call_params::Errand;

/// A driver, as its handlers and handles see it: one connection that can be reached from any thread.
pub trait Link<E>: Send + Sync + 'static {
    /// Does something with the connection, and sees to what comes of it.
    ///
    /// `f` is called exactly once, under the lock of the connection, with the time. It must be quick and must not
    /// block or call back into the link. Never waits for the peer.
    fn with(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp));

    /// As [`with`](Self::with), for what time is of no matter to: so nobody has to look at a clock.
    fn touch(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        self.with(&mut |conn, _| f(conn));
    }

    /// As [`with`](Self::with), for what changes nothing: so there is nothing to see to.
    fn view(&self, f: &mut dyn FnMut(&Connection<E>));

    /// Where those wait who wait for this connection.
    fn lobby(&self) -> &Lobby;

    /// Returns which client is at the other end, as far as the driver can tell clients apart.
    fn holder(&self) -> Holder {
        Holder::Unknown
    }
}

impl<E: 'static> dyn Link<E> {
    /// [`with`](Link::with) for what hands something back.
    ///
    /// # Panics
    /// If the driver breaks its promise and does not call `f`.
    pub fn run<R>(&self, f: impl FnOnce(&mut Connection<E>, Timestamp) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.with(&mut |conn, now| result = f.take().map(|f| f(conn, now)));
        result.expect("a link calls what it is handed")
    }

    /// [`touch`](Link::touch) for what hands something back.
    ///
    /// # Panics
    /// As `run`.
    pub fn change<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.touch(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a link calls what it is handed")
    }

    /// [`view`](Link::view) for what hands something back.
    ///
    /// # Panics
    /// As `run`.
    pub fn look<R>(&self, f: impl FnOnce(&Connection<E>) -> R) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.view(&mut |conn| result = f.take().map(|f| f(conn)));
        result.expect("a link calls what it is handed")
    }
}

/// What runs on a connection.
pub trait Application<E>: Send + Sync + 'static {
    /// The connection is there. A driver calls this once, before any event: a client without a session may listen to
    /// what changes and never cause an event at all (2026-07-28).
    fn begin(&self, _link: &Arc<dyn Link<E>>) {}

    /// Takes an event. A driver calls this with every event, in order, outside the lock of the connection.
    ///
    /// It is quick and runs no user code but the predicate that says who [sees](crate::ServiceBuilder::visible) what: what
    /// takes time comes back as a job. So responses, progress and
    /// cancellations reach whoever waits for them however busy all handlers are.
    fn handle(&self, link: &Arc<dyn Link<E>>, event: Event<'_>) -> Option<Job>;
}

/// When a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// After every job before it has run (those in order) or begun (the concurrent ones), and before any job behind
    /// it. Notifications are like this: they change what later messages mean.
    InSequence,
    /// Beside others. Requests are like this.
    Concurrent,
}

/// User code that is ready to run. It says what it has to say through the link.
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
pub struct Function(Step);

/// A future that may be moved between polls.
pub struct Running(Stage);

/// How far it is.
enum Stage {
    /// Taken when it begins.
    Before(Option<Step>),
    Begun(Later<()>),
}

/// What a job begins with.
enum Step {
    Boxed(Box<dyn FnOnce() -> Later<()> + Send>),
    /// A tool is to be called, which is what most requests are about.
    Errand(Errand),
}

impl Step {
    fn begin(self) -> Later<()> {
        match self {
            Self::Boxed(begin) => begin(),
            Self::Errand(errand) => errand.begin(),
        }
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
                    let begun = begin.take().map_or_else(|| Later::ready(()), Step::begin);
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
    /// A job that runs `run`, which should not panic: whoever makes jobs of user code catches its panics.
    pub fn new(order: Order, run: impl FnOnce() + Send + 'static) -> Self {
        Self::of(Kind::Sync, order, move || {
            run();
            Later::ready(())
        })
    }

    /// A job that is done when `future` is. It should neither block nor panic.
    pub fn future(order: Order, future: impl Future<Output = ()> + Send + 'static) -> Self {
        let run = Run::Future(Running(Stage::Begun(Later::new(future))));
        Self { order, outlives: false, run }
    }

    /// A job around a handler of this kind. `begin` runs it as far as it goes without waiting, which mostly is to its end:
    /// so only what has to wait is ever made into a future.
    pub(crate) fn of(kind: Kind, order: Order, begin: impl FnOnce() -> Later<()> + Send + 'static) -> Self {
        Self::beginning(kind, order, Step::Boxed(Box::new(begin)))
    }

    /// A job around a tool of this kind.
    pub(crate) fn errand(kind: Kind, errand: Errand) -> Self {
        Self::beginning(kind, Order::Concurrent, Step::Errand(errand))
    }

    fn beginning(kind: Kind, order: Order, begin: Step) -> Self {
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

    /// Whether it goes on when its connection has ended: what it works on may be a task by then, for which the client comes
    /// back over another one (2026-07-28). All others have nobody to work for any more.
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
