//! Backpressure: when a driver should stop reading, how much it takes to be written, and when a refused verb may be
//! tried again.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use super::{Connection, SendError, Transmit, engine::Engine};
use crate::{protocol::Phase, rpc::Timestamp};

/// What there is room for again after a verb was refused as [`SendError::Busy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Room {
    /// An answer, a notification, progress or a log message.
    Message,
    /// A request.
    Request,
}

/// Reading is paused because of what the connection holds.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    /// When input is wanted again, although there is no room. `None` once that time has passed.
    until: Option<Timestamp>,
    /// Output has left or a request was answered since `until` was set.
    moved: bool,
}

/// Which verbs were refused as [`SendError::Busy`] and have not been reported by
/// [`poll_room`](Connection::poll_room) since.
///
/// It decides nothing but that report, so it is not part of what a connection prints: a refused verb changes nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Refused(u8);

impl Refused {
    const fn bit(room: Room) -> u8 {
        match room {
            Room::Message => 1,
            Room::Request => 2,
        }
    }

    const fn has(self, room: Room) -> bool {
        self.0 & Self::bit(room) != 0
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<E> Connection<E> {
    /// Whether the driver should read now. If not, it leaves bytes where they are, in the pipe or socket, so that the
    /// peer's writes wait. A driver asks before each read, and before each frame that it hands in.
    ///
    /// Reading pauses while more than half of [`Limits::outbox_bytes`](super::Limits::outbox_bytes) waits to be
    /// written, or while [`Limits::requests`](super::Limits::requests) or
    /// [`Limits::request_bytes`](super::Limits::request_bytes) has no room for another message. It resumes when output
    /// has left or requests were answered, somewhat below these marks.
    ///
    /// A pause cannot last for ever. The peer may wait for this side to read before it reads itself, and a handler may
    /// wait for a message that was not read. So input is wanted again after
    /// [`Limits::input_pause`](super::Limits::input_pause) without progress: from then on, until there is room,
    /// messages beyond the limits are refused and a peer that does not read is disconnected. Open requests do not
    /// pause reading while a request of this side waits for its answer, and nothing does once the connection closes.
    ///
    /// What stands behind bytes that are not read is noticed late: cancellations, responses, and the end of the input.
    /// During a pause the peer counts as alive: neither [`Keepalive`](super::Keepalive) nor an idle timeout ends
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
    /// [`Limits::outbox_bytes`](super::Limits::outbox_bytes), and a cancellation can take it back. `out` grows to
    /// `high_water` and one message at most. 64 KiB is a good mark: enough for a few large writes.
    pub fn poll_transmit_up_to(&mut self, out: &mut Vec<u8>, high_water: usize) -> Option<Transmit> {
        if out.len() < high_water { self.poll_transmit(out) } else { None }
    }

    /// Says once that a verb which was refused as [`SendError::Busy`] may be tried again. Call it after input, output
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
                self.engine.refused.0 &= !Refused::bit(room);
                return Some(room);
            }
        }
        None
    }
}

impl Engine {
    /// Remembers a refusal for [`poll_room`](Connection::poll_room).
    pub(super) fn noted<T>(&mut self, kind: Room, result: Result<T, SendError>) -> Result<T, SendError> {
        if matches!(result, Err(SendError::Busy)) {
            self.refused.0 |= Refused::bit(kind);
        }
        result
    }

    pub(super) fn wants_input(&mut self, now: Timestamp) -> bool {
        let Some(pause) = &self.pause else {
            if !self.is_congested() {
                return true;
            }
            let until = Some(now + self.limits().input_pause);
            self.pause = Some(Box::new(Pause { until, moved: false }));
            return false;
        };
        let is_over = pause.until.is_none();
        if self.has_cleared() {
            self.pause = None;
            // What the peer has said meanwhile was not read.
            self.heard(now);
            return true;
        }
        is_over
    }

    /// Whether reading is paused now.
    pub(super) fn is_paused(&self) -> bool {
        self.pause_ends().is_some()
    }

    /// When a pause ends, although there is no room.
    pub(super) fn pause_ends(&self) -> Option<Timestamp> {
        self.pause.as_ref()?.until
    }

    /// Output has left, or a request was answered.
    pub(super) fn progressed(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.moved = true;
        }
    }

    /// Ends a pause in which nothing has moved for too long.
    pub(super) fn end_pause(&mut self, now: Timestamp) {
        let again = now + self.limits().input_pause;
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.until.is_some_and(|until| until <= now)) {
            pause.until = core::mem::take(&mut pause.moved).then_some(again);
        }
    }

    /// Whether so much is held that more input could only be refused.
    fn is_congested(&self) -> bool {
        let limits = self.limits();
        if self.phase >= Phase::Draining || limits.input_pause.is_zero() {
            return false;
        }
        let full = self.requests.len() >= limits.requests
            || self.request_bytes.saturating_add(limits.next_request()) > limits.request_bytes;
        self.has_much_to_write(limits.outbox_bytes / 2) || full && self.requests.len() > 0 && !self.waits_for_answers()
    }

    /// Whether there is enough room to read again.
    fn has_cleared(&self) -> bool {
        let limits = self.limits();
        if self.phase >= Phase::Draining {
            return true;
        }
        let bytes = self.request_bytes.saturating_add(limits.next_request()).saturating_add(limits.request_bytes / 8);
        let room = self.requests.len().saturating_add(limits.requests / 8) < limits.requests
            && bytes <= limits.request_bytes
            || self.requests.len() == 0;
        !self.has_much_to_write(limits.outbox_bytes / 4) && (room || self.waits_for_answers())
    }

    /// Whether more than so many bytes wait to be written and can be.
    fn has_much_to_write(&self, bytes: usize) -> bool {
        // What is held for the rest of a batch leaves when that is complete, which may take more input.
        self.leaving_bytes() > bytes
    }

    /// Whether a request of the application waits for the peer. A handler that answers requests may wait for it.
    fn waits_for_answers(&self) -> bool {
        let pings = self.pings.as_ref().is_some_and(|pings| pings.is_in_flight());
        self.calls.len() > usize::from(pings)
    }
}
