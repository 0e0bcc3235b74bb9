//! One HTTP request of a client and the response to it.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use http::{HeaderName, HeaderValue, Uri};

use super::options::Shown;
use crate::{
    codec::SseDecoder,
    protocol::Method,
    rpc::{CallId, Timestamp},
};

/// One HTTP request of a client. Never reused within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub(super) u64);

/// What a client wants of its driver.
///
/// `Debug` shows neither the queries of addresses nor bodies nor the values of headers that are marked sensitive.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are requests")]
pub enum Action {
    /// Make this request, beside all others, and say what comes of it.
    ///
    /// The driver may add headers of its own, such as what proves who the client is: the request goes to the origin
    /// that the client was given, or nowhere.
    Request {
        /// What to call it.
        exchange: ExchangeId,
        /// The request, with its whole body.
        request: http::Request<Arc<[u8]>>,
    },
    /// Forget this exchange, and close what carries it if it is not over. Nothing more needs to be said of it.
    Abort(ExchangeId),
    /// The server wants to know who asks, or that more is allowed (only with
    /// [`Options::proves`](super::Options::proves)). Make the next requests prove it, and then
    /// [`retry`](super::Client::retry) this one, or [`give_up`](super::Client::give_up).
    Prove {
        /// The request that was refused.
        exchange: ExchangeId,
        /// 401 or 403.
        status: u16,
        /// What the server says of how to do it: the values of `WWW-Authenticate`.
        challenges: Vec<String>,
    },
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { exchange, request } => f
                .debug_struct("Request")
                .field("exchange", exchange)
                .field("method", request.method())
                .field("uri", &format_args!("{}", Shown(request.uri())))
                .field("headers", request.headers())
                .field("body", &format_args!("{} bytes", request.body().len()))
                .finish(),
            Self::Abort(exchange) => f.debug_tuple("Abort").field(exchange).finish(),
            Self::Prove { exchange, status, .. } => {
                f.debug_struct("Prove").field("exchange", exchange).field("status", status).finish_non_exhaustive()
            }
        }
    }
}

/// What an exchange is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A message of ours.
    Post(PostRequest),
    /// The rest of the answer to a message of ours.
    Resume(PostRequest),
    /// What the server says without being asked.
    Listen(BodyState),
    /// The stream of the transport of 2024-11-05; and, until it is known that there is one, what made us look for it.
    Old(Option<Box<ResumeInfo>>),
    /// The end of the session with this name.
    Farewell(HeaderValue),
    /// Nothing more: the result is known, or another exchange has taken the purpose over.
    Done,
}

/// A message of ours that was, or is to be, sent.
#[derive(Clone, Debug)]
pub(super) struct PostRequest {
    pub(super) body: Arc<[u8]>,
    pub(super) kind: Kind,
    /// What it says in headers, if it is one of the modern era.
    pub(super) mirrored: Option<Vec<(HeaderName, HeaderValue)>>,
    pub(super) asked: Option<Asked>,
    /// It was refused for something that has been seen to since: it is not sent a third time.
    pub(super) again: bool,
    pub(super) flow: BodyState,
}

/// Which kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `initialize`.
    Initialize,
    /// `notifications/initialized`.
    Initialized,
    Request,
    Notification,
    /// An answer to a request of the server.
    Response,
}

/// A request of ours.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) call: CallId,
    /// The id on the wire.
    pub(super) id: u64,
    pub(super) method: Option<Method>,
}

/// How far a stream was read, over all exchanges that carried it.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyState {
    /// The id to come back with.
    pub(super) last_id: String,
    /// How long the server wants to be left alone before that.
    pub(super) retry: Option<Duration>,
    /// How often it was taken up without anything new coming of it.
    pub(super) attempts: u32,
}

/// Why the transport of 2024-11-05 is tried: what became of `initialize`, and that message.
#[derive(Clone, Debug)]
pub(super) struct ResumeInfo {
    pub(super) post: PostRequest,
    pub(super) refused: Rejection,
    /// It has been looked for before.
    pub(super) again: bool,
}

/// A response that is no answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejection {
    pub(super) status: u16,
    pub(super) challenges: Vec<String>,
    /// What `Retry-After` says, in seconds.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// How far the response is.
#[derive(Debug)]
pub(super) enum ExchangeState {
    /// Nothing of it is there.
    Sent,
    /// One JSON text.
    Whole(Vec<u8>),
    /// A stream of events.
    Events(SseDecoder),
    /// Something else, and why.
    Refused(Rejection),
    /// Waits until the application has answered the challenge.
    Proving(Rejection),
    /// What was waited for has come. So many more bytes may follow, until then.
    Over { until: Timestamp, left: usize },
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    pub(super) stage: ExchangeState,
    pub(super) uri: Uri,
    pub(super) redirects: u32,
    /// The session that the request names.
    pub(super) sent_in: Option<HeaderValue>,
    /// The session that the response names.
    pub(super) session: Option<HeaderValue>,
    /// When it has to be over.
    pub(super) until: Option<Timestamp>,
}

impl ExchangeState {
    /// Bytes of the response that are kept.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(body) => body.len(),
            Self::Events(decoder) => decoder.buffered(),
            Self::Refused(refused) | Self::Proving(refused) => refused.body.len(),
            Self::Sent | Self::Over { .. } => 0,
        }
    }
}

impl Exchange {
    /// Whether it is not known yet what comes of it.
    pub(super) const fn is_to_be_heard_of(&self) -> bool {
        matches!((&self.purpose, &self.stage), (Purpose::Listen(_), ExchangeState::Sent | ExchangeState::Proving(_)))
    }
}

impl Purpose {
    /// The message that it is about.
    pub(super) const fn post(&self) -> Option<&PostRequest> {
        match self {
            Self::Post(post) | Self::Resume(post) => Some(post),
            Self::Listen(_) | Self::Old(_) | Self::Farewell(_) | Self::Done => None,
        }
    }

    /// The request of ours that it is about.
    pub(super) fn asked(&self) -> Option<&Asked> {
        self.post()?.asked.as_ref()
    }

    pub(super) const fn flow(&mut self) -> Option<&mut BodyState> {
        match self {
            Self::Post(post) | Self::Resume(post) => Some(&mut post.flow),
            Self::Listen(flow) => Some(flow),
            Self::Old(_) | Self::Farewell(_) | Self::Done => None,
        }
    }

    /// Whether it belongs to a request of the modern era.
    pub(super) fn is_modern(&self) -> bool {
        self.post().is_some_and(|post| post.mirrored.is_some())
    }
}
