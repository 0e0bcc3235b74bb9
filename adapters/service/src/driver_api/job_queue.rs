//! The queue of jobs that wait, and the choice of the next one.

use std::{collections::VecDeque, fmt};

use mcp_proto::connection::Event;

use super::job::{Job, JobKind, Schedule};

/// The cost of a job in addition to its params, in bytes.
const JOB: usize = 256;

/// Returns the cost of an event's job in the [backlog](JobLimits::max_notification_bytes), in bytes.
#[must_use]
pub fn job_cost(event: &Event<'_>) -> usize {
    match event {
        Event::Notification { params, .. } => JOB + params.as_ref().map_or(0, |params| params.get().len()),
        Event::Violation(_) | Event::PeerError(_) => JOB,
        // Requests in flight are bounded by the connection itself.
        _ => 0,
    }
}

/// The limits of the jobs of a connection.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// The most functions that run at the same time; at least one. Default 32.
    pub handlers: usize,
    /// The most futures that run at the same time on a runtime; at least one. Default 1,024.
    pub async_handlers: usize,
    /// The most requests that wait for a handler. Default 16,384.
    pub max_queued_requests: usize,
    /// The most bytes of notifications that wait for their handlers. Default 16 MiB.
    pub max_notification_bytes: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self { handlers: 32, async_handlers: 1024, max_queued_requests: 16_384, max_notification_bytes: 16 << 20 }
    }
}

/// The jobs of a connection that have not begun, in the order of their arrival, and the number of those that run.
///
/// It only does the accounting: a driver [pushes](Self::push) jobs, runs the [next](Self::next) ones, and reports when
/// they have [ended](Self::ended).
pub struct JobQueue {
    limits: JobLimits,
    /// Whether futures take threads, too.
    only_threads: bool,
    /// Serial jobs. No later job begins before one of them has ended.
    serial: VecDeque<QueuedJob>,
    /// Concurrent functions and futures.
    concurrent: [VecDeque<QueuedJob>; 2],
    running: [usize; 2],
    /// The number of running jobs that outlive their connection.
    outliving: [usize; 2],
    /// Set while a serial job runs.
    serial_running: bool,
    /// The number of jobs so far.
    count: u64,
    /// The cost of the jobs that wait.
    queued_cost: usize,
}

struct QueuedJob {
    number: u64,
    job: Job,
    cost: usize,
}

impl Default for JobQueue {
    fn default() -> Self {
        Self::new(JobLimits::default())
    }
}

/// The slot of a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSlot {
    schedule: Schedule,
    lane: usize,
    outlives: bool,
}

/// The queue of the next job.
enum Next {
    Serial,
    /// In this lane of `concurrent`.
    Concurrent(usize),
}

/// A number that no job has.
const NONE: u64 = u64::MAX;

/// The lanes of `concurrent`.
const FUNCTIONS: usize = 0;
const FUTURES: usize = 1;

impl JobQueue {
    /// Creates a queue for a runtime: futures run on it, and functions on threads.
    #[must_use]
    pub fn new(limits: JobLimits) -> Self {
        Self {
            limits,
            only_threads: false,
            serial: VecDeque::new(),
            concurrent: Default::default(),
            running: [0; 2],
            outliving: [0; 2],
            serial_running: false,
            count: 0,
            queued_cost: 0,
        }
    }

    /// Creates a queue for a driver without a runtime: each job takes a thread.
    #[must_use]
    pub fn on_threads(limits: JobLimits) -> Self {
        Self { only_threads: true, ..Self::new(limits) }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, if there is no room for it: too many requests wait, or the backlog has no room for its cost. Drop it
    /// outside of any lock; this responds to its request with an error.
    pub fn push(&mut self, job: Job, cost: usize) -> Result<(), Job> {
        let fits = cost == 0 || self.queued_cost == 0 || self.queued_cost + cost <= self.limits.max_notification_bytes;
        let has_place =
            job.schedule() == Schedule::Serial || self.concurrent_waiting() < self.limits.max_queued_requests;
        if !fits || !has_place {
            return Err(job);
        }
        self.count += 1;
        self.queued_cost += cost;
        let lane = self.lane(&job);
        let queue = match job.schedule() {
            Schedule::Serial => &mut self.serial,
            Schedule::Concurrent => &mut self.concurrent[lane],
        };
        queue.push_back(QueuedJob { number: self.count, job, cost });
        Ok(())
    }

    /// Returns whether [`next`](Self::next) would return a job.
    #[must_use]
    pub fn has_next(&self) -> bool {
        // Usually no job waits, which this shows at less cost.
        self.waiting() > 0 && self.pick().is_some()
    }

    /// Takes the next job that may begin. It occupies its slot until that was passed to [`ended`](Self::ended).
    #[allow(clippy::should_implement_trait, reason = "it goes on when jobs end")]
    pub fn next(&mut self) -> Option<(Job, JobSlot)> {
        let queue = match self.pick()? {
            Next::Serial => &mut self.serial,
            Next::Concurrent(lane) => &mut self.concurrent[lane],
        };
        let QueuedJob { job, cost, .. } = queue.pop_front()?;
        let slot = JobSlot { schedule: job.schedule(), lane: self.lane(&job), outlives: job.outlives_connection() };
        self.queued_cost -= cost;
        self.running[slot.lane] += 1;
        self.outliving[slot.lane] += usize::from(slot.outlives);
        self.serial_running |= slot.schedule == Schedule::Serial;
        Some((job, slot))
    }

    /// Frees the slot of a job that has ended or was cancelled.
    pub fn ended(&mut self, slot: JobSlot) {
        self.running[slot.lane] -= 1;
        self.outliving[slot.lane] -= usize::from(slot.outlives);
        self.serial_running &= slot.schedule != Schedule::Serial;
    }

    /// Returns the number of running jobs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.iter().sum()
    }

    /// Returns the number of running jobs that [outlive](Job::outlives_connection) their connection. The end of the
    /// connection does not wait for them.
    #[must_use]
    pub fn outliving(&self) -> usize {
        self.outliving.iter().sum()
    }

    /// Returns the number of running futures that end with their connection.
    #[must_use]
    pub const fn running_futures(&self) -> usize {
        self.running[FUTURES] - self.outliving[FUTURES]
    }

    /// Returns the number of jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.serial.len() + self.concurrent_waiting()
    }

    /// Removes all jobs that wait. Drop them outside of any lock; this responds to their requests.
    #[must_use = "dropping them sends error responses"]
    pub fn drain(&mut self) -> Vec<Job> {
        self.queued_cost = 0;
        let [functions, futures] = &mut self.concurrent;
        self.serial.drain(..).chain(functions.drain(..)).chain(futures.drain(..)).map(|it| it.job).collect()
    }

    fn concurrent_waiting(&self) -> usize {
        self.concurrent.iter().map(VecDeque::len).sum()
    }

    fn lane(&self, job: &Job) -> usize {
        match job.kind() {
            JobKind::Async(_) if !self.only_threads => FUTURES,
            _ => FUNCTIONS,
        }
    }

    fn has_slot(&self, lane: usize) -> bool {
        let size = if lane == FUNCTIONS { self.limits.handlers } else { self.limits.async_handlers };
        self.running[lane] < size.max(1)
    }

    /// Returns the queue of the next job that may begin: of the oldest concurrent job with a free slot, unless an
    /// earlier serial job waits; of the serial job, once it is the oldest of all.
    fn pick(&self) -> Option<Next> {
        if self.serial_running {
            return None;
        }
        let first = |queue: &VecDeque<QueuedJob>| queue.front().map_or(NONE, |waiting| waiting.number);
        let [functions, futures] = [first(&self.concurrent[FUNCTIONS]), first(&self.concurrent[FUTURES])];
        let barrier = first(&self.serial);
        if functions.min(futures) > barrier {
            let QueuedJob { job, .. } = self.serial.front()?;
            return Some(Next::Serial).filter(|_| self.has_slot(self.lane(job)));
        }
        let lanes = [(functions, FUNCTIONS), (futures, FUTURES)];
        let free = lanes.into_iter().filter(|(number, lane)| *number < barrier && self.has_slot(*lane));
        free.min().map(|(_, lane)| Next::Concurrent(lane))
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobQueue")
            .field("waiting", &self.waiting())
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    type Begun = Arc<Mutex<Vec<u32>>>;

    fn function(begun: &Begun, schedule: Schedule, number: u32) -> Job {
        let begun = begun.clone();
        Job::new(schedule, move || begun.lock().expect("no panic").push(number))
    }

    fn future(begun: &Begun, schedule: Schedule, number: u32) -> Job {
        let begun = begun.clone();
        Job::future(schedule, async move { begun.lock().expect("no panic").push(number) })
    }

    fn limits(handlers: usize, async_handlers: usize) -> JobLimits {
        JobLimits { handlers, async_handlers, ..JobLimits::default() }
    }

    /// Starts all jobs that may begin, and returns their slots.
    fn begin(jobs: &mut JobQueue) -> Vec<JobSlot> {
        let mut slots = Vec::new();
        while let Some((job, slot)) = jobs.next() {
            job.run();
            slots.push(slot);
        }
        slots
    }

    #[test]
    fn serial_jobs_are_not_overtaken() {
        let begun = Begun::default();
        let mut jobs = JobQueue::new(limits(9, 9));
        type Make = fn(&Begun, Schedule, u32) -> Job;
        let queue: [(Make, Schedule); 7] = [
            (function, Schedule::Concurrent),
            (future, Schedule::Concurrent),
            (future, Schedule::Serial),
            (function, Schedule::Serial),
            (future, Schedule::Concurrent),
            (function, Schedule::Concurrent),
            (function, Schedule::Serial),
        ];
        for (number, (job, schedule)) in (0..).zip(queue) {
            jobs.push(job(&begun, schedule, number), 0).expect("there is room");
        }
        let seen = || begun.lock().expect("no panic").clone();
        // The concurrent jobs begin, and the first serial job after them does not wait until they end.
        assert!(jobs.has_next());
        let first = begin(&mut jobs);
        assert_eq!((seen(), jobs.running()), (vec![0, 1, 2], 3));
        jobs.ended(first[0]);
        jobs.ended(first[1]);
        assert!(!jobs.has_next(), "the first in sequence has not ended");
        jobs.ended(first[2]);
        let second = begin(&mut jobs);
        assert_eq!(seen(), [0, 1, 2, 3]);
        jobs.ended(second[0]);
        let third = begin(&mut jobs);
        assert_eq!(seen(), [0, 1, 2, 3, 4, 5, 6]);
        third.into_iter().for_each(|slot| jobs.ended(slot));
        assert_eq!((jobs.running(), jobs.waiting(), jobs.queued_cost), (0, 0, 0));
    }

    #[test]
    fn blocking_jobs_do_not_delay_futures() {
        let begun = Begun::default();
        let mut jobs = JobQueue::new(limits(2, 3));
        for number in 0..10 {
            let job = if number < 5 { function } else { future };
            jobs.push(job(&begun, Schedule::Concurrent, number), 0).expect("there is room");
        }
        let slots = begin(&mut jobs);
        assert_eq!(*begun.lock().expect("no panic"), [0, 1, 5, 6, 7]);
        assert_eq!((jobs.running(), jobs.running_futures(), jobs.waiting()), (5, 3, 5));
        jobs.ended(slots[0]);
        begin(&mut jobs);
        assert_eq!(begun.lock().expect("no panic").last(), Some(&2));
        // Where there are only threads, they share them.
        let mut jobs = JobQueue::on_threads(limits(2, 3));
        for number in 0..10 {
            let job = if number < 5 { function } else { future };
            jobs.push(job(&begun, Schedule::Concurrent, number), 0).expect("there is room");
        }
        assert_eq!((begin(&mut jobs).len(), jobs.running_futures()), (2, 0));
    }

    #[test]
    fn counts_jobs_that_outlive_the_connection() {
        let begun = Begun::default();
        let mut jobs = JobQueue::new(limits(9, 9));
        for job in [function, future] {
            jobs.push(job(&begun, Schedule::Concurrent, 0), 0).expect("there is room");
            jobs.push(job(&begun, Schedule::Concurrent, 1).outliving(), 0).expect("there is room");
        }
        let slots = begin(&mut jobs);
        assert_eq!((jobs.running(), jobs.outliving(), jobs.running_futures()), (4, 2, 1));
        assert_eq!(format!("{jobs:?}"), "JobQueue { waiting: 0, running: [2, 2], .. }");
        let [one, other] = [function(&begun, Schedule::Serial, 2), future(&begun, Schedule::Concurrent, 2)];
        assert_eq!(format!("{one:?}"), "Job { schedule: Serial, kind: Blocking }");
        assert_eq!(format!("{other:?}"), "Job { schedule: Concurrent, kind: Async }");
        slots.into_iter().for_each(|slot| jobs.ended(slot));
        assert_eq!((jobs.running(), jobs.outliving(), jobs.running_futures()), (0, 0, 0));
    }

    #[test]
    fn only_notifications_and_faults_have_costs() {
        use mcp_proto::{connection::Violation, protocol::MethodName, wire::Json};

        let text = Json::parse(r#"{"a":1}"#).expect("JSON");
        let notification = |params| Event::Notification { method: MethodName::new("own"), params, related_call: None };
        for (event, cost) in [
            (notification(None), 256),
            (notification(Some((&text).into())), 263),
            (Event::Violation(Violation::Oversized), 256),
            (Event::PeerError(mcp_proto::wire::ErrorObject::internal("bad")), 256),
            (Event::Ready, 0),
            (Event::Closed(mcp_proto::connection::CloseReason::ConnectionLost), 0),
        ] {
            assert_eq!(job_cost(&event), cost, "{event:?}");
        }
    }

    #[test]
    fn full_queue_returns_the_job() {
        let begun = Begun::default();
        let mut jobs =
            JobQueue::new(JobLimits { max_queued_requests: 3, max_notification_bytes: 1000, ..limits(1, 1) });
        for number in 0..3 {
            jobs.push(future(&begun, Schedule::Concurrent, number), 0).expect("there is room");
        }
        assert!(jobs.push(function(&begun, Schedule::Concurrent, 3), 0).is_err());
        // Notifications are weighed, not counted. A single one may be as heavy as it likes.
        jobs.push(function(&begun, Schedule::Serial, 4), 5000).expect("nothing else weighs anything");
        assert!(jobs.push(function(&begun, Schedule::Serial, 5), 1).is_err());
        let slot = begin(&mut jobs)[0];
        jobs.ended(slot);
        let slot = begin(&mut jobs)[0];
        jobs.ended(slot);
        assert!(jobs.push(function(&begun, Schedule::Concurrent, 6), 0).is_ok());
        assert!(jobs.push(function(&begun, Schedule::Serial, 7), 1).is_err(), "the heavy one still waits");
        assert_eq!(jobs.drain().len(), 3);
        assert_eq!((jobs.waiting(), jobs.queued_cost), (0, 0));
        assert!(jobs.push(function(&begun, Schedule::Serial, 8), 1000).is_ok());
    }
}
