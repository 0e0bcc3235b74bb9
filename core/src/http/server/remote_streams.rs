//! Which streams of a session were sent by another process that takes part in it.

use alloc::{collections::BTreeMap, vec::Vec};

use super::ExchangeId;
use crate::http::session_id::EventId;

/// A request for the messages of a stream that was sent by another process: its client has reconnected here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    /// For whom, to be repeated with what is found.
    pub exchange: ExchangeId,
    /// Which stream.
    pub stream: u64,
    /// Behind which message of it.
    pub after: u64,
    /// Whether to wait, if there is nothing yet, for what comes.
    pub waits: bool,
}

/// What was kept of a stream behind a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayChunk {
    /// Messages with their numbers, which grow by one.
    pub messages: Vec<(u64, Vec<u8>)>,
    /// Nothing follows.
    pub done: bool,
}

/// Exchanges that carry streams which are sent elsewhere.
#[derive(Debug, Default)]
pub(super) struct RemoteStreams(pub(super) BTreeMap<ExchangeId, RemoteStream>);

#[derive(Debug)]
pub(super) struct RemoteStream {
    /// The last that was written.
    pub(super) at: EventId,
    /// The driver is looking for the messages that follow.
    pub(super) asked: bool,
}

impl RemoteStreams {
    /// How many of them belong to no request.
    pub(super) fn listening(&self) -> usize {
        self.0.values().filter(|following| following.at.listens).count()
    }

    pub(super) fn forget(&mut self, id: ExchangeId) {
        self.0.remove(&id);
        if self.0.is_empty() {
            self.0 = BTreeMap::new();
        }
    }
}
