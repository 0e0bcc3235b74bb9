//! The driver of a connection, which its threads share.

use std::{
    io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Instant,
};

use mcp_driver::{WaitingThread, Watched, job_cost, tuning};
use mcp_proto::{
    connection::{Connection, Event},
    rpc::Timestamp,
};
use mcp_service::driver_api::{Application, ConnectionHandle, Waiters};

use crate::{
    thread_driver::{
        state::{Lifecycle, State},
        worker_pool::{JobBatch, WorkerPool},
    },
    transport::Transport,
};
use mcp_driver::DriverOptions;
use mcp_driver::os::thread::{lock, wait};

/// How many bytes of output are held back at most, see [`State::is_held`].
pub(crate) const HELD: usize = 16 * 1024;

/// The driver of one connection, shared by all of its threads.
///
/// The threads share [`State`] behind one lock, which no thread holds while it waits for anything else. A thread that
/// is notified through a condition variable checks the state again.
pub(crate) struct Driver<E> {
    pub(crate) workers: Arc<WorkerPool>,
    application: Arc<dyn Application<E>>,
    /// Held while events are dispatched, so that events are dispatched and their jobs queued in order. It is locked
    /// before the state.
    pub(crate) batch: Mutex<JobBatch>,
    /// Wakes the writer.
    pub(crate) output: Condvar,
    /// Wakes the reader that is paused by backpressure.
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

    /// Processes a change of the connection: collects events, wakes the timer thread, writes output, resumes a paused
    /// reader, and notifies waiters.
    pub(crate) fn after_change<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) {
        state.holds_requests = false;
        self.process_change(state);
    }

    /// Processes a change as [`after_change`](Self::after_change) does, but leaves requests held back.
    fn process_change<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) {
        state.collect();
        self.wake_timer_thread(&mut state);
        let mut state = self.write_output(state);
        if state.is_paused && state.connection.wants_input(self.now()) {
            state.is_paused = false;
            self.input.notify_one();
        }
        let capacity = self.waiters.capacity(&state.connection);
        drop(state);
        self.waiters.notify(capacity);
    }

    /// Wakes the timer thread if there are events or a deadline before the end of its sleep.
    fn wake_timer_thread(&self, state: &mut State<E>) {
        if state.sleeps_until.is_some_and(|until| !state.events.is_empty() || self.due(state) < until) {
            state.sleeps_until = None;
            self.clock.notify_one();
        }
    }

    /// Waits until the connection accepts input. Bytes that are not read block the peer's writes.
    ///
    /// The wait is bounded: a pause of the connection has a deadline, which the timer thread processes, and a
    /// connection that closes accepts input.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.lock();
        while !state.connection.has_room_for_input() && !state.connection.wants_input(self.now()) {
            state.is_paused = true;
            // This side causes the delay, so it does not count against the peer.
            state.message_until = None;
            self.wake_timer_thread(&mut state);
            state = wait(&self.input, state);
        }
        state.is_paused = false;
    }

    /// Returns whether the connection accepts input.
    pub(crate) fn wants_input(&self) -> bool {
        let mut state = self.lock();
        state.connection.has_room_for_input() || state.connection.wants_input(self.now())
    }

    /// Starts the deadline for the rest of a message that has begun.
    pub(crate) fn wait_for_rest(&self) {
        let mut state = self.lock();
        if let Some(timeout) = state.message_timeout {
            state.message_until.get_or_insert(self.now() + timeout);
            self.wake_timer_thread(&mut state);
        }
    }

    /// Writes as much output as possible without waiting. The writer writes the rest and closes the sink.
    fn write_output<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) -> MutexGuard<'a, State<E>> {
        // A thread that is already writing checks again before it stops.
        if state.blocked || state.sink.is_none() {
            return state;
        }
        let leaves = state.fill() && (!state.is_held() || state.out.pending().len() >= HELD);
        if leaves && let Some(mut sink) = state.sink.take() {
            let mut out = mem::take(&mut state.out);
            drop(state);
            // An error is ignored: the writer gets it as well, and reports it.
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
        if (!state.out.is_empty() && !state.is_held()) || state.connection.is_drained() {
            state.blocked = true;
            // Most connections never need a writer, so the timer thread starts it on demand.
            (if state.has_writer { &self.output } else { &self.clock }).notify_one();
        }
        state
    }

    /// Dispatches the collected events. The caller holds `batch`.
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
            // The timer thread may have checked `lifecycle` before this change, and be asleep.
            self.clock.notify_one();
        }
    }

    /// Reports an I/O error to the connection, which ends it.
    pub(crate) fn fail(&self, error: &io::Error) {
        let mut state = self.lock();
        state.connection.handle_transport_error(error.to_string());
        self.after_change(state);
    }
}

impl<E: Send + 'static> Driver<E> {
    /// Creates the driver of a connection over a transport. Returns it with the function that runs the connection to
    /// its end, on the thread that calls it.
    pub(crate) fn begin(
        connection: impl FnOnce(Timestamp) -> Connection<E>,
        application: Arc<dyn Application<E>>,
        Transport { input, sink, close_timeout, sniffer, message, end }: Transport,
        options: &DriverOptions,
    ) -> (Arc<Self>, Box<dyn FnOnce() + Send>) {
        let stop_sink = sink.stop_handle();
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
        let this = driver.clone();
        (driver, Box::new(move || this.run((input, sniffer), stop_sink, close_timeout, end)))
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

    fn with_mut_before_wait(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        let mut state = self.lock();
        f(&mut state.connection, self.now());
        // Output whose sender waits already is not held back: that which a thread is writing, or was to be written.
        let may_hold = state.holds_requests || state.out.is_empty() && state.sink.is_some();
        state.holds_requests = may_hold && self.workers.hold();
        self.process_change(state);
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>)) {
        f(&self.lock().connection);
    }

    fn holds_requests(&self) -> bool {
        true
    }

    fn flush(&self) {
        let state = self.lock();
        if state.holds_requests {
            self.after_change(state);
        }
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    fn drive(&self, thread: &WaitingThread) {
        self.workers.drive(thread);
    }
}
