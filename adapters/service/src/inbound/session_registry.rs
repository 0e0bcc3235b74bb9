//! The registry of live sessions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak, atomic::Ordering},
};

use super::state::{Role, Shared};
use crate::{driver_api::connection_handle::ConnectionHandle, util::lock::lock};

/// The live sessions of one application, in the order in which they began. It does not keep them alive.
pub(crate) struct Audience<E: Role>(Mutex<Seats<E>>);

struct Seats<E: Role> {
    next: u64,
    taken: BTreeMap<u64, Weak<Shared<E>>>,
}

impl<E: Role> Default for Audience<E> {
    fn default() -> Self {
        Self(Mutex::new(Seats { next: 1, taken: BTreeMap::new() }))
    }
}

impl<E: Role> Audience<E> {
    pub(crate) fn join(&self, shared: &Arc<Shared<E>>) {
        let mut seats = lock(&self.0);
        let seat = seats.next;
        seats.next += 1;
        shared.seat.store(seat, Ordering::Relaxed);
        seats.taken.insert(seat, Arc::downgrade(shared));
    }

    /// Removes a session that has ended. Adding and removing take time logarithmic in the number of sessions.
    pub(crate) fn leave(&self, shared: &Shared<E>) {
        let left = lock(&self.0).taken.remove(&shared.seat.load(Ordering::Relaxed));
        drop(left);
    }

    /// Calls `f` with every session whose connection is open.
    pub(crate) fn each(&self, mut f: impl FnMut(&Shared<E>, &Arc<dyn ConnectionHandle<E>>)) {
        let sessions: Vec<_> = lock(&self.0).taken.values().filter_map(Weak::upgrade).collect();
        for session in sessions {
            if let Some(connection) = session.calls.connection() {
                f(&session, &connection);
            }
        }
    }
}
