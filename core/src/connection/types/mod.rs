//! The data types of a connection's API: configuration, events, errors.

mod arrival;
mod config;
mod context;
pub(crate) mod error;
mod event;
mod failure;
mod in_flight;
mod limits;
mod metrics;
mod opening;
mod poll;
mod snapshot;

pub use arrival::{Arrival, ArrivalExtension, Principal};
pub use config::{ClientConfig, ServerConfig, Settings};
pub use context::{RequestContext, TaskProgress};
pub use error::{CloseReason, SendError, Violation};
pub use event::{CancelCause, Event, Outcome, Progress};
pub use failure::Failure;
pub use in_flight::{InboundRequest, InputRequestOrigin, OutboundRequest, RequestState};
pub use limits::{Backoff, Keepalive, Limits, Polling, RequestOptions};
pub use metrics::{ResourceUsage, Stats};
pub use opening::Opening;
pub use poll::{Deadline, Route, Transmit, Wake, Writable};
pub use snapshot::SessionSnapshot;
