//! What the tables of requests keep with each request, in both directions.

use alloc::{boxed::Box, sync::Arc};

use crate::{
    collections::StaticDefault,
    connection::{
        state::{input_round::InputRequestRef, stateless_request::StatelessRequest},
        types::Arrival,
    },
    protocol::{Method, ProtocolVersion},
    rpc::{Entry, Number, Outgoing},
    schema::{LoggingLevel, TraceContext, keys},
    wire::{RawJson, RequestId},
};

/// Where a message came from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    /// The batch that it is a member of.
    pub(crate) batch: Option<u32>,
    /// Its size.
    pub(crate) bytes: usize,
}

/// What is remembered of a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTag {
    /// `initialize`.
    Handshake,
    /// `server/discover`, in this revision, for the first time or again.
    Probe { version: ProtocolVersion, again: bool },
    /// A ping of [`KeepaliveState`].
    Keepalive,
    /// `tasks/cancel` for a task that is not needed any more.
    CancelTask,
    /// The application's.
    User {
        method: Option<Method>,
        /// It carries `task`: it ends with a handle to a task, and is not cancelled by a notification.
        task: bool,
        /// The stream of the request of the peer that has caused it.
        stream: Option<u64>,
    },
}

/// The progress token of a request of the peer. Most peers have it be the request's id, and it takes no room then.
#[derive(Clone, Debug)]
pub(crate) enum Token {
    None,
    Id,
    Other(Box<RequestId>),
}

impl Token {
    /// The one that `_meta` names, if it does, of the request with this id.
    pub(crate) fn named(meta: Option<&RawJson<'_>>, id: &RequestId) -> Self {
        match meta.and_then(|meta| meta.member(keys::PROGRESS_TOKEN)) {
            None => Self::None,
            // Spelled alike: it is repeated as it came.
            Some(token) if token.get().as_bytes() == id.as_bytes() => Self::Id,
            Some(token) => RequestId::from_token(token.get()).map_or(Self::None, |token| Self::Other(Box::new(token))),
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

/// What is remembered of a request of the peer.
#[derive(Clone, Debug)]
pub(crate) struct RequestTag {
    /// `None` for methods that the specification does not have.
    pub(crate) method: Option<Method>,
    pub(crate) token: Token,
    pub(crate) last_progress: Option<f64>,
    /// Frames that belong to it and wait to be written.
    pub(crate) queued: u32,
    /// The last of them.
    pub(crate) last_queued: Number,
    /// The batch that its answer goes into.
    pub(crate) batch: Option<u32>,
    /// The size of its frame.
    pub(crate) bytes: usize,
    /// `logging/setLevel`: what to set when it is answered with a result.
    pub(crate) level: Option<LoggingLevel>,
    /// What a request of the modern era says of itself.
    pub(crate) modern: Option<Box<StatelessRequest>>,
    /// The distributed trace that it belongs to.
    pub(crate) trace: Option<Box<TraceContext>>,
    /// It came as part of a result, and its answer goes into the next request.
    pub(crate) question: Option<InputRequestRef>,
    /// How it came in, if the binding knows more of that than a pipe does.
    pub(crate) arrival: Option<Arc<Arrival>>,
}

impl RequestTag {
    pub(crate) fn new(method: Option<Method>, token: Token, origin: Origin) -> Self {
        let Origin { batch, bytes } = origin;
        Self {
            method,
            token,
            last_progress: None,
            queued: 0,
            last_queued: 0,
            batch,
            bytes,
            level: None,
            modern: None,
            trace: None,
            question: None,
            arrival: None,
        }
    }

    /// The stream on which it is answered, where there are several.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.arrival.as_ref()?.stream
    }
}

/// The first id of ours. Some peers take 0 for no id at all.
pub(crate) const FIRST_ID: u64 = 1;

impl StaticDefault for Outgoing<CallTag> {
    const EMPTY: &'static Self = &Self::new(FIRST_ID);
}

impl Default for Outgoing<CallTag> {
    fn default() -> Self {
        Self::new(FIRST_ID)
    }
}
