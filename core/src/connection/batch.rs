//! Batches (2025-03-26): several messages in one frame, and their answers in one frame.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{Event, Violation, engine::Engine, receive::Origin};
use crate::{
    protocol::Phase,
    rpc::{Empty, ReplyKey, Slots, Timestamp},
    wire::{Defect, ErrorObject, Members, Message, RequestId, encode::line_break},
};

/// What an answer of a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartOf {
    /// A request in the table.
    Request(ReplyKey),
    /// A request that the connection has answered itself: the hash of its id.
    Own(u64),
    /// What had no id.
    Nothing,
}

/// One answer of a batch.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) of: PartOf,
    pub(super) text: Vec<u8>,
}

impl Part {
    /// What it takes to keep a text of this length, in bytes.
    pub(super) const fn weight_of(text: usize) -> usize {
        text + size_of::<Self>()
    }

    const fn weight(&self) -> usize {
        Self::weight_of(self.text.len())
    }
}

/// The answers of a batch, until all are there.
#[derive(Clone, Debug, Default)]
struct Batch {
    parts: Vec<Part>,
    /// What the batch and its answers take, in bytes.
    bytes: usize,
    /// Requests that are not answered yet.
    open: usize,
    /// The members are still being read.
    reading: bool,
    /// Where its answer goes, where there are several streams.
    stream: Option<u64>,
}

impl Batch {
    /// What it takes to keep one, in bytes: its slot, and the room that the first few answers get.
    const WEIGHT: usize = size_of::<Self>() + 4 * size_of::<Part>();

    /// What the answers take that are there, as they are written, and those that are still to come, if these are small.
    fn written(&self, small: usize) -> usize {
        let texts = self.bytes - Self::WEIGHT - self.parts.len() * size_of::<Part>();
        texts + self.parts.len() + self.open.saturating_sub(1).saturating_mul(small)
    }

    const fn is_complete(&self) -> bool {
        self.open == 0 && !self.reading
    }
}

/// The batches whose answers have not left.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    slots: Slots<Batch>,
    /// Those that have all their answers.
    complete: BTreeSet<usize>,
    /// What those take, in bytes: it leaves as soon as it is polled.
    ready: usize,
    /// What the others take. It leaves when the application has answered.
    held: usize,
    /// How many answers of the connection's own each batch has, by the hash of the id.
    own: BTreeMap<(u64, usize), usize>,
}

impl Empty for Batches {
    const EMPTY: &'static Self =
        &Self { slots: Slots::new(), complete: BTreeSet::new(), ready: 0, held: 0, own: BTreeMap::new() };
}

impl Batches {
    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of the batches that have all their answers.
    pub(super) const fn ready(&self) -> usize {
        self.ready
    }

    /// Returns the bytes of the batches that wait for answers.
    pub(super) const fn held(&self) -> usize {
        self.held
    }

    /// Whether an answer of so many bytes leaves room in its batch for small ones to the other requests, if all of them together
    /// may take `most`.
    pub(super) fn has_room_for(&self, slot: u32, bytes: usize, small: usize, most: usize) -> bool {
        let written = self.slots.get(slot as usize).map_or(0, |batch| batch.written(small));
        bytes.saturating_add(written).saturating_add("[]\n".len()) <= most
    }

    /// Whether one has all its answers.
    pub(super) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    fn begin(&mut self, stream: Option<u64>) -> usize {
        self.held += Batch::WEIGHT;
        self.slots.insert(Batch { bytes: Batch::WEIGHT, reading: true, stream, ..Batch::default() })
    }

    /// Changes a batch, and what is known of all of them with it. Returns its stream if nothing is left to be said there.
    fn change(&mut self, slot: usize, f: impl FnOnce(&mut Batch)) -> Option<u64> {
        let batch = self.slots.get_mut(slot)?;
        *(if batch.is_complete() { &mut self.ready } else { &mut self.held }) -= batch.bytes;
        f(batch);
        if batch.is_complete() && batch.parts.is_empty() {
            // Where nobody is owed anything, nothing leaves.
            self.complete.remove(&slot);
            return self.slots.remove(slot).stream;
        } else if batch.is_complete() {
            self.ready += batch.bytes;
            self.complete.insert(slot);
        } else {
            self.held += batch.bytes;
        }
        None
    }

    fn add(&mut self, slot: usize, part: Part) {
        if let PartOf::Own(hash) = part.of
            && self.slots.contains(slot)
        {
            *self.own.entry((hash, slot)).or_default() += 1;
        }
        self.change(slot, |batch| {
            batch.open -= usize::from(matches!(part.of, PartOf::Request(_)));
            batch.bytes += part.weight();
            batch.parts.push(part);
        });
    }

    fn forget_own(&mut self, slot: usize, hash: u64) {
        if let Some(count) = self.own.get_mut(&(hash, slot)) {
            *count -= 1;
            if *count == 0 {
                self.own.remove(&(hash, slot));
            }
        }
    }

    /// Takes back the first answer of the connection's own to the request with this id, if there is one. Returns what
    /// [`change`](Self::change) returns.
    fn take_back(&mut self, id: &RequestId, hash: u64) -> Option<Option<u64>> {
        let is_it = |part: &Part| part.of == PartOf::Own(hash) && Message::answered(&part.text).as_ref() == Some(id);
        let mut found = self.own.range((hash, 0)..=(hash, usize::MAX)).filter_map(|((_, slot), _)| {
            let index = self.slots.get(*slot)?.parts.iter().position(is_it)?;
            Some((*slot, index))
        });
        let (slot, index) = found.next()?;
        self.forget_own(slot, hash);
        Some(self.change(slot, |batch| batch.bytes -= batch.parts.remove(index).weight()))
    }

    /// Takes the first batch that has all its answers, with the stream that it belongs to.
    fn pop(&mut self) -> Option<(Vec<Part>, Option<u64>)> {
        let slot = self.complete.pop_first()?;
        let Batch { parts, stream, bytes, .. } = self.slots.remove(slot);
        self.ready -= bytes;
        for part in &parts {
            if let PartOf::Own(hash) = part.of {
                self.forget_own(slot, hash);
            }
        }
        Some((parts, stream))
    }
}

impl Engine {
    /// Takes in the members one by one. What they say to the application comes through the queue of events.
    pub(super) fn receive_batch(&mut self, now: Timestamp, text: &str) -> Option<Event<'static>> {
        let (depth, most) = (self.limits().json_depth, self.limits().batch_members);
        let count = Members::new(text, depth).take(most.saturating_add(1)).count();
        if count == 0 || count > most {
            let message = if count == 0 { "Invalid request: empty batch" } else { "Invalid request: batch too large" };
            self.refuse(Origin::default(), None, &ErrorObject::new(Defect::Array.code(), message));
            return self.violation(Violation::BatchSize);
        }
        let stream = self.arrival.as_ref().and_then(|arrival| arrival.stream);
        let slot = self.batches.begin(stream);
        let batch = u32::try_from(slot).ok();
        for member in Members::new(text, depth) {
            let origin = Origin { batch, bytes: member.len() };
            let event = match Message::parse(member, depth) {
                Ok(message) => self.receive_message(now, message, origin),
                Err(malformed) => self.receive_malformed(malformed, origin),
            };
            self.events.extend(event.map(Event::into_owned));
            if self.phase == Phase::Closed {
                break;
            }
        }
        let emptied = self.batches.change(slot, |batch| batch.reading = false);
        self.nothing_follows(emptied);
        None
    }

    /// Whether a batch may have another request that waits for the application. Its answer may have to wait for those of the
    /// others, so what is held like that is bounded.
    pub(super) fn has_room_in_batches(&self) -> bool {
        self.batches.held() < self.limits().outbox_bytes
    }

    /// A request of the batch waits for the application.
    pub(super) fn batch_request(&mut self, slot: u32) {
        self.batches.change(slot as usize, |batch| batch.open += 1);
    }

    pub(super) fn batch_answer(&mut self, slot: u32, mut part: Part) {
        debug_assert_eq!(line_break(&part.text), None, "{part:?}");
        part.text.shrink_to_fit();
        self.batches.add(slot as usize, part);
    }

    /// The answer of a request is not wanted any more, whether it is there already or not.
    pub(super) fn batch_cancel(&mut self, slot: u32, key: ReplyKey) {
        let emptied = self.batches.change(slot as usize, |batch| {
            match batch.parts.iter().position(|part| part.of == PartOf::Request(key)) {
                Some(index) => batch.bytes -= batch.parts.remove(index).weight(),
                None => batch.open -= 1,
            }
        });
        self.nothing_follows(emptied);
    }

    /// What was asked on a stream, if it was one, is not answered any more.
    pub(super) fn nothing_follows(&mut self, stream: Option<u64>) {
        if let Some(stream) = stream {
            self.streams.unanswered.push_back(stream);
        }
    }

    /// As [`batch_cancel`](Self::batch_cancel), for an answer of the connection's own; whether there was one.
    pub(super) fn batch_take_back(&mut self, id: &RequestId) -> bool {
        let hash = self.requests.hash_of(id);
        let Some(emptied) = self.batches.made().and_then(|batches| batches.take_back(id, hash)) else { return false };
        self.nothing_follows(emptied);
        true
    }

    /// Writes the answers of the first batch that has them all, and says to which stream they go.
    pub(super) fn pop_batch(&mut self, out: &mut Vec<u8>) -> Option<Option<u64>> {
        let (parts, stream) = self.batches.made()?.pop()?;
        for (index, part) in parts.into_iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            out.extend_from_slice(&part.text);
            if let PartOf::Request(key) = part.of {
                self.release(key);
            }
        }
        out.extend_from_slice(b"]\n");
        Some(stream)
    }
}
