//! The state of keepalive pings.

use alloc::boxed::Box;

use crate::{
    connection::types::{Keepalive, Settings},
    rpc::Timestamp,
};

#[derive(Clone, Debug)]
pub(crate) struct KeepaliveState {
    pub(crate) config: Keepalive,
    pub(crate) last_received: Timestamp,
    pub(crate) missed: u32,
    pub(crate) in_flight: bool,
}

impl KeepaliveState {
    /// Returns the initial state if keepalive is configured.
    pub(crate) fn of(settings: &Settings, now: Timestamp) -> Option<Box<Self>> {
        let keepalive = settings.keepalive?;
        Some(Box::new(Self { config: keepalive, last_received: now, missed: 0, in_flight: false }))
    }

    /// Returns whether a ping waits for its response.
    pub(crate) const fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Returns when the next ping is due. `None` while a ping is in flight: the table of calls has its deadline.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        (!self.in_flight).then(|| self.last_received + self.config.interval)
    }
}
