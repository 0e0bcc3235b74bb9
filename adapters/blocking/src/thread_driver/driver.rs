//! One connection, its lock, and what any thread does that touches it.

use std::{
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Instant,
};

use mcp_driver::{Watched, job_cost, tuning};
use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};
use mcp_service::{Application, ConnectionHandle, Waiters};

use crate::{
    thread_driver::{
        state::{Lifecycle, State},
        worker_pool::{JobBatch, WorkerPool},
    },
    transport::Transport,
};
use mcp_driver::DriverOptions;
use mcp_driver::unix::thread::{lock, wait};

/// How much is held back at most, in bytes.
const HELD: usize = 16 * 1024;

/// One connection, shared by all of its threads.
///
/// The threads share [`State`] behind one lock, which no thread holds while it waits for anything else. The condition
/// variables only say that the state is worth another look.
pub(crate) struct Driver<E> {
    pub(crate) workers: Arc<WorkerPool>,
    application: Arc<dyn Application<E>>,
    /// Held while events are dispatched, so that they are dispatched in order and their jobs are queued in that order.
    /// It is locked before the state.
    pub(crate) batch: Mutex<JobBatch>,
    /// Wakes the writer.
    pub(crate) output: Condvar,
    /// Wakes the reader that waits for room.
    input: Condvar,
    /// Wakes the timer thread.
    pub(crate) clock: Condvar,
    pub(crate) lifecycle: Watched<Lifecycle>,
    pub(crate) waiters: Waiters,
    state: Mutex<State<E>>,
    epoch: Instant,
}

impl<E: 'static> Driver<E> {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::after_zero(self.epoch.elapsed())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<E>> {
        lock(&self.state)
    }

    /// Returns the next deadline.
    pub(crate) fn due(&self, state: &State<E>) -> Timestamp {
        let due = state.connection.poll_timeout().map_or(tuning::FAR_FUTURE, |deadline| deadline.at);
        let due = state.message_until.map_or(due, |message| message.min(due));
        self.waiters.next_deadline().map_or(due, |deadline| deadline.min(due))
    }

    /// Looks after what came of touching the connection: events, a nearer deadline, output, room.
    pub(crate) fn after_change<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) {
        state.collect();
        self.wake_timer_thread(&mut state);
        let mut state = self.flush(state);
        if state.is_paused && state.connection.wants_input(self.now()) {
            state.is_paused = false;
            self.input.notify_one();
        }
        let capacity = self.waiters.capacity(&state.connection);
        drop(state);
        self.waiters.notify(capacity);
    }

    /// Wakes the timer thread if there is something for it to do earlier than it knows.
    fn wake_timer_thread(&self, state: &mut State<E>) {
        if state.sleeps_until.is_some_and(|until| !state.events.is_empty() || self.due(state) < until) {
            state.sleeps_until = None;
            self.clock.notify_one();
        }
    }

    /// Waits until the connection wants input: bytes that are not read make the peer wait with its writes.
    ///
    /// It ends in any case: a pause of the connection has a deadline, for which the timer thread looks, and a connection that
    /// closes wants input.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.lock();
        while !state.connection.wants_input(self.now()) {
            state.is_paused = true;
            // It is not the peer that takes the time.
            state.message_until = None;
            self.wake_timer_thread(&mut state);
            state = wait(&self.input, state);
        }
        state.is_paused = false;
    }

    /// Bounds the time until a message is complete that has begun.
    pub(crate) fn wait_for_rest(&self) {
        let mut state = self.lock();
        if let Some(timeout) = state.message_timeout {
            state.message_until.get_or_insert(self.now() + timeout);
            self.wake_timer_thread(&mut state);
        }
    }

    /// Writes what can be written without waiting. The rest is up to the writer, and so is closing.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) -> MutexGuard<'a, State<E>> {
        // A thread that is already writing checks again before it stops.
        if state.blocked || state.sink.is_none() {
            return state;
        }
        let leaves = state.fill() && (!state.held || state.out.pending().len() >= HELD);
        if leaves && let Some(mut sink) = state.sink.take() {
            let mut out = mem::take(&mut state.out);
            drop(state);
            // An error is for the writer, who will run into it again.
            let written = sink.try_write(out.pending()).unwrap_or(0);
            out.advance(written);
            state = self.lock();
            state.out = out;
            if written > 0 {
                state.connection.handle_written();
            }
            state.fill();
            state.sink = Some(sink);
        }
        if (!state.out.is_empty() && !state.held) || state.connection.is_drained() {
            state.blocked = true;
            // Most connections never have a writer. The timer thread calls one.
            (if state.has_writer { &self.output } else { &self.clock }).notify_one();
        }
        state
    }

    /// Dispatches the events that wait. The caller holds `batch`.
    pub(crate) fn dispatch_waiting<'a>(
        &'a self,
        connection: &Arc<dyn ConnectionHandle<E>>,
        mut state: MutexGuard<'a, State<E>>,
        batch: &mut JobBatch,
    ) {
        while let Some(event) = state.events.pop_front() {
            drop(state);
            self.dispatch(connection, event, batch);
            state = self.lock();
        }
    }

    /// Passes an event to the application. The caller holds `batch`, and queues the resulting jobs.
    pub(crate) fn dispatch(&self, connection: &Arc<dyn ConnectionHandle<E>>, event: Event<'_>, batch: &mut JobBatch) {
        let cost = job_cost(&event);
        let end = if let Event::Closed(reason) = &event { Some(reason.clone()) } else { None };
        if let Some(job) = self.application.handle(connection, event) {
            batch.push((job, cost));
        }
        if batch.len() == tuning::MAX_BATCHED_JOBS || end.is_some() {
            self.workers.push(batch, true);
        }
        if end.is_some() {
            self.lifecycle.update(|lifecycle| lifecycle.closed = end);
            self.after_change(self.lock());
            // If the timer thread had looked before that, it sleeps by now.
            self.clock.notify_one();
        }
    }

    /// Reports to the connection that nothing can be read or written any more.
    pub(crate) fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.connection.handle_transport_error(error.to_string());
        self.after_change(state);
    }
}

impl<E: Send + 'static> Driver<E> {
    /// Creates a connection over a transport, and the function with which a thread runs it to its end.
    pub(crate) fn begin(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        Transport { input, sink, close_timeout, sniffer, message, end }: Transport,
        options: &DriverOptions,
    ) -> (Arc<Self>, Box<dyn FnOnce() + Send>) {
        let stop_sink = sink.stopper();
        let driver = Arc::new(Self {
            workers: WorkerPool::new(options),
            application,
            batch: Mutex::default(),
            output: Condvar::new(),
            input: Condvar::new(),
            clock: Condvar::new(),
            lifecycle: Watched::default(),
            waiters: Waiters::new(),
            state: Mutex::new(State::new(connection(Timestamp::ZERO), sink, message)),
            epoch: Instant::now(),
        });
        driver.after_change(driver.lock());
        driver.application.begin(&(driver.clone() as Arc<dyn ConnectionHandle<E>>));
        let timer_thread = driver.clone();
        (driver, Box::new(move || timer_thread.run((input, sniffer), stop_sink, close_timeout, end)))
    }
}

impl<E: Send + 'static> ConnectionHandle<E> for Driver<E> {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        self.with_mut_untimed(&mut |connection| f(connection, self.now()));
    }

    fn with_mut_untimed(&self, f: &mut dyn FnMut(&mut Connection<E>)) {
        let mut state = self.lock();
        f(&mut state.connection);
        self.after_change(state);
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>)) {
        f(&self.lock().connection);
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}
