//! Views of the requests in flight, in both directions.

use crate::{
    protocol::Method,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RequestId,
};

/// A request of the peer that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboundRequest<'a> {
    /// To answer with.
    pub key: ReplyKey,
    /// The id that the peer has given it.
    pub id: &'a RequestId,
    /// `None` for methods that the specification does not have.
    pub method: Option<Method>,
    /// When it came in.
    pub since: Timestamp,
    /// When it has to be answered, if there is such a time.
    pub deadline: Option<Timestamp>,
    /// What it waits for.
    pub state: RequestState,
}

/// What a request of the peer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestState {
    /// The answer of the application, or the end of a subscription.
    Open,
    /// Its answer waits to be written.
    Answered,
    /// The peer has cancelled it. It holds its slot until the application answers it.
    Cancelled,
}

/// A request of this side that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboundRequest {
    /// What [`Connection::request`](crate::connection::Connection::request) has returned.
    pub call: CallId,
    /// `None` for methods that the specification does not have.
    pub method: Option<Method>,
    /// When it was made.
    pub since: Timestamp,
    /// When it times out if nothing comes before that: the earlier of its idle and its total deadline.
    pub deadline: Option<Timestamp>,
    /// Whether it has been polled and its answer is outstanding. `false` while it waits to be written, for answers of this side
    /// (2026-07-28), or for a pause to end.
    pub sent: bool,
}
