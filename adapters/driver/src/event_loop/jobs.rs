//! The queued and running jobs of a connection.

use std::{
    mem,
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_service::driver_api::{Job, JobFuture, JobQueue, JobSlot};

use crate::sync::lock;

/// The jobs, locked. When the guard is dropped, it stores whether the event loop has work with them: most of its
/// iterations have none, and see that without the lock.
pub(crate) struct JobsGuard<'a> {
    state: MutexGuard<'a, JobState>,
    has_work: &'a AtomicBool,
}

impl<'a> JobsGuard<'a> {
    pub(crate) fn new(jobs: &'a Mutex<JobState>, has_work: &'a AtomicBool) -> Self {
        Self { state: lock(jobs), has_work }
    }
}

impl Deref for JobsGuard<'_> {
    type Target = JobState;

    fn deref(&self) -> &JobState {
        &self.state
    }
}

impl DerefMut for JobsGuard<'_> {
    fn deref_mut(&mut self) -> &mut JobState {
        &mut self.state
    }
}

impl Drop for JobsGuard<'_> {
    fn drop(&mut self) {
        self.has_work.store(self.state.has_work(), Ordering::Release);
    }
}

/// The queued and running jobs of a connection, and the ids of tasks that have ended.
#[derive(Default)]
pub(crate) struct JobState {
    pub(crate) queue: JobQueue,
    pub(crate) ended: Vec<u64>,
    /// Jobs that were started inline and are still pending. The event loop continues them.
    pub(crate) unfinished: Vec<Unfinished>,
    /// The event loop waits for the last jobs to end.
    pub(crate) draining: bool,
    /// A job has ended since the event loop has begun to wait, or has last checked whether it was the last one.
    pub(crate) has_ended: bool,
    /// The event loop has ended, and starts and continues no jobs.
    pub(crate) closed: bool,
}

/// A job that was polled once and is still pending.
pub(crate) struct Unfinished {
    pub(crate) future: JobFuture,
    pub(crate) slot: JobSlot,
    pub(crate) outlives: bool,
}

impl JobState {
    /// Returns whether the event loop has work: a job to start or to continue, or the end of a job to handle.
    pub(crate) fn has_work(&self) -> bool {
        self.queue.has_next() || !self.unfinished.is_empty() || !self.ended.is_empty() || self.has_ended
    }

    /// Frees the slot of a job that has ended. Returns whether the event loop waits for the last one.
    pub(crate) fn free(&mut self, slot: JobSlot) -> bool {
        self.queue.ended(slot);
        self.has_ended |= self.draining;
        self.draining
    }

    /// Hands a pending job to the event loop. Returns it if the event loop has ended: the caller drops it outside of
    /// any lock.
    #[cfg(feature = "http")]
    #[must_use = "dropping it responds to a request"]
    pub(crate) fn hand_over(&mut self, unfinished: Unfinished) -> Option<Unfinished> {
        if self.closed {
            return Some(unfinished);
        }
        self.unfinished.push(unfinished);
        None
    }

    /// Records that the event loop has ended, and takes the jobs that wait or were handed to it: a job that stayed here
    /// would keep the connection, to which it refers. The caller drops them outside of any lock.
    #[must_use = "dropping it responds to requests"]
    pub(crate) fn close(&mut self) -> (Vec<Unfinished>, Vec<Job>) {
        self.closed = true;
        (mem::take(&mut self.unfinished), self.queue.drain())
    }

    /// Takes the tasks that have ended, and the jobs that need one, if there are any.
    pub(crate) fn take_tasks(&mut self) -> Option<(Vec<u64>, Vec<Unfinished>)> {
        let has_none = self.ended.is_empty() && self.unfinished.is_empty();
        (!has_none).then(|| (mem::take(&mut self.ended), mem::take(&mut self.unfinished)))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, if there is no room for it, or the event loop has ended. The caller drops it outside of any lock.
    pub(crate) fn push(&mut self, job: Job, cost: usize) -> Result<(), Job> {
        if self.closed { Err(job) } else { self.queue.push(job, cost) }
    }
}

#[cfg(test)]
mod tests {
    use mcp_service::driver_api::{JobKind, Schedule};

    use super::*;

    #[test]
    fn unfinished_and_queued_jobs_are_work() {
        let job = || Job::future(Schedule::Concurrent, async {});
        let mut jobs = JobState::default();
        assert!(!jobs.has_work());
        jobs.push(job(), 0).map_err(drop).expect("there is room");
        assert!(jobs.has_work(), "it waits");
        let (started, slot) = jobs.queue.next().expect("it waits");
        assert!(!jobs.has_work(), "it runs");
        let JobKind::Async(future) = started.into_kind() else { panic!("it is a future") };
        jobs.unfinished.push(Unfinished { future, slot, outlives: false });
        assert!(jobs.has_work(), "it is to be continued");
        jobs.push(job(), 0).map_err(drop).expect("there is room");
        let (unfinished, waiting) = jobs.close();
        assert_eq!((unfinished.len(), waiting.len(), jobs.has_work()), (1, 1, false));
        assert!(jobs.push(job(), 0).is_err());
    }
}
