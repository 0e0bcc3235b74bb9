//! Backpressure: when a driver should stop reading, how much it takes to be written, and when a refused call of a method may be tried again.

use alloc::vec::Vec;

use crate::{
    connection::{
        api::Connection,
        state::input_pause::RefusedSends,
        types::{Room, Transmit},
    },
    rpc::Timestamp,
};

impl<E> Connection<E> {
    /// Whether the driver should read now. If not, it leaves bytes where they are, in the pipe or socket, so that the
    /// peer's writes wait. A driver asks before each read, and before each frame that it hands in.
    ///
    /// Reading pauses while more than half of [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes) waits to be
    /// written, or while [`Limits::requests`](crate::connection::Limits::requests) or
    /// [`Limits::request_bytes`](crate::connection::Limits::request_bytes) has no room for another message. It resumes when output
    /// has left or requests were answered, somewhat below these marks.
    ///
    /// A pause cannot last for ever. The peer may wait for this side to read before it reads itself, and a handler may
    /// wait for a message that was not read. So input is wanted again after
    /// [`Limits::input_pause`](crate::connection::Limits::input_pause) without progress: from then on, until there is room,
    /// messages beyond the limits are refused and a peer that does not read is disconnected. Open requests do not
    /// pause reading while a request of this side waits for its answer, and nothing does once the connection closes.
    ///
    /// What stands behind bytes that are not read is noticed late: cancellations, responses, and the end of the input.
    /// During a pause the peer counts as alive: neither [`Keepalive`](crate::connection::Keepalive) nor an idle timeout ends
    /// anything because of it. A total timeout does.
    ///
    /// The pause begins when this is called, and [`poll_timeout`](Self::poll_timeout) has its deadline after that. A
    /// driver that never asks is never told to stop, and the limits apply to what it hands in.
    #[must_use = "input that is handed in all the same is refused at the limits"]
    pub fn wants_input(&mut self, now: Timestamp) -> bool {
        self.engine.wants_input(now)
    }

    /// Some of the bytes that were polled have been written. It is progress for the deadline of
    /// [`wants_input`](Self::wants_input), and matters where one buffer takes long to be written; polling more output
    /// counts as well.
    pub fn handle_written(&mut self) {
        self.engine.progressed();
    }

    /// As [`poll_transmit`](Self::poll_transmit), but takes nothing while `out` has `high_water` bytes or more. `None`
    /// means that there is nothing to write or that `out` is full enough: write `out`, empty it, and call this again.
    ///
    /// With a high-water mark the rest waits in the connection. There it counts against
    /// [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes), and a cancellation can take it back. `out` grows to
    /// `high_water` and one message at most. 64 KiB is a good mark: enough for a few large writes.
    pub fn poll_transmit_up_to(&mut self, out: &mut Vec<u8>, high_water: usize) -> Option<Transmit> {
        if out.len() < high_water { self.poll_transmit(out) } else { None }
    }

    /// Says once that a verb which was refused as [`SendError::Busy`](crate::connection::SendError::Busy) may be tried again. Call it after input, output
    /// and time were handled, until it returns `None`.
    ///
    /// It reports [`Room::Message`] or [`Room::Request`] after a verb of that kind was refused, as soon as
    /// [`has_room`](Self::has_room) or [`has_room_for_request`](Self::has_room_for_request) is true, and not again
    /// until another one is refused. A retry can be refused again, for instance if several callers wait.
    #[must_use = "what is reported here is reported once"]
    pub fn poll_room(&mut self) -> Option<Room> {
        for room in [Room::Message, Room::Request] {
            let there_is = match room {
                _ if !self.engine.refused.has(room) => false,
                Room::Message => self.has_room(),
                Room::Request => self.has_room_for_request(),
            };
            if there_is {
                self.engine.refused.0 &= !RefusedSends::bit(room);
                return Some(room);
            }
        }
        None
    }
}
