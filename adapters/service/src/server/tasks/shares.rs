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
