//! What can happen to a peer, and what comes of it.

use std::fmt;

use mcp_proto::connection::{CancelCause, Event, Outcome, SendError};
use serde_json::{Value, json};

/// Something that happens to a peer.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Its application makes a request.
    Ask {
        /// What it asks.
        method: &'static str,
        /// Whether it wants to hear of progress.
        progress: bool,
        /// How long the other side may be silent, in milliseconds.
        idle: Option<u64>,
        /// How long it may take in all, in milliseconds.
        total: Option<u64>,
        /// Whether a subscription is opened again when the server ends it.
        again: bool,
    },
    /// Its application gives up on the call with this id.
    Cancel(u64),
    /// Its application answers a request, the how manieth that it was handed.
    Answer(usize, Reply),
    /// Its application reports progress of a request.
    Report(usize, u8),
    /// Its application tells the other side something, perhaps with a level.
    Notify(&'static str, Option<&'static str>),
    /// Its application closes the connection.
    Close,
    /// A frame comes in.
    Hear(Value),
    /// The input ends.
    Eof,
    /// Writing fails.
    Break,
    /// So many milliseconds pass.
    Wait(u64),
    /// The driver asks whether it is to read.
    Read,
    /// The next frame is taken to be written.
    Send,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// With a result.
    Result,
    /// With an error.
    Error,
}

/// What the application hears. Of errors it is the code that counts, of violations the kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// The connection is ready.
    Ready,
    /// It is asked for something. Requests are counted from 0.
    Request(usize, String, Value),
    /// It is told something.
    Notification(String, Value),
    /// A call has ended.
    Ended(u64, Ending),
    /// A call makes progress.
    Progress(u64, f64),
    /// A request is not to be answered any more: the peer says so, or the connection has ended.
    Cancelled(usize, By),
    /// An answer to a call that has ended.
    Late(u64),
    /// An error that belongs to no request.
    PeerError(i64),
    /// The peer does something wrong.
    Violation(String),
    /// The connection has ended.
    Closed(String),
}

/// Who has cancelled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The peer.
    Peer,
    /// None: there is no connection any more.
    End,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// With a result.
    Result(Value),
    /// With an error of this code.
    Error(i64),
    /// With something that is neither.
    Malformed,
    /// Without an answer in time: in all, or since the other side was heard of.
    TimedOut {
        /// In all.
        total: bool,
    },
    /// Its application has given up on it.
    Cancelled,
    /// The connection has ended.
    Closed,
}

/// The name of a variant, without what is in it.
fn kind(value: &impl fmt::Debug) -> String {
    format!("{value:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// Why a verb was refused, by name.
#[must_use]
pub fn refusal(error: &SendError) -> String {
    kind(error)
}

impl Seen {
    /// What an event of the connection says. `request` gives the number of a key, a new one if it is not known.
    pub fn of(event: Event<'_>, mut request: impl FnMut(mcp_proto::rpc::ReplyKey) -> usize) -> Self {
        let json = |raw: Option<mcp_proto::wire::RawJson<'_>>| {
            raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).expect("it is JSON"))
        };
        match event {
            Event::Ready => Self::Ready,
            Event::Request { key, method, params } => {
                Self::Request(request(key), method.as_str().to_owned(), json(params))
            }
            Event::Notification { method, params } => Self::Notification(method.as_str().to_owned(), json(params)),
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
                let by = if cause == CancelCause::Closed { By::End } else { By::Peer };
                Self::Cancelled(request(key), by)
            }
            Event::Late(call) => Self::Late(call.as_u64()),
            Event::PeerError(error) => Self::PeerError(error.code.0),
            Event::Violation(violation) => Self::Violation(kind(&violation)),
            Event::Closed(reason) => Self::Closed(kind(&reason)),
            other => panic!("an event of which the model knows nothing: {other:?}"),
        }
    }
}

/// What a request says.
#[must_use]
pub fn params_of(method: &str) -> Value {
    match method {
        "ping" => Value::Null,
        "subscriptions/listen" => json!({"notifications": {"toolsListChanged": true}}),
        _ => json!({"from": "the application"}),
    }
}

/// The number that goes with a request, by which its result is known.
#[must_use]
pub fn result_of(request: usize) -> Value {
    json!({"n": request})
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { method, progress, idle, total, again } => {
                write!(f, "ask {method}")?;
                if *progress {
                    f.write_str(", with progress")?;
                }
                if *again {
                    f.write_str(", again and again")?;
                }
                let within = [("silence", idle), ("in all", total)];
                within.iter().try_for_each(|(what, time)| match time {
                    Some(time) => write!(f, ", {time} ms {what}"),
                    None => Ok(()),
                })
            }
            Self::Cancel(call) => write!(f, "cancel call {call}"),
            Self::Answer(request, reply) => write!(f, "answer request {request} with {reply:?}"),
            Self::Report(request, progress) => write!(f, "report progress {progress} of request {request}"),
            Self::Notify(method, level) => write!(f, "notify {method} {}", level.unwrap_or_default()),
            Self::Close => f.write_str("close"),
            Self::Hear(message) => write!(f, "hear {message}"),
            Self::Eof => f.write_str("the input ends"),
            Self::Break => f.write_str("writing fails"),
            Self::Wait(time) => write!(f, "wait {time} ms"),
            Self::Read => f.write_str("read"),
            Self::Send => f.write_str("send"),
        }
    }
}
