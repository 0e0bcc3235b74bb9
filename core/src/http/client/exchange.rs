//! One HTTP request of a client and the response to it.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use http::{HeaderValue, Uri};

use super::{mirror::Headers, options::Shown};
use crate::{
    codec::SseDecoder,
    protocol::Method,
    rpc::{CallId, Timestamp},
    wire::{ErrorObject, Message},
};

/// The id of one HTTP request of a client. It is never reused within a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub(super) u64);

/// An action that a client requests from its driver.
///
/// `Debug` shows neither the queries of addresses nor bodies nor the values of headers that are marked sensitive.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are requests")]
pub enum Action {
    /// Make this request, concurrently with all others, and report its response.
    ///
    /// The driver may add headers, such as credentials: the request is only ever sent to the configured origin of the
    /// server.
    Request {
        /// The id of the exchange.
        exchange: ExchangeId,
        /// The request, with its whole body. A body has its length in `Content-Length`.
        request: http::Request<Arc<[u8]>>,
    },
    /// Drop this exchange, and close its connection or stream if it is not over. The driver need not report anything
    /// more about it.
    Abort(ExchangeId),
    /// Authenticate: the server has refused a request with 401 or 403 (only with
    /// [`ClientOptions::authenticates`](super::ClientOptions::authenticates)). Obtain credentials for the next
    /// requests, and then [`retry`](super::Client::retry) this one, or
    /// [`fail_authentication`](super::Client::fail_authentication).
    Authenticate {
        /// The request that was refused.
        exchange: ExchangeId,
        /// The status, 401 or 403.
        status: u16,
        /// The challenges of the server: the values of `WWW-Authenticate`.
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
            Self::Authenticate { exchange, status, .. } => f
                .debug_struct("Authenticate")
                .field("exchange", exchange)
                .field("status", status)
                .finish_non_exhaustive(),
        }
    }
}

/// The purpose of an exchange.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A message of the client to send.
    Post(PostRequest),
    /// A stream to resume, with the response to a message of the client.
    Resume(PostRequest),
    /// A stream for messages that the server sends on its own initiative.
    Listen(StreamPosition),
    /// The stream of the transport of 2024-11-05; and, until it is known to exist, the message for which it is tried.
    Old(Option<Box<ResumeInfo>>),
    /// The end of the session with this id.
    DeleteSession(HeaderValue),
    /// None: the result is known, or another exchange has taken over the purpose.
    Done,
}

/// A message of the client that was or will be sent.
#[derive(Clone, Debug)]
pub(super) struct PostRequest {
    pub(super) body: Arc<[u8]>,
    pub(super) kind: PostKind,
    /// The headers that repeat parts of the message, in the modern era.
    pub(super) mirrored: Option<Headers>,
    pub(super) request: Option<SentRequest>,
    /// Whether the message was sent again after the cause of a refusal was removed. It is not sent a third time.
    pub(super) again: bool,
    pub(super) position: StreamPosition,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostKind {
    /// `initialize`.
    Initialize,
    /// `notifications/initialized`.
    Initialized,
    Request,
    Notification,
    /// A response to a request of the server.
    Response,
}

/// A request of the client.
#[derive(Clone, Debug)]
pub(super) struct SentRequest {
    pub(super) call: CallId,
    /// The id on the wire.
    pub(super) id: u64,
    pub(super) method: Option<Method>,
}

/// The position up to which a stream was read, over all exchanges that carried it.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamPosition {
    /// The id to resume from.
    pub(super) last_id: String,
    /// The delay that the server has set for reconnecting.
    pub(super) retry: Option<Duration>,
    /// The number of attempts to resume the stream since its last new event.
    pub(super) attempts: u32,
    /// Whether the server has ever opened the stream.
    pub(super) was_open: bool,
}

/// The reason to try the transport of 2024-11-05: the response to `initialize`, and that message.
#[derive(Clone, Debug)]
pub(super) struct ResumeInfo {
    pub(super) post: PostRequest,
    pub(super) refused: Rejection,
    /// Whether the transport was tried before.
    pub(super) again: bool,
}

/// An HTTP response that carries no JSON-RPC response to the message.
#[derive(Clone, Debug, Default)]
pub(super) struct Rejection {
    pub(super) status: u16,
    pub(super) challenges: Vec<String>,
    /// The value of `Retry-After` in seconds.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// The state of the response.
#[derive(Debug)]
pub(super) enum ExchangeState {
    /// Nothing has arrived.
    Sent,
    /// The body is one JSON text.
    Whole(Vec<u8>),
    /// The body is a stream of events.
    Events(SseDecoder),
    /// The server has refused the request.
    Refused(Rejection),
    /// The client waits until the application has handled the challenge.
    Authenticating(Rejection),
    /// The result is known. Until this time, at most `left` further bytes are read.
    Over { until: Timestamp, left: usize },
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    pub(super) state: ExchangeState,
    /// The address of the request, unless it is that of the server: after a redirect, and of a message in HTTP+SSE.
    pub(super) uri: Option<Uri>,
    pub(super) redirects: u32,
    /// The exchange that the server has redirected, if it is continued here.
    pub(super) redirected_from: Option<ExchangeId>,
    /// The id of the session in the request.
    pub(super) sent_in: Option<HeaderValue>,
    /// The id of the session in the response, if the response may begin one.
    pub(super) session: Option<HeaderValue>,
    /// The time at which the exchange must have ended.
    pub(super) until: Option<Timestamp>,
    /// The time since which the driver obtains credentials, before the request is sent or after it was refused.
    /// Deadlines are paused in this time.
    pub(super) authenticates_since: Option<Timestamp>,
}

impl Exchange {
    /// Returns the address of the request to the server with this URL.
    pub(super) fn address<'a>(&'a self, server: &'a Uri) -> &'a Uri {
        self.uri.as_ref().unwrap_or(server)
    }
}

impl ExchangeState {
    /// Returns how many bytes of the response are kept.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Whole(body) => body.len(),
            Self::Events(decoder) => decoder.buffered(),
            Self::Refused(refused) | Self::Authenticating(refused) => {
                let challenges = refused.challenges.iter().map(String::len);
                challenges.fold(refused.body.len(), usize::saturating_add)
            }
            Self::Sent | Self::Over { .. } => 0,
        }
    }
}

impl Exchange {
    /// Returns whether the driver is obtaining credentials for the exchange.
    pub(super) const fn is_authenticating(&self) -> bool {
        self.authenticates_since.is_some()
    }

    /// Returns whether the response may begin a session: it answers `initialize`, or is the stream with its response.
    pub(super) fn may_open(&self) -> bool {
        let opens = self.purpose.cause().is_some_and(|post| post.kind == PostKind::Initialize);
        opens || matches!(self.purpose, Purpose::Old(_))
    }

    /// Returns whether the request waits for credentials before it is sent.
    pub(super) const fn is_unsent(&self) -> bool {
        self.is_authenticating() && matches!(self.state, ExchangeState::Sent)
    }

    /// Returns whether there is a [deadline](Self::deadline), or will be one once there are credentials.
    pub(super) const fn has_deadline(&self) -> bool {
        self.until.is_some() || matches!(self.state, ExchangeState::Over { .. })
    }

    /// Returns when the exchange is aborted, unless its state changes before.
    pub(super) const fn deadline(&self) -> Option<Timestamp> {
        match self.state {
            ExchangeState::Over { until, .. } => Some(until),
            _ if self.is_authenticating() => None,
            _ => self.until,
        }
    }

    /// Returns whether the exchange requests a stream for messages on the server's own initiative, and the outcome is
    /// open.
    pub(super) const fn awaits_stream(&self) -> bool {
        matches!(
            (&self.purpose, &self.state),
            (Purpose::Listen(_), ExchangeState::Sent | ExchangeState::Authenticating(_))
        )
    }
}

impl Purpose {
    /// Returns the message of the exchange.
    pub(super) const fn post(&self) -> Option<&PostRequest> {
        match self {
            Self::Post(post) | Self::Resume(post) => Some(post),
            Self::Listen(_) | Self::Old(_) | Self::DeleteSession(_) | Self::Done => None,
        }
    }

    /// Returns the message whose result depends on the exchange.
    pub(super) fn cause(&self) -> Option<&PostRequest> {
        match self {
            Self::Old(Some(why)) => Some(&why.post),
            _ => self.post(),
        }
    }

    /// Returns the request of the client that belongs to the exchange.
    pub(super) fn request(&self) -> Option<&SentRequest> {
        self.post()?.request.as_ref()
    }

    pub(super) const fn position(&mut self) -> Option<&mut StreamPosition> {
        match self {
            Self::Post(post) | Self::Resume(post) => Some(&mut post.position),
            Self::Listen(position) => Some(position),
            Self::Old(_) | Self::DeleteSession(_) | Self::Done => None,
        }
    }

    /// Returns whether the exchange belongs to a request of the modern era.
    pub(super) fn is_modern(&self) -> bool {
        self.post().is_some_and(|post| post.mirrored.is_some())
    }
}

/// Returns the JSON-RPC error in a body.
pub(super) fn error_of(body: &[u8], depth: u32) -> Option<ErrorObject> {
    match Message::parse(core::str::from_utf8(body).ok()?, depth) {
        Ok(Message::Error { error, .. }) => Some(error),
        _ => None,
    }
}
