//! Streams of a session that another process has sent.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use super::ExchangeId;
use crate::http::session_id::EventId;

/// A request for the messages of a stream that was sent by another process: its client has reconnected here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayRequest {
    /// The exchange of the client. Repeat it in [`handle_replay`](super::Session::handle_replay).
    pub exchange: ExchangeId,
    /// The number of the stream.
    pub stream: u64,
    /// The number of the message after which the requested messages follow.
    pub after: u64,
    /// Whether to wait for further messages if there are none yet. The first request for a stream does not wait: what
    /// it finds decides whether the client may have the stream.
    pub waits: bool,
    /// Whether the stream belongs to no request. It continues on a stream of this process after the stored messages, so
    /// the process that has sent it need not run any more.
    pub listens: bool,
}

/// Stored messages of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayChunk {
    /// Messages with their numbers, which grow by one.
    pub messages: Vec<(u64, Vec<u8>)>,
    /// Whether no message follows.
    pub done: bool,
}

/// The exchanges that replay streams of other processes.
#[derive(Debug, Default)]
pub(super) struct RemoteStreams(pub(super) BTreeMap<ExchangeId, RemoteStream>);

#[derive(Debug)]
pub(super) struct RemoteStream {
    /// The last message that was written.
    pub(super) at: EventId,
    /// Whether the driver is looking for the messages that follow.
    pub(super) requested: bool,
    /// Whether the response has begun: messages were found, or none was there at first.
    pub(super) begun: bool,
    /// The scopes of the principal that has resumed the stream.
    pub(super) scopes: Vec<String>,
}

impl RemoteStreams {
    /// Returns how many of them belong to no request.
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
