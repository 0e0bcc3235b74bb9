//! Polls the connections of an HTTP client. The task of a request polls the connection that it uses, so that no other
//! task is woken for it. While a connection is idle, a task of its own polls it.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{
    http::net::{net_runtime::ConnectRuntime, tracked_stream::PendingWrite},
    runtime::Timer,
    sync::lock,
};

/// How long an idle connection is kept.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a connection is kept after the end of the response while the server has not read the whole request. A
/// server that responds early may still read the rest, which then is not lost.
pub(super) const UNREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection is idle before its task polls it. Most connections are used again before that, so their tasks
/// are seldom woken. If the server closes a connection in the meantime, that is noticed by the next request, which is
/// sent on another one, or by this poll.
pub(super) const WATCH_DELAY: Duration = Duration::from_secs(1);

/// A connection of hyper, and the task that polls it while it is idle. Dropping it closes the connection.
pub(super) struct ConnectionDriver(Arc<Shared>);

struct Shared {
    pending_write: PendingWrite,
    state: Mutex<State>,
}

struct State {
    /// The connection of hyper, until it has ended.
    connection: Option<Connection>,
    phase: Phase,
    /// The task of the connection.
    task: Option<Waker>,
    /// Whether the timer of the task fires within [`WATCH_DELAY`].
    is_timer_set: bool,
}

type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

#[derive(Clone, Copy)]
enum Phase {
    /// A request polls the connection.
    InUse,
    /// The task of the connection polls it: at once if something is left to do, or after [`WATCH_DELAY`].
    Idle {
        since: Instant,
        is_unfinished: bool,
    },
    Dropped,
}

impl ConnectionDriver {
    /// Creates the driver of a connection that is used by a request.
    pub(super) fn new<N: ConnectRuntime>(
        runtime: &N,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
        pending_write: PendingWrite,
    ) -> Self {
        let state =
            State { connection: Some(Box::pin(connection)), phase: Phase::InUse, task: None, is_timer_set: false };
        let shared = Arc::new(Shared { pending_write, state: Mutex::new(state) });
        N::detach(runtime.spawn(watch(IdleTask(shared.clone()), runtime.timer())));
        Self(shared)
    }

    /// Polls the connection, and then what waits for it, until that is ready. Nothing is read or written while the
    /// future is not polled.
    pub(super) fn run<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> impl Future<Output = T> {
        poll_fn(move |cx| {
            self.0.poll_connection(cx);
            poll(cx)
        })
    }

    /// Leaves the connection to a request. Returns `false` if it has ended.
    pub(super) fn begin_request(&self) -> bool {
        let mut state = lock(&self.0.state);
        state.phase = Phase::InUse;
        state.connection.is_some()
    }

    /// Leaves the connection to its task. If hyper is not ready for another request, the task polls it at once.
    pub(super) fn end_request(&self, is_ready: bool) {
        let is_unfinished = !is_ready || self.has_pending_write();
        let task = {
            let mut state = lock(&self.0.state);
            state.phase = Phase::Idle { since: Instant::now(), is_unfinished };
            if is_unfinished || !state.is_timer_set { state.task.clone() } else { None }
        };
        task.into_iter().for_each(Waker::wake);
    }

    /// Returns whether the server has not read all that was sent.
    pub(super) fn has_pending_write(&self) -> bool {
        self.0.pending_write.is_pending()
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        let task = {
            let mut state = lock(&self.0.state);
            state.phase = Phase::Dropped;
            state.task.clone()
        };
        task.into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    /// Polls the connection for a request.
    fn poll_connection(&self, cx: &mut Context<'_>) {
        let mut state = lock(&self.state);
        let Poll::Ready(ended) = state.poll(cx) else { return };
        let task = state.task.take();
        drop(state);
        drop(ended);
        task.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Polls the connection. Returns it when it has ended, to be dropped outside of the lock.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Connection>> {
        // A connection that panics is not polled again.
        let Some(mut connection) = self.connection.take() else { return Poll::Ready(None) };
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(connection));
        }
        self.connection = Some(connection);
        Poll::Pending
    }

    /// Returns the time until which the task of the connection waits, if that is not woken before. Returns the
    /// connection instead if the task ends, to be dropped outside of the lock: a request that begins now does not find
    /// it any more, and is sent on another one.
    fn watch(
        &mut self,
        pending_write: &PendingWrite,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Result<Option<Instant>, Option<Connection>> {
        self.register(cx);
        self.is_timer_set = false;
        match self.phase {
            Phase::InUse if self.connection.is_some() => Ok(None),
            Phase::InUse => Err(None),
            Phase::Idle { since, is_unfinished: false } if now < since + WATCH_DELAY => {
                self.is_timer_set = true;
                Ok(Some(since + WATCH_DELAY))
            }
            Phase::Idle { since, .. } => {
                if let Poll::Ready(ended) = self.poll(cx) {
                    return Err(ended);
                }
                let timeout = if pending_write.is_pending() { UNREAD_TIMEOUT } else { IDLE_TIMEOUT };
                if now < since + timeout { Ok(Some(since + timeout)) } else { Err(self.connection.take()) }
            }
            Phase::Dropped => {
                // The last poll shuts the connection down, as far as that is possible without waiting.
                let ended = self.poll(cx);
                Err(if let Poll::Ready(ended) = ended { ended } else { self.connection.take() })
            }
        }
    }

    /// Registers the task of the connection.
    fn register(&mut self, cx: &Context<'_>) {
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            self.task = Some(cx.waker().clone());
        }
    }
}

/// The task of a connection. Dropping it closes the connection: its runtime may end before the client.
struct IdleTask(Arc<Shared>);

impl Drop for IdleTask {
    fn drop(&mut self) {
        let ended = {
            let mut state = lock(&self.0.state);
            // The waker would keep the memory of this task while the connection stays in the pool.
            (state.connection.take(), state.task.take())
        };
        drop(ended);
    }
}

/// Polls a connection while it is idle, until it has ended, was dropped, or was idle for too long.
async fn watch(task: IdleTask, mut timer: impl Timer) {
    let shared = &task.0;
    let mut now = Instant::now();
    poll_fn(|cx| {
        now = now.max(Instant::now());
        loop {
            let watched = lock(&shared.state).watch(&shared.pending_write, now, cx);
            let until = match watched {
                Ok(Some(until)) => until,
                Ok(None) => return Poll::Pending,
                Err(ended) => {
                    drop(ended);
                    return Poll::Ready(());
                }
            };
            if timer.poll_until(until, cx).is_pending() {
                return Poll::Pending;
            }
            now = now.max(until);
        }
    })
    .await;
}
