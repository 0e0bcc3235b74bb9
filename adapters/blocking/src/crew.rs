//! The threads that run handlers.
//!
//! Most handlers are done before another thread would have woken up, so a thread that is at it takes the next job as well.
//! Only when a job takes longer than [`PATIENCE`] does the next one get a thread of its own. Somebody has to notice: while
//! jobs wait for a busy thread, one of the others, the lookout, sleeps no longer than that.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcp_service::{Job, Order};

use crate::{
    lock::{lock, wait_for},
    threads::spawn,
};

/// How long a job may take before the next one gets a thread of its own.
const PATIENCE: Duration = Duration::from_micros(100);

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// A bounded pool of threads and the jobs that wait for them, in order.
///
/// Nothing that a job may wait for depends on a free thread: answers, progress and cancellations take another way.
pub(crate) struct Crew {
    roster: Mutex<Roster>,
    work: Condvar,
    left: Condvar,
    /// How many jobs may run at once.
    size: usize,
    /// How much the jobs that wait may weigh.
    backlog: usize,
}

#[derive(Default)]
struct Roster {
    jobs: VecDeque<(Job, usize)>,
    /// What the waiting jobs weigh.
    load: usize,
    /// A job runs that nothing behind it may overtake.
    in_sequence: bool,
    /// Jobs that run, and when the last one of them began.
    busy: usize,
    begun: Option<Instant>,
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

/// What a thread is to do.
enum Duty {
    Run(Job),
    /// Jobs wait for a busy thread. They can for so long.
    LookOut(Duration),
    Rest,
    Leave,
}

impl Crew {
    /// A crew of one, which grows until `size` jobs run at once.
    pub(crate) fn new(size: usize, backlog: usize) -> io::Result<Arc<Self>> {
        let (work, left) = (Condvar::new(), Condvar::new());
        let crew = Arc::new(Self { roster: Mutex::default(), work, left, size: size.max(1), backlog });
        crew.hire(&mut lock(&crew.roster))?;
        Ok(crew)
    }

    /// Queues a job. If it weighs something, and those that wait weigh too much already, it is dropped.
    pub(crate) fn push(self: &Arc<Self>, job: Job, weight: usize) {
        let mut roster = lock(&self.roster);
        if weight == 0 || roster.load == 0 || roster.load + weight <= self.backlog {
            roster.load += weight;
            roster.jobs.push_back((job, weight));
            self.call(&mut roster);
        }
    }

    /// Sees to it that somebody comes for the first job, or looks after it.
    fn call(self: &Arc<Self>, roster: &mut Roster) {
        if roster.called || !roster.has_work(self.size) || (roster.watched && roster.patience().is_some()) {
            return;
        }
        if roster.asleep > 0 {
            roster.called = true;
            self.work.notify_one();
        } else if roster.alive <= self.size {
            // Without another thread, those there are will get to it.
            roster.called = self.hire(roster).is_ok();
        }
    }

    fn hire(self: &Arc<Self>, roster: &mut Roster) -> io::Result<()> {
        let crew = self.clone();
        let thread = spawn("mcp-handler", move || crew.work())?;
        roster.threads.retain(|thread| !thread.is_finished());
        roster.threads.push(thread);
        roster.alive += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let mut roster = lock(&self.roster);
        roster.called = false;
        let mut at_it = false;
        loop {
            match roster.duty(self.size, at_it) {
                Duty::Run(job) => {
                    let in_sequence = job.order() == Order::InSequence;
                    self.call(&mut roster);
                    drop(roster);
                    // A panic is the job's own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
                    roster = lock(&self.roster);
                    roster.busy -= 1;
                    roster.in_sequence &= !in_sequence;
                    at_it = true;
                }
                duty @ (Duty::LookOut(_) | Duty::Rest) => {
                    let (watches, time) = if let Duty::LookOut(time) = duty { (true, time) } else { (false, KEEP) };
                    let timed_out;
                    roster.asleep += 1;
                    roster.watched |= watches;
                    (roster, timed_out) = wait_for(&self.work, roster, time);
                    roster.asleep -= 1;
                    roster.watched &= !watches;
                    roster.called = false;
                    at_it = false;
                    if timed_out && !watches && roster.alive > 1 && roster.jobs.is_empty() {
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

    /// Whether the current thread belongs to the crew: whether this is called by a handler.
    pub(crate) fn is_on_duty(&self) -> bool {
        let current = thread::current().id();
        lock(&self.roster).threads.iter().any(|thread| thread.thread().id() == current)
    }

    /// Runs what is queued to its end, but waits no longer than `patience` for it.
    pub(crate) fn dismiss(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut roster = lock(&self.roster);
        roster.closed = true;
        self.work.notify_all();
        while roster.alive > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (roster, _) = wait_for(&self.left, roster, left);
        }
        let threads = std::mem::take(&mut roster.threads);
        drop(roster);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Roster {
    /// Whether the first job may begin.
    fn has_work(&self, size: usize) -> bool {
        !self.jobs.is_empty() && !self.in_sequence && self.busy < size
    }

    /// How long the first job can wait for a busy thread; `None` if it is not to wait.
    fn patience(&self) -> Option<Duration> {
        let begun = self.begun.filter(|_| self.busy > 0)?;
        PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
    }

    /// What a thread is to do. If it is `at_it`, it need not be polite to those who are busy.
    fn duty(&mut self, size: usize, at_it: bool) -> Duty {
        if self.closed && self.jobs.is_empty() {
            return Duty::Leave;
        }
        if !self.has_work(size) {
            return Duty::Rest;
        }
        if !at_it && let Some(patience) = self.patience() {
            return if self.watched { Duty::Rest } else { Duty::LookOut(patience) };
        }
        let Some((job, weight)) = self.jobs.pop_front() else { return Duty::Rest };
        self.load -= weight;
        self.busy += 1;
        self.begun = Some(Instant::now());
        self.in_sequence = job.order() == Order::InSequence;
        Duty::Run(job)
    }
}
