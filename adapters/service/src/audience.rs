//! The sessions that are alive.

use std::sync::{Arc, Mutex, Weak};

use crate::{Link, Role, session::Shared, sync::lock};

/// The live sessions of one application. It does not keep them alive.
pub(crate) struct Audience<E: Role>(Mutex<Vec<Weak<Shared<E>>>>);

impl<E: Role> Default for Audience<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: Role> Audience<E> {
    pub(crate) fn join(&self, shared: &Arc<Shared<E>>) {
        let mut sessions = lock(&self.0);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(shared));
    }

    /// Does something with every session whose connection is there.
    pub(crate) fn each(&self, mut f: impl FnMut(&Shared<E>, &Arc<dyn Link<E>>)) {
        let sessions: Vec<_> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        for session in sessions {
            if let Some(link) = session.calls.link() {
                f(&session, &link);
            }
        }
    }
}
