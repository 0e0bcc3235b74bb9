//! Responses to requests of the peer.

use alloc::vec::Vec;

use super::send::SMALL;
use crate::{
    connection::{
        engine::{Engine, RoleState},
        state::{
            batch::{BatchEntry, EntryOwner},
            modern::ModernState,
            stateless_request::{ResultHead, ResultRules},
            tags::RequestTag,
        },
        types::{CloseReason, SendError},
    },
    protocol::{Capability, CapabilitySet},
    rpc::{Entry, EntryState, FrameOwner, Priority, ReplyKey},
    wire::{
        ErrorCode, ErrorObject,
        encode::{self, Encoder},
    },
};

/// A response: a function that appends the encoded result, or an error.
pub(crate) type ResponseSource<'a> = Result<Encoder<'a>, &'a ErrorObject>;

impl Engine {
    pub(crate) fn respond(&mut self, key: ReplyKey, answer: ResponseSource<'_>) -> Result<(), SendError> {
        match self.requests.get(key) {
            None | Some((_, EntryState::Answered)) => return Err(SendError::Answered),
            Some((_, EntryState::Cancelled)) => {
                self.release(key);
                return Ok(());
            }
            Some((_, EntryState::Open)) => {}
        }
        if let Some((entry, _)) = self.requests.get(key)
            && let Some(input_request) = entry.tag.input_request
        {
            let answer = match answer {
                Ok(result) => {
                    let mut text = Vec::new();
                    result(&mut text)?;
                    Ok(text)
                }
                Err(error) => Err(error),
            };
            self.as_client().respond_to_input_request(key, input_request, answer);
            return Ok(());
        }
        self.has_room()?;
        if !self.list_changes.is_empty() {
            self.send_changes_before(key, answer)?;
        }
        self.queue_response(key, answer)
    }

    /// Responds to a request with an error, without waiting for room.
    pub(crate) fn refuse_request(&mut self, key: ReplyKey, error: &ErrorObject) -> Result<(), SendError> {
        match self.respond(key, Err(error)) {
            Err(SendError::Busy) => {}
            sent => return sent,
        }
        if self.is_full() {
            self.end(CloseReason::PeerNotReading);
            return Ok(());
        }
        self.queue_response(key, Err(error))
    }

    /// Sends the notifications of changed lists before a response, so that a peer with the response knows what its
    /// request has changed. Nothing is sent if the response cannot be sent.
    fn send_changes_before(&mut self, key: ReplyKey, answer: ResponseSource<'_>) -> Result<(), SendError> {
        let Some((entry, _)) = self.requests.get(key) else { return Err(SendError::Answered) };
        // A batch leaves after all notifications.
        if entry.tag.batch.is_none() {
            let mut text = Vec::new();
            append_response(&mut text, entry, (&self.role_state, self.local, &self.modern), answer)?;
            if text.len() > self.limits().frame_bytes {
                return Err(SendError::TooLarge);
            }
            self.flush_changes();
        }
        Ok(())
    }

    /// Responds to a request with a result. If the result cannot be sent, responds with an error and returns the
    /// reason.
    pub(crate) fn respond_or_error(
        &mut self,
        key: ReplyKey,
        result: ResponseSource<'_>,
    ) -> Result<Option<SendError>, SendError> {
        let why = match self.respond(key, result) {
            Err(
                why @ (SendError::TooLarge | SendError::Encode(_) | SendError::WrongResult | SendError::Undeclared(_)),
            ) => why,
            other => return other.map(|()| None),
        };
        let message = match why {
            SendError::TooLarge => "Internal error: the result is larger than the limit",
            _ => "Internal error: the result cannot be sent",
        };
        self.respond(key, Err(&ErrorObject::internal(message)))?;
        Ok(Some(why))
    }

    /// Queues the response to an open request without checking for room in the outbox.
    pub(crate) fn queue_response(&mut self, key: ReplyKey, answer: ResponseSource<'_>) -> Result<(), SendError> {
        let (max_len, outbox_bytes) = (self.limits().frame_bytes, self.limits().outbox_bytes);
        let Self { requests, outbox, role_state, local, modern, .. } = self;
        let Some((entry, _)) = requests.get(key) else { return Err(SendError::Answered) };
        let encode = |out: &mut Vec<u8>| append_response(out, entry, (&*role_state, *local, &**modern), answer);
        let level = entry.tag.level.filter(|_| answer.is_ok());
        if let Some(batch) = entry.tag.batch {
            let mut text = Vec::new();
            encode(&mut text)?;
            let room_in_batches = outbox_bytes.saturating_sub(self.batches.held());
            // All responses of a batch go into one frame.
            let fits = BatchEntry::weight_of(text.len()) <= room_in_batches
                && self.batches.has_room_for(batch, text.len(), SMALL, max_len)
                || text.len() <= entry.id.as_bytes().len() + SMALL;
            if text.len() > max_len || !fits {
                return Err(SendError::TooLarge);
            }
            self.requests.answered(key);
            self.batch_answer(batch, BatchEntry { of: EntryOwner::Request(key), text });
        } else {
            let owner = FrameOwner::Reply { key, last: true };
            if outbox.push(Priority::Control, owner, max_len, encode)?.is_none() {
                return Err(SendError::TooLarge);
            }
            if let Some(tag) = requests.answered(key) {
                tag.count_queued(outbox);
            }
        }
        self.progressed();
        if self.modern.subscriptions.len() > 0 {
            self.end_subscription(key);
        }
        self.log_level = level.or(self.log_level);
        self.check_drained();
        Ok(())
    }
}

/// Appends the frame of a response.
fn append_response(
    out: &mut Vec<u8>,
    entry: &Entry<RequestTag>,
    (role_state, local, modern): (&RoleState, CapabilitySet, &ModernState),
    answer: ResponseSource<'_>,
) -> Result<(), SendError> {
    match answer {
        Ok(result) => {
            encode::open_response(out, &entry.id);
            let rules = entry.tag.stateless.as_ref().map(|client| ResultRules {
                method: entry.tag.method,
                has_tasks: [local, client.declared].iter().all(|set| set.contains(Capability::TasksExtension)),
            });
            match (rules, &modern.result_head, role_state.server_info()) {
                (Some(rules), Some(head), _) => rules.append(out, head, result)?,
                (Some(rules), None, Some(server)) => rules.append(out, &ResultHead::new(server)?, result)?,
                (Some(_), None, None) | (None, _, _) => result(out)?,
            }
            out.push(b'}');
        }
        Err(error) => {
            let code = entry.tag.stateless.as_ref().map(|modern| modern.version.error_code(error.code.0));
            match code.map(ErrorCode).filter(|code| *code != error.code) {
                Some(code) => encode::error(out, Ok(&entry.id), &ErrorObject { code, ..error.clone() }),
                None => encode::error(out, Ok(&entry.id), error),
            }
        }
    }
    Ok(())
}
