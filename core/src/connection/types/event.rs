//! The events that a connection reports to its application.

use alloc::{borrow::Cow, string::String};

use crate::{
    connection::types::{CloseReason, Failure, Violation},
    protocol::MethodName,
    rpc::{CallId, ReplyKey},
    wire::{ErrorObject, RawJson},
};

/// An event for the application. It borrows from the frame, never from the connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The handshake is complete. The event is repeated if a server of 2026-07-28 then refuses that revision and the
    /// client has opened a session in another revision.
    Ready,
    /// The server had lost the session, and the client has opened a new one (clients, over HTTP). The state of the old
    /// session on the server is lost: subscriptions to resources, the log level, tasks. Requests of the server in the
    /// old session were cancelled, and no response to them is sent any more.
    Renewed,
    /// A request of the peer. It needs exactly one response: `respond` or `respond_error`.
    Request {
        /// The key for the response.
        key: ReplyKey,
        /// The method of the request.
        method: MethodName<'a>,
        /// The params: a JSON object, or absent.
        params: Option<RawJson<'a>>,
    },
    /// A notification of the peer.
    Notification {
        /// The method of the notification.
        method: MethodName<'a>,
        /// The params: a JSON object, or absent.
        params: Option<RawJson<'a>>,
        /// The request of this side on whose stream the notification arrived. Only for clients of sessions over
        /// Streamable HTTP: other transports have no such streams. The request may have ended. Servers should send only
        /// messages about the request on it.
        related_call: Option<CallId>,
    },
    /// The end of a request of this side. Each request ends with exactly one such event.
    Response {
        /// The request.
        call: CallId,
        /// The outcome of the request.
        outcome: Outcome<'a>,
    },
    /// Progress of a request of this side.
    Progress {
        /// The request. For a task, the request that started it.
        call: CallId,
        /// The progress.
        progress: Progress<'a>,
    },
    /// A request of this side has become a task of the extension (2026-07-28), or a new state of that task was received
    /// and the task has not ended. The request continues, and the application need not do anything.
    Task {
        /// The request.
        call: CallId,
        /// The state of the task. Decode it as a [`Task`](crate::schema::tasks_extension::Task).
        task: RawJson<'a>,
    },
    /// The peer has cancelled its request, or the request has [timed out](CancelCause::TimedOut). Stop the work on it.
    /// A request that has not timed out still needs a response, which frees its slot and is not sent. A subscription
    /// that the application has [accepted](crate::connection::Connection::accept_subscription) needs none.
    Cancelled {
        /// The request.
        key: ReplyKey,
        /// The cause.
        cause: CancelCause<'a>,
    },
    /// A response to a request of this side that has ended before. It is dropped. Only for calls of the application;
    /// late responses to others are counted in
    /// [`Stats::late_responses`](crate::connection::Stats::late_responses).
    ///
    /// A peer can cause as many of these as it sends messages. An application that logs them should limit the rate.
    Late(CallId),
    /// An error that the peer could not attribute to a request.
    PeerError(ErrorObject),
    /// An invalid message of the peer. As with [`Late`](Self::Late), every message can cause one.
    Violation(Violation<'a>),
    /// The connection has ended. This is the last event.
    Closed(CloseReason),
}

/// The outcome of a request of this side.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// The result: a JSON object. Decode it as the result of the request's method.
    Result(RawJson<'a>),
    /// An error that the peer sent.
    Error(ErrorObject),
    /// An invalid response: not an object, both result and error, or larger than the limit.
    Malformed,
    /// The response did not arrive in time.
    TimedOut {
        /// Whether the total timeout has passed, rather than the idle timeout.
        total: bool,
    },
    /// `cancel` was called, or the peer has ended the task that the request had become.
    Cancelled,
    /// The connection ended before the response arrived.
    Closed(CloseReason),
    /// The request could not be delivered, or its response could not, and the connection stays open. Only for bindings
    /// that carry each request separately.
    Failed(Failure),
}

/// The progress of a request or task.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The progress. It grows from one notification to the next.
    pub progress: f64,
    /// The final value of `progress`, if it is known.
    pub total: Option<f64>,
    /// A human-readable message (2025-03-26).
    pub message: Option<Cow<'a, str>>,
}

/// The cause of the cancellation of a request of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelCause<'a> {
    /// The peer has cancelled the request, with this reason.
    Peer(Option<Cow<'a, str>>),
    /// The connection has ended, or the server has lost the session of the request (clients, over HTTP).
    Closed,
    /// The [deadline](crate::connection::Connection::set_deadline) of the request has passed. The peer got an error
    /// response, and the key is not valid any more: a response with it returns
    /// [`SendError::Answered`](crate::connection::SendError::Answered).
    TimedOut,
}

impl Event<'_> {
    /// Returns a copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned::<str>(String::from(text));
        match self {
            Self::Ready => Event::Ready,
            Self::Renewed => Event::Renewed,
            Self::Request { key, method, params } => {
                Event::Request { key, method: method.into_owned(), params: params.map(RawJson::into_owned) }
            }
            Self::Notification { method, params, related_call } => Event::Notification {
                method: method.into_owned(),
                params: params.map(RawJson::into_owned),
                related_call,
            },
            Self::Response { call, outcome } => Event::Response { call, outcome: outcome.into_owned() },
            Self::Progress { call, progress: Progress { progress, total, message } } => {
                Event::Progress { call, progress: Progress { progress, total, message: message.map(own) } }
            }
            Self::Task { call, task } => Event::Task { call, task: task.into_owned() },
            Self::Cancelled { key, cause } => Event::Cancelled {
                key,
                cause: match cause {
                    CancelCause::Peer(reason) => CancelCause::Peer(reason.map(own)),
                    CancelCause::Closed => CancelCause::Closed,
                    CancelCause::TimedOut => CancelCause::TimedOut,
                },
            },
            Self::Late(call) => Event::Late(call),
            Self::PeerError(error) => Event::PeerError(error),
            Self::Violation(violation) => Event::Violation(violation.into_owned()),
            Self::Closed(reason) => Event::Closed(reason),
        }
    }
}

impl Outcome<'_> {
    /// Returns a copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> Outcome<'static> {
        match self {
            Self::Result(result) => Outcome::Result(result.into_owned()),
            Self::Error(error) => Outcome::Error(error),
            Self::Malformed => Outcome::Malformed,
            Self::TimedOut { total } => Outcome::TimedOut { total },
            Self::Cancelled => Outcome::Cancelled,
            Self::Closed(reason) => Outcome::Closed(reason),
            Self::Failed(failure) => Outcome::Failed(failure),
        }
    }
}
