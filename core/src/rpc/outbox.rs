//! What waits to be written: frames as bytes, in order, in two lanes.

use alloc::{collections::VecDeque, string::String, vec::Vec};
use core::{fmt, mem, ops::Range};

use super::{CallId, ReplyKey, own_answers::OwnAnswers};
use crate::{
    collections::{LazyBox, StaticDefault},
    wire::{Message, RequestId, encode::line_break},
};

/// From so many bytes on, a frame that is all that waits is handed over together with its buffer, instead of being
/// copied.
const LARGE: usize = 8 * 1024;

/// What an empty queue keeps of its buffer in any case.
const SPARE: usize = 64 * 1024;

/// Which queue a frame waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Answers, notifications, cancellations: they end work or keep it alive, and go first.
    Control,
    /// New requests of ours.
    Request,
}

/// What a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameOwner {
    /// Nothing in particular.
    None,
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

/// The number of a frame in its queue. Numbers grow from frame to frame, and begin anew when there are no more.
pub(crate) type Number = u32;

#[derive(Clone, Debug)]
struct Queued {
    /// Where the frame ends among the bytes.
    end: usize,
    owner: FrameOwner,
    number: Number,
    /// The frame before this one that belongs to the same request: itself if there is none, [`DEAD`] if this one was
    /// taken back and is to be skipped.
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
    /// The frames one behind the other. Reused: it is emptied, not dropped.
    bytes: Vec<u8>,
    head: usize,
    frames: VecDeque<Queued>,
    /// How many of them are not dead.
    live: u32,
    next_number: Number,
    dead_bytes: usize,
}

impl StaticDefault for Queue {
    const EMPTY: &'static Self =
        &Self { bytes: Vec::new(), head: 0, frames: VecDeque::new(), live: 0, dead_bytes: 0, next_number: 0 };
}

impl Queue {
    /// Where the first frame is that has this number or a later one. Frames are found by their numbers in a number of
    /// steps that grows with the logarithm of how many there are.
    fn position(&self, number: Number) -> usize {
        let Some(first) = self.frames.front().map(|frame| frame.number) else { return 0 };
        let distance = |number: Number| number.wrapping_sub(first);
        if distance(number) > Number::MAX / 2 {
            // It has left.
            return 0;
        }
        self.frames.partition_point(|frame| {
            #[cfg(test)]
            steps::count();
            distance(frame.number) < distance(number)
        })
    }

    /// Where the frame with this number is, if it is still to be sent.
    pub(super) fn find(&self, number: Number) -> Option<usize> {
        let at = self.position(number);
        self.frames.get(at).filter(|frame| frame.number == number && !frame.is_dead()).map(|_| at)
    }

    /// Where the bytes of a frame are.
    fn range(&self, at: usize) -> Range<usize> {
        let start = match at.checked_sub(1).and_then(|before| self.frames.get(before)) {
            Some(before) => before.end,
            None => self.head,
        };
        start..self.frames.get(at).map_or(start, |frame| frame.end)
    }

    /// The request of the peer that a frame answers, if it is an answer of the connection's own.
    pub(super) fn answered(&self, at: usize) -> Option<RequestId> {
        #[cfg(test)]
        steps::count();
        let frame = self.frames.get(at)?;
        let is_own = matches!(frame.owner, FrameOwner::Answered(_)) && !frame.is_dead();
        if is_own { Message::answered(&self.bytes[self.range(at)]) } else { None }
    }

    /// The numbers of the frames behind this one, or of all, and where they are.
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

    fn pop(&mut self, out: &mut Vec<u8>) -> Option<FrameOwner> {
        while let Some(frame) = self.frames.pop_front() {
            let range = self.head..frame.end;
            self.head = range.end;
            if frame.is_dead() {
                self.dead_bytes -= range.len();
            } else {
                self.live -= 1;
                if range.len() >= LARGE && out.is_empty() && range == (0..self.bytes.len()) {
                    // What comes back has space for the next one.
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
            self.frames.iter_mut().for_each(|frame| frame.end -= self.head);
            self.head = 0;
            // A peer that reads all but the last message must not keep the space of those before: the space is at most
            // four times what is left. What is left halves from one time to the next, so each byte is copied once by
            // this on average.
            let left = self.bytes.len();
            if self.bytes.capacity() > SPARE.max(2 * left) {
                self.bytes.shrink_to(SPARE.max(left));
                // Half as often: an entry is small beside its frame.
                if self.frames.capacity() > 4 * self.frames.len() {
                    self.frames.shrink_to(self.frames.len());
                }
            }
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

    /// Takes back so many frames of one request, of which this is the last.
    fn take_back_chain(&mut self, last: Number, count: u32) {
        let mut number = last;
        for _ in 0..count {
            let Some(at) = self.find(number) else { break };
            number = self.frames[at].previous;
            self.bury(at);
        }
        self.compact_if_worth_it();
    }

    /// As [`take_back`](Self::take_back), for a lane of nothing but calls, which are in the order of their ids.
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
        if self.dead_bytes > 4096 && self.dead_bytes > self.live_bytes() {
            self.compact();
        }
    }

    fn compact(&mut self) {
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
        (self.head, self.dead_bytes) = (0, 0);
    }
}

/// The frames that wait to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    control: Queue,
    /// Most servers never ask anything.
    requests: LazyBox<Queue>,
    /// How many frames are [`FrameOwner::Answered`].
    answered: usize,
    /// Which of them answers what, as far as that was asked.
    own_answers: LazyBox<OwnAnswers>,
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

    /// Gives back the space of queues in which nothing waits.
    pub(crate) fn shrink(&mut self) {
        if self.control.frames.is_empty() {
            // Frames are numbered from the beginning again.
            self.control = Queue::default();
            self.own_answers = LazyBox::default();
        }
        if self.requests.frames.is_empty() {
            self.requests = LazyBox::default();
        }
    }

    /// Queues the frame that `encode` appends, which is one line, with a line feed behind it.
    ///
    /// If `encode` fails, or writes more than `max_len` bytes, nothing is queued. `None` stands for the latter.
    pub(crate) fn push<E>(
        &mut self,
        priority: Priority,
        owner: FrameOwner,
        max_len: usize,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<usize>, E> {
        let queue = self.queue(priority);
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
    pub(crate) fn pop(&mut self, priority: Priority, out: &mut Vec<u8>) -> Option<FrameOwner> {
        let owner = match priority {
            Priority::Control => self.control.pop(out)?,
            Priority::Request => self.requests.made()?.pop(out)?,
        };
        self.answered -= usize::from(matches!(owner, FrameOwner::Answered(_)));
        Some(owner)
    }

    /// Joins the frame that was queued last to an earlier one of the same request; its number.
    pub(crate) fn join(&mut self, previous: Option<Number>) -> Number {
        let Some(last) = self.control.frames.back_mut() else { return 0 };
        last.previous = previous.unwrap_or(last.number);
        last.number
    }

    /// Takes back so many frames of one request, of which this is the last. The others are found from it.
    pub(crate) fn take_back_joined(&mut self, last: Number, count: u32) {
        self.control.take_back_chain(last, count);
    }

    /// Takes back the frames whose owner `matches`; the number of them. The cost is that of a look at each frame
    /// queued.
    pub(crate) fn take_back(&mut self, priority: Priority, matches: impl Fn(FrameOwner) -> bool) -> usize {
        match priority {
            Priority::Control => self.control.take_back(matches),
            Priority::Request => self.requests.made().map_or(0, |queue| queue.take_back(matches)),
        }
    }

    /// Takes back the frame of a call that waits in the lane of requests; whether it was there.
    pub(crate) fn take_back_call(&mut self, id: CallId) -> bool {
        self.requests.made().is_some_and(|queue| queue.take_back_call(id))
    }

    /// Takes back the connection's own answer to the request with this id, if there is one. Returns its stream.
    ///
    /// Each of them is read once, however often this is asked. `hash` is of ids, and two that differ are not to have
    /// the same.
    pub(crate) fn take_back_answer(&mut self, id: &RequestId, hash: impl Fn(&RequestId) -> u64) -> Option<Option<u64>> {
        if self.answered == 0 {
            self.own_answers = LazyBox::default();
            return None;
        }
        let at = self.own_answers.take(&self.control, self.answered, id, hash)?;
        let Some(FrameOwner::Answered(stream)) = self.control.frames.get(at).map(|frame| frame.owner) else {
            return None;
        };
        self.control.bury(at);
        self.control.compact_if_worth_it();
        self.answered -= 1;
        Some(stream)
    }

    /// What a message of so many bytes takes while it waits.
    pub(crate) const fn weight_of(message: usize) -> usize {
        message + 1 + size_of::<Queued>()
    }

    /// What waits, in bytes: the frames, and what it takes to keep track of them.
    pub(crate) fn weight(&self) -> usize {
        self.control.weight() + self.requests.weight()
    }

    /// Frames that wait.
    pub(crate) fn frames(&self) -> usize {
        (self.control.live + self.requests.live) as usize
    }

    /// Whether something waits that goes first.
    #[cfg(feature = "http")]
    pub(crate) const fn has_control(&self) -> bool {
        self.control.live > 0
    }

    /// Drops all frames: the connection to the peer is closed.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Frames that were looked at, on this thread.
#[cfg(test)]
pub(super) mod steps {
    use core::cell::Cell;

    std::thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    pub(super) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    pub(super) fn of(f: impl FnOnce()) -> u64 {
        let before = STEPS.get();
        f();
        STEPS.get() - before
    }
}

#[cfg(test)]
mod tests;
