//! Batches (2025-03-26): several messages in one frame, with all responses in one frame.

use alloc::vec::Vec;

use crate::{
    connection::{
        engine::Engine,
        state::{
            batch::{BatchEntry, EntryOwner},
            tags::Origin,
        },
        types::{Event, Violation},
    },
    protocol::Phase,
    rpc::{ReplyKey, Timestamp},
    wire::{ArrayIter, ErrorObject, MalformedKind, Message, RequestId, encode::line_break},
};

impl Engine {
    /// Handles the members of a batch one by one. Their events go into the event queue.
    pub(crate) fn receive_batch(&mut self, now: Timestamp, text: &str) -> Option<Event<'static>> {
        let (depth, most) = (self.limits().json_depth, self.limits().batch_members);
        let count = ArrayIter::new(text, depth).take(most.saturating_add(1)).count();
        if count == 0 || count > most {
            let message = if count == 0 { "Invalid request: empty batch" } else { "Invalid request: batch too large" };
            self.refuse(Origin::default(), None, &ErrorObject::new(MalformedKind::Array.code(), message));
            return self.violation(Violation::BatchSize);
        }
        let stream = self.arrival.as_ref().and_then(|arrival| arrival.stream);
        let slot = self.batches.begin(stream);
        let batch = u32::try_from(slot).ok();
        for member in ArrayIter::new(text, depth) {
            let origin = Origin { batch, bytes: member.len(), ..Origin::default() };
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

    /// Returns whether a batch may add another request for the application. Its response may have to wait for the other
    /// responses of the batch, so the bytes held that way are bounded.
    pub(crate) fn has_room_in_batches(&self) -> bool {
        self.batches.held() < self.limits().outbox_bytes
    }

    /// Records that a request of the batch waits for the application.
    pub(crate) fn batch_request(&mut self, slot: u32) {
        self.batches.change(slot as usize, |batch| batch.open += 1);
    }

    pub(crate) fn batch_answer(&mut self, slot: u32, mut entry: BatchEntry) {
        debug_assert_eq!(line_break(&entry.text), None, "{entry:?}");
        entry.text.shrink_to_fit();
        self.batches.add(slot as usize, entry);
    }

    /// Removes a cancelled request from its batch, with its response if there already is one.
    pub(crate) fn batch_cancel(&mut self, slot: u32, key: ReplyKey) {
        let emptied = self.batches.change(slot as usize, |batch| {
            match batch.entries.iter().position(|entry| entry.of == EntryOwner::Request(key)) {
                Some(index) => batch.bytes -= batch.entries.remove(index).weight(),
                None => batch.open -= 1,
            }
        });
        self.nothing_follows(emptied);
    }

    /// Reports that no response follows on this stream, if there is one.
    pub(crate) fn nothing_follows(&mut self, stream: Option<u64>) {
        if let Some(stream) = stream {
            self.streams.unanswered.push_back(stream);
        }
    }

    /// Removes a response of the engine itself from its batch. Returns whether there was one.
    pub(crate) fn batch_take_back(&mut self, id: &RequestId) -> bool {
        let hash = self.requests.hash_of(id);
        let Some(emptied) = self.batches.allocated_mut().and_then(|batches| batches.take_back(id, hash)) else {
            return false;
        };
        self.nothing_follows(emptied);
        true
    }

    /// Writes the responses of the first complete batch, and returns its stream.
    pub(crate) fn pop_batch(&mut self, out: &mut Vec<u8>) -> Option<Option<u64>> {
        let (entries, stream) = self.batches.allocated_mut()?.pop()?;
        for (index, entry) in entries.into_iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            out.extend_from_slice(&entry.text);
            if let EntryOwner::Request(key) = entry.of {
                self.release(key);
            }
        }
        out.extend_from_slice(b"]\n");
        Some(stream)
    }
}
