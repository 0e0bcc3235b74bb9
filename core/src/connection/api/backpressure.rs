//! Backpressure: when a driver should stop reading, how much it has written, and when a refused send may be repeated.

use alloc::vec::Vec;

use crate::{
    connection::{
        api::Connection,
        state::input_pause::RefusedSends,
        types::{Transmit, Writable},
    },
    rpc::Timestamp,
};

impl<E> Connection<E> {
    /// Returns whether the driver should read now. If not, the driver leaves bytes in the pipe or socket, so that the
    /// peer's writes block. A driver calls this before each read, and before each frame that it passes in.
    ///
    /// Reading pauses while more than half of [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes) waits
    /// to be written, or while [`Limits::requests`](crate::connection::Limits::requests) or
    /// [`Limits::request_bytes`](crate::connection::Limits::request_bytes) leaves no room for another message. It
    /// resumes somewhat below these marks, after output was polled or responses were queued.
    ///
    /// A pause is bounded. The peer may not read before this side reads, and a handler may wait for a message that was
    /// not read. So reading resumes after [`Limits::input_pause`](crate::connection::Limits::input_pause) without
    /// progress: from then on, until there is room, messages beyond the limits are refused and a peer that does not
    /// read is disconnected. Open requests do not pause reading while a request of this side waits for its response.
    /// Nothing pauses reading once the connection closes.
    ///
    /// Cancellations, responses and the end of the input are noticed late if they follow bytes that are not read yet.
    /// During a pause the peer counts as alive: neither [`Keepalive`](crate::connection::Keepalive) nor an idle timeout
    /// ends anything because of it. A total timeout does.
    ///
    /// The pause begins when this is called, and [`poll_timeout`](Self::poll_timeout) includes its deadline after that.
    /// For a driver that never calls this, only the limits apply.
    #[must_use = "more input is refused at the limits"]
    pub fn wants_input(&mut self, now: Timestamp) -> bool {
        self.engine.wants_input(now)
    }

    /// Returns whether reading is not paused and no pause has to begin. [`wants_input`](Self::wants_input) is `true`
    /// then, at any time, and need not be called.
    #[must_use]
    pub fn has_room_for_input(&self) -> bool {
        self.engine.has_room_for_input()
    }

    /// Records that some of the polled bytes were written. It counts as progress for the deadline of
    /// [`wants_input`](Self::wants_input), and matters if the write of one buffer takes long. Polling more output
    /// counts as well.
    pub fn handle_written(&mut self) {
        self.engine.progressed();
    }

    /// Appends the next message as [`poll_transmit`](Self::poll_transmit) does, unless `out` has `high_water` bytes or
    /// more. `None` means that there is nothing to write or that `out` is full enough: write `out`, empty it, and call
    /// this again.
    ///
    /// With a high-water mark the remaining messages wait in the connection. They count against
    /// [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes), and a cancellation can remove them. `out`
    /// grows to `high_water` and one message at most. 64 KiB is a good mark: enough for a few large writes.
    pub fn poll_transmit_up_to(&mut self, out: &mut Vec<u8>, high_water: usize) -> Option<Transmit> {
        if out.len() < high_water { self.poll_transmit(out) } else { None }
    }

    /// Returns once that a send that was refused as [`SendError::Busy`](crate::connection::SendError::Busy) may be
    /// tried again. Call it after input, output and time were handled, until it returns `None`.
    ///
    /// It returns [`Writable::Message`] or [`Writable::Request`] after a send of that kind was refused, as soon as
    /// [`has_room`](Self::has_room) or [`has_room_for_request`](Self::has_room_for_request) is true, and not again
    /// until another one is refused. A retry can be refused again, for instance if several callers wait.
    #[must_use = "it is reported once"]
    pub fn poll_writable(&mut self) -> Option<Writable> {
        for writable in [Writable::Message, Writable::Request] {
            let is_writable = match writable {
                _ if !self.engine.refused.has(writable) => false,
                Writable::Message => self.has_room(),
                Writable::Request => self.has_room_for_request(),
            };
            if is_writable {
                self.engine.refused.0 &= !RefusedSends::bit(writable);
                return Some(writable);
            }
        }
        None
    }
}
