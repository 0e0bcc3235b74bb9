//! What a connection tells its application.

use alloc::{borrow::Cow, string::String};

use crate::{
    connection::types::{CloseReason, Failure, Violation},
    protocol::MethodName,
    rpc::{CallId, ReplyKey},
    wire::{ErrorObject, RawJson},
};

/// Something that the application should know. It borrows from the frame, never from the connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The handshake is over. It comes again if a server of 2026-07-28 turns out to serve nothing but sessions, and one
    /// could be begun: the revision is another one from then on.
    Ready,
    /// The server had lost the session, and another one has been begun in its place (clients, over HTTP). What the server
    /// kept for the old one is gone: subscriptions to resources, the level of log messages, tasks.
    Renewed,
    /// The peer asks for something, and is owed one answer: `respond` or `respond_error`.
    Request {
        /// To answer with.
        key: ReplyKey,
        /// What it asks.
        method: MethodName<'a>,
        /// A JSON object, or absent.
        params: Option<RawJson<'a>>,
    },
    /// The peer says something.
    Notification {
        /// What it says.
        method: MethodName<'a>,
        /// A JSON object, or absent.
        params: Option<RawJson<'a>>,
    },
    /// A request of ours has ended. Comes once for each, whatever happens.
    Response {
        /// Which one.
        call: CallId,
        /// How.
        outcome: Outcome<'a>,
    },
    /// A request of ours makes progress.
    Progress {
        /// Which one. For a task, the request that started it.
        call: CallId,
        /// How far it is.
        progress: Progress<'a>,
    },
    /// A request of ours has become a task of the extension (2026-07-28), or something was heard of that task, which is
    /// not over. The request goes on. Nothing has to be done about it.
    Task {
        /// Which one.
        call: CallId,
        /// How the task stands, to be decoded as a [`Task`](crate::schema::tasks_extension::Task).
        task: RawJson<'a>,
    },
    /// The answer to a request of the peer is not wanted any more. Stop working on it and, when it has stopped, answer
    /// it all the same, unless it has [timed out](CancelCause::TimedOut): the answer frees its slot and goes nowhere.
    Cancelled {
        /// Which one.
        key: ReplyKey,
        /// Why.
        cause: CancelCause<'a>,
    },
    /// A response to a request of ours that has ended before. It is dropped. Only for calls that the application was given:
    /// others are counted in [`Stats::late`](crate::connection::Stats::late).
    ///
    /// A peer can cause as many of these as it sends messages. An application that logs them should limit the rate.
    Late(CallId),
    /// An error that the peer could not attribute to a request.
    PeerError(ErrorObject),
    /// The peer sent something wrong. As for [`Late`](Self::Late), it can be caused by every message.
    Violation(Violation<'a>),
    /// The connection has ended. The last event.
    Closed(CloseReason),
}

/// How a request of ours ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<'a> {
    /// With a result: a JSON object, to be decoded as the result of the request's method.
    Result(RawJson<'a>),
    /// With an error that the peer sent.
    Error(ErrorObject),
    /// With an answer that is none: not an object, both result and error, or larger than the limit.
    Malformed,
    /// Without an answer in time.
    TimedOut {
        /// Whether the total time was up; otherwise the peer was silent for too long.
        total: bool,
    },
    /// `cancel` was called, or the peer has ended the task that it had become.
    Cancelled,
    /// The connection ended first.
    Closed(CloseReason),
    /// It did not get to the peer, or its answer not back, and the connection goes on: only where each request travels on
    /// its own.
    Failed(Failure),
}

/// How far something is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Grows from one notification to the next.
    pub progress: f64,
    /// What it grows towards, if that is known.
    pub total: Option<f64>,
    /// For people to read (2025-03-26).
    pub message: Option<Cow<'a, str>>,
}

/// Why a request of the peer was cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelCause<'a> {
    /// The peer said so, with the reason it gave.
    Peer(Option<Cow<'a, str>>),
    /// The connection has ended.
    Closed,
    /// Its [deadline](crate::connection::Connection::set_deadline) has passed. The peer was answered with an error, and the key is not
    /// valid any more: answering is [`SendError::Answered`](crate::connection::SendError::Answered).
    TimedOut,
}

impl Event<'_> {
    /// A copy that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned::<str>(String::from(text));
        match self {
            Self::Ready => Event::Ready,
            Self::Renewed => Event::Renewed,
            Self::Request { key, method, params } => {
                Event::Request { key, method: method.into_owned(), params: params.map(RawJson::into_owned) }
            }
            Self::Notification { method, params } => {
                Event::Notification { method: method.into_owned(), params: params.map(RawJson::into_owned) }
            }
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
    /// A copy that does not borrow.
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
