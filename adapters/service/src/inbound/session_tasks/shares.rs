//! The tasks of all sessions of a service together, and the part of each client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{driver_api::holder::Holder, inbound::task_policy::TaskPolicy, util::lock::lock};

/// One client may hold at most this many times of what is free, so that it leaves room for others.
const SHARE: usize = 7;

/// The number and the size of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskUsage {
    pub(crate) tasks: usize,
    /// The bytes of their params and results.
    pub(crate) bytes: usize,
}

impl TaskUsage {
    fn plus(self, more: Self) -> Self {
        Self { tasks: self.tasks.saturating_add(more.tasks), bytes: self.bytes.saturating_add(more.bytes) }
    }

    fn minus(self, less: Self) -> Self {
        Self { tasks: self.tasks.saturating_sub(less.tasks), bytes: self.bytes.saturating_sub(less.bytes) }
    }

    fn is_within(self, most: Self) -> bool {
        self.tasks <= most.tasks && self.bytes <= most.bytes
    }

    /// Returns whether a client that holds this much leaves enough free.
    fn is_fair(self, free: Self) -> bool {
        let is_fair = |own: usize, free: usize| own <= SHARE.saturating_mul(free.saturating_add(1));
        is_fair(self.tasks, free.tasks) && is_fair(self.bytes, free.bytes)
    }
}

/// The tasks of all sessions of a service.
#[derive(Debug)]
pub(crate) struct SessionShares {
    policy: Arc<TaskPolicy>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: TaskUsage,
    /// The clients that hold something.
    holders: BTreeMap<Holder, TaskUsage>,
}

impl SessionShares {
    pub(crate) fn new(policy: Arc<TaskPolicy>) -> Arc<Self> {
        Arc::new(Self { policy, counts: Mutex::default() })
    }

    /// Takes this much more for a client, if there is room. Returns whether there was.
    fn take(&self, holder: &Holder, more: TaskUsage) -> bool {
        let counts = &mut *lock(&self.counts);
        let own = counts.holders.get(holder).copied().unwrap_or_default().plus(more);
        let all = counts.all.plus(more);
        if !self.fits(holder, own, all) {
            return false;
        }
        counts.all = all;
        counts.holders.insert(holder.clone(), own);
        true
    }

    /// Returns whether there is room for this much more after a client has released some of what it holds.
    fn would_fit(&self, holder: &Holder, more: TaskUsage, released: TaskUsage) -> bool {
        let counts = lock(&self.counts);
        let own = counts.holders.get(holder).copied().unwrap_or_default();
        self.fits(holder, own.minus(released).plus(more), counts.all.minus(released).plus(more))
    }

    /// Returns whether a client may hold `own`, if all hold `all` then.
    fn fits(&self, holder: &Holder, own: TaskUsage, all: TaskUsage) -> bool {
        let policy = &self.policy;
        let most = TaskUsage { tasks: policy.max_shared_tasks, bytes: policy.max_shared_bytes };
        let most_of_one = TaskUsage { tasks: policy.max_tasks_per_principal, bytes: policy.max_bytes_per_principal };
        // Clients that cannot be told apart are not one client.
        let is_share = || *holder == Holder::Unknown || own.is_within(most_of_one) && own.is_fair(most.minus(all));
        all.is_within(most) && is_share()
    }

    fn release(&self, holder: &Holder, less: TaskUsage) {
        let counts = &mut *lock(&self.counts);
        counts.all = counts.all.minus(less);
        if let Some(own) = counts.holders.get_mut(holder) {
            *own = own.minus(less);
            if *own == TaskUsage::default() {
                counts.holders.remove(holder);
            }
        }
    }

    /// Returns what all sessions hold.
    #[cfg(test)]
    pub(crate) fn usage(&self) -> TaskUsage {
        lock(&self.counts).all
    }

    /// Returns the number of clients that hold something.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        lock(&self.counts).holders.len()
    }
}

/// The number and the size of the tasks of one session, which all sessions hold together, too. Dropping it releases
/// them.
#[derive(Debug, Default)]
pub(crate) struct SessionUsage {
    held: TaskUsage,
    /// `None` for the tasks of a client, which has few servers.
    shares: Option<Arc<SessionShares>>,
    /// The client to which they are charged: that of its first task.
    holder: Option<Holder>,
}

impl SessionUsage {
    pub(crate) fn new(shares: Option<Arc<SessionShares>>) -> Self {
        Self { held: TaskUsage::default(), shares, holder: None }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.held.bytes
    }

    /// Sets the client to which the tasks are charged, unless that is known.
    pub(crate) fn charge(&mut self, holder: impl FnOnce() -> Holder) {
        if self.shares.is_some() {
            self.holder.get_or_insert_with(holder);
        }
    }

    /// Takes this much more, if all sessions and the client have room. Returns whether they have.
    pub(crate) fn take(&mut self, more: TaskUsage) -> bool {
        if let (Some(shares), Some(holder)) = (&self.shares, &self.holder)
            && !shares.take(holder, more)
        {
            return false;
        }
        self.held = self.held.plus(more);
        true
    }

    /// Returns whether [`take`](Self::take) would succeed after this much was released.
    pub(crate) fn would_fit(&self, more: TaskUsage, released: TaskUsage) -> bool {
        match (&self.shares, &self.holder) {
            (Some(shares), Some(holder)) => shares.would_fit(holder, more, released),
            _ => true,
        }
    }

    /// Releases this much.
    pub(crate) fn release(&mut self, less: TaskUsage) {
        let less = TaskUsage { tasks: less.tasks.min(self.held.tasks), bytes: less.bytes.min(self.held.bytes) };
        if let (Some(shares), Some(holder)) = (&self.shares, &self.holder) {
            shares.release(holder, less);
        }
        self.held = self.held.minus(less);
    }
}

impl Drop for SessionUsage {
    fn drop(&mut self) {
        self.release(self.held);
    }
}
