//! Batches (2025-03-26): several messages in one frame, and their answers in one frame.

use alloc::vec::Vec;

use super::{Event, Violation, engine::Engine, receive::Origin};
use crate::{
    protocol::Phase,
    rpc::{ReplyKey, Timestamp},
    wire::{Defect, ErrorObject, Members, Message, RequestId, encode::line_break},
};

/// One answer of a batch.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The request that it answers, `None` if that was never in the table.
    pub(super) key: Option<ReplyKey>,
    pub(super) text: Vec<u8>,
}

impl Part {
    /// What it takes to keep it, in bytes.
    fn weight(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

/// The answers of a batch, until all are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    /// Requests that are not answered yet.
    open: usize,
    /// The members are still being read.
    reading: bool,
    /// Where its answer goes, where there are several streams.
    stream: Option<u64>,
}

impl Engine {
    /// Takes in the members one by one. What they say to the application comes through the queue of events.
    pub(super) fn receive_batch(&mut self, now: Timestamp, text: &str) -> Option<Event<'static>> {
        let depth = self.limits().json_depth;
        let count = Members::new(text, depth).count();
        if count == 0 || count > self.limits().batch_members {
            let message = if count == 0 { "Invalid request: empty batch" } else { "Invalid request: batch too large" };
            self.refuse(Origin::default(), None, &ErrorObject::new(Defect::Array.code(), message));
            return self.violation(Violation::BatchSize);
        }
        let stream = self.arrival.as_ref().and_then(|arrival| arrival.stream);
        let Ok(slot) = u32::try_from(self.batches.insert(Batch { reading: true, stream, ..Batch::default() })) else {
            return None;
        };
        for member in Members::new(text, depth) {
            let origin = Origin { batch: Some(slot), bytes: member.len() };
            let event = match Message::parse(member, depth) {
                Ok(message) => self.receive_message(now, message, origin),
                Err(malformed) => self.receive_malformed(malformed, origin),
            };
            self.events.extend(event.map(Event::into_owned));
            if self.phase == Phase::Closed {
                break;
            }
        }
        if let Some(batch) = self.batches.get_mut(slot as usize) {
            batch.reading = false;
        }
        self.tidy_batch(slot as usize);
        None
    }

    /// A request of the batch waits for the application.
    pub(super) fn batch_request(&mut self, slot: u32) {
        if let Some(batch) = self.batches.get_mut(slot as usize) {
            batch.open += 1;
        }
    }

    pub(super) fn batch_answer(&mut self, slot: u32, mut part: Part) {
        let Some(batch) = self.batches.get_mut(slot as usize) else { return };
        debug_assert_eq!(line_break(&part.text), None, "{part:?}");
        part.text.shrink_to_fit();
        batch.open -= usize::from(part.key.is_some());
        self.batch_bytes += part.weight();
        batch.parts.push(part);
    }

    /// The answer of a request is not wanted any more, whether it is there already or not.
    pub(super) fn batch_cancel(&mut self, slot: u32, key: ReplyKey) {
        let Some(batch) = self.batches.get_mut(slot as usize) else { return };
        match batch.parts.iter().position(|part| part.key == Some(key)) {
            Some(index) => self.batch_bytes -= batch.parts.remove(index).weight(),
            None => batch.open -= 1,
        }
        self.tidy_batch(slot as usize);
    }

    /// As [`batch_cancel`](Self::batch_cancel), for an answer of the connection's own; whether there was one.
    pub(super) fn batch_take_back(&mut self, id: &RequestId) -> bool {
        let answers = |part: &Part| part.key.is_none() && Message::answered(&part.text).as_ref() == Some(id);
        let found = self.batches.iter().find_map(|(slot, batch)| Some((slot, batch.parts.iter().position(answers)?)));
        let Some((slot, index)) = found else { return false };
        self.batch_bytes -= self.batches[slot].parts.remove(index).weight();
        self.tidy_batch(slot);
        true
    }

    /// A batch in which nobody is owed anything leaves nothing.
    fn tidy_batch(&mut self, slot: usize) {
        if self.batches.get(slot).is_some_and(|batch| batch.is_complete() && batch.parts.is_empty()) {
            let stream = self.batches.remove(slot).stream;
            self.unanswered.extend(stream);
        }
    }

    pub(super) fn has_batch(&self) -> bool {
        self.batches.iter().any(|(_, batch)| batch.is_complete())
    }

    /// Writes the answers of the first batch that has them all, and says to which stream they go.
    pub(super) fn pop_batch(&mut self, out: &mut Vec<u8>) -> Option<Option<u64>> {
        let slot = self.batches.iter().find(|(_, batch)| batch.is_complete()).map(|(slot, _)| slot)?;
        let Batch { parts, stream, .. } = self.batches.remove(slot);
        for (index, part) in parts.into_iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            out.extend_from_slice(&part.text);
            self.batch_bytes -= part.weight();
            if let Some(key) = part.key {
                self.release(key);
            }
        }
        out.extend_from_slice(b"]\n");
        Some(stream)
    }
}

impl Batch {
    /// What it takes to keep one, in bytes: its slot, and the room that the first few answers get.
    pub(super) const WEIGHT: usize = size_of::<Self>() + 4 * size_of::<Part>();

    const fn is_complete(&self) -> bool {
        self.open == 0 && !self.reading
    }
}
