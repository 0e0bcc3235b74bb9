//! The data of a request in flight that only clients have.

use std::{cell::RefCell, sync::Arc};

use crate::inbound::in_flight::{RoleWork, Work};

/// The data of a request in flight that only a client has: none.
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
