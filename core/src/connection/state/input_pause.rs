//! The state of backpressure: a pause of reading, and refused sends.

use core::fmt;

use crate::{connection::types::Room, rpc::Timestamp};

/// A pause of reading, made because the connection holds too much data.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    /// The deadline after which the engine reads again even without room. `None` once it has passed.
    pub(crate) until: Option<Timestamp>,
    /// Whether output has left or a request was answered since `until` was set.
    pub(crate) moved: bool,
}

/// The kinds of sends that were refused with [`SendError::Busy`](crate::connection::SendError::Busy) and have not been
/// reported by [`poll_room`](crate::connection::Connection::poll_room) since.
///
/// The set affects only that report. `Debug` omits it, so that a refused send does not change the printed state of a
/// connection.
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
