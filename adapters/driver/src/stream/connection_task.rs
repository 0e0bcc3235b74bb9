//! The task that runs a connection over one transport: it reads, writes, processes timeouts and dispatches events.

use std::{
    future::Future,
    io, mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use mcp_proto::rpc::Timestamp;

use crate::{
    event_loop::{
        binding::{Binding, PipeBinding},
        run_loop::{BATCH, Dispatcher, EventLoop, TransportIo},
        shared::{SharedConnection, State},
    },
    runtime::Runtime,
    stream::{framed::FramedTransport, write_buffer::WriteBuffer},
    tuning::{READ_AFTER_WRITE_ERROR, SIGNAL_INTERVAL, flush_timeout},
};
use mcp_service::driver_api::Job;

/// The timeout of closing the output.
const CLOSING: Duration = Duration::from_millis(500);

/// The timeouts of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeouts {
    /// The timeout of its first message, and of the rest of each message that it has begun.
    pub(crate) message: Option<Duration>,
    /// The time within which it has to read some of the pending output.
    pub(crate) write: Option<Duration>,
}

/// One connection, its transport and its jobs.
pub(crate) struct ConnectionTask<E: Send + 'static, R: Runtime> {
    event_loop: EventLoop<E, PipeBinding<E>, R>,
    pipe: Pipe,
}

/// A transport, its buffered output, and the state of reading and writing.
struct Pipe {
    wire: Box<dyn FramedTransport>,
    /// Set until the input has ended or reading has failed.
    reads: bool,
    /// The result of the last read, until its frames are handled.
    filled: Option<io::Result<bool>>,
    /// Reading is paused because the connection applies backpressure.
    is_paused: bool,
    /// Whether the connection wanted input when the event loop was resumed, or its output was taken last.
    wants_input: bool,
    /// The current iteration writes and does not read: the event loop was resumed with output and nothing is due, so it
    /// was probably not woken by input.
    writes_first: bool,
    /// Jobs of messages that were read together, to be queued under one lock.
    jobs: Vec<(Job, usize)>,
    out: WriteBuffer,
    /// Whether all written bytes were flushed.
    flushed: bool,
    failed: Option<Failed>,
    /// The timeout of a message that has begun.
    message_timeout: Option<Duration>,
    /// The deadline of the first message, or of the rest of one that has begun.
    message_until: Option<Timestamp>,
    /// Whether the first message was received.
    has_received: bool,
    write_timeout: Option<Duration>,
    /// The deadline of a pending write.
    write_until: Option<Timestamp>,
}

/// The state after a write error.
struct Failed {
    /// The error, until it is reported to the connection.
    error: Option<io::Error>,
    /// The deadline until which input is still read.
    until: Timestamp,
}

impl<E: Send + 'static, R: Runtime> ConnectionTask<E, R> {
    pub(crate) fn new(
        event_loop: EventLoop<E, PipeBinding<E>, R>,
        wire: Box<dyn FramedTransport>,
        timeouts: Timeouts,
    ) -> Self {
        let shared = &event_loop.dispatcher.shared;
        let pipe = Pipe {
            wire,
            reads: true,
            filled: None,
            is_paused: false,
            wants_input: true,
            writes_first: false,
            jobs: Vec::new(),
            out: WriteBuffer::default(),
            flushed: true,
            failed: None,
            message_timeout: timeouts.message,
            message_until: timeouts.message.map(|timeout| shared.now() + timeout),
            has_received: false,
            write_timeout: timeouts.write,
            write_until: None,
        };
        Self { event_loop, pipe }
    }

    /// Runs the connection until it has ended, then closes the transport. After the output is closed, `end` runs to
    /// completion, and the peer has `close_timeout` to end its own output.
    pub(crate) async fn run(self, end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>, close_timeout: Duration) {
        let Self { mut event_loop, mut pipe } = self;
        let pipe = &mut pipe;
        event_loop.run_until_closed(pipe).await;
        let drain = event_loop.dispatcher.shared.lock().binding.settings().limits.drain;
        let begun = event_loop.dispatcher.shared.now();
        loop {
            let passed = event_loop.dispatcher.shared.now().saturating_since(begun);
            let left = flush_timeout(drain).saturating_sub(passed);
            if left.is_zero() || pipe.has_written(&event_loop.dispatcher.shared) {
                break;
            }
            let written = |event_loop: &mut EventLoop<E, _, R>, pipe: &mut Pipe, _: &mut Context<'_>| {
                pipe.has_written(&event_loop.dispatcher.shared)
            };
            event_loop.run_until(pipe, Some(left.min(SIGNAL_INTERVAL)), written).await;
        }
        let closing = Some(flush_timeout(CLOSING));
        event_loop.run_until(pipe, closing, |_, pipe, cx| pipe.wire.poll_close(cx).is_ready()).await;
        pipe.wire.close_output();
        if let Some(mut end) = end {
            event_loop.run_until(pipe, None, |_, _, cx| end.as_mut().poll(cx).is_ready()).await;
        }
        event_loop.run_until(pipe, Some(close_timeout), |_, pipe, _| !pipe.reads).await;
        pipe.reads = false;
        event_loop.end_jobs(pipe).await;
    }
}

impl Pipe {
    fn has_written<E: 'static>(&self, shared: &SharedConnection<E>) -> bool {
        let is_flushed = self.out.is_empty() && self.flushed;
        self.failed.is_some() || is_flushed && shared.lock().binding.is_drained()
    }

    /// Returns whether input that was read is left: a frame, or the end.
    fn may_have_event(&self) -> bool {
        !matches!(self.filled, Some(Ok(true))) || self.wire.may_have_frame()
    }

    /// Queues the jobs of the messages that were read.
    fn queue_jobs<E: Send + 'static>(&mut self, dispatcher: &Dispatcher<E, PipeBinding<E>>) {
        match self.jobs.len() {
            0 => {}
            // Most messages arrive alone.
            1 => dispatcher.queue(self.jobs.pop().into_iter()),
            _ => dispatcher.queue(self.jobs.drain(..)),
        }
    }

    /// Updates the write deadline. Fails if output is pending and none of it could be written within the write timeout.
    fn note_progress(&mut self, moved: bool, now: impl FnOnce() -> Timestamp) -> io::Result<()> {
        let Some(timeout) = self.write_timeout else { return Ok(()) };
        if moved || self.out.is_empty() && self.flushed {
            self.write_until = None;
        } else {
            let now = now();
            if *self.write_until.get_or_insert(now + timeout) <= now {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read"));
            }
        }
        Ok(())
    }

    /// Reports the end of the input to the connection, if a read has found it.
    fn end_input<E: Send + 'static>(&mut self, shared: &SharedConnection<E>, filled: io::Result<bool>, now: Timestamp) {
        // A write that fails because the connection was reset takes that error from the socket.
        let is_reset = |error: &mut io::Error| {
            matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted)
        };
        let end = match filled {
            Ok(true) => return,
            Ok(false) => self.failed.as_mut().and_then(|failed| failed.error.take_if(is_reset)),
            Err(error) => Some(error),
        };
        self.reads = false;
        match end {
            Some(error) => shared.lock().binding.handle_transport_error(error.to_string()),
            None => shared.lock().binding.handle_eof(now),
        }
    }

    /// Reports a write error to the connection, after the input has ended or the deadline for reading it has passed.
    fn report_write_error<E: Send + 'static>(&mut self, shared: &SharedConnection<E>) {
        let reads = self.reads;
        if let Some(failed) = self.failed.as_mut().filter(|failed| !reads || failed.until <= shared.now())
            && let Some(error) = failed.error.take()
        {
            shared.lock().binding.handle_transport_error(error.to_string());
        }
    }
}

impl<E: Send + 'static> TransportIo<E, PipeBinding<E>> for Pipe {
    const PROCESSES_TIMEOUTS: bool = true;

    fn resume(&mut self, binding: &mut PipeBinding<E>, now: Timestamp) {
        // After a write error, reading does not pause.
        if self.failed.is_none() {
            self.wants_input = binding.wants_input(now);
            let can_write = self.out.is_empty() && self.flushed;
            let can_write_first = self.reads && self.filled.is_none() && can_write && binding.has_output();
            // A response that has arrived in time is read before the deadline of its request is processed. A request
            // whose deadline has passed is not written.
            self.writes_first = can_write_first && binding.due().is_none_or(|due| due > now);
        }
    }

    fn read(&mut self, dispatcher: &Dispatcher<E, PipeBinding<E>>, now: Timestamp, cx: &mut Context<'_>) -> bool {
        let shared = &dispatcher.shared;
        self.report_write_error(shared);
        if !self.reads || self.writes_first {
            // After output that is written first, the task waits for input, or the next iteration reads.
            return self.writes_first;
        }
        // Messages that the peer sent before it stopped reading are processed in any case.
        let failed = self.failed.is_some();
        let wants_input = |state: &mut State<PipeBinding<E>>| failed || state.binding.wants_input(now);
        let mut moved = false;
        if self.filled.is_none() {
            self.is_paused = !failed && !self.wants_input;
            if self.is_paused {
                // This side causes the delay, so it does not count against the peer.
                self.message_until = None;
                return false;
            }
            let Poll::Ready(filled) = self.wire.poll_fill(cx) else {
                if let Some(timeout) = self.message_timeout.filter(|_| self.wire.has_begun()) {
                    self.message_until.get_or_insert(now + timeout);
                }
                if self.message_until.is_some_and(|until| until <= now) {
                    self.reads = false;
                    shared.lock().binding.handle_transport_error("a message was not received in time");
                    return true;
                }
                return false;
            };
            (self.filled, moved) = (Some(filled), true);
        }
        while self.may_have_event() {
            let mut state = shared.lock();
            self.is_paused = !wants_input(&mut state);
            if self.is_paused {
                self.message_until = None;
                drop(state);
                self.queue_jobs(dispatcher);
                return moved;
            }
            let Some(frame) = self.wire.next_frame() else { break };
            (moved, self.has_received, self.message_until) = (true, true, None);
            match state.binding.handle_frame(now, frame) {
                // Events that are already queued come first.
                Some(event) if !state.events.is_empty() => state.events.push_back(event.into_owned()),
                Some(event) => {
                    drop(state);
                    if let Some(job) = dispatcher.call_application(event) {
                        self.jobs.push(job);
                        if self.jobs.len() == BATCH {
                            self.queue_jobs(dispatcher);
                        }
                    }
                    continue;
                }
                None => state.collect(),
            }
            drop(state);
            self.queue_jobs(dispatcher);
            dispatcher.dispatch_waiting();
        }
        self.queue_jobs(dispatcher);
        if self.has_received && !self.wire.has_begun() {
            // The bytes that followed the last message were a blank line, which is not a message.
            self.message_until = None;
        }
        if let Some(filled) = self.filled.take() {
            self.end_input(shared, filled, now);
        }
        true
    }

    fn write(&mut self, dispatcher: &Dispatcher<E, PipeBinding<E>>, now: Timestamp, cx: &mut Context<'_>) -> bool {
        let shared = &dispatcher.shared;
        let writes_first = mem::take(&mut self.writes_first);
        if !writes_first {
            shared.waiters.fire_timers(now);
        }
        let (has_events, capacity) = {
            let mut state = shared.lock();
            let has_events = if writes_first {
                state.collect();
                !state.events.is_empty()
            } else {
                shared.handle_timeout(&mut state, now)
            };
            if self.failed.is_none() {
                self.out.fill(&mut state.binding);
                self.wants_input = state.binding.wants_input(now);
            }
            (has_events, shared.waiters.capacity(&state.binding))
        };
        shared.waiters.notify(capacity);
        let dispatched = has_events && dispatcher.dispatch_waiting();
        if self.failed.is_some() {
            return dispatched;
        }
        let mut moved = false;
        let mut done = Poll::Pending;
        if !self.out.is_empty() {
            done = self.wire.poll_write(cx, self.out.pending()).map(|written| match written? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => {
                    self.out.advance(written);
                    self.flushed = false;
                    if self.is_paused {
                        shared.lock().binding.handle_written();
                    }
                    Ok(())
                }
            });
            moved = done.is_ready();
        }
        if self.out.is_empty() && !self.flushed {
            done = self.wire.poll_flush(cx).map_ok(|()| self.flushed = true);
            moved |= done.is_ready();
        }
        let error = match done {
            Poll::Ready(Err(error)) => Some((error, READ_AFTER_WRITE_ERROR)),
            // After a write timeout, nothing more is read: the timeout is the reason to report.
            _ => self.note_progress(moved, || shared.now()).err().map(|error| (error, Duration::ZERO)),
        };
        if let Some((error, timeout)) = error {
            self.out.clear();
            self.failed = Some(Failed { error: Some(error), until: shared.now() + timeout });
            return true;
        }
        moved || dispatched
    }

    fn awaits_input(&mut self, cx: &mut Context<'_>) -> bool {
        let has_deadline = self.message_timeout.is_some() && self.wire.has_begun();
        let is_written = self.out.is_empty() && self.flushed && self.failed.is_none();
        if !self.reads || self.filled.is_some() || has_deadline || !is_written {
            return false;
        }
        self.is_paused = !self.wants_input;
        if self.is_paused {
            return false;
        }
        // A peer that runs on the same processor may have responded to what was just written.
        match self.wire.poll_fill(cx) {
            Poll::Ready(filled) => {
                self.filled = Some(filled);
                false
            }
            Poll::Pending => true,
        }
    }

    fn can_write(&self) -> bool {
        self.out.is_empty() && self.failed.is_none()
    }

    fn is_paused(&self) -> bool {
        self.is_paused
    }

    fn due(&self) -> Option<Timestamp> {
        let failed = self.failed.as_ref().filter(|failed| failed.error.is_some()).map(|failed| failed.until);
        let message = self.message_until.filter(|_| self.reads);
        let write = self.write_until.filter(|_| self.failed.is_none());
        [failed, message, write].into_iter().flatten().min()
    }
}
