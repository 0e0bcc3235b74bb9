//! The shares of principals and clients in the limits of tasks.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::{
    driver_api::{self, connection_handle::ConnectionHandle},
    inbound::task_policy::TaskPolicy,
};

/// The holder of the share that a task takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TaskHolder {
    /// The principal of the request.
    Principal(String),
    /// The address of the client, if the request has no principal.
    Address(IpAddr),
    /// The connection of the request, if neither is known.
    Connection(u64),
}

impl TaskHolder {
    /// Returns the holder for a task of this principal, if there is one, on this connection.
    pub(super) fn of<E: 'static>(owner: Option<&str>, connection: &dyn ConnectionHandle<E>, number: u64) -> Self {
        match (owner, connection.holder()) {
            (Some(owner), _) => Self::Principal(owner.to_owned()),
            (None, driver_api::Holder::Address(address)) => Self::Address(address),
            (None, driver_api::Holder::Principal(_) | driver_api::Holder::Unknown) => Self::Connection(number),
        }
    }
}

/// The shares of all holders that have tasks.
#[derive(Debug, Default)]
pub(super) struct Shares(HashMap<TaskHolder, Arc<Share>>);

/// The tasks and bytes of one holder.
#[derive(Debug)]
pub(super) struct Share {
    holder: TaskHolder,
    tasks: AtomicUsize,
    bytes: AtomicUsize,
}

impl Shares {
    pub(super) fn of(&mut self, holder: TaskHolder) -> Arc<Share> {
        let new = |holder: &TaskHolder| Share { holder: holder.clone(), tasks: 0.into(), bytes: 0.into() };
        self.0.entry(holder).or_insert_with_key(|holder| Arc::new(new(holder))).clone()
    }

    /// Removes a share without tasks.
    pub(super) fn remove_if_empty(&mut self, share: &Share) {
        if share.tasks() == 0 {
            self.0.remove(&share.holder);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Share {
    pub(super) fn tasks(&self) -> usize {
        self.tasks.load(Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub(super) fn add_task(&self) {
        self.tasks.fetch_add(1, Relaxed);
    }

    pub(super) fn remove_task(&self) {
        self.tasks.fetch_sub(1, Relaxed);
    }

    /// Takes this many more bytes from the share and from the total, if both have room. Returns whether it did.
    pub(super) fn reserve(&self, all: &AtomicUsize, bytes: usize, policy: &TaskPolicy) -> bool {
        let within = |most| move |held: usize| held.checked_add(bytes).filter(|sum| *sum <= most);
        if self.bytes.fetch_update(Relaxed, Relaxed, within(policy.max_bytes_per_principal)).is_err() {
            return false;
        }
        let fits = all.fetch_update(Relaxed, Relaxed, within(policy.max_shared_bytes)).is_ok();
        if !fits {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        fits
    }

    pub(super) fn release(&self, all: &AtomicUsize, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        all.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_from_the_share_and_the_total() {
        let policy = TaskPolicy { max_bytes_per_principal: 10, max_shared_bytes: 15, ..TaskPolicy::default() };
        let (mut shares, all) = (Shares::default(), AtomicUsize::new(0));
        let [one, other] = [1, 2].map(|number| shares.of(TaskHolder::Connection(number)));
        let held = || (one.bytes(), other.bytes(), all.load(Relaxed));
        assert!(one.reserve(&all, 10, &policy) && !one.reserve(&all, 1, &policy));
        assert_eq!(held(), (10, 0, 10));
        assert!(!other.reserve(&all, 6, &policy));
        assert_eq!(held(), (10, 0, 10), "nothing is taken without room in the total");
        assert!(other.reserve(&all, 5, &policy) && !other.reserve(&all, usize::MAX, &policy));
        one.release(&all, 4);
        assert_eq!(held(), (6, 5, 11));
    }

    #[test]
    fn a_share_is_kept_as_long_as_it_has_tasks() {
        let mut shares = Shares::default();
        let share = shares.of(TaskHolder::Principal("ada".into()));
        assert!(Arc::ptr_eq(&share, &shares.of(TaskHolder::Principal("ada".into()))));
        share.add_task();
        share.add_task();
        share.remove_task();
        shares.remove_if_empty(&share);
        assert_eq!((share.tasks(), shares.len()), (1, 1));
        share.remove_task();
        shares.remove_if_empty(&share);
        assert_eq!((share.tasks(), shares.len()), (0, 0));
    }
}
