//! The state of backpressure: a pause of reading, and refused sends.

use core::fmt;

use crate::{connection::types::Room, rpc::Timestamp};

/// Reading is paused because of what the connection holds.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    /// When input is wanted again, although there is no room. `None` once that time has passed.
    pub(crate) until: Option<Timestamp>,
    /// Output has left or a request was answered since `until` was set.
    pub(crate) moved: bool,
}

/// Which verbs were refused as [`SendError::Busy`] and have not been reported by
/// [`poll_room`](Connection::poll_room) since.
///
/// It decides nothing but that report, so it is not part of what a connection prints: a refused verb changes nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct RefusedSends(pub(crate) u8);

impl RefusedSends {
    pub(crate) const fn bit(room: Room) -> u8 {
        match room {
            Room::Message => 1,
            Room::Request => 2,
        }
    }

    pub(crate) const fn has(self, room: Room) -> bool {
        self.0 & Self::bit(room) != 0
    }
}

impl fmt::Debug for RefusedSends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
