//! The timer thread of a connection: it waits for deadlines, dispatches events that other threads caused, and closes
//! the connection.

use std::{
    io,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcp_driver::{
    Sniffer, StopHandle,
    os::thread::{lock, spawn, wait, wait_for},
    tuning,
};
use mcp_proto::rpc::Timestamp;
use mcp_service::driver_api::ConnectionHandle;

use crate::{
    thread_driver::{
        driver::Driver,
        reader::Reader,
        worker_pool::{ReadOutcome, Wait},
    },
    transport::Input,
};

impl<E: Send + 'static> Driver<E> {
    /// Runs the connection to its end.
    pub(crate) fn run(
        self: Arc<Self>,
        (input, sniffer): (Input, Sniffer),
        stop_sink: Option<StopHandle>,
        close_timeout: Duration,
        end: impl FnOnce(),
    ) {
        let (stop_source, connection): (_, Arc<dyn ConnectionHandle<E>>) = (input.stop_handle(), self.clone());
        self.start_reading(input, sniffer);
        let writer = self.run_timers(&connection).or_else(|| self.spawn_writer());
        self.flush_or_stop(stop_sink.as_deref());
        end();
        let reader_exited = self.stop_reading(stop_source.as_deref(), close_timeout);
        // Without `stop_sink` a write can block for ever.
        if let Some(writer) = writer.filter(|writer| stop_sink.is_some() || writer.is_finished()) {
            let _ = writer.join();
        }
        self.workers.shutdown(tuning::JOB_SHUTDOWN_TIMEOUT, !reader_exited);
        self.lifecycle.update(|lifecycle| lifecycle.finished = true);
    }

    /// Processes the messages that are already available, on this thread, and starts a worker that reads the others.
    fn start_reading(self: &Arc<Self>, input: Input, sniffer: Sniffer) {
        let mut reader = Reader::new(self.clone(), input, sniffer);
        let more = reader.read_once(Wait::None) != ReadOutcome::Ended;
        let read_fn = move |wait: Wait<'_>| if more { reader.read_once(wait) } else { ReadOutcome::Ended };
        let driver = Arc::downgrade(self);
        let flush_fn = move || driver.upgrade().iter().for_each(|driver| driver.flush());
        let started = self.workers.start(Box::new(read_fn), Arc::new(flush_fn));
        let _ = started.map_err(|error| self.fail(&error));
    }

    /// Waits until no worker reads any more, and calls `stop` after `close_timeout` at the latest. Returns whether
    /// reading has ended.
    fn stop_reading(&self, stop: Option<&(dyn Fn() + Send)>, close_timeout: Duration) -> bool {
        let wait = |timeout| self.lifecycle.wait_until(timeout, |lifecycle| lifecycle.reader_exited);
        let reader_exited = wait(close_timeout);
        let Some(stop) = stop else { return reader_exited };
        stop();
        wait(tuning::JOB_SHUTDOWN_TIMEOUT)
    }

    /// Starts the writer thread, which writes output that would block.
    fn spawn_writer(self: &Arc<Self>) -> Option<JoinHandle<()>> {
        let driver = self.clone();
        driver.lock().has_writer = true;
        spawn("mcp-writer", move || driver.write()).map_err(|error| self.fail(&error)).ok()
    }

    /// Processes deadlines and events of other threads until the connection has ended. Returns the writer thread, if
    /// one was started.
    fn run_timers(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<E>>) -> Option<JoinHandle<()>> {
        let (mut writer, mut state) = (None, self.lock());
        loop {
            let now = self.now();
            let due = self.due(&state);
            if state.blocked && !state.has_writer {
                drop(state);
                writer = self.spawn_writer();
                state = self.lock();
            } else if due <= now || !state.events.is_empty() {
                drop(state);
                self.handle_due(connection, now);
                state = self.lock();
            } else if self.lifecycle.read(|lifecycle| lifecycle.closed.is_some()) {
                return writer;
            } else {
                state.sleeps_until = Some(due);
                state = match due {
                    tuning::FAR_FUTURE => wait(&self.clock, state),
                    due => wait_for(&self.clock, state, due.saturating_since(now)).0,
                };
                state.sleeps_until = None;
            }
        }
    }

    /// Handles the deadlines that have passed, and dispatches the events that wait.
    fn handle_due(self: &Arc<Self>, connection: &Arc<dyn ConnectionHandle<E>>, now: Timestamp) {
        self.waiters.fire_timers(now);
        // It is taken before the lock of the state.
        let mut batch = lock(&self.batch);
        let mut state = self.lock();
        state.connection.handle_timeout(self.now());
        if state.message_until.take_if(|until| *until <= now).is_some() {
            state.connection.handle_transport_error("a message was not received in time");
        }
        state.collect();
        self.dispatch_waiting(connection, state, &mut batch);
        self.workers.push(&mut batch, false);
        drop(batch);
        self.after_change(self.lock());
    }

    /// Waits until all output is written and the sink is closed. If the peer does not read in time, fails the
    /// connection and calls `stop`.
    fn flush_or_stop(&self, stop: Option<&(dyn Fn() + Send)>) {
        let (drain, begun) = (self.lock().connection.settings().limits.drain, Instant::now());
        loop {
            let left = tuning::flush_timeout(drain).saturating_sub(begun.elapsed());
            if self.lifecycle.wait_until(left.min(tuning::SIGNAL_INTERVAL), |lifecycle| lifecycle.writer_exited) {
                return;
            }
            if left.is_zero() {
                break;
            }
        }
        self.fail(&io::ErrorKind::TimedOut.into());
        if let Some(stop) = stop {
            stop();
        }
    }
}
