//! The outbox: encoded frames that wait to be written, in order, in two lanes.

use alloc::{collections::VecDeque, string::String, vec::Vec};
use core::{fmt, mem, ops::Range};

use super::{CallId, ReplyKey, own_responses::OwnResponses};
use crate::{
    collections::{LazyBox, StaticDefault},
    wire::{Message, RequestId, encode::line_break},
};

/// The minimum size of a frame that is moved out together with its buffer instead of being copied, if it is alone in
/// its queue.
const LARGE: usize = 8 * 1024;

/// The capacity in bytes that an empty queue always keeps.
const SPARE: usize = 64 * 1024;

/// The capacity in bytes of a queue after its first frame, so that a small frame is written without moving it.
const FIRST: usize = 256;

/// The queue of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Responses, notifications and cancellations. They are sent first.
    Control,
    /// New requests of the application and the connection.
    Request,
}

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameOwner {
    /// The frame belongs to no request.
    None,
    /// The frame is the connection's own response to a request of the peer that is in no table. The field is the stream
    /// of the response, for transports with several.
    Answered(Option<u64>),
    /// The frame belongs to a request of the peer. `last` is `true` if it is the response.
    Reply { key: ReplyKey, last: bool },
    /// The frame follows the response to this request of the peer. It is dropped with the response.
    Behind(ReplyKey),
    /// The frame is this request of the application or the connection.
    Call(CallId),
}

/// The number of a frame in its queue. Numbers grow from frame to frame and wrap around.
pub(crate) type Number = u32;

#[derive(Clone, Debug)]
struct Queued {
    /// The end of the frame in the queue's bytes.
    end: usize,
    owner: FrameOwner,
    number: Number,
    /// The number of the previous frame of the same request, or of this frame if there is none. [`DEAD`] if this frame
    /// was removed and must be skipped.
    previous: Number,
}

/// No frame has this number.
const DEAD: Number = Number::MAX;

impl Queued {
    const fn is_dead(&self) -> bool {
        self.previous == DEAD
    }
}

#[derive(Clone, Default)]
pub(super) struct Queue {
    /// The bytes of all frames. The buffer is reused.
    bytes: Vec<u8>,
    head: usize,
    frames: VecDeque<Queued>,
    /// The number of frames that are not dead.
    live: u32,
    next_number: Number,
    dead_bytes: usize,
}

impl StaticDefault for Queue {
    const EMPTY: &'static Self =
        &Self { bytes: Vec::new(), head: 0, frames: VecDeque::new(), live: 0, dead_bytes: 0, next_number: 0 };
}

impl Queue {
    /// Returns the position of the first frame with this number or a later one, by binary search.
    fn position(&self, number: Number) -> usize {
        let Some(first) = self.frames.front().map(|frame| frame.number) else { return 0 };
        let distance = |number: Number| number.wrapping_sub(first);
        if distance(number) > Number::MAX / 2 {
            // The frame is not in the queue any more.
            return 0;
        }
        self.frames.partition_point(|frame| {
            #[cfg(test)]
            steps::count();
            distance(frame.number) < distance(number)
        })
    }

    /// Returns the position of the frame with this number, if it still waits.
    pub(super) fn find(&self, number: Number) -> Option<usize> {
        let at = self.position(number);
        self.frames.get(at).filter(|frame| frame.number == number && !frame.is_dead()).map(|_| at)
    }

    /// Returns the range of a frame's bytes.
    fn range(&self, at: usize) -> Range<usize> {
        let start = match at.checked_sub(1).and_then(|before| self.frames.get(before)) {
            Some(before) => before.end,
            None => self.head,
        };
        start..self.frames.get(at).map_or(start, |frame| frame.end)
    }

    /// Returns the id of the request of a frame, if the frame is the connection's own response.
    pub(super) fn answered(&self, at: usize) -> Option<RequestId> {
        #[cfg(test)]
        steps::count();
        let frame = self.frames.get(at)?;
        let is_own = matches!(frame.owner, FrameOwner::Answered(_)) && !frame.is_dead();
        if is_own { Message::answered(&self.bytes[self.range(at)]) } else { None }
    }

    /// Returns the positions and numbers of the frames after this one, or of all frames.
    pub(super) fn behind(&self, number: Option<Number>) -> impl Iterator<Item = (usize, Number)> {
        let from = number.map_or(0, |number| {
            let at = self.position(number);
            at + usize::from(self.frames.get(at).is_some_and(|frame| frame.number == number))
        });
        self.frames.iter().enumerate().skip(from).map(|(at, frame)| (at, frame.number))
    }

    fn live_bytes(&self) -> usize {
        self.bytes.len() - self.head - self.dead_bytes
    }

    fn weight(&self) -> usize {
        self.live_bytes() + self.live as usize * size_of::<Queued>()
    }

    #[inline(never)]
    fn pop(&mut self, out: &mut Vec<u8>) -> Option<FrameOwner> {
        while let Some(frame) = self.frames.pop_front() {
            let range = self.head..frame.end;
            self.head = range.end;
            if frame.is_dead() {
                self.dead_bytes -= range.len();
            } else {
                self.live -= 1;
                if range.len() >= LARGE && out.is_empty() && range == (0..self.bytes.len()) {
                    // The buffer of the caller is reused for the next frames.
                    mem::swap(out, &mut self.bytes);
                    self.head = 0;
                    return Some(frame.owner);
                }
                out.extend_from_slice(&self.bytes[range]);
            }
            self.tidy();
            if !frame.is_dead() {
                return Some(frame.owner);
            }
        }
        None
    }

    /// Frees the space of sent frames, at a cost that is constant for each byte.
    ///
    /// The space of large frames is kept for further large frames, but not for small ones.
    fn tidy(&mut self) {
        let used = self.bytes.len();
        if self.head == self.bytes.len() {
            self.bytes.clear();
            self.head = 0;
            if self.bytes.capacity() > SPARE && 4 * used < self.bytes.capacity() {
                self.bytes.shrink_to(SPARE.max(2 * used));
            }
        } else if self.head + self.dead_bytes > self.live_bytes() {
            self.compact();
        }
    }

    fn take_back(&mut self, matches: impl Fn(FrameOwner) -> bool) -> usize {
        let (mut taken, mut start) = (0u32, self.head);
        for frame in &mut self.frames {
            let end = frame.end;
            if !frame.is_dead() && matches(frame.owner) {
                frame.previous = DEAD;
                self.dead_bytes += end - start;
                taken += 1;
            }
            start = end;
        }
        self.live -= taken;
        self.compact_if_worth_it();
        taken as usize
    }

    /// Removes the last `count` frames of one request. `last` is the number of the last one.
    fn take_back_chain(&mut self, last: Number, count: u32) {
        let mut number = last;
        for _ in 0..count {
            let Some(at) = self.find(number) else { break };
            number = self.frames[at].previous;
            self.bury(at);
        }
        self.compact_if_worth_it();
    }

    /// Removes the frame of a call in a queue that holds only calls, which are sorted by id.
    fn take_back_call(&mut self, id: CallId) -> bool {
        let at = self.frames.partition_point(|frame| matches!(frame.owner, FrameOwner::Call(queued) if queued < id));
        let found = self.frames.get(at).is_some_and(|frame| frame.owner == FrameOwner::Call(id) && !frame.is_dead());
        if found {
            self.bury(at);
            self.compact_if_worth_it();
        }
        found
    }

    fn bury(&mut self, at: usize) {
        self.dead_bytes += self.range(at).len();
        self.frames[at].previous = DEAD;
        self.live -= 1;
    }

    fn compact_if_worth_it(&mut self) {
        if self.dead_bytes > 4096 && self.head + self.dead_bytes > self.live_bytes() {
            self.compact();
        }
    }

    /// Frees the bytes of frames that were sent or removed.
    ///
    /// A peer that does not read the last message must not hold the memory of the messages before it, so the capacity
    /// is at most four times the remaining bytes. A compaction is due when they are at most half of the bytes, so on
    /// average each byte is copied once.
    fn compact(&mut self) {
        if self.dead_bytes == 0 {
            self.bytes.drain(..self.head);
            self.frames.iter_mut().for_each(|frame| frame.end -= self.head);
        } else {
            let (mut from, mut to) = (self.head, 0);
            for frame in &mut self.frames {
                let end = frame.end;
                if !frame.is_dead() {
                    self.bytes.copy_within(from..end, to);
                    to += end - from;
                    frame.end = to;
                }
                from = end;
            }
            self.bytes.truncate(to);
            self.frames.retain(|frame| !frame.is_dead());
        }
        (self.head, self.dead_bytes) = (0, 0);
        let left = self.bytes.len();
        if self.bytes.capacity() > SPARE.max(2 * left) {
            self.bytes.shrink_to(SPARE.max(left));
            // The list of frames shrinks half as often, since its entries are small compared with the frames.
            if self.frames.capacity() > 4 * self.frames.len() {
                self.frames.shrink_to(self.frames.len());
            }
        }
    }

    /// Frees the space of an empty queue, except for the capacity that it always keeps.
    #[cfg(feature = "http")]
    fn trim(&mut self) {
        if self.frames.is_empty() && self.bytes.capacity() > SPARE {
            self.bytes.shrink_to(SPARE);
            self.frames.shrink_to(SPARE / size_of::<Queued>());
        }
    }
}

/// The queue of frames that wait to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    control: Queue,
    /// Allocated on first use, since most servers send no requests.
    requests: LazyBox<Queue>,
    /// The number of frames of [`FrameOwner::Answered`].
    answered: usize,
    /// The index of those frames by their requests, built on lookups.
    own_responses: LazyBox<OwnResponses>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.frames.iter().enumerate();
        let frames = frames.map(|(at, frame)| (frame, String::from_utf8_lossy(&self.bytes[self.range(at)])));
        let live = frames.filter(|(frame, _)| !frame.is_dead()).map(|(frame, text)| (frame.owner, text));
        write!(f, "{} bytes ", self.weight())?;
        f.debug_map().entries(live).finish()
    }
}

impl Outbox {
    fn queue(&mut self, priority: Priority) -> &mut Queue {
        match priority {
            Priority::Control => &mut self.control,
            Priority::Request => &mut self.requests,
        }
    }

    /// Frees the space of empty queues beyond the [`SPARE`] that each keeps. Called often, so it does little if there
    /// is none.
    #[cfg(feature = "http")]
    pub(crate) fn trim(&mut self) {
        self.control.trim();
        if let Some(requests) = self.requests.allocated_mut() {
            requests.trim();
        }
    }

    /// Frees the space of empty queues.
    pub(crate) fn shrink(&mut self) {
        if self.control.frames.is_empty() {
            // The numbers of frames start again, so the index is dropped too.
            self.control = Queue::default();
            self.own_responses = LazyBox::default();
        }
        if self.requests.frames.is_empty() {
            self.requests = LazyBox::default();
        }
    }

    /// Queues the frame that `encode` appends, and a line feed. The frame must be one line. Returns its length.
    ///
    /// If `encode` fails or writes more than `max_len` bytes, nothing is queued. In the second case it returns `None`.
    pub(crate) fn push<E>(
        &mut self,
        priority: Priority,
        owner: FrameOwner,
        max_len: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let queue = self.queue(priority);
        if queue.bytes.capacity() == 0 {
            queue.bytes.reserve_exact(FIRST);
        }
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
        let (number, end) = (queue.next_number, queue.bytes.len());
        queue.next_number = if number + 1 == DEAD { 0 } else { number + 1 };
        queue.frames.push_back(Queued { end, owner, number, previous: number });
        queue.live += 1;
        self.answered += usize::from(matches!(owner, FrameOwner::Answered(_)));
        Ok(Some(len + 1))
    }

    /// Moves the next frame of a lane to the end of `out`, which gets another buffer if it was empty and the frame is
    /// large.
    #[inline]
    pub(crate) fn pop(&mut self, priority: Priority, out: &mut Vec<u8>) -> Option<FrameOwner> {
        let queue = match priority {
            Priority::Control => &mut self.control,
            Priority::Request => self.requests.allocated_mut()?,
        };
        if queue.frames.is_empty() {
            return None;
        }
        let owner = queue.pop(out)?;
        self.answered -= usize::from(matches!(owner, FrameOwner::Answered(_)));
        Some(owner)
    }

    /// Links the frame that was queued last to the `previous` one of the same request, and returns its number.
    pub(crate) fn join(&mut self, previous: Option<Number>) -> Number {
        let Some(last) = self.control.frames.back_mut() else { return 0 };
        last.previous = previous.unwrap_or(last.number);
        last.number
    }

    /// Removes the last `count` frames of one request. `last` is the number of the last one, from which the others are
    /// linked.
    pub(crate) fn take_back_joined(&mut self, last: Number, count: u32) {
        self.control.take_back_chain(last, count);
    }

    /// Removes the frames whose owner `matches`, and returns their number. The cost is linear in the length of the
    /// queue.
    pub(crate) fn take_back(&mut self, priority: Priority, matches: impl Fn(FrameOwner) -> bool) -> usize {
        match priority {
            Priority::Control => self.control.take_back(matches),
            Priority::Request => self.requests.allocated_mut().map_or(0, |queue| queue.take_back(matches)),
        }
    }

    /// Removes the frame of a call that waits in the queue of requests. Returns whether there was one.
    pub(crate) fn take_back_call(&mut self, id: CallId) -> bool {
        self.requests.allocated_mut().is_some_and(|queue| queue.take_back_call(id))
    }

    /// Removes the connection's own response to the request with this id, and returns its stream.
    ///
    /// Each response is parsed once, regardless of the number of calls. `hash` should not map two ids to one hash.
    pub(crate) fn take_back_answer(&mut self, id: &RequestId, hash: impl Fn(&RequestId) -> u64) -> Option<Option<u64>> {
        if self.answered == 0 {
            self.own_responses = LazyBox::default();
            return None;
        }
        let at = self.own_responses.take(&self.control, self.answered, id, hash)?;
        let Some(FrameOwner::Answered(stream)) = self.control.frames.get(at).map(|frame| frame.owner) else {
            return None;
        };
        self.control.bury(at);
        self.control.compact_if_worth_it();
        self.answered -= 1;
        Some(stream)
    }

    /// Removes all of the connection's own responses.
    #[cfg(feature = "http")]
    pub(crate) fn take_back_answers(&mut self) {
        self.control.take_back(|owner| matches!(owner, FrameOwner::Answered(_)));
        self.answered = 0;
        self.own_responses = LazyBox::default();
    }

    /// Returns the bytes that a message of this length takes in the queue.
    pub(crate) const fn weight_of(message: usize) -> usize {
        message + 1 + size_of::<Queued>()
    }

    /// Returns the bytes of all waiting frames, including the bookkeeping.
    pub(crate) fn weight(&self) -> usize {
        self.control.weight() + self.requests.allocated().map_or(0, Queue::weight)
    }

    /// Returns the number of waiting frames.
    pub(crate) fn frames(&self) -> usize {
        (self.control.live + self.requests.live) as usize
    }

    /// Returns whether a frame waits in the lane that is sent first.
    #[cfg(feature = "http")]
    pub(crate) const fn has_control(&self) -> bool {
        self.control.live > 0
    }

    /// Drops all frames: the connection to the peer is closed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Counts the frames and calls that this thread has inspected.
#[cfg(test)]
pub(in crate::rpc) mod steps {
    use core::cell::Cell;

    std::thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    pub(in crate::rpc) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    pub(in crate::rpc) fn of(f: impl FnOnce()) -> u64 {
        let before = STEPS.get();
        f();
        STEPS.get() - before
    }
}

#[cfg(test)]
mod tests;
