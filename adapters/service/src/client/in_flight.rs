//! The data of a request in flight that only clients have.

use std::{
    any::Any,
    cell::RefCell,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    inbound::in_flight::{InFlight, RoleInFlight},
    util::lock::lock,
};

/// The data of a request in flight that only a client has.
#[derive(Default)]
pub struct ClientInFlight {
    /// The data that the observer of the host has recorded when the request arrived, for the handler.
    arrival: Mutex<Option<Box<dyn Any + Send>>>,
}

impl ClientInFlight {
    pub(super) fn set_arrival(&mut self, arrival: Option<Box<dyn Any + Send>>) {
        *self.arrival.get_mut().unwrap_or_else(PoisonError::into_inner) = arrival;
    }

    /// Takes the data of the observer, if they have this type.
    pub(crate) fn take_arrival<T: Any>(&self) -> Option<T> {
        let arrival = lock(&self.arrival).take()?;
        arrival.downcast().ok().map(|arrival| *arrival)
    }
}

thread_local! {
    static POOL: RefCell<Vec<Arc<InFlight<ClientInFlight>>>> = const { RefCell::new(Vec::new()) };
}

impl RoleInFlight for ClientInFlight {
    fn with_pool<R>(f: impl FnOnce(&mut Vec<Arc<InFlight<Self>>>) -> R) -> Option<R> {
        POOL.try_with(|pool| f(&mut pool.borrow_mut())).ok()
    }

    fn clear(&mut self) {
        self.set_arrival(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_the_arrival_are_taken_once() {
        let mut in_flight = ClientInFlight::default();
        assert_eq!(in_flight.take_arrival::<u8>(), None);
        in_flight.set_arrival(Some(Box::new(1_u8)));
        assert_eq!((in_flight.take_arrival::<u8>(), in_flight.take_arrival::<u8>()), (Some(1), None));
        in_flight.set_arrival(Some(Box::new(1_u8)));
        in_flight.clear();
        assert_eq!(in_flight.take_arrival::<u8>(), None, "another request takes the place");
    }
}
