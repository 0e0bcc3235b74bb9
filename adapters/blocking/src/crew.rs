//! The threads that run handlers.

use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mcp_service::{Job, Order};

use crate::lock::{lock, wait_for};

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// A bounded pool of threads and the jobs that wait for them, in order.
///
/// Nothing that a job may wait for depends on a free thread: answers, progress and cancellations take another way.
pub(crate) struct Crew {
    roster: Mutex<Roster>,
    work: Condvar,
    left: Condvar,
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
    threads: Vec<JoinHandle<()>>,
    alive: usize,
    idle: usize,
    /// A thread was called and has not come yet. One at a time is enough: it calls the next.
    called: bool,
    closed: bool,
}

impl Crew {
    /// A crew of one, which grows up to `size`.
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

    /// Sees to it that a thread comes for the first job.
    fn call(self: &Arc<Self>, roster: &mut Roster) {
        if roster.called || !roster.has_work() {
            return;
        }
        if roster.idle > 0 {
            roster.called = true;
            self.work.notify_one();
        } else if roster.alive < self.size {
            // Without another thread, those there are will get to it.
            roster.called = self.hire(roster).is_ok();
        }
    }

    fn hire(self: &Arc<Self>, roster: &mut Roster) -> io::Result<()> {
        let crew = self.clone();
        let thread = thread::Builder::new().name("mcp-handler".into()).spawn(move || crew.work())?;
        roster.threads.retain(|thread| !thread.is_finished());
        roster.threads.push(thread);
        roster.alive += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let mut roster = lock(&self.roster);
        roster.called = false;
        loop {
            if let Some(job) = roster.next() {
                let in_sequence = job.order() == Order::InSequence;
                self.call(&mut roster);
                drop(roster);
                // A panic is the job's own affair, and not to take the thread with it.
                let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
                roster = lock(&self.roster);
                roster.in_sequence &= !in_sequence;
            } else if roster.closed && roster.jobs.is_empty() {
                break;
            } else {
                let timed_out;
                roster.idle += 1;
                (roster, timed_out) = wait_for(&self.work, roster, KEEP);
                roster.idle -= 1;
                roster.called = false;
                if timed_out && roster.alive > 1 && roster.jobs.is_empty() {
                    break;
                }
            }
        }
        roster.alive -= 1;
        self.left.notify_all();
        // When the crew is dismissed, those who wait behind the last job are to see that there is none.
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
    fn has_work(&self) -> bool {
        !self.in_sequence && !self.jobs.is_empty()
    }

    fn next(&mut self) -> Option<Job> {
        if self.in_sequence {
            return None;
        }
        let (job, weight) = self.jobs.pop_front()?;
        self.load -= weight;
        self.in_sequence = job.order() == Order::InSequence;
        Some(job)
    }
}
