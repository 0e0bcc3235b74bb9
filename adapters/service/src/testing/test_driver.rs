//! One end of a connection in a test.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use mcp_proto::{
    codec::Frame,
    connection::{Arrival, Connection, Event, ResourceUsage},
    rpc::Timestamp,
};

use super::workers::Workers;
use crate::{
    driver_api::{
        connection_handle::{Application, ConnectionHandle},
        job::{JobFuture, JobKind},
        job_queue::{JobLimits, JobQueue, JobSlot, job_cost},
        waiters::Waiters,
    },
    util::lock::lock,
};

/// The virtual clock of a test.
#[derive(Debug)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Not zero, so that no timestamp is mistaken for a duration since the start.
    const START: u64 = 1_000_000_000;

    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(Self::START))
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.0.store(now.as_nanos(), Ordering::SeqCst);
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now().saturating_since(Timestamp::from_nanos(Self::START))
    }
}

/// One end: a connection, its application, and its handlers.
pub(super) struct TestDriver<E: 'static> {
    conn: Mutex<Connection<E>>,
    app: Arc<dyn Application<E>>,
    clock: Arc<Clock>,
    waiters: Waiters,
    jobs: Mutex<JobQueue>,
    tasks: Tasks,
    workers: Arc<Workers>,
    this: OnceLock<Weak<Self>>,
}

/// Handlers that are futures, and which of them were woken.
#[derive(Default)]
struct Tasks {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Task>>,
    woken: Arc<Mutex<Vec<u64>>>,
}

struct Task {
    slot: JobSlot,
    future: JobFuture,
}

/// Notes that a task was woken.
struct Note {
    task: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        let mut woken = lock(&self.woken);
        if !woken.contains(&self.task) {
            woken.push(self.task);
        }
    }
}

impl<E: Send + 'static> TestDriver<E> {
    pub(super) fn new(
        conn: Connection<E>,
        app: Arc<dyn Application<E>>,
        clock: &Arc<Clock>,
        workers: &Arc<Workers>,
    ) -> Arc<Self> {
        let end = Arc::new(Self {
            conn: Mutex::new(conn),
            app,
            clock: clock.clone(),
            waiters: Waiters::new(),
            jobs: Mutex::new(JobQueue::new(JobLimits::default())),
            tasks: Tasks::default(),
            workers: workers.clone(),
            this: OnceLock::new(),
        });
        let _ = end.this.set(Arc::downgrade(&end));
        end.app.begin(&end.connection());
        end
    }

    pub(super) fn connection(&self) -> Arc<dyn ConnectionHandle<E>> {
        self.this.get().and_then(Weak::upgrade).expect("it is set when it is made")
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Connection<E>) -> R) -> R {
        let (result, capacity) = {
            let mut conn = lock(&self.conn);
            (f(&mut conn), self.waiters.capacity(&conn))
        };
        self.waiters.notify(capacity);
        result
    }

    /// Processes a frame from the other end.
    pub(super) fn input(&self, line: &[u8], arrival: Option<Arrival>) {
        let now = self.clock.now();
        let event = self.with(|conn| {
            let frame = Frame::new(line);
            let event = match arrival {
                Some(arrival) => conn.handle_frame_from(now, frame, arrival),
                None => conn.handle_frame(now, frame),
            };
            event.map(Event::into_owned)
        });
        if let Some(event) = event {
            self.event(event);
        }
    }

    fn event(&self, event: Event<'_>) {
        let weight = job_cost(&event);
        if let Some(job) = self.app.handle(&self.connection(), event) {
            let pushed = lock(&self.jobs).push(job, weight);
            // It answers when it is dropped, which takes the lock of the connection.
            drop(pushed);
        }
    }

    /// Returns whether the connection reads now.
    pub(super) fn wants_input(&self) -> bool {
        let now = self.clock.now();
        self.with(|conn| conn.wants_input(now))
    }

    /// Appends the frames to send, unless earlier ones have not been read. Returns whether there were any.
    pub(super) fn output_into(&self, unread: &Mutex<VecDeque<Vec<u8>>>) -> bool {
        let mut unread = lock(unread);
        if !unread.is_empty() {
            return false;
        }
        self.with(|conn| {
            loop {
                let mut line = Vec::new();
                if conn.poll_transmit(&mut line).is_none() {
                    return !unread.is_empty();
                }
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                unread.push_back(line);
            }
        })
    }

    /// Processes the events of the connection and lets handlers run. Returns whether there was anything to do.
    pub(super) fn turn(&self) -> bool {
        let mut any = false;
        self.waiters.fire_timers(self.clock.now());
        while let Some(event) = self.with(Connection::poll_event) {
            any = true;
            self.event(event);
        }
        loop {
            let next = lock(&self.jobs).next();
            let Some((job, slot)) = next else { break };
            any = true;
            match job.into_kind() {
                JobKind::Blocking(run) => {
                    let end = self.this.get().and_then(Weak::upgrade).expect("it is set when it is made");
                    self.workers.start(move || {
                        run.run();
                        lock(&end.jobs).ended(slot);
                    });
                }
                JobKind::Async(future) => {
                    let number = self.tasks.next.fetch_add(1, Ordering::SeqCst);
                    self.poll(number, Task { slot, future });
                }
            }
        }
        let woken = mem::take(&mut *lock(&self.tasks.woken));
        for number in woken {
            let task = lock(&self.tasks.waiting).remove(&number);
            if let Some(task) = task {
                any = true;
                self.poll(number, task);
            }
        }
        any
    }

    fn poll(&self, number: u64, mut task: Task) {
        let waker = Waker::from(Arc::new(Note { task: number, woken: self.tasks.woken.clone() }));
        match Pin::new(&mut task.future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => lock(&self.jobs).ended(task.slot),
            Poll::Pending => {
                lock(&self.tasks.waiting).insert(number, task);
            }
        }
    }

    /// Returns the next time at which a deadline or timer is due.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let deadline = self.with(|conn| conn.poll_timeout().map(|deadline| deadline.at));
        deadline.into_iter().chain(self.waiters.next_deadline()).min()
    }

    /// Informs the connection that time has passed, if a deadline is due: drivers call it at no other time.
    pub(super) fn time_has_passed(&self) {
        let now = self.clock.now();
        self.with(|conn| {
            if conn.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
                conn.handle_timeout(now);
            }
        });
    }

    pub(super) fn usage(&self) -> ResourceUsage {
        self.with(|conn| conn.usage())
    }

    /// Returns the number of handlers that have not ended.
    pub(super) fn handlers(&self) -> usize {
        let jobs = lock(&self.jobs);
        jobs.running() + jobs.waiting()
    }

    /// Breaks the connection, and ends everything that waits for it.
    pub(super) fn cut(&self) {
        self.with(Connection::handle_disconnect);
        while let Some(event) = self.with(Connection::poll_event) {
            self.event(event);
        }
        let given_up = lock(&self.jobs).drain();
        drop(given_up);
        // They wake threads and hand over results, and a task may hold the last of this end.
        let tasks = mem::take(&mut *lock(&self.tasks.waiting));
        drop(tasks);
    }
}

impl<E: Send + 'static> ConnectionHandle<E> for TestDriver<E> {
    fn with_mut(&self, f: &mut dyn FnMut(&mut Connection<E>, Timestamp)) {
        let now = self.clock.now();
        TestDriver::with(self, |conn| f(conn, now));
    }

    fn with_ref(&self, f: &mut dyn FnMut(&Connection<E>)) {
        TestDriver::with(self, |conn| f(conn));
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}
