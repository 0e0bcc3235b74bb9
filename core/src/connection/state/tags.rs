//! The data that the request tables store with each request, in both directions.

use alloc::{boxed::Box, sync::Arc};

use crate::{
    collections::StaticDefault,
    connection::{
        state::{input_round::InputRequestRef, stateless_request::ClientDescription},
        types::Arrival,
    },
    protocol::{Method, ProtocolVersion},
    rpc::{Entry, Number, Outbox, Outgoing},
    schema::{LoggingLevel, TraceContext},
    wire::{Repetition, RequestId},
};

/// The origin of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// The batch that the message is a member of.
    pub(crate) batch: Option<u32>,
    /// The size of the message in bytes.
    pub(crate) bytes: usize,
    /// The hash of the id of a request, once it is known not to be in use.
    pub(crate) unused_id: Option<u32>,
    /// The parts that the message has in common with earlier ones.
    pub(crate) repetition: Repetition,
}

/// The kind of an outgoing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTag {
    /// `initialize`.
    Handshake,
    /// `server/discover`, in this revision, for the first time or again.
    Probe { version: ProtocolVersion, again: bool },
    /// A ping of [`KeepaliveState`](super::keepalive::KeepaliveState).
    Keepalive,
    /// A request whose response the application does not get: `tasks/cancel` of the engine, or `tools/list` of a
    /// binding.
    CancelTask,
    /// A request of the application.
    User {
        method: Option<Method>,
        /// Whether the params carry `task` (2025-11-25). The result is then a task handle, and the request is not
        /// cancelled by a notification.
        task: bool,
        /// The stream of the peer's request that this request is related to.
        stream: Option<u64>,
    },
}

/// The progress token of a request of the peer. Most peers use the id of the request, which is not stored twice.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    None,
    Id,
    Other(Box<RequestId>),
}

impl Token {
    /// Returns the token that `_meta` of the request with this id has as its progress token, by its JSON text.
    pub(crate) fn of(token: Option<&str>, id: &RequestId) -> Self {
        match token {
            None => Self::None,
            // Only an identical text counts, because the token is echoed as it was received.
            Some(token) if token.as_bytes() == id.as_bytes() => Self::Id,
            Some(token) => RequestId::from_token(token).map_or(Self::None, |token| Self::Other(Box::new(token))),
        }
    }
}

impl Entry<RequestTag> {
    pub(crate) fn token(&self) -> Option<&RequestId> {
        match &self.tag.token {
            Token::None => None,
            Token::Id => Some(&self.id),
            Token::Other(token) => Some(token),
        }
    }
}

/// The data of an inbound request.
#[derive(Clone, Debug)]
pub(crate) struct RequestTag {
    /// The method. `None` if the specification does not define it.
    pub(crate) method: Option<Method>,
    pub(crate) token: Token,
    pub(crate) last_progress: Option<f64>,
    /// The number of queued frames that belong to the request.
    pub(crate) queued: u32,
    /// The number of the last of these frames.
    pub(crate) last_queued: Number,
    /// The batch of the response.
    pub(crate) batch: Option<u32>,
    /// The bytes that the request counts against the limit.
    pub(crate) bytes: usize,
    /// The level of `logging/setLevel`. It takes effect when the application responds with a result.
    pub(crate) level: Option<LoggingLevel>,
    /// The client of a request of the modern era.
    pub(crate) stateless: Option<Arc<ClientDescription>>,
    /// The minimum severity of log messages for a request of the modern era. `None`: the request gets none.
    pub(crate) log_level: Option<LoggingLevel>,
    /// The distributed trace that the request belongs to.
    pub(crate) trace: Option<Box<TraceContext>>,
    /// The input request that this is, if a result contained it. The next request carries its response.
    pub(crate) input_request: Option<InputRequestRef>,
    /// The arrival of the request, if the binding set one.
    pub(crate) arrival: Option<Arc<Arrival>>,
}

impl RequestTag {
    pub(crate) fn new(method: Option<Method>, token: Token, origin: Origin) -> Self {
        let Origin { batch, bytes, .. } = origin;
        Self {
            method,
            token,
            last_progress: None,
            queued: 0,
            last_queued: 0,
            batch,
            bytes,
            level: None,
            stateless: None,
            log_level: None,
            trace: None,
            input_request: None,
            arrival: None,
        }
    }

    /// Counts the frame that was queued last as one of the request, with which it is removed.
    pub(crate) fn count_queued(&mut self, outbox: &mut Outbox) {
        self.last_queued = outbox.join((self.queued > 0).then_some(self.last_queued));
        self.queued += 1;
    }

    /// Returns the stream for the response, if the binding has several.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.arrival.as_ref()?.stream
    }
}

/// The first id of outgoing requests. Some peers treat 0 as no id.
pub(crate) const FIRST_ID: u64 = 1;

impl StaticDefault for Outgoing<CallTag> {
    const EMPTY: &'static Self = &Self::new(FIRST_ID);
}

impl Default for Outgoing<CallTag> {
    fn default() -> Self {
        Self::new(FIRST_ID)
    }
}
