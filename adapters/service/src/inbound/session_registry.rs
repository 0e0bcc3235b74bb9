//! The registry of live sessions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak, atomic::Ordering},
};

use super::state::{Role, SessionState};
use crate::{driver_api::connection_handle::ConnectionHandle, util::lock::lock};

/// The live sessions of one application, in the order in which they began. It does not keep them alive.
pub(crate) struct SessionRegistry<E: Role>(Mutex<Sessions<E>>);

struct Sessions<E: Role> {
    next: u64,
    by_id: BTreeMap<u64, Weak<SessionState<E>>>,
}

impl<E: Role> Default for SessionRegistry<E> {
    fn default() -> Self {
        Self(Mutex::new(Sessions { next: 1, by_id: BTreeMap::new() }))
    }
}

impl<E: Role> SessionRegistry<E> {
    pub(crate) fn insert(&self, shared: &Arc<SessionState<E>>) {
        let mut sessions = lock(&self.0);
        let id = sessions.next;
        sessions.next += 1;
        shared.registry_id.store(id, Ordering::Relaxed);
        sessions.by_id.insert(id, Arc::downgrade(shared));
    }

    /// Removes a session that has ended. Adding and removing take time logarithmic in the number of sessions.
    pub(crate) fn remove(&self, shared: &SessionState<E>) {
        let removed = lock(&self.0).by_id.remove(&shared.registry_id.load(Ordering::Relaxed));
        drop(removed);
    }

    /// Calls `f` with every session whose connection is open.
    pub(crate) fn each(&self, mut f: impl FnMut(&SessionState<E>, &Arc<dyn ConnectionHandle<E>>)) {
        let sessions: Vec<_> = lock(&self.0).by_id.values().filter_map(Weak::upgrade).collect();
        for session in sessions {
            if let Some(connection) = session.calls.connection() {
                f(&session, &connection);
            }
        }
    }
}
