//! Views of the requests in flight, in both directions.

use alloc::string::String;

use crate::{
    protocol::Method,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::RequestId,
};

/// A request of the peer that holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InboundRequest<'a> {
    /// The key for the response.
    pub key: ReplyKey,
    /// The id that the peer has given the request.
    pub id: &'a RequestId,
    /// The method; `None` if the specification does not have it.
    pub method: Option<Method>,
    /// When the request arrived.
    pub since: Timestamp,
    /// When the response is due, if the request has a deadline.
    pub deadline: Option<Timestamp>,
    /// The state of the request.
    pub state: RequestState,
}

/// The state of a request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestState {
    /// The request waits for the response of the application, or for the end of a subscription.
    Open,
    /// The response waits to be written.
    Answered,
    /// The peer has cancelled the request. It holds its slot until the application responds to it.
    Cancelled,
}

/// A request of this side that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboundRequest {
    /// The id that [`Connection::request`](crate::connection::Connection::request) has returned.
    pub call: CallId,
    /// The method; `None` if the specification does not have it.
    pub method: Option<Method>,
    /// When the request was made.
    pub since: Timestamp,
    /// When the request times out: the earlier of its idle and its total deadline.
    pub deadline: Option<Timestamp>,
    /// Whether the request was polled and its response is outstanding. `false` while it waits to be written, for
    /// responses to its input requests (2026-07-28), or for a delay to end.
    pub sent: bool,
}

/// Where a request of the server comes from that is an input request of a result or a task (2026-07-28).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputRequestOrigin {
    /// The call whose result or task contains the input request.
    pub call: CallId,
    /// The name of the input request.
    pub name: String,
    /// The number of input requests of the call without a response, this one included.
    pub open: usize,
}
