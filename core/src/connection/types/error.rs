//! Errors by their origin: [`SendError`] of the application, [`Violation`] of the peer, [`CloseReason`] of the
//! connection.

use alloc::{
    borrow::Cow,
    string::{String, ToString},
};
use core::{fmt, str::Utf8Error};

use crate::{
    connection::types::Failure,
    protocol::{Capability, InvalidHeaderParam, Method, MethodName, ProtocolVersion},
    wire::{ErrorObject, MalformedKind, RequestId, excerpt},
};

/// The error of an action that is not allowed now. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The handshake has not finished.
    NotReady,
    /// The connection is closing or closed.
    Closed,
    /// This side does not send this method.
    WrongDirection(Method),
    /// A request was sent as a notification, or the other way round.
    WrongKind(Method),
    /// The negotiated revision does not have this method.
    NotInRevision {
        /// The method.
        method: Method,
        /// The negotiated revision.
        version: ProtocolVersion,
    },
    /// The peer has not declared the capability to handle this, or this side has not declared the one to send it.
    Undeclared(Capability),
    /// Too much is in flight or waits to be written. Try again after
    /// [`poll_writable`](crate::connection::Connection::poll_writable) has reported room.
    Busy,
    /// The message is larger than [`Limits::frame_bytes`](crate::connection::Limits::frame_bytes), or it can never fit
    /// into [`Limits::outbox_bytes`](crate::connection::Limits::outbox_bytes): together with the other responses of its
    /// batch (2025-03-26), or once for each subscription that needs it (2026-07-28).
    TooLarge,
    /// The value cannot be expressed in the negotiated revision, or not in JSON at all.
    Encode(String),
    /// The request cannot have a result of this type: input requests or a task for a method that allows none
    /// (2026-07-28).
    WrongResult,
    /// The request has a response already.
    Answered,
    /// The progress is not larger than that of the last notification.
    ProgressNotGrowing,
    /// The call does not exist, or it has ended.
    UnknownCall,
    /// The call is the handshake, which cannot be cancelled.
    NotCancellable,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("the handshake is not complete"),
            Self::Closed => f.write_str("the connection is closed"),
            Self::WrongDirection(method) => write!(f, "this side does not send {method}"),
            Self::WrongKind(method) => write!(f, "{method} is not of this kind of message"),
            Self::NotInRevision { method, version } => write!(f, "{method} is not part of {version}"),
            Self::Undeclared(capability) => write!(f, "capability {} was not declared", capability.path()),
            Self::Busy => f.write_str("too much is in flight"),
            Self::TooLarge => f.write_str("the message is larger than the limit"),
            Self::Encode(why) => write!(f, "cannot be encoded: {why}"),
            Self::WrongResult => f.write_str("the request cannot have a result of this kind"),
            Self::Answered => f.write_str("the request already has a response"),
            Self::ProgressNotGrowing => f.write_str("progress has to grow"),
            Self::UnknownCall => f.write_str("the call is not in flight"),
            Self::NotCancellable => f.write_str("the handshake cannot be cancelled"),
        }
    }
}

impl core::error::Error for SendError {}

impl From<serde_json::Error> for SendError {
    fn from(error: serde_json::Error) -> Self {
        Self::Encode(error.to_string())
    }
}

/// An invalid message of the peer. An error response was sent if possible, and the connection stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation<'a> {
    /// A frame without a valid message.
    Malformed(MalformedKind),
    /// A line on a client's input that is not a JSON object, such as a banner. The field has its first bytes.
    Noise(Cow<'a, [u8]>),
    /// A frame over the limit. If its id could be read, a request got an error response, and a response ended its call.
    Oversized,
    /// The input ended in the middle of a message.
    Truncated,
    /// A request with the id of one that is in flight, which stays.
    DuplicateId(RequestId),
    /// A response to a request that was never sent.
    UnknownResponse(RequestId),
    /// Progress for a token that was never sent.
    UnknownProgress,
    /// A message of a subscription that was never opened.
    UnknownSubscription(RequestId),
    /// Params of a notification that do not fit its method.
    BadParams(Method),
    /// A method that the peer's side does not send.
    WrongDirection(Method),
    /// A request without an id, or a notification with one.
    WrongKind(Method),
    /// A request that this side has not declared a capability for, or that the revision does not have.
    NotSupported(Method),
    /// A request that needs a capability of its sender, such as an extension, which the sender has not declared.
    Undeclared(Capability),
    /// A message before the handshake allows it.
    NotReady(MethodName<'a>),
    /// `initialize` for the second time; the first one stays.
    SecondInitialize,
    /// A batch with more members than the limit, or without any.
    BatchSize,
    /// More requests in flight than the limit; this one was refused.
    TooManyRequests,
    /// A request from a server of the modern era.
    UnexpectedRequest(MethodName<'a>),
    /// A change on a subscription that the server has not acknowledged.
    Unacknowledged(Method),
    /// A request of the modern era whose `_meta` lacks required members.
    BadMeta,
    /// A request of the modern era in a revision that is not served.
    UnsupportedVersion,
    /// A request whose headers contradict its body.
    HeaderMismatch,
    /// A tool that cannot be offered over HTTP (2026-07-28). It was left out of the list.
    UnusableTool {
        /// The tool.
        tool: String,
        /// The reason.
        why: InvalidHeaderParam,
    },
}

impl Violation<'_> {
    /// Returns a copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> Violation<'static> {
        match self {
            Self::Malformed(kind) => Violation::Malformed(kind),
            Self::Noise(bytes) => Violation::Noise(Cow::Owned(bytes.into_owned())),
            Self::Oversized => Violation::Oversized,
            Self::Truncated => Violation::Truncated,
            Self::DuplicateId(id) => Violation::DuplicateId(id),
            Self::UnknownResponse(id) => Violation::UnknownResponse(id),
            Self::UnknownProgress => Violation::UnknownProgress,
            Self::UnknownSubscription(id) => Violation::UnknownSubscription(id),
            Self::BadParams(method) => Violation::BadParams(method),
            Self::WrongDirection(method) => Violation::WrongDirection(method),
            Self::WrongKind(method) => Violation::WrongKind(method),
            Self::NotSupported(method) => Violation::NotSupported(method),
            Self::Undeclared(capability) => Violation::Undeclared(capability),
            Self::NotReady(method) => Violation::NotReady(method.into_owned()),
            Self::SecondInitialize => Violation::SecondInitialize,
            Self::BatchSize => Violation::BatchSize,
            Self::TooManyRequests => Violation::TooManyRequests,
            Self::UnexpectedRequest(method) => Violation::UnexpectedRequest(method.into_owned()),
            Self::Unacknowledged(method) => Violation::Unacknowledged(method),
            Self::BadMeta => Violation::BadMeta,
            Self::UnsupportedVersion => Violation::UnsupportedVersion,
            Self::HeaderMismatch => Violation::HeaderMismatch,
            Self::UnusableTool { tool, why } => Violation::UnusableTool { tool, why },
        }
    }
}

impl fmt::Display for Violation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(kind) => f.write_str(kind.message()),
            Self::Noise(bytes) => write!(f, "not a message: {:?}", String::from_utf8_lossy(bytes)),
            Self::Oversized => f.write_str("a message over the limit"),
            Self::Truncated => f.write_str("the input ended in the middle of a message"),
            Self::DuplicateId(id) => write!(f, "the id {} is in flight already", id.as_json()),
            Self::UnknownResponse(id) => write!(f, "a response to {}, which was never sent", id.as_json()),
            Self::UnknownProgress => f.write_str("progress for a token that was never sent"),
            Self::UnknownSubscription(id) => write!(f, "{} is not a subscription", id.as_json()),
            Self::BadParams(method) => write!(f, "the params of {method} do not fit"),
            Self::WrongDirection(method) => write!(f, "{method} was sent by the wrong side"),
            Self::WrongKind(method) => write!(f, "{method} was sent as the wrong kind of message"),
            Self::NotSupported(method) => write!(f, "{method} was not offered"),
            Self::Undeclared(capability) => {
                write!(f, "a request that needs {}, which its sender has not declared", capability.path())
            }
            Self::NotReady(method) => {
                write!(f, "{} was received before the handshake allows it", excerpt(method.as_str()))
            }
            Self::SecondInitialize => f.write_str("initialize was received twice"),
            Self::BatchSize => f.write_str("a batch with too many members, or none"),
            Self::TooManyRequests => f.write_str("too many requests in flight"),
            Self::UnexpectedRequest(method) => write!(f, "the server requested {}", excerpt(method.as_str())),
            Self::Unacknowledged(method) => write!(f, "{method} was received before the subscription was acknowledged"),
            Self::BadMeta => f.write_str("_meta of a request is incomplete"),
            Self::UnsupportedVersion => f.write_str("a request in a revision that is not served"),
            Self::HeaderMismatch => f.write_str("a request whose headers do not match its body"),
            Self::UnusableTool { tool, why } => write!(f, "the tool {:?} cannot be offered: {why}", excerpt(tool)),
        }
    }
}

/// The reason why a connection has ended. It is final; output that waits can still be polled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// `close` was called.
    Local,
    /// The peer's input ended.
    Eof,
    /// The transport failed.
    ConnectionLost,
    /// The transport failed, with a description: an error of the system, or the exit status of a process.
    TransportError(String),
    /// The server refused the handshake. A long message is cut, and data above 4 KiB is dropped.
    Refused(ErrorObject),
    /// The handshake could not be sent, or the response to `initialize` is malformed.
    BadHandshake(String),
    /// The server chose a revision that this client does not support.
    UnsupportedVersion(String),
    /// The server does not respond to `server/discover` as 2026-07-28 requires, so it is of an older revision, and this
    /// client supports none of those. The text describes its response.
    LegacyServer(String),
    /// The peer did not respond to the handshake in time.
    HandshakeTimeout,
    /// The peer did not respond to [`Keepalive`](crate::connection::Keepalive) pings.
    PeerSilent,
    /// The peer sends requests and does not read the responses.
    PeerNotReading,
    /// The server sent too many lines in a row without a message.
    TooMuchNoise,
    /// The session was idle for too long.
    Expired,
    /// The handshake could not be delivered to the server, or its response could not.
    Failed(Failure),
}

impl CloseReason {
    /// Returns whether the connection ended normally: closed by either side.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        matches!(self, Self::Local | Self::Eof)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("closed"),
            Self::Eof => f.write_str("the peer closed the connection"),
            Self::ConnectionLost => f.write_str("the transport failed"),
            Self::TransportError(why) => write!(f, "the transport failed: {why}"),
            Self::Refused(error) => write!(f, "the server refused the handshake: {error}"),
            Self::BadHandshake(why) => write!(f, "the handshake failed: {why}"),
            Self::UnsupportedVersion(version) => write!(f, "the server chose the unsupported version {version:?}"),
            Self::LegacyServer(why) => write!(f, "the server is of an older revision than this client supports: {why}"),
            Self::HandshakeTimeout => f.write_str("the handshake timed out"),
            Self::PeerSilent => f.write_str("the peer does not respond to pings"),
            Self::PeerNotReading => f.write_str("the peer does not read the responses to its requests"),
            Self::TooMuchNoise => f.write_str("too many lines that are not messages"),
            Self::Failed(failure) => write!(f, "the handshake failed: {failure}"),
            Self::Expired => f.write_str("the session was idle for too long"),
        }
    }
}

impl core::error::Error for CloseReason {}

pub(crate) fn syntax_at(error: Utf8Error) -> MalformedKind {
    MalformedKind::Syntax(error.valid_up_to())
}
