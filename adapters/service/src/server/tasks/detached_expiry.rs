//! Expiry of tasks while no connection watches them.

use std::{
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

use super::{detached_sleep::SleepThread, store::Tasks};
use crate::util::lock::lock;

impl Tasks {
    /// Sets an alarm for the next task that expires, since a connection that has watched it has ended. Where no thread
    /// can be started, there is no alarm, and tasks expire with the next request about tasks.
    pub(in crate::server) fn watch_detached(self: &Arc<Self>) {
        self.watch_with(SleepThread::of_process());
    }

    fn watch_with(self: &Arc<Self>, sleep_thread: &Arc<SleepThread>) {
        while let Some(next) = self.next_expiry() {
            let now = self.now();
            // An alarm whose time has passed has fired, or never will.
            if lock(&self.alarm).as_ref().is_some_and(|(at, _)| *at <= next && *at > now) {
                return;
            }
            let expiry = Arc::new(Expiry::new(self));
            let mut sleep = Box::pin(sleep_thread.sleep(next.saturating_since(now)));
            let is_over = sleep.as_mut().poll(&mut Context::from_waker(&Waker::from(expiry.clone()))).is_ready();
            let earlier = lock(&self.alarm).replace((next, sleep));
            drop(earlier);
            expiry.is_armed.store(true, Ordering::SeqCst);
            let has_fired = is_over || expiry.has_fired.load(Ordering::SeqCst);
            if !has_fired {
                return;
            }
            if self.now() < next {
                // No thread could be started. An alarm that never fires must not stand in the way of later ones.
                let dead = lock(&self.alarm).take();
                drop(dead);
                return;
            }
            self.expire_detached();
        }
    }

    fn expire_detached(&self) {
        let alarm = lock(&self.alarm).take();
        drop(alarm);
        for task in self.expire(self.now()) {
            self.notify_subscribers(&task);
        }
    }
}

/// Wakes to remove expired tasks.
struct Expiry {
    tasks: Weak<Tasks>,
    /// Whether the alarm is stored. A sleep that fires before belongs to the thread that sets the alarm.
    is_armed: AtomicBool,
    has_fired: AtomicBool,
}

impl Expiry {
    fn new(tasks: &Arc<Tasks>) -> Self {
        Self { tasks: Arc::downgrade(tasks), is_armed: AtomicBool::new(false), has_fired: AtomicBool::new(false) }
    }
}

impl Wake for Expiry {
    fn wake(self: Arc<Self>) {
        self.has_fired.store(true, Ordering::SeqCst);
        if let Some(tasks) = self.tasks.upgrade().filter(|_| self.is_armed.load(Ordering::SeqCst)) {
            tasks.expire_detached();
            tasks.watch_detached();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::{TaskPolicy, inbound::in_flight::InFlight, server::tasks::shares::TaskHolder, util::random::Random};

    #[test]
    fn alarm_without_a_thread_is_not_kept() {
        let policy = TaskPolicy { default_ttl: Some(Duration::from_secs(60)), ..TaskPolicy::default() };
        let tasks = Arc::new(Tasks::new(policy, Random::default(), None));
        let in_flight = InFlight::of_task("x".into(), None);
        let holder = TaskHolder::Connection(1);
        tasks.create(tasks.now(), (None, vec![]), holder, &in_flight, 0).expect("a task");
        let refuses = |_| Err(io::ErrorKind::WouldBlock.into());
        tasks.watch_with(&SleepThread::new(refuses, None));
        assert!(lock(&tasks.alarm).is_none(), "a later alarm is set");
        tasks.watch_detached();
        assert!(lock(&tasks.alarm).is_some());
    }
}
