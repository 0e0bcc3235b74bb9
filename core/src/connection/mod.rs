//! [`Client`] and [`Server`]: one connection as a state machine.
//!
//! The driver passes frames and the time to `handle_*`, and gets events, bytes and the next deadline from `poll_*`. The
//! application calls methods such as `request` and `respond`. See the [crate documentation](crate) for the driver's
//! loop around it.

mod api;
mod engine;
mod json_splice;
mod state;
mod steps;
mod types;

pub use api::{Client, ClientRole, Connection, Server, ServerRole};
#[cfg(feature = "http")]
pub(crate) use state::{
    repeated_parts::KnownClient,
    stateless_request::{ResultHead, request_weight},
};
pub use types::{
    Arrival, ArrivalExtension, Backoff, CancelCause, ClientConfig, CloseReason, Deadline, Event, Failure,
    InboundRequest, InputRequestOrigin, Keepalive, Limits, Opening, OutboundRequest, Outcome, Polling, Principal,
    Progress, RequestContext, RequestOptions, RequestState, ResourceUsage, Route, SendError, ServerConfig,
    SessionSnapshot, Settings, Stats, TaskProgress, Transmit, Violation, Wake, Writable,
};
