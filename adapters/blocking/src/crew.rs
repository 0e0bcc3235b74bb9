//! The threads that read and run handlers.
//!
//! They are all alike. Whoever has read something runs what comes of it, and reads on; so a message costs no change of
//! threads if its handler is done before another thread would have woken up, as most are. Only when a handler waits, or takes
//! longer than [`PATIENCE`], does somebody else go on reading, or take the next job. What waits says so; the rest is noticed by
//! one of the other threads, the lookout, which looks that often whether jobs begin. Nobody else looks at a clock.

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcp_driver::{Jobs, Slot, on_wait};
use mcp_service::Job;

use mcp_driver::Options;
use mcp_driver::unix::thread::{lock, spawn, wait_for};

/// How long a handler may take before others do what its thread would do next, and sometimes twice as long: it is looked that
/// often. Those who are quick feel it if somebody wakes up more often.
const PATIENCE: Duration = Duration::from_millis(1);

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// Jobs that are to be queued, in order, and what they weigh.
pub(crate) type Brought = Vec<(Job, usize)>;

/// Waits for something to read, and queues what comes of it. Whether there will be more. One thread at a time has it.
type Intake = Box<dyn FnMut() -> bool + Send>;

/// A bounded pool of threads, the jobs that wait for them, in order, and what they read from.
///
/// Nothing that a job may wait for depends on a free thread: answers, progress and cancellations are dealt with as they
/// are read, and there is always a thread to read.
pub(crate) struct Crew {
    /// Who is asking: a handler of this connection, or somebody else.
    pub(crate) duty: mcp_driver::Duty,
    roster: Mutex<Roster>,
    work: Condvar,
    left: Condvar,
    /// How many threads there may be: one for each job that runs, and one to read.
    size: usize,
}

#[derive(Default)]
struct Roster {
    jobs: Jobs,
    /// What is read from. Absent while somebody does, and in the end.
    intake: Option<Intake>,
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
    /// One of them is the lookout.
    watched: bool,
    /// A thread was called and has not come yet.
    called: bool,
    closed: bool,
}

/// What a thread does next.
enum Duty {
    Run(Job, Slot),
    Read(Intake),
    /// Whoever watches is the lookout.
    Sleep {
        watches: bool,
    },
    Leave,
}

/// Where a thread comes from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// It has done something, and goes on.
    Work,
    /// It was the lookout; so many jobs had begun by then.
    Watch(u64),
    Sleep,
}

impl Crew {
    /// A crew that grows as long as more jobs may run at once.
    pub(crate) fn new(options: &Options) -> Arc<Self> {
        let roster = Mutex::new(Roster { jobs: Jobs::on_threads(options.job_limits()), ..Roster::default() });
        let (duty, work, left) = Default::default();
        Arc::new(Self { duty, roster, work, left, size: options.handlers.max(1) + 1 })
    }

    /// Begins, with one thread that reads.
    pub(crate) fn begin(self: &Arc<Self>, intake: Intake) -> io::Result<()> {
        let mut roster = lock(&self.roster);
        roster.intake = Some(intake);
        self.hire(&mut roster)
    }

    /// Queues jobs, and drops those that there is no place for. Whoever reads comes for them after that; if this is done by
    /// somebody else, `by_reader` is false.
    pub(crate) fn push(self: &Arc<Self>, jobs: &mut Brought, by_reader: bool) {
        if jobs.is_empty() && by_reader {
            return;
        }
        let mut roster = lock(&self.roster);
        let refused: Vec<_> = jobs.drain(..).filter_map(|(job, weight)| roster.jobs.push(job, weight).err()).collect();
        if !by_reader {
            self.call(&mut roster);
        }
        drop(roster);
        // Whoever asked for them is told by that.
        drop(refused);
    }

    /// Sees to it that somebody comes for what waits, or looks after it.
    fn call(self: &Arc<Self>, roster: &mut Roster) {
        // Where somebody watches, only what may not wait is worth a call.
        if roster.called || !roster.has_next() || roster.watched && !roster.may_not_wait() {
            return;
        }
        if roster.asleep > 0 {
            roster.called = true;
            self.work.notify_one();
        } else if roster.alive < self.size {
            // Without another thread, those there are will get to it.
            roster.called = self.hire(roster).is_ok();
        }
    }

    /// A job waits for something, and what its thread would do next is for others.
    fn give_way(self: &Arc<Self>) {
        let mut roster = lock(&self.roster);
        roster.stuck = roster.has_next();
        self.call(&mut roster);
    }

    fn hire(self: &Arc<Self>, roster: &mut Roster) -> io::Result<()> {
        let crew = self.clone();
        let thread = spawn("mcp-worker", move || crew.work())?;
        roster.threads.retain(|thread| !thread.is_finished());
        roster.threads.push(thread);
        roster.alive += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let crew = self.clone();
        on_wait(move || crew.give_way());
        let mut roster = lock(&self.roster);
        roster.called = false;
        let mut from = From::Sleep;
        loop {
            match roster.duty(from) {
                Duty::Run(job, slot) => {
                    self.call(&mut roster);
                    drop(roster);
                    // A panic is the job's own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.duty.run(|| job.run())));
                    roster = lock(&self.roster);
                    roster.jobs.ended(slot);
                    roster.slow = 0;
                    from = From::Work;
                }
                Duty::Read(mut intake) => {
                    roster.reading = true;
                    self.call(&mut roster);
                    drop(roster);
                    let more = catch_unwind(AssertUnwindSafe(&mut intake)).unwrap_or(false);
                    let intake = Some(intake).filter(|_| more);
                    roster = lock(&self.roster);
                    roster.reading = false;
                    roster.intake = intake.filter(|_| !roster.closed);
                    from = From::Work;
                }
                Duty::Sleep { watches } => {
                    let timed_out;
                    let time = if watches { PATIENCE / (1 << roster.slow.min(10)) } else { KEEP };
                    from = if watches { From::Watch(roster.begun) } else { From::Sleep };
                    roster.asleep += 1;
                    roster.watched |= watches;
                    (roster, timed_out) = wait_for(&self.work, roster, time);
                    roster.asleep -= 1;
                    roster.watched &= !watches;
                    roster.called = false;
                    if timed_out && !watches && roster.alive > 2 && !roster.has_next() {
                        break;
                    }
                }
                Duty::Leave => break,
            }
        }
        roster.alive -= 1;
        self.left.notify_all();
        // When the crew is dismissed, those who sleep while the last jobs run are to see that there are no more.
        self.work.notify_all();
    }

    /// Runs what is queued to its end, but waits no longer than `patience` for it, and neither for a thread that is `stuck` in
    /// a read nor for those that go on without the connection.
    pub(crate) fn dismiss(&self, patience: Duration, stuck: bool) {
        let until = Instant::now() + patience;
        let mut roster = lock(&self.roster);
        roster.closed = true;
        let intake = roster.intake.take();
        self.work.notify_all();
        while roster.alive > usize::from(stuck && roster.reading) + roster.jobs.outliving() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (roster, _) = wait_for(&self.left, roster, left);
        }
        let threads = mem::take(&mut roster.threads);
        let all_left = roster.alive == 0;
        drop((roster, intake));
        for thread in threads {
            if all_left || thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Roster {
    /// Whether there is something to do.
    fn has_next(&self) -> bool {
        self.intake.is_some() || self.jobs.has_next()
    }

    /// Whether nobody who is busy will come soon for what there is to do.
    fn may_not_wait(&self) -> bool {
        self.stuck || self.jobs.running() == 0
    }

    fn duty(&mut self, from: From) -> Duty {
        if self.closed && self.jobs.waiting() == 0 {
            return Duty::Leave;
        }
        let goes_on = matches!(from, From::Watch(begun) if begun != self.begun);
        // Nothing has begun since it was last looked: those who run something take their time.
        self.stuck |= matches!(from, From::Watch(begun) if begun == self.begun);
        if from != From::Work && !self.may_not_wait() {
            return Duty::Sleep { watches: (goes_on || self.has_next()) && !self.watched };
        }
        // Who comes because others are busy reads first: it may be what they wait for.
        let reads_first = self.stuck && from != From::Work && self.intake.is_some();
        if !reads_first && let Some((job, slot)) = self.jobs.next() {
            self.begun += 1;
            self.slow += u32::from(mem::take(&mut self.stuck));
            return Duty::Run(job, slot);
        }
        self.stuck &= reads_first;
        self.intake.take().map_or(Duty::Sleep { watches: goes_on && !self.watched }, Duty::Read)
    }
}
