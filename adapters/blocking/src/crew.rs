//! The threads that read and run handlers.
//!
//! They are all alike. Whoever has read something runs what comes of it, and reads on; so a message costs no change of
//! threads if its handler is done before another thread would have woken up, as most are. Only when a handler takes longer than
//! [`PATIENCE`] does somebody else go on reading, or take the next job. Somebody has to notice: while that is possible, one of
//! the other threads, the lookout, sleeps no longer than that.

use std::{
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mcp_service::{
    Job,
    drive::{self, Jobs, Slot},
};

use crate::{
    Options,
    threads::{lock, spawn, wait_for},
};

/// How long a handler may take before others do what its thread would do next.
const PATIENCE: Duration = Duration::from_micros(200);

/// How long a thread without work stays.
const KEEP: Duration = Duration::from_secs(10);

/// Waits for something to read, and queues what comes of it. Whether there will be more. One thread at a time has it.
type Intake = Box<dyn FnMut() -> bool + Send>;

/// A bounded pool of threads, the jobs that wait for them, in order, and what they read from.
///
/// Nothing that a job may wait for depends on a free thread: answers, progress and cancellations are dealt with as they
/// are read, and there is always a thread to read.
pub(crate) struct Crew {
    /// Who is asking: a handler of this connection, or somebody else.
    pub(crate) duty: drive::Duty,
    roster: Mutex<Roster>,
    work: Condvar,
    left: Condvar,
    /// How many threads there may be: one for each job that runs, and one to read.
    size: usize,
}

#[derive(Default)]
struct Roster {
    jobs: Jobs,
    /// What is read from, and since when nobody does. Absent while somebody does, and in the end.
    intake: Option<(Intake, Instant)>,
    reading: bool,
    /// When the last job that runs began, and how many ever did.
    begun: Option<Instant>,
    count: u64,
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
    LookOut(Duration),
    Rest,
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
        let roster = Mutex::new(Roster { jobs: Jobs::on_threads(options), ..Roster::default() });
        let (duty, work, left) = Default::default();
        Arc::new(Self { duty, roster, work, left, size: options.handlers.max(1) + 1 })
    }

    /// Begins, with one thread that reads.
    pub(crate) fn begin(self: &Arc<Self>, intake: Intake) -> io::Result<()> {
        let mut roster = lock(&self.roster);
        roster.intake = Some((intake, Instant::now()));
        self.hire(&mut roster)
    }

    /// Goes on with one more, that could take over from it.
    pub(crate) fn relieve(self: &Arc<Self>) -> io::Result<()> {
        let mut roster = lock(&self.roster);
        if roster.alive > 1 { Ok(()) } else { self.hire(&mut roster) }
    }

    /// Queues a job, or drops it if there is no place for it. Whoever reads comes for it after that; if this is done by
    /// somebody else, `by_reader` is false.
    pub(crate) fn push(self: &Arc<Self>, job: Job, weight: usize, by_reader: bool) {
        let mut roster = lock(&self.roster);
        let refused = roster.jobs.push(job, weight).err();
        if refused.is_none() && !by_reader {
            self.call(&mut roster, Instant::now());
        }
        drop(roster);
        // Whoever asked for it is told by that.
        drop(refused);
    }

    /// Sees to it that somebody comes for what waits, or looks after it.
    fn call(self: &Arc<Self>, roster: &mut Roster, now: Instant) {
        // Where somebody watches, only what may not wait is worth a call.
        let may_wait = roster.watched && roster.patience(now).is_some();
        if roster.called || may_wait {
            return;
        }
        let has_job = roster.jobs.has_next();
        if !has_job && (roster.watched || roster.intake.is_none()) {
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

    fn hire(self: &Arc<Self>, roster: &mut Roster) -> io::Result<()> {
        let crew = self.clone();
        let thread = spawn("mcp-worker", move || crew.work())?;
        roster.threads.retain(|thread| !thread.is_finished());
        roster.threads.push(thread);
        roster.alive += 1;
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let mut roster = lock(&self.roster);
        roster.called = false;
        let mut from = From::Sleep;
        loop {
            let now = Instant::now();
            match roster.duty(from, now) {
                Duty::Run(job, slot) => {
                    self.call(&mut roster, now);
                    drop(roster);
                    // A panic is the job's own affair, and not to take the thread with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.duty.run(|| job.run())));
                    roster = lock(&self.roster);
                    roster.jobs.ended(slot);
                    from = From::Work;
                }
                Duty::Read(mut intake) => {
                    roster.reading = true;
                    self.call(&mut roster, now);
                    drop(roster);
                    let more = catch_unwind(AssertUnwindSafe(&mut intake)).unwrap_or(false);
                    let mut intake = Some((intake, Instant::now())).filter(|_| more);
                    roster = lock(&self.roster);
                    roster.reading = false;
                    if !roster.closed {
                        mem::swap(&mut roster.intake, &mut intake);
                    }
                    from = From::Work;
                }
                duty @ (Duty::LookOut(_) | Duty::Rest) => {
                    let timed_out;
                    let time = if let Duty::LookOut(time) = duty { time } else { KEEP };
                    let watches = matches!(duty, Duty::LookOut(_));
                    let count = roster.count;
                    roster.asleep += 1;
                    roster.watched |= watches;
                    (roster, timed_out) = wait_for(&self.work, roster, time);
                    roster.asleep -= 1;
                    roster.watched &= !watches;
                    roster.called = false;
                    from = if watches { From::Watch(count) } else { From::Sleep };
                    if timed_out && !watches && roster.alive > 2 {
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
    /// How long the next job may wait for those who are busy; `None` if it may not.
    fn patience(&self, now: Instant) -> Option<Duration> {
        left(self.begun.filter(|_| self.jobs.running() > 0)?, now)
    }

    fn duty(&mut self, from: From, now: Instant) -> Duty {
        if self.closed && self.jobs.waiting() == 0 {
            return Duty::Leave;
        }
        let unread = self.intake.as_ref().map(|(_, since)| left(*since, now));
        let patience = self.patience(now).filter(|_| from != From::Work);
        if patience.is_none()
            && unread != Some(None)
            && let Some((job, slot)) = self.jobs.next()
        {
            self.count += 1;
            self.begun = Some(now);
            return Duty::Run(job, slot);
        }
        if unread.is_some() && (patience.is_none() || unread == Some(None)) {
            return self.intake.take().map_or(Duty::Rest, |(intake, _)| Duty::Read(intake));
        }
        let next = [patience.filter(|_| self.jobs.has_next()), unread.flatten()].into_iter().flatten().min();
        let lingers = matches!(from, From::Watch(count) if count != self.count);
        match next.or(lingers.then_some(PATIENCE)) {
            Some(time) if !self.watched => Duty::LookOut(time),
            _ => Duty::Rest,
        }
    }
}

/// What is left of the patience that began then; `None` if nothing is.
fn left(since: Instant, now: Instant) -> Option<Duration> {
    PATIENCE.checked_sub(now.saturating_duration_since(since)).filter(|left| !left.is_zero())
}
