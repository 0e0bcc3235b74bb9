//! The state of backpressure: a pause of reading, and refused sends.

use core::fmt;

use crate::{connection::types::Writable, rpc::Timestamp};

/// A pause of reading, made because the connection holds too much data.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    /// The deadline after which the engine reads again even without room. `None` once it has passed.
    pub(crate) until: Option<Timestamp>,
    /// Whether output was polled or written, or a response was queued, since `until` was set.
    pub(crate) moved: bool,
}

/// The kinds of sends that were refused with [`SendError::Busy`](crate::connection::SendError::Busy) and have not been
/// reported by [`poll_writable`](crate::connection::Connection::poll_writable) since.
///
/// The set affects only that report. `Debug` omits it, so that a refused send does not change the printed state of a
/// connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct RefusedSends(pub(crate) u8);

impl RefusedSends {
    pub(crate) const fn bit(writable: Writable) -> u8 {
        match writable {
            Writable::Message => 1,
            Writable::Request => 2,
        }
    }

    pub(crate) const fn has(self, writable: Writable) -> bool {
        self.0 & Self::bit(writable) != 0
    }
}

impl fmt::Debug for RefusedSends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
