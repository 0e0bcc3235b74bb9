//! What waits to be written: frames as bytes, in order, in two lanes.

use alloc::{collections::VecDeque, string::String, vec::Vec};
use core::{fmt, mem};

use super::{CallId, Empty, Rare, ReplyKey};
use crate::wire::{Message, RequestId, encode::line_break};

/// From so many bytes on, a frame that is all that waits is handed over together with its buffer, instead of being copied.
const LARGE: usize = 8 * 1024;

/// What an empty queue keeps of its buffer in any case.
const SPARE: usize = 64 * 1024;

/// Which queue a frame waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answers, notifications, cancellations: they end work or keep it alive, and go first.
    Control,
    /// New requests of ours.
    Request,
}

/// What a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nothing in particular.
    Nobody,
    /// A request of the peer that is in no table: this is the connection's own answer. And the stream that it goes to,
    /// where there are several.
    Answered(Option<u64>),
    /// A request of the peer, and whether this frame is its answer.
    Reply { key: ReplyKey, last: bool },
    /// Something that is said once this request of the peer has its answer, and not if that is taken back.
    Behind(ReplyKey),
    /// A request of ours, which this frame is.
    Call(CallId),
}

#[derive(Clone, Debug)]
struct Queued {
    len: usize,
    owner: Owner,
    /// Taken back, and to be skipped.
    dead: bool,
}

#[derive(Clone, Default)]
struct Queue {
    /// The frames one behind the other. Reused: it is emptied, not dropped.
    bytes: Vec<u8>,
    head: usize,
    frames: VecDeque<Queued>,
    /// How many of them are not dead.
    live: usize,
    dead_bytes: usize,
}

impl Empty for Queue {
    const EMPTY: &'static Self = &Self { bytes: Vec::new(), head: 0, frames: VecDeque::new(), live: 0, dead_bytes: 0 };
}

impl Queue {
    fn live_bytes(&self) -> usize {
        self.bytes.len() - self.head - self.dead_bytes
    }

    fn weight(&self) -> usize {
        self.live_bytes() + self.live * size_of::<Queued>()
    }

    fn pop(&mut self, out: &mut Vec<u8>) -> Option<Owner> {
        while let Some(frame) = self.frames.pop_front() {
            let range = self.head..self.head + frame.len;
            self.head = range.end;
            if frame.dead {
                self.dead_bytes -= frame.len;
            } else {
                self.live -= 1;
                if frame.len >= LARGE && out.is_empty() && range == (0..self.bytes.len()) {
                    // What comes back has space for the next one.
                    mem::swap(out, &mut self.bytes);
                    self.head = 0;
                    return Some(frame.owner);
                }
                out.extend_from_slice(&self.bytes[range]);
            }
            self.tidy();
            if !frame.dead {
                return Some(frame.owner);
            }
        }
        None
    }

    /// Gives back the space of what has left, at a cost that is constant for each byte.
    ///
    /// The space of large messages is kept for more of them, but not for small ones.
    fn tidy(&mut self) {
        let used = self.bytes.len();
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
            if self.bytes.capacity() > SPARE && 4 * used < self.bytes.capacity() {
                self.bytes.shrink_to(SPARE.max(2 * used));
            }
        } else if self.head > self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }

    fn take_back(&mut self, matches: impl Fn(Owner) -> bool) -> usize {
        let mut taken = 0;
        for frame in &mut self.frames {
            if !frame.dead && matches(frame.owner) {
                frame.dead = true;
                self.dead_bytes += frame.len;
                taken += 1;
            }
        }
        self.live -= taken;
        self.compact_if_worth_it();
        taken
    }

    /// As [`take_back`](Self::take_back), for a lane of nothing but calls, which are in the order of their ids.
    fn take_back_call(&mut self, id: CallId) -> bool {
        let at = self.frames.partition_point(|frame| matches!(frame.owner, Owner::Call(queued) if queued < id));
        let found = self.frames.get(at).is_some_and(|frame| frame.owner == Owner::Call(id) && !frame.dead);
        if found {
            self.bury(at);
        }
        found
    }

    /// Takes back the first of the connection's own answers that is for the request with this id.
    fn take_back_answer(&mut self, id: &RequestId) -> bool {
        let mut at = self.head;
        let found = self.frames.iter().position(|frame| {
            let text = &self.bytes[at..at + frame.len];
            at += frame.len;
            matches!(frame.owner, Owner::Answered(_)) && !frame.dead && Message::answered(text).as_ref() == Some(id)
        });
        if let Some(index) = found {
            self.bury(index);
        }
        found.is_some()
    }

    fn bury(&mut self, index: usize) {
        let frame = &mut self.frames[index];
        frame.dead = true;
        self.dead_bytes += frame.len;
        self.live -= 1;
        self.compact_if_worth_it();
    }

    fn compact_if_worth_it(&mut self) {
        if self.dead_bytes > 4096 && self.dead_bytes > self.live_bytes() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let (mut from, mut to) = (self.head, 0);
        for frame in &self.frames {
            if !frame.dead {
                self.bytes.copy_within(from..from + frame.len, to);
                to += frame.len;
            }
            from += frame.len;
        }
        self.bytes.truncate(to);
        self.frames.retain(|frame| !frame.dead);
        (self.head, self.dead_bytes) = (0, 0);
    }
}

/// The frames that wait to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    control: Queue,
    /// Most servers never ask anything.
    requests: Rare<Queue>,
    /// How many frames are [`Owner::Answered`].
    answered: usize,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = self.head;
        let frames = self.frames.iter().map(|frame| {
            let bytes = &self.bytes[at..at + frame.len];
            at += frame.len;
            (frame, String::from_utf8_lossy(bytes))
        });
        let live = frames.filter(|(frame, _)| !frame.dead).map(|(frame, text)| (frame.owner, text));
        write!(f, "{} bytes ", self.weight())?;
        f.debug_map().entries(live).finish()
    }
}

impl Outbox {
    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Control => &mut self.control,
            Lane::Request => &mut self.requests,
        }
    }

    /// Gives back the space of queues in which nothing waits.
    pub(crate) fn shrink(&mut self) {
        if self.control.frames.is_empty() {
            self.control = Queue::default();
        }
        if self.requests.frames.is_empty() {
            self.requests = Rare::default();
        }
    }

    /// Queues the frame that `encode` appends, which is one line, with a line feed behind it.
    ///
    /// If `encode` fails, or writes more than `max_len` bytes, nothing is queued. `None` stands for the latter.
    pub(crate) fn push<E>(
        &mut self,
        lane: Lane,
        owner: Owner,
        max_len: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let queue = self.queue(lane);
        let start = queue.bytes.len();
        let encoded = encode(&mut queue.bytes);
        let len = queue.bytes.len() - start;
        if let Err(error) = encoded {
            queue.bytes.truncate(start);
            return Err(error);
        }
        if len > max_len {
            queue.bytes.truncate(start);
            queue.bytes.shrink_to(2 * start);
            return Ok(None);
        }
        debug_assert_eq!(line_break(&queue.bytes[start..]), None, "{queue:?}");
        queue.bytes.push(b'\n');
        queue.frames.push_back(Queued { len: len + 1, owner, dead: false });
        queue.live += 1;
        self.answered += usize::from(matches!(owner, Owner::Answered(_)));
        Ok(Some(len + 1))
    }

    /// Moves the next frame of a lane to the end of `out`, which gets another buffer if it was empty and the frame is large.
    pub(crate) fn pop(&mut self, lane: Lane, out: &mut Vec<u8>) -> Option<Owner> {
        let owner = match lane {
            Lane::Control => self.control.pop(out)?,
            Lane::Request => self.requests.made()?.pop(out)?,
        };
        self.answered -= usize::from(matches!(owner, Owner::Answered(_)));
        Some(owner)
    }

    /// Takes back the frames whose owner `matches`; the number of them. The cost is that of a look at each frame queued.
    pub(crate) fn take_back(&mut self, lane: Lane, matches: impl Fn(Owner) -> bool) -> usize {
        match lane {
            Lane::Control => self.control.take_back(matches),
            Lane::Request => self.requests.made().map_or(0, |queue| queue.take_back(matches)),
        }
    }

    /// Takes back the frame of a call that waits in the lane of requests; whether it was there.
    pub(crate) fn take_back_call(&mut self, id: CallId) -> bool {
        self.requests.made().is_some_and(|queue| queue.take_back_call(id))
    }

    /// Takes back the connection's own answer to the request with this id; whether there was one.
    pub(crate) fn take_back_answer(&mut self, id: &RequestId) -> bool {
        let taken = self.answered > 0 && self.control.take_back_answer(id);
        self.answered -= usize::from(taken);
        taken
    }

    /// What waits, in bytes: the frames, and what it takes to keep track of them.
    pub(crate) fn weight(&self) -> usize {
        self.control.weight() + self.requests.weight()
    }

    /// Frames that wait.
    pub(crate) fn frames(&self) -> usize {
        self.control.live + self.requests.live
    }

    /// Whether something waits that goes first.
    #[cfg(feature = "http")]
    pub(crate) const fn has_control(&self) -> bool {
        self.control.live > 0
    }

    /// Forgets everything: there is nobody to write to.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn push(outbox: &mut Outbox, lane: Lane, owner: Owner, text: &str) {
        let queued = outbox.push::<()>(lane, owner, usize::MAX, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        });
        assert_eq!(queued, Ok(Some(text.len() + 1)));
    }

    fn drain(outbox: &mut Outbox) -> String {
        let mut out = Vec::new();
        while outbox.pop(Lane::Control, &mut out).or_else(|| outbox.pop(Lane::Request, &mut out)).is_some() {}
        String::from_utf8(out).expect("text went in")
    }

    #[test]
    fn what_is_large_and_alone_is_not_copied() {
        let mut outbox = Outbox::default();
        let (small, large) = ("s".repeat(LARGE - 2), "l".repeat(LARGE));
        let mut pushed_at = |text: &str, before: &str| {
            push(&mut outbox, Lane::Control, Owner::Nobody, text);
            let (at, mut out) = (outbox.control.bytes.as_ptr(), Vec::from(before));
            assert!(outbox.pop(Lane::Control, &mut out).is_some());
            assert_eq!(out, [before, text, "\n"].concat().as_bytes());
            assert_eq!((outbox.control.head, outbox.control.bytes.len()), (0, 0));
            out.as_ptr() == at
        };
        assert_eq!([pushed_at(&large, ""), pushed_at(&large, "x"), pushed_at(&small, "")], [true, false, false]);
        // With others behind it, it is copied.
        for text in [&large, &large] {
            push(&mut outbox, Lane::Control, Owner::Nobody, text);
        }
        assert_eq!(drain(&mut outbox), alloc::format!("{large}\n{large}\n"));
        // The space that comes back is kept.
        push(&mut outbox, Lane::Control, Owner::Nobody, &large);
        assert!(outbox.pop(Lane::Control, &mut Vec::with_capacity(8 * SPARE)).is_some());
        assert_eq!(outbox.control.bytes.capacity(), 8 * SPARE);
    }

    #[test]
    fn space_for_large_messages_is_not_kept_for_small_ones() {
        let mut outbox = Outbox::default();
        for large in [true, true, false] {
            let text = if large { "l".repeat(8 * SPARE) } else { "s".repeat(99) };
            push(&mut outbox, Lane::Request, call(1), "waits");
            push(&mut outbox, Lane::Request, call(2), &text);
            drain(&mut outbox);
            let capacity = outbox.requests.bytes.capacity();
            assert!(if large { capacity > 8 * SPARE } else { capacity <= SPARE }, "{capacity}");
        }
    }

    fn call(id: u64) -> Owner {
        Owner::Call(CallId::from_raw(id))
    }

    #[test]
    fn control_goes_first_and_each_lane_keeps_its_order() {
        let mut outbox = Outbox::default();
        push(&mut outbox, Lane::Request, call(1), "r1");
        push(&mut outbox, Lane::Control, Owner::Nobody, "c1");
        push(&mut outbox, Lane::Request, call(2), "r2");
        push(&mut outbox, Lane::Control, Owner::Nobody, "c2");
        assert_eq!((outbox.frames(), outbox.weight()), (4, 12 + 4 * size_of::<Queued>()));
        assert_eq!(drain(&mut outbox), "c1\nc2\nr1\nr2\n");
        assert_eq!((outbox.frames(), outbox.weight()), (0, 0));
    }

    #[test]
    fn what_is_taken_back_never_leaves_and_costs_no_space() {
        let mut outbox = Outbox::default();
        let text = "x".repeat(100);
        for id in 0..100_000 {
            push(&mut outbox, Lane::Request, call(id), &text);
            if id != 7 {
                assert!(outbox.take_back_call(CallId::from_raw(id)));
                assert!(!outbox.take_back_call(CallId::from_raw(id)), "it is gone");
            }
            assert!(outbox.requests.bytes.len() < 10_000);
        }
        assert_eq!((outbox.frames(), outbox.weight()), (1, 101 + size_of::<Queued>()));
        let mut out = Vec::new();
        assert_eq!(outbox.pop(Lane::Request, &mut out), Some(call(7)));
        assert_eq!(outbox.pop(Lane::Request, &mut out), None);
        assert_eq!(out.len(), 101);
    }

    #[test]
    fn it_prints_as_what_will_leave() {
        let mut outbox = Outbox::default();
        for id in 1..4 {
            push(&mut outbox, Lane::Request, call(id), "text");
        }
        outbox.pop(Lane::Request, &mut Vec::new());
        outbox.take_back_call(CallId::from_raw(2));
        let printed = std::format!("{:?}", outbox.requests);
        assert_eq!(printed, std::format!("{} bytes {{Call(CallId(3)): \"text\\n\"}}", outbox.weight()));
    }

    #[test]
    fn a_frame_that_fails_or_is_too_long_leaves_no_trace() {
        let mut outbox = Outbox::default();
        push(&mut outbox, Lane::Control, Owner::Nobody, "kept");
        let failed = outbox.push(Lane::Control, Owner::Nobody, 99, |out| {
            out.extend_from_slice(b"half");
            Err("no")
        });
        assert_eq!(failed, Err("no"));
        let long = outbox.push::<()>(Lane::Control, Owner::Nobody, 3, |out| {
            out.extend_from_slice(b"long");
            Ok(())
        });
        assert_eq!(long, Ok(None));
        assert_eq!(drain(&mut outbox), "kept\n");
    }
}
