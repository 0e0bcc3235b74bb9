//! The state of keepalive pings.

use alloc::boxed::Box;

use crate::{
    connection::types::{Keepalive, Settings},
    rpc::Timestamp,
};

#[derive(Clone, Debug)]
pub(crate) struct KeepaliveState {
    pub(crate) config: Keepalive,
    pub(crate) heard: Timestamp,
    pub(crate) missed: u32,
    pub(crate) in_flight: bool,
}

impl KeepaliveState {
    /// Those that are configured.
    pub(crate) fn of(settings: &Settings, now: Timestamp) -> Option<Box<Self>> {
        let keepalive = settings.keepalive?;
        Some(Box::new(Self { config: keepalive, heard: now, missed: 0, in_flight: false }))
    }

    /// Whether a ping waits for its answer.
    pub(crate) const fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// When the next ping is due. The one in flight has a deadline of its own.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        (!self.in_flight).then(|| self.heard + self.config.interval)
    }
}
