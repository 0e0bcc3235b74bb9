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
        while let Some(next) = self.next_expiry() {
            if lock(&self.alarm).as_ref().is_some_and(|(at, _)| *at <= next) {
                return;
            }
            let expiry = Arc::new(Expiry::new(self));
            let mut sleep = Box::pin(SleepThread::of_process().sleep(next.saturating_since(self.now())));
            let is_over = sleep.as_mut().poll(&mut Context::from_waker(&Waker::from(expiry.clone()))).is_ready();
            let earlier = lock(&self.alarm).replace((next, sleep));
            drop(earlier);
            expiry.is_armed.store(true, Ordering::SeqCst);
            let has_fired = is_over || expiry.has_fired.load(Ordering::SeqCst);
            if !has_fired || self.now() < next {
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
