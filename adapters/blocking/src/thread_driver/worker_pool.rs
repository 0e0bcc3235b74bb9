//! The threads that read and run handlers.
//!
//! They are all alike. Whoever has read something runs what comes of it, and reads on; so a message costs no change of
//! threads if its handler is done before another thread would have woken up, as most are. Only when a handler waits, or takes
//! longer than [`TAKE_OVER_AFTER`], does somebody else go on reading, or take the next job. What waits says so; the rest is noticed by
//! one of the other threads, the watchdog, which checks that often whether jobs begin. Nobody else looks at a clock.

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcp_driver::{JobQueue, JobSlot, on_block};
use mcp_service::Job;

use mcp_driver::Options;
use mcp_driver::unix::thread::{lock, spawn, wait_for};

/// How long a handler may take before others do what its thread would do next, and sometimes twice as long: it is looked that
/// often. Those who are quick feel it if somebody wakes up more often.
const TAKE_OVER_AFTER: Duration = Duration::from_millis(1);

/// How long a thread without work stays.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Jobs that are to be queued, in order, and what they weigh.
pub(crate) type JobBatch = Vec<(Job, usize)>;

/// Waits for something to read, and queues what comes of it. Whether there will be more. One thread at a time has it.
type ReadFn = Box<dyn FnMut() -> bool + Send>;

/// A bounded pool of threads, the jobs that wait for them, in order, and what they read from.
///
/// Nothing that a job may wait for depends on a free thread: answers, progress and cancellations are dealt with as they
/// are read, and there is always a thread to read.
pub(crate) struct WorkerPool {
    /// Who is asking: a handler of this connection, or somebody else.
    pub(crate) duty: mcp_driver::HandlerScope,
    state: Mutex<PoolState>,
    work: Condvar,
    left: Condvar,
    /// How many threads there may be: one for each job that runs, and one to read.
    size: usize,
}

#[derive(Default)]
struct PoolState {
    jobs: JobQueue,
    /// What is read from. Absent while somebody does, and in the end.
    read_fn: Option<ReadFn>,
    reading: bool,
    /// How many jobs have begun.
    begun: u64,
    /// Those who run jobs will not come soon for what waits.
    stuck: bool,
    /// How many jobs in a row have begun because of that: if one is slow, the next may be like it.
    slow: u32,
    threads: Vec<JoinHandle<()>>,
    alive: usize,
    /// Threads that sleep.
    asleep: usize,
    /// One of them is the watchdog.
    watched: bool,
    /// A thread was called and has not come yet.
    called: bool,
    closed: bool,
}

/// What a thread does next.
enum NextAction {
    Run(Job, JobSlot),
    Read(ReadFn),
    /// Whoever watches is the watchdog.
    Sleep {
        watches: bool,
    },
    Leave,
}

/// Where a thread comes from.
#[derive(Clone, Copy, PartialEq)]
enum LastAction {
    /// It has done something, and goes on.
    Work,
    /// It was the watchdog; so many jobs had begun by then.
    Watch(u64),
    Sleep,
}

impl WorkerPool {
    /// A pool that grows as long as more jobs may run at once.
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        let state = Mutex::new(PoolState { jobs: JobQueue::on_threads(options.job_limits()), ..PoolState::default() });
        let (duty, work, left) = Default::default();
        Arc::new(Self { duty, state, work, left, size: options.handlers.max(1) + 1 })
    }

    /// Begins, with one thread that reads.
    pub(crate) fn start(self: &Arc<Self>, read_fn: ReadFn) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.read_fn = Some(read_fn);
        self.spawn_worker(&mut state)
    }

    /// Queues jobs, and drops those that there is no place for. Whoever reads comes for them after that; if this is done by
    /// somebody else, `by_reader` is false.
    pub(crate) fn push(self: &Arc<Self>, jobs: &mut JobBatch, by_reader: bool) {
        if jobs.is_empty() && by_reader {
            return;
        }
        let mut state = lock(&self.state);
        let refused: Vec<_> = jobs.drain(..).filter_map(|(job, weight)| state.jobs.push(job, weight).err()).collect();
        if !by_reader {
            self.notify(&mut state);
        }
        drop(state);
        // Whoever asked for them is told by that.
        drop(refused);
    }

    /// Sees to it that somebody comes for what waits, or looks after it.
    fn notify(self: &Arc<Self>, state: &mut PoolState) {
        // Where somebody watches, only what may not wait is worth a call.
        if state.called || !state.has_next() || state.watched && !state.may_not_wait() {
            return;
        }
        if state.asleep > 0 {
            state.called = true;
            self.work.notify_one();
        } else if state.alive < self.size {
            // Without another thread, those there are will get to it.
            state.called = self.spawn_worker(state).is_ok();
        }
    }

    /// A job waits for something, and what its thread would do next is for others.
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
        on_block(move || pool.on_block());
        let mut state = lock(&self.state);
        state.called = false;
        let mut last = LastAction::Sleep;
        loop {
            match state.next_action(last) {
                NextAction::Run(job, slot) => {
                    self.notify(&mut state);
                    drop(state);
                    // A panic is the job's own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.duty.run(|| job.run())));
                    state = lock(&self.state);
                    state.jobs.ended(slot);
                    state.slow = 0;
                    last = LastAction::Work;
                }
                NextAction::Read(mut read_fn) => {
                    state.reading = true;
                    self.notify(&mut state);
                    drop(state);
                    let more = catch_unwind(AssertUnwindSafe(&mut read_fn)).unwrap_or(false);
                    let read_fn = Some(read_fn).filter(|_| more);
                    state = lock(&self.state);
                    state.reading = false;
                    state.read_fn = read_fn.filter(|_| !state.closed);
                    last = LastAction::Work;
                }
                NextAction::Sleep { watches } => {
                    let timed_out;
                    let time = if watches { TAKE_OVER_AFTER / (1 << state.slow.min(10)) } else { IDLE_TIMEOUT };
                    last = if watches { LastAction::Watch(state.begun) } else { LastAction::Sleep };
                    state.asleep += 1;
                    state.watched |= watches;
                    (state, timed_out) = wait_for(&self.work, state, time);
                    state.asleep -= 1;
                    state.watched &= !watches;
                    state.called = false;
                    if timed_out && !watches && state.alive > 2 && !state.has_next() {
                        break;
                    }
                }
                NextAction::Leave => break,
            }
        }
        state.alive -= 1;
        self.left.notify_all();
        // When the pool is dismissed, those who sleep while the last jobs run are to see that there are no more.
        self.work.notify_all();
    }

    /// Runs what is queued to its end, but waits no longer than `patience` for it, and neither for a thread that is `stuck` in
    /// a read nor for those that go on without the connection.
    pub(crate) fn shutdown(&self, patience: Duration, stuck: bool) {
        let until = Instant::now() + patience;
        let mut state = lock(&self.state);
        state.closed = true;
        let read_fn = state.read_fn.take();
        self.work.notify_all();
        while state.alive > usize::from(stuck && state.reading) + state.jobs.outliving() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = wait_for(&self.left, state, left);
        }
        let threads = mem::take(&mut state.threads);
        let all_left = state.alive == 0;
        drop((state, read_fn));
        for thread in threads {
            if all_left || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl PoolState {
    /// Whether there is something to do.
    fn has_next(&self) -> bool {
        self.read_fn.is_some() || self.jobs.has_next()
    }

    /// Whether nobody who is busy will come soon for what there is to do.
    fn may_not_wait(&self) -> bool {
        self.stuck || self.jobs.running() == 0
    }

    fn next_action(&mut self, last: LastAction) -> NextAction {
        if self.closed && self.jobs.waiting() == 0 {
            return NextAction::Leave;
        }
        let goes_on = matches!(last, LastAction::Watch(begun) if begun != self.begun);
        // Nothing has begun since it was last looked: those who run something take their time.
        self.stuck |= matches!(last, LastAction::Watch(begun) if begun == self.begun);
        if last != LastAction::Work && !self.may_not_wait() {
            return NextAction::Sleep { watches: (goes_on || self.has_next()) && !self.watched };
        }
        // Who comes because others are busy reads first: it may be what they wait for.
        let reads_first = self.stuck && last != LastAction::Work && self.read_fn.is_some();
        if !reads_first && let Some((job, slot)) = self.jobs.next() {
            self.begun += 1;
            self.slow += u32::from(mem::take(&mut self.stuck));
            return NextAction::Run(job, slot);
        }
        self.stuck &= reads_first;
        self.read_fn.take().map_or(NextAction::Sleep { watches: goes_on && !self.watched }, NextAction::Read)
    }
}
