//! The threads that read and run handlers.
//!
//! All threads do the same. A thread that has read a message runs the resulting job and then reads again. So a message
//! with a fast handler, as most are, costs no switch of threads. Another thread reads, or takes the next job, only when
//! a handler blocks or takes longer than [`TAKE_OVER_AFTER`]. A handler that blocks calls `on_block`. One of the idle
//! threads, the watchdog, detects slow handlers: it checks at this interval whether jobs begin. No other thread checks
//! the time.
//!
//! A thread of the application that waits for a response reads as well, so that its response needs no switch of
//! threads. While such callers read in turn, one worker leaves the input to them. It reads again if none of them has
//! for [`TAKE_OVER_AFTER`]. Until then, requests may be held back, so that those that are sent one after the other
//! leave in one write: callers write them before they wait, and that worker at the end of its wait. A caller runs no
//! handlers, so it does not read while too many jobs wait for them: a worker, which runs jobs before it reads, does.

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcp_driver::{JobQueue, JobSlot, WaitingThread, on_block, tuning};
use mcp_service::driver_api::Job;

use mcp_driver::DriverOptions;
use mcp_driver::os::thread::{lock, spawn, wait, wait_for};

/// How long a handler may take before another thread takes the next action of its thread. The watchdog checks at this
/// interval, so it can take twice as long. More frequent checks would slow down fast handlers.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(1);

/// How long an idle thread lives.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs to be queued, in order, with their costs.
pub(crate) type JobBatch = Vec<(Job, usize)>;

/// A function that waits for input and queues the resulting jobs. One thread at a time owns it.
type ReadFn = Box<dyn FnMut(Wait<'_>) -> ReadOutcome + Send>;

/// A function that writes requests that were held back.
type FlushFn = Arc<dyn Fn() + Send + Sync>;

/// How long to wait for input.
#[derive(Clone, Copy)]
pub(crate) enum Wait<'a> {
    None,
    Unbounded,
    /// On this thread, which waits for a response.
    UntilNotified(&'a WaitingThread),
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// More may follow.
    Read,
    Ended,
    /// A thread that waits for a response cannot read now: the connection does not accept input, or too many jobs wait.
    Paused,
    /// Such a thread can never read.
    Unsupported,
}

/// A bounded pool of threads, which read input and run queued jobs.
///
/// Nothing that a running job waits for needs a free thread: responses, progress and cancellations are processed when
/// they are read, and there is always a thread to read. After callers have read, it may begin up to two
/// [`TAKE_OVER_AFTER`] later.
pub(crate) struct WorkerPool {
    /// Tracks whether the current thread runs a handler of this connection.
    pub(crate) handler_scope: mcp_driver::HandlerScope,
    state: Mutex<PoolState>,
    work_available: Condvar,
    /// Wakes the worker that leaves the input to callers.
    callers_left: Condvar,
    worker_exited: Condvar,
    /// The maximum number of threads: one for each running job, and one to read.
    size: usize,
}

#[derive(Default)]
struct PoolState {
    jobs: JobQueue,
    /// The function that reads. `None` while a thread runs it, and after the end of the input.
    read_fn: Option<ReadFn>,
    reading: bool,
    flush_fn: Option<FlushFn>,
    /// Whether requests were held back since the worker that leaves the input to callers has checked.
    has_held: bool,
    /// Set while the input is left to callers: threads that wait for a response. A worker takes it back when they have
    /// not read for a while.
    callers_read: bool,
    /// Set if only workers can read.
    workers_read: bool,
    /// Set while a worker waits for that, and while it sleeps without a timeout.
    leaves: bool,
    asleep: bool,
    /// Set while a caller reads.
    caller_reading: bool,
    /// How often a caller has ended to read.
    calls: u64,
    /// The callers that wait while another thread reads.
    parked: Vec<WaitingThread>,
    /// How many jobs have begun.
    begun: u64,
    /// Set if none of the threads that run jobs will take the next action soon.
    stuck: bool,
    /// How many jobs were started because of `stuck` since a job has ended. The more there are, the more often the
    /// watchdog checks, since the next job is likely to be slow as well.
    slow: u32,
    threads: Vec<JoinHandle<()>>,
    alive: usize,
    /// The number of sleeping threads.
    idle: usize,
    /// Whether one of the sleeping threads is the watchdog.
    watched: bool,
    /// Whether a thread was notified or started, and has not woken up yet.
    called: bool,
    closed: bool,
}

/// The next action of a thread.
enum NextAction {
    Run(Job, JobSlot),
    Read(ReadFn),
    /// Leave the input to callers while they read.
    Leave,
    /// A thread that `watches` is the watchdog.
    Sleep {
        watches: bool,
    },
    Exit,
}

/// The last action of a thread.
#[derive(Clone, Copy, PartialEq)]
enum LastAction {
    /// It has worked.
    Work,
    /// It was the watchdog. The number is that of the jobs that had begun before.
    Watch(u64),
    Sleep,
}

impl WorkerPool {
    /// Creates a pool without threads. It grows to one thread for each job that may run at once, and one to read.
    pub(crate) fn new(options: &DriverOptions) -> Arc<Self> {
        let state = Mutex::new(PoolState { jobs: JobQueue::on_threads(options.job_limits()), ..PoolState::default() });
        let (handler_scope, work_available, callers_left, worker_exited) = Default::default();
        let size = options.handlers.max(1) + 1;
        Arc::new(Self { handler_scope, state, work_available, callers_left, worker_exited, size })
    }

    /// Starts the first thread, which reads.
    pub(crate) fn start(self: &Arc<Self>, read_fn: ReadFn, flush_fn: FlushFn) -> io::Result<()> {
        let mut state = lock(&self.state);
        (state.read_fn, state.flush_fn) = (Some(read_fn), Some(flush_fn));
        self.spawn_worker(&mut state)
    }

    /// Queues jobs, and drops those that exceed the limits of the queue. The reader takes the next action itself; for
    /// another caller (`by_reader` is false) a thread is notified.
    pub(crate) fn push(self: &Arc<Self>, jobs: &mut JobBatch, by_reader: bool) {
        if jobs.is_empty() && by_reader {
            return;
        }
        let mut state = lock(&self.state);
        let refused: Vec<_> = jobs.drain(..).filter_map(|(job, cost)| state.jobs.push(job, cost).err()).collect();
        if !by_reader {
            self.notify(&mut state);
        }
        drop(state);
        // Dropping a refused job responds to its request.
        drop(refused);
    }

    /// Notifies or starts a thread if there is a next action, unless a busy thread will take it or the watchdog will
    /// notice it.
    fn notify(self: &Arc<Self>, state: &mut PoolState) {
        // While there is a watchdog, only an action that may not wait is worth a notification.
        if state.called || !state.has_next() || state.watched && !state.may_not_wait() {
            return;
        }
        if state.idle > 0 {
            state.called = true;
            self.work_available.notify_one();
        } else if state.alive < self.size {
            // If no thread can be started, an existing one takes the action: at once the one that leaves the input to
            // callers, or else one whose job has ended.
            state.called = self.spawn_worker(state).is_ok();
            if !state.called && state.leaves {
                self.take_back(state);
            }
        }
    }

    /// Ends that the input is left to callers.
    fn take_back(&self, state: &mut PoolState) {
        state.callers_read = false;
        self.callers_left.notify_one();
    }

    /// Returns whether so many jobs wait that only workers, which run them, may read.
    pub(crate) fn is_behind(&self) -> bool {
        lock(&self.state).is_behind()
    }

    /// Reads on this thread, which waits for a response, until it is notified. If another thread reads, parks until it
    /// is notified.
    pub(crate) fn drive(self: &Arc<Self>, thread: &WaitingThread) {
        let mut state = lock(&self.state);
        if state.closed || state.workers_read {
            return;
        }
        if state.is_behind() {
            // If the input is left to callers, a worker has to read now.
            if state.callers_read {
                self.take_back(&mut state);
                self.notify(&mut state);
            }
            return;
        }
        // If a worker reads now, it leaves the input to callers afterwards.
        state.callers_read = true;
        let Some(mut read_fn) = state.read_fn.take() else {
            state.parked.push(thread.clone());
            drop(state);
            thread.park();
            lock(&self.state).parked.retain(|other| !other.is(thread));
            return;
        };
        state.caller_reading = true;
        drop(state);
        let mut outcome = ReadOutcome::Read;
        while outcome == ReadOutcome::Read && !thread.is_notified() {
            let read = || read_fn(Wait::UntilNotified(thread));
            outcome = catch_unwind(AssertUnwindSafe(read)).unwrap_or(ReadOutcome::Ended);
        }
        self.end_drive(read_fn, outcome);
    }

    /// Returns whether a request may be held back, because a worker calls the flush function within
    /// [`TAKE_OVER_AFTER`].
    pub(crate) fn hold(&self) -> bool {
        let mut state = lock(&self.state);
        let is_watched = state.leaves && state.callers_read && !state.asleep && !state.closed;
        state.has_held |= is_watched;
        is_watched
    }

    /// Returns whether the input is left to callers.
    pub(crate) fn is_left_to_callers(&self) -> bool {
        lock(&self.state).callers_read
    }

    /// Returns the input of a caller. Another caller reads next, or a worker if none has read for a while.
    fn end_drive(self: &Arc<Self>, read_fn: ReadFn, outcome: ReadOutcome) {
        let mut state = lock(&self.state);
        state.caller_reading = false;
        state.workers_read |= outcome == ReadOutcome::Unsupported;
        state.calls += 1;
        let kept = outcome != ReadOutcome::Ended && !state.closed;
        let (kept, ended) = if kept { (Some(read_fn), None) } else { (None, Some(read_fn)) };
        state.read_fn = kept;
        // If no worker watches the callers, one has to read now.
        state.callers_read &= outcome == ReadOutcome::Read && state.leaves;
        if state.asleep || !state.callers_read {
            self.callers_left.notify_one();
        }
        let next = state.next_caller();
        // The next caller may not read either, for example because its response has arrived.
        if next.is_none() || !state.callers_read && !state.leaves {
            self.notify(&mut state);
        }
        drop(state);
        drop(ended);
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Leaves the input to callers, until they have not read for a while.
    fn leave<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        state.leaves = true;
        if let Some(next) = state.next_caller() {
            drop(state);
            next.notify();
            state = lock(&self.state);
        }
        while state.callers_read && !state.closed {
            let (calls, reading) = (state.calls, state.caller_reading);
            (state, _) = wait_for(&self.callers_left, state, TAKE_OVER_AFTER);
            let is_unchanged = state.calls == calls && state.callers_read && !state.closed;
            if is_unchanged && !state.caller_reading {
                state.callers_read = false;
            } else if is_unchanged && reading && !state.has_held {
                // It may wait for its response for a long time.
                state.asleep = true;
                state = wait(&self.callers_left, state);
                state.asleep = false;
            } else {
                // Everything may have changed meanwhile, so it is checked again.
                state = self.flush(state);
            }
        }
        state.leaves = false;
        self.flush(state)
    }

    /// Writes the requests that were held back. Releases the lock meanwhile.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        if !mem::take(&mut state.has_held) {
            return state;
        }
        let flush_fn = state.flush_fn.clone();
        drop(state);
        if let Some(flush_fn) = flush_fn {
            // It calls the writer of the transport, and wakers.
            let _ = catch_unwind(AssertUnwindSafe(|| flush_fn()));
        }
        lock(&self.state)
    }

    /// Records that the job of this thread blocks, and notifies another thread to take the next action.
    fn on_block(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.stuck = state.has_next();
        self.notify(&mut state);
    }

    fn spawn_worker(self: &Arc<Self>, state: &mut PoolState) -> io::Result<()> {
        let pool = self.clone();
        let thread = spawn("mcp-worker", move || pool.work())?;
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
        state.alive += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let pool = self.clone();
        on_block(move |_| pool.on_block());
        let mut state = lock(&self.state);
        state.called = false;
        let mut last = LastAction::Sleep;
        loop {
            match state.next_action(last) {
                NextAction::Run(job, slot) => {
                    self.notify(&mut state);
                    drop(state);
                    // A panic ends only this job, and not the thread.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.handler_scope.run(|| job.run())));
                    state = lock(&self.state);
                    state.jobs.ended(slot);
                    state.slow = 0;
                    last = LastAction::Work;
                }
                NextAction::Read(mut read_fn) => {
                    state.reading = true;
                    self.notify(&mut state);
                    drop(state);
                    let read = || read_fn(Wait::Unbounded);
                    let more = catch_unwind(AssertUnwindSafe(read)).is_ok_and(|outcome| outcome == ReadOutcome::Read);
                    let read_fn = Some(read_fn).filter(|_| more);
                    state = lock(&self.state);
                    state.reading = false;
                    state.read_fn = read_fn.filter(|_| !state.closed);
                    last = LastAction::Work;
                }
                NextAction::Leave => {
                    state = self.leave(state);
                    last = LastAction::Work;
                }
                NextAction::Sleep { watches } => {
                    let timed_out;
                    let time = if watches { TAKE_OVER_AFTER / (1 << state.slow.min(10)) } else { IDLE_TIMEOUT };
                    last = if watches { LastAction::Watch(state.begun) } else { LastAction::Sleep };
                    state.idle += 1;
                    state.watched |= watches;
                    (state, timed_out) = wait_for(&self.work_available, state, time);
                    state.idle -= 1;
                    state.watched &= !watches;
                    state.called = false;
                    if timed_out && !watches && state.alive > 2 && !state.has_next() {
                        break;
                    }
                }
                NextAction::Exit => break,
            }
        }
        state.alive -= 1;
        self.worker_exited.notify_all();
        // During a shutdown, threads that sleep while the last jobs run have to check again whether they can end.
        self.work_available.notify_all();
    }

    /// Runs the queued jobs to their end and ends the threads, but waits no longer than `timeout`. It waits neither for
    /// a thread that is `stuck` in a read nor for jobs that outlive the connection.
    pub(crate) fn shutdown(&self, timeout: Duration, stuck: bool) {
        let until = Instant::now() + timeout;
        let mut state = lock(&self.state);
        state.closed = true;
        let read_fn = state.read_fn.take();
        self.work_available.notify_all();
        self.callers_left.notify_all();
        while state.alive > usize::from(stuck && state.reading) + state.jobs.outliving() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = wait_for(&self.worker_exited, state, left);
        }
        let threads = mem::take(&mut state.threads);
        let all_exited = state.alive == 0;
        drop((state, read_fn));
        for thread in threads {
            if all_exited || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl PoolState {
    /// Returns whether there is a next action: to read, or to run a job.
    fn has_next(&self) -> bool {
        self.read_fn.is_some() && !self.callers_read || self.jobs.has_next()
    }

    /// Returns a caller that waits and could read.
    fn next_caller(&self) -> Option<WaitingThread> {
        self.read_fn.as_ref()?;
        self.parked.iter().find(|thread| !thread.is_notified()).cloned()
    }

    fn is_behind(&self) -> bool {
        self.jobs.waiting() > tuning::MAX_BATCHED_JOBS
    }

    /// Returns whether no busy thread will take the next action soon.
    fn may_not_wait(&self) -> bool {
        self.stuck || self.jobs.running() == 0
    }

    fn next_action(&mut self, last: LastAction) -> NextAction {
        if self.closed && self.jobs.waiting() == 0 {
            return NextAction::Exit;
        }
        let goes_on = matches!(last, LastAction::Watch(begun) if begun != self.begun);
        // No job has begun since the last check, so the running ones are slow.
        self.stuck |= matches!(last, LastAction::Watch(begun) if begun == self.begun);
        if last != LastAction::Work && !self.may_not_wait() {
            return NextAction::Sleep { watches: (goes_on || self.has_next()) && !self.watched };
        }
        // A thread that takes over from busy ones reads first: their handlers may wait for the input.
        let can_read = self.read_fn.is_some() && !self.callers_read;
        let reads_first = self.stuck && last != LastAction::Work && can_read;
        if !reads_first && let Some((job, slot)) = self.jobs.next() {
            self.begun += 1;
            // Callers must not wait for a job: unless a worker watches them, another one reads.
            self.callers_read &= self.leaves;
            self.slow += u32::from(mem::take(&mut self.stuck));
            return NextAction::Run(job, slot);
        }
        self.stuck &= reads_first;
        if self.callers_read && !self.leaves && (self.read_fn.is_some() || self.caller_reading) {
            return NextAction::Leave;
        }
        self.read_fn
            .take_if(|_| can_read)
            .map_or(NextAction::Sleep { watches: goes_on && !self.watched }, NextAction::Read)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mcp_driver::Watched;

    use super::*;

    /// A timeout that no operation of a passing test reaches.
    const LONG: Duration = Duration::from_secs(20);

    /// The worker that leaves the input to callers must not sleep as long as a caller reads, if a request is held back
    /// while it writes those before.
    #[test]
    fn a_request_held_during_a_flush_is_flushed() {
        let (pool, flushes) = (WorkerPool::new(&DriverOptions::default()), Arc::new(Watched::<u32>::default()));
        let (weak, counted) = (Arc::downgrade(&pool), flushes.clone());
        let flush_fn = move || {
            if counted.read(|count| *count) == 0 {
                assert!(weak.upgrade().is_some_and(|pool| pool.hold()), "the worker is watching");
            }
            counted.update(|count| *count += 1);
        };
        {
            let mut state = lock(&pool.state);
            (state.callers_read, state.caller_reading, state.has_held) = (true, true, true);
            state.flush_fn = Some(Arc::new(flush_fn));
        }
        let watching = {
            let pool = pool.clone();
            thread::spawn(move || drop(pool.leave(lock(&pool.state))))
        };
        let is_flushed = flushes.wait_until(LONG, |count| *count == 2);
        pool.take_back(&mut lock(&pool.state));
        watching.join().expect("no panic");
        assert!(is_flushed, "a request is held for ever");
    }
}
