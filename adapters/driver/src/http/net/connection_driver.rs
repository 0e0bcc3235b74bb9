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

/// How long a connection is idle before its task polls it. Most connections are used again before that, and their tasks
/// are not woken. A connection that the server closes in the meantime is closed here when it is polled, or used again.
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
    /// Whether the task looks at the phase within [`WATCH_DELAY`] without being woken.
    looks_soon: bool,
}

type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Copy)]
enum Phase {
    /// A request polls the connection.
    InUse,
    /// The task of the connection polls it: at once, or after [`WATCH_DELAY`].
    Idle {
        since: Instant,
        at_once: bool,
    },
    Dropped,
}

impl ConnectionDriver {
    /// Creates the driver of a connection that is used by a request.
    pub(super) fn new<N: ConnectRuntime>(
        runtime: &N,
        connection: impl Future + Send + 'static,
        pending_write: PendingWrite,
    ) -> Self {
        let connection: Connection = Box::pin(async move { drop(connection.await) });
        let state = State { connection: Some(connection), phase: Phase::InUse, task: None, looks_soon: false };
        let shared = Arc::new(Shared { pending_write, state: Mutex::new(state) });
        N::detach(runtime.spawn(watch(IdleTask(shared.clone()), runtime.timer())));
        Self(shared)
    }

    /// Polls the connection, and then what waits for it, until that is ready.
    pub(super) fn run<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> impl Future<Output = T> {
        poll_fn(move |cx| {
            self.0.poll_connection(cx);
            poll(cx)
        })
    }

    /// Leaves the connection to a request.
    pub(super) fn begin_request(&self) {
        lock(&self.0.state).phase = Phase::InUse;
    }

    /// Leaves the connection to its task. If hyper is not ready for another request, the task polls it at once.
    pub(super) fn end_request(&self, is_ready: bool) {
        let at_once = !is_ready || self.has_pending_write();
        let task = {
            let mut state = lock(&self.0.state);
            state.phase = Phase::Idle { since: Instant::now(), at_once };
            if at_once || !state.looks_soon { state.task.clone() } else { None }
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
        if state.poll(cx).is_ready() {
            let ended = (state.connection.take(), state.task.take());
            drop(state);
            ended.1.into_iter().for_each(Waker::wake);
        }
    }
}

impl State {
    /// Polls the connection. Returns whether it has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.as_mut().map_or(Poll::Ready(()), |connection| connection.as_mut().poll(cx))
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
            let until = {
                let mut state = lock(&shared.state);
                state.register(cx);
                state.looks_soon = false;
                match state.phase {
                    Phase::InUse if state.connection.is_some() => return Poll::Pending,
                    Phase::InUse => return Poll::Ready(()),
                    Phase::Idle { since, at_once: false } if now < since + WATCH_DELAY => {
                        state.looks_soon = true;
                        since + WATCH_DELAY
                    }
                    Phase::Idle { since, .. } => {
                        let is_over = state.poll(cx).is_ready();
                        let timeout = if shared.pending_write.is_pending() { UNREAD_TIMEOUT } else { IDLE_TIMEOUT };
                        if is_over || now >= since + timeout {
                            return Poll::Ready(());
                        }
                        since + timeout
                    }
                    Phase::Dropped => {
                        // The last poll shuts the connection down, as far as that is possible without waiting.
                        let _ = state.poll(cx);
                        return Poll::Ready(());
                    }
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
