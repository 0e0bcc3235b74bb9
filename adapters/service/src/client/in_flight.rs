//! What only clients know of a request that they work on.

use std::{cell::RefCell, sync::Arc};

use crate::inbound::in_flight::{RoleWork, Work};

/// What only a client knows of a request that it works on: nothing.
#[derive(Default)]
pub struct ClientWork;

thread_local! {
    static PLACES: RefCell<Vec<Arc<Work<ClientWork>>>> = const { RefCell::new(Vec::new()) };
}

impl RoleWork for ClientWork {
    fn with_places<R>(f: impl FnOnce(&mut Vec<Arc<Work<Self>>>) -> R) -> Option<R> {
        PLACES.try_with(|places| f(&mut places.borrow_mut())).ok()
    }
}
