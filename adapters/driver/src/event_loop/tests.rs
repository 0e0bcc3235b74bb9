//! Connections over pipes in memory, whose tasks are polled by hand.

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::{
    connection::{CloseReason, Event, Limits, RequestOptions, Server, ServerRole},
    rpc::Timestamp,
    wire::{Json, RawJson},
};
use mcp_service::{
    Calls, Peer, Service,
    driver_api::{Application, ConnectionHandle, Job, Schedule},
};
use serde_json::{Value, json};

use crate::{
    event_loop::{
        binding::PipeBinding,
        run_loop::{Dispatcher, EventLoop, TransportIo},
        shared::SharedConnection,
    },
    options::DriverOptions,
    runtime::{Runtime, Timer},
    stream::{
        connection_task::{ConnectionTask, Timeouts},
        framed::ByteTransport,
        io::{ByteReader, ByteWriter},
        line_reader::Sniffer,
        memory::{PipeReader, PipeWriter, pipe},
    },
    sync::lock,
};

/// A runtime that runs no tasks, and whose timers wake none: they are ready when they are polled after their time.
#[derive(Clone)]
struct NoRuntime;

impl Runtime for NoRuntime {
    type Task = ();
    type Timer = Self;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, _: impl Future<Output = ()> + Send + 'static) {}

    fn detach((): ()) {}

    fn spawn_blocking(&self, _: impl FnOnce() + Send + 'static) {}

    fn timer(&self) -> Self {
        Self
    }
}

impl Timer for NoRuntime {
    fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
        if at <= Instant::now() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// An application that keeps the methods of messages, and the outcomes of its requests. It answers a notification
/// `vendor/ask` with `vendor/answer`.
#[derive(Default)]
struct Methods(Mutex<Vec<String>>);

impl Application<ServerRole> for Methods {
    fn handle(&self, connection: &Arc<dyn ConnectionHandle<ServerRole>>, event: Event<'_>) -> Option<Job> {
        let method = match event {
            Event::Notification { method, .. } if method.as_str() == "vendor/ask" => {
                connection.with_mut(&mut |connection, _| {
                    connection.notify_raw("vendor/answer", None).expect("it is ready");
                });
                return None;
            }
            Event::Request { method, .. } | Event::Notification { method, .. } => method.to_string(),
            Event::Response { outcome, .. } => format!("{outcome:?}"),
            _ => return None,
        };
        lock(&self.0).push(method);
        None
    }
}

/// The number of wakes that were not followed by a poll.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What happens at the ends of the pipes of a server.
#[derive(Default)]
struct Faults {
    /// How often input was read.
    reads: AtomicUsize,
    /// Output is not flushed.
    holds: AtomicBool,
    /// The error of the connection. The system reports it once; afterwards the input has ended, and the output is
    /// broken.
    error: Mutex<Option<io::ErrorKind>>,
    has_reported: AtomicBool,
}

impl Faults {
    /// Returns the result of an operation on a connection that has failed.
    fn result<T>(&self, afterwards: io::Result<T>) -> Option<Poll<io::Result<T>>> {
        let error = (*lock(&self.error))?;
        let has_reported = self.has_reported.swap(true, Ordering::Relaxed);
        Some(Poll::Ready(if has_reported { afterwards } else { Err(error.into()) }))
    }
}

/// An end of a pipe of a server.
struct PipeEnd<P>(P, Arc<Faults>);

impl ByteReader for PipeEnd<PipeReader> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.1.reads.fetch_add(1, Ordering::Relaxed);
        self.1.result(Ok(0)).unwrap_or_else(|| self.0.poll_read(cx, buffer))
    }
}

impl ByteWriter for PipeEnd<PipeWriter> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let broken = Err(io::ErrorKind::BrokenPipe.into());
        self.1.result(broken).unwrap_or_else(|| self.0.poll_write(cx, bytes))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.1.holds.load(Ordering::Relaxed) { Poll::Pending } else { self.0.poll_flush(cx) }
    }
}

/// A connection to a client, and the client's ends of the pipes.
struct ServerTask {
    shared: Arc<SharedConnection<ServerRole>>,
    application: Arc<Methods>,
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    wakes: Arc<Wakes>,
    faults: Arc<Faults>,
    input: PipeWriter,
    output: PipeReader,
}

impl ServerTask {
    /// Returns a connection after its handshake, whose output pipe holds so many bytes.
    fn ready(capacity: usize, limit: impl FnOnce(&mut Limits)) -> Self {
        let mut config = Service::builder("x", "1").build().expect("a service").config();
        limit(&mut config.settings.limits);
        let connection = |now| PipeBinding::new(Server::new(config, now), None);
        let shared = SharedConnection::new(connection, &DriverOptions::default());
        let application = Arc::<Methods>::default();
        let ((source, input), (output, sink)) = (pipe(4096), pipe(capacity));
        let faults = Arc::<Faults>::default();
        let (source, sink) = (PipeEnd(source, faults.clone()), PipeEnd(sink, faults.clone()));
        let wire = Box::new(ByteTransport::new(source, sink, 1 << 20, Sniffer::off()));
        let event_loop = EventLoop::new(shared.clone(), shared.clone(), application.clone(), NoRuntime);
        let task = ConnectionTask::new(event_loop, wire, Timeouts::default());
        let task = Box::pin(task.run(None, Duration::ZERO));
        let wakes = Arc::new(Wakes(1.into()));
        let mut server = Self { shared, application, task, wakes, faults, input, output };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"}});
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert!(server.read().contains("protocolVersion"));
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Polls the task until it waits.
    fn settle(&mut self) {
        let waker = Waker::from(self.wakes.clone());
        for _ in 0..100 {
            if self.wakes.0.swap(0, Ordering::Relaxed) == 0 {
                return;
            }
            assert!(self.task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it has ended");
        }
        panic!("the event loop does not park");
    }

    /// Sends a message to the server.
    fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let written = self.input.poll_write(&mut Context::from_waker(Waker::noop()), line.as_bytes());
        assert!(matches!(written, Poll::Ready(Ok(len)) if len == line.len()), "there is room");
        self.settle();
    }

    /// Reads all output.
    fn read(&mut self) -> String {
        let (mut all, mut chunk) = (Vec::new(), [0; 256]);
        while let Poll::Ready(read) = self.output.poll_read(&mut Context::from_waker(Waker::noop()), &mut chunk) {
            all.extend_from_slice(&chunk[..read.expect("it is open")]);
            self.settle();
        }
        String::from_utf8(all).expect("it is JSON")
    }

    /// Sends a notification to the client.
    fn notify(&self, method: &str) {
        self.shared.with_mut(&mut |connection, _| connection.notify_raw(method, None).expect("it is ready"));
    }

    fn methods(&self) -> Vec<String> {
        lock(&self.application.0).clone()
    }

    /// Returns how often the lock of the state was taken, and input was read, since the last call.
    fn counts(&self) -> [usize; 2] {
        [&self.shared.locks, &self.faults.reads].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

#[test]
fn an_idle_connection_is_not_polled() {
    let mut server = ServerTask::ready(4096, |_| {});
    for id in 1..4 {
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(server.read(), format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
        assert_eq!(server.wakes.0.load(Ordering::Relaxed), 0);
    }
    // A change that gives the event loop nothing to do does not wake it.
    server.shared.with_mut(&mut |_, _| {});
    assert_eq!(server.wakes.0.load(Ordering::Relaxed), 0);
    server.notify("vendor/x");
    assert!(server.wakes.0.load(Ordering::Relaxed) > 0);
    server.settle();
    assert!(server.read().contains("vendor/x"));
}

#[test]
fn a_message_takes_few_locks_and_reads() {
    let mut server = ServerTask::ready(4096, |_| {});
    server.counts();
    for _ in 0..3 {
        // Locks: to resume, to handle the message, to write, and to park. Reads: the message, and nothing.
        server.send(&json!({"jsonrpc": "2.0", "method": "vendor/x"}));
        assert_eq!(server.counts(), [4, 2]);
        // Locks: to send, to resume, to write, and to park. Reads: after the output is written.
        server.notify("vendor/y");
        server.settle();
        assert_eq!(server.counts(), [4, 1]);
        assert!(server.read().contains("vendor/y"));
        server.counts();
        // Locks: to resume, to handle the message, to send, to write, and to park. The output does not wake the event
        // loop, which runs.
        server.send(&json!({"jsonrpc": "2.0", "method": "vendor/ask"}));
        assert_eq!(server.counts(), [5, 2]);
        assert!(server.read().contains("vendor/answer"));
        server.counts();
    }
}

#[test]
fn a_connection_that_has_ended_keeps_no_waker() {
    for ends in [false, true] {
        let ServerTask { shared, mut task, wakes, input, output, .. } = ServerTask::ready(4096, |_| {});
        assert!(Arc::strong_count(&wakes) > 1, "it waits");
        if ends {
            drop(input);
            let waker = Waker::from(wakes.clone());
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        }
        // Otherwise the runtime drops a task that waits.
        drop(task);
        assert_eq!(Arc::strong_count(&wakes), 1, "{ends} {output:?}");
        assert!(shared.has_closed());
    }
}

/// The client reads nothing, and has as many requests in flight as it may have. It may need to send something before it
/// can respond to a request of the server, so reading resumes, although nothing can be written.
#[test]
fn a_new_request_resumes_reading_while_output_waits() {
    let mut server = ServerTask::ready(4096, |limits| limits.requests = 1);
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "vendor/call"}));
    let text = Json::new(&json!({"text": "x".repeat(100_000)})).expect("JSON");
    server.shared.with_mut(&mut |connection, _| {
        connection.notify_raw("vendor/long", Some(&RawJson::from(&text))).expect("there is room");
    });
    server.settle();
    server.send(&json!({"jsonrpc": "2.0", "method": "vendor/news"}));
    assert_eq!(server.methods(), ["vendor/call"], "reading is paused");
    server.shared.with_mut(&mut |connection, now| {
        connection.request_raw(now, "vendor/ask", None, RequestOptions::default()).expect("there is room");
    });
    server.settle();
    assert_eq!(server.methods(), ["vendor/call", "vendor/news"]);
    let output = server.read();
    let lines: Vec<_> = output.lines().collect();
    assert!(matches!(lines[..], [long, ask] if long.contains("vendor/long") && ask.contains("vendor/ask")), "{output}");
}

#[test]
fn deadlines_that_have_passed_are_processed() {
    let mut server = ServerTask::ready(4096, |_| {});
    server.shared.with_mut(&mut |connection, now| {
        let options = RequestOptions { total_timeout: Some(Duration::ZERO), ..RequestOptions::default() };
        connection.request_raw(now, "vendor/ask", None, options).expect("there is room");
    });
    server.settle();
    assert_eq!(server.methods().len(), 1);
    assert!(server.methods()[0].contains("TimedOut"), "{:?}", server.methods());
    assert_eq!(server.read(), "", "the request has not been written");
}

/// The output pipe is full, so nothing can be written when the event loop is resumed with output.
#[test]
fn input_is_read_while_output_waits() {
    let message = json!({"jsonrpc": "2.0", "method": "vendor/y"});
    let mut server = ServerTask::ready(message.to_string().len() + 1, |_| {});
    server.notify("vendor/y");
    server.settle();
    server.notify("vendor/y");
    server.send(&json!({"jsonrpc": "2.0", "method": "vendor/x"}));
    assert_eq!(server.methods(), ["vendor/x"]);
    assert_eq!(server.read(), format!("{message}\n").repeat(2));
}

/// The task of a timer, which keeps the time in the list of methods.
struct Timed(Arc<Methods>);

impl Wake for Timed {
    fn wake(self: Arc<Self>) {
        lock(&self.0.0).push("timer".into());
    }
}

/// Input is processed before timers that are due, also if output is written first.
#[test]
fn timers_fire_after_input_is_read() {
    let mut server = ServerTask::ready(4096, |_| {});
    let peer = Peer::new(server.shared.clone(), Arc::<Calls<ServerRole>>::default());
    let waker = Waker::from(Arc::new(Timed(server.application.clone())));
    // On a busy machine, a short time may have passed before the first poll.
    let mut time = Duration::from_millis(1);
    let _sleep = loop {
        let mut sleep = Box::pin(peer.sleep(time));
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            break sleep;
        }
        time *= 2;
    };
    thread::sleep(time);
    server.notify("vendor/y");
    server.send(&json!({"jsonrpc": "2.0", "method": "vendor/x"}));
    assert_eq!(server.methods(), ["vendor/x", "timer"]);
}

#[test]
fn output_is_not_written_first_before_a_flush() {
    let mut server = ServerTask::ready(4096, |_| {});
    server.faults.holds.store(true, Ordering::Relaxed);
    server.counts();
    for (reads, why) in [(1, "it is read after the output is written"), (2, "and before and after")] {
        server.notify("vendor/y");
        server.settle();
        assert_eq!(server.counts()[1], reads, "{why}");
    }
}

/// A request is cancelled before it is written, so there are an event and output.
#[test]
fn events_are_dispatched_when_output_is_written_first() {
    let mut server = ServerTask::ready(4096, |_| {});
    server.counts();
    server.shared.with_mut(&mut |connection, now| {
        let options = RequestOptions::default();
        let call = connection.request_raw(now, "vendor/ask", None, options).expect("there is room");
        connection.cancel(call, None).expect("it is open");
        connection.notify_raw("vendor/y", None).expect("it is ready");
    });
    server.settle();
    assert_eq!(server.methods(), ["Cancelled"]);
    assert_eq!(server.counts()[1], 1, "it is read once");
    assert!(server.read().contains("vendor/y"));
}

/// The system reports the reset to the first operation, which may be a write. Other errors of writes do not matter if
/// the input then ends.
#[test]
fn a_connection_that_was_reset_has_not_ended_cleanly() {
    let reset = io::ErrorKind::ConnectionReset;
    for (writes, error, is_clean) in
        [(false, reset, false), (true, reset, false), (true, io::ErrorKind::NotConnected, true)]
    {
        let ServerTask { shared, mut task, faults, input, .. } = {
            let server = ServerTask::ready(4096, |_| {});
            *lock(&server.faults.error) = Some(error);
            if writes {
                server.notify("vendor/y");
            }
            server
        };
        let is_over = task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let closed = shared.lifecycle.read(|lifecycle| lifecycle.closed.clone());
        assert_eq!(matches!(closed.as_deref(), Some(CloseReason::Eof)), is_clean, "{writes} {closed:?} {input:?}");
        assert!(is_over && closed.is_some() && faults.has_reported.load(Ordering::Relaxed));
    }
}

/// A transport without input and output.
struct Nothing;

impl<E, C> TransportIo<E, C> for Nothing {}

/// A transport that waits for input after each iteration.
struct Waiting;

impl<E, C> TransportIo<E, C> for Waiting {
    fn awaits_input(&mut self, _: &mut Context<'_>) -> bool {
        true
    }
}

/// A transport that has paused reading, and to which nothing can be written.
struct Paused;

impl<E, C> TransportIo<E, C> for Paused {
    fn can_write(&self) -> bool {
        false
    }

    fn is_paused(&self) -> bool {
        true
    }
}

/// A pause of reading begins when the event loop asks whether the connection wants input, and has an end.
#[test]
fn a_parked_event_loop_waits_for_the_end_of_a_pause() {
    let server = ServerTask::ready(4096, |limits| limits.outbox_bytes = 4096);
    let text = Json::new(&json!({"text": "x".repeat(3000)})).expect("JSON");
    server.shared.with_mut(&mut |connection, _| {
        connection.notify_raw("vendor/long", Some(&RawJson::from(&text))).expect("there is room");
    });
    let (shared, application) = (server.shared.clone(), server.application.clone());
    let mut event_loop = EventLoop::new(shared.clone(), shared, application, NoRuntime);
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(wakes.clone());
    let mut paused = Paused;
    let mut run = pin!(event_loop.run_until(&mut paused, None, |_, _, _| false));
    assert!(run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    server.shared.with_mut(&mut |_, _| {});
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "it knows the end of the pause");
}

/// A transport with a deadline that passes in its first iteration. In the second one, there is output.
#[derive(Default)]
struct Late {
    due: Option<Timestamp>,
    iterations: usize,
}

impl TransportIo<ServerRole, PipeBinding<ServerRole>> for Late {
    fn read(
        &mut self,
        dispatcher: &Dispatcher<ServerRole, PipeBinding<ServerRole>>,
        now: Timestamp,
        _: &mut Context<'_>,
    ) -> bool {
        self.iterations += 1;
        self.due = match self.iterations {
            1 => {
                thread::sleep(Duration::from_millis(1));
                Some(now + Duration::from_nanos(1))
            }
            2 => {
                dispatcher.shared.with_mut(&mut |connection, _| connection.notify_raw("vendor/y", None).expect("room"));
                None
            }
            _ => None,
        };
        false
    }

    fn can_write(&self) -> bool {
        self.iterations < 3
    }

    fn due(&self) -> Option<Timestamp> {
        self.due
    }
}

#[test]
fn an_event_loop_whose_deadline_has_passed_is_not_woken() {
    let server = ServerTask::ready(4096, |_| {});
    let (shared, application) = (server.shared.clone(), server.application.clone());
    let mut event_loop = EventLoop::new(shared.clone(), shared, application, NoRuntime);
    let (wakes, mut late) = (Arc::<Wakes>::default(), Late::default());
    let waker = Waker::from(wakes.clone());
    {
        let mut run = pin!(event_loop.run_until(&mut late, None, |_, _, _| false));
        assert!(run.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!((late.iterations, wakes.0.load(Ordering::Relaxed)), (3, 0), "it runs when there is output");
}

/// Returns a connection without a handshake, and its event loop.
fn idle_event_loop() -> (Arc<SharedConnection<ServerRole>>, EventLoop<ServerRole, PipeBinding<ServerRole>, NoRuntime>) {
    let config = Service::builder("x", "1").build().expect("a service").config();
    let connection = |now| PipeBinding::new(Server::new(config, now), None);
    let shared = SharedConnection::new(connection, &DriverOptions::default());
    let event_loop = EventLoop::new(shared.clone(), shared.clone(), Arc::<Methods>::default(), NoRuntime);
    (shared, event_loop)
}

/// The last job ends in the iteration that starts it, and its slot is freed when the event loop parks.
#[test]
fn a_job_that_ends_at_once_ends_the_wait_for_jobs() {
    let (shared, mut event_loop) = idle_event_loop();
    let job = Job::future(Schedule::Concurrent, async {});
    shared.lock_jobs().queue.push(job, 0).map_err(drop).expect("there is room");
    let mut waiting = Waiting;
    let ended = event_loop.end_jobs(&mut waiting);
    assert!(pin!(ended).poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// The last job ends on another thread after the event loop has counted the jobs, and before it parks.
#[test]
fn a_job_that_ends_before_the_event_loop_parks_is_noticed() {
    let (shared, mut event_loop) = idle_event_loop();
    let mut running = {
        let mut jobs = shared.lock_jobs();
        jobs.draining = true;
        jobs.queue.push(Job::future(Schedule::Concurrent, async {}), 0).map_err(drop).expect("there is room");
        jobs.queue.next().map(|(_, slot)| slot)
    };
    let mut nothing = Nothing;
    let drained = event_loop.run_until(&mut nothing, None, |_, _, _| {
        let is_over = shared.lock_jobs().queue.running() == 0;
        running.take().into_iter().for_each(|slot| shared.ended(slot, None));
        is_over
    });
    assert!(pin!(drained).poll(&mut Context::from_waker(Waker::noop())).is_ready());
}
