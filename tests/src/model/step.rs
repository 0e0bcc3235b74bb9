//! The steps of a peer, and their results.

use std::fmt;

use mcp_proto::connection::{CancelCause, Event, Outcome, SendError};
use serde_json::{Value, json};

/// A step of a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The application sends a request.
    Request {
        /// Its method.
        method: &'static str,
        /// Whether it requests progress.
        progress: bool,
        /// The idle timeout, in milliseconds.
        idle: Option<u64>,
        /// The total timeout, in milliseconds.
        total: Option<u64>,
        /// Whether the client opens an ended subscription again.
        resubscribe: bool,
    },
    /// The application cancels the call with this id.
    Cancel(u64),
    /// The application responds to a delivered request, by index.
    Respond(usize, Reply),
    /// The application reports progress of a request.
    Report(usize, u8),
    /// The application sends a notification, perhaps with a log level.
    Notify(&'static str, Option<&'static str>),
    /// The application closes the connection.
    Close,
    /// A frame is received.
    Receive(Value),
    /// The input ends.
    Eof,
    /// Writing fails.
    FailWrite,
    /// This many milliseconds pass.
    Wait(u64),
    /// The driver checks whether the connection accepts input.
    Read,
    /// The driver takes the next frame.
    Send,
}

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A result.
    Result,
    /// An error.
    Error,
}

/// An event for the application. Errors are compared by code, violations by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AppEvent {
    /// The connection is ready.
    Ready,
    /// A request. Requests are numbered from 0.
    Request(usize, String, Value),
    /// A notification.
    Notification(String, Value),
    /// A call has ended.
    Ended(u64, Ending),
    /// A call makes progress.
    Progress(u64, f64),
    /// The cancellation of a request, by the peer or by the end of the connection.
    Cancelled(usize, CancelSource),
    /// A response to a call that has ended.
    Late(u64),
    /// An error that belongs to no request.
    PeerError(i64),
    /// The peer has violated the protocol.
    Violation(String),
    /// The connection has ended.
    Closed(String),
}

/// The source of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelSource {
    /// The peer.
    Peer,
    /// The end of the connection.
    End,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A result.
    Result(Value),
    /// An error with this code.
    Error(i64),
    /// An invalid response.
    Malformed,
    /// A timeout: in total, or since the last message for the call.
    TimedOut {
        /// The total timeout.
        total: bool,
    },
    /// The application has cancelled it.
    Cancelled,
    /// The connection has ended.
    Closed,
}

/// Returns the name of a variant, without its fields.
fn kind(value: &impl fmt::Debug) -> String {
    format!("{value:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// Returns the name of an error of the API.
#[must_use]
pub fn refusal(error: &SendError) -> String {
    kind(error)
}

impl AppEvent {
    /// Converts an event of the connection. `request` returns the number of a key, a new one for an unknown key.
    pub fn of(event: Event<'_>, mut request: impl FnMut(mcp_proto::rpc::ReplyKey) -> usize) -> Self {
        let json = |raw: Option<mcp_proto::wire::RawJson<'_>>| {
            raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).expect("it is JSON"))
        };
        match event {
            Event::Ready => Self::Ready,
            Event::Request { key, method, params } => {
                Self::Request(request(key), method.as_str().to_owned(), json(params))
            }
            Event::Notification { method, params, .. } => Self::Notification(method.as_str().to_owned(), json(params)),
            Event::Response { call, outcome } => Self::Ended(
                call.as_u64(),
                match outcome {
                    Outcome::Result(result) => Ending::Result(json(Some(result))),
                    Outcome::Error(error) => Ending::Error(error.code.0),
                    Outcome::Malformed => Ending::Malformed,
                    Outcome::TimedOut { total } => Ending::TimedOut { total },
                    Outcome::Cancelled => Ending::Cancelled,
                    Outcome::Closed(_) => Ending::Closed,
                    Outcome::Failed(failure) => panic!("only where each request travels on its own: {failure}"),
                },
            ),
            Event::Progress { call, progress } => Self::Progress(call.as_u64(), progress.progress),
            Event::Cancelled { key, cause } => {
                let by = if cause == CancelCause::Closed { CancelSource::End } else { CancelSource::Peer };
                Self::Cancelled(request(key), by)
            }
            Event::Late(call) => Self::Late(call.as_u64()),
            Event::PeerError(error) => Self::PeerError(error.code.0),
            Event::Violation(violation) => Self::Violation(kind(&violation)),
            Event::Closed(reason) => Self::Closed(kind(&reason)),
            other => panic!("the model has no such event: {other:?}"),
        }
    }
}

/// Returns the params of a request.
#[must_use]
pub fn params_of(method: &str) -> Value {
    match method {
        "ping" => Value::Null,
        "subscriptions/listen" => json!({"notifications": {"toolsListChanged": true}}),
        _ => json!({"from": "the application"}),
    }
}

/// Returns the result of a request, which contains its number.
#[must_use]
pub fn result_of(request: usize) -> Value {
    json!({"n": request})
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { method, progress, idle, total, resubscribe } => {
                write!(f, "request {method}")?;
                if *progress {
                    f.write_str(", with progress")?;
                }
                if *resubscribe {
                    f.write_str(", again and again")?;
                }
                let within = [("silence", idle), ("in all", total)];
                within.iter().try_for_each(|(what, time)| match time {
                    Some(time) => write!(f, ", {time} ms {what}"),
                    None => Ok(()),
                })
            }
            Self::Cancel(call) => write!(f, "cancel call {call}"),
            Self::Respond(request, reply) => write!(f, "answer request {request} with {reply:?}"),
            Self::Report(request, progress) => write!(f, "report progress {progress} of request {request}"),
            Self::Notify(method, level) => write!(f, "notify {method} {}", level.unwrap_or_default()),
            Self::Close => f.write_str("close"),
            Self::Receive(message) => write!(f, "receive {message}"),
            Self::Eof => f.write_str("the input ends"),
            Self::FailWrite => f.write_str("writing fails"),
            Self::Wait(time) => write!(f, "wait {time} ms"),
            Self::Read => f.write_str("read"),
            Self::Send => f.write_str("send"),
        }
    }
}
