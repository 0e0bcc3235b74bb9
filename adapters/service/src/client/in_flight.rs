//! The data of a request in flight that only clients have.

use std::{cell::RefCell, sync::Arc};

use crate::inbound::in_flight::{InFlight, RoleInFlight};

/// The data of a request in flight that only a client has: none.
#[derive(Default)]
pub struct ClientInFlight;

thread_local! {
    static POOL: RefCell<Vec<Arc<InFlight<ClientInFlight>>>> = const { RefCell::new(Vec::new()) };
}

impl RoleInFlight for ClientInFlight {
    fn with_pool<R>(f: impl FnOnce(&mut Vec<Arc<InFlight<Self>>>) -> R) -> Option<R> {
        POOL.try_with(|pool| f(&mut pool.borrow_mut())).ok()
    }
}
