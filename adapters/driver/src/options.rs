//! Options of a driver.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, Opening},
    protocol::ProtocolVersion,
};

use mcp_service::{Peer, Subscriptions, driver_api::JobLimits};

/// Limits and settings of a driver. The memory of the connection itself is limited by its
/// [`Limits`](mcp_proto::connection::Limits).
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// The number of functions that run at the same time, each on a thread of its own; at least one. Without a runtime,
    /// asynchronous handlers count as well. Default 32: enough for handlers that wait for slow services, and few enough
    /// for a small machine.
    pub handlers: usize,
    /// The number of asynchronous handlers that run at the same time, on the runtime; at least one. Default 1,024: they
    /// take memory, but no thread.
    pub async_handlers: usize,
    /// The number of functions that run at the same time for all sessions of an HTTP endpoint or, on a runtime, for all
    /// connections of a listener; at least one. A client gets a [share](super::Quota). While it uses its share, its
    /// other functions wait. If four times this number of functions of a client wait, its next ones are refused with an
    /// error. Requests that need no function are not affected. Default 384: fewer than the blocking threads of
    /// runtimes, of which tokio has 512 and smol 500.
    pub functions: usize,
    /// How long a function waits to start because of [`functions`](Self::functions). Then its request gets an error.
    /// A function whose connection ends keeps its place among the waiting ones of its client until then.
    /// Default 60 seconds.
    pub function_wait: Duration,
    /// The number of bytes that wait to be written or for a stream, for all sessions of an HTTP endpoint. A client gets
    /// a [share](super::Quota). While it holds its share, its requests are refused with 503, and a session that takes
    /// more is ended: its responses are aborted. An additional quarter is for messages that are kept for replay: those
    /// beyond it are not kept. Another quarter is for the descriptions of clients in `initialize`: a session beyond it
    /// is refused with 503. Fewer than 4 KiB are not counted. Default 256 MiB.
    pub unwritten: usize,
    /// The number of requests that wait for a handler. Further ones get an error. Default 16,384, which is the limit of
    /// [all requests](mcp_proto::connection::Limits::requests) of a connection.
    pub max_queued_requests: usize,
    /// The bytes of notifications that wait for their handlers. Further notifications are dropped. Default 16 MiB.
    pub max_notification_bytes: usize,
    /// A hint about the server (clients): a known [era](mcp_proto::protocol::ProtocolVersion::era), for example from
    /// the last connection, saves the probe. Default: none.
    pub opening: Opening,
    /// Subscriptions to make as soon as there is a connection (clients, 2026-07-28), for example those of an earlier
    /// connection to the same server. Default: none.
    pub subscriptions: Option<Subscriptions>,
}

impl DriverOptions {
    /// Returns the limits of the jobs of a connection.
    #[must_use]
    pub const fn job_limits(&self) -> JobLimits {
        JobLimits {
            handlers: self.handlers,
            async_handlers: self.async_handlers,
            max_queued_requests: self.max_queued_requests,
            max_notification_bytes: self.max_notification_bytes,
        }
    }

    /// Returns these options for the next connection to a server, with the era of the last connection and its
    /// subscriptions.
    #[must_use]
    pub fn after(&self, last: &Peer<ClientRole>) -> Self {
        let era = last.version().map(ProtocolVersion::era);
        Self {
            opening: era.map_or(self.opening, Opening::known),
            subscriptions: Some(last.subscriptions().clone()),
            ..self.clone()
        }
    }
}

impl Default for DriverOptions {
    fn default() -> Self {
        let JobLimits { handlers, async_handlers, max_queued_requests, max_notification_bytes } = JobLimits::default();
        Self {
            handlers,
            async_handlers,
            functions: 384,
            function_wait: Duration::from_secs(60),
            unwritten: 256 << 20,
            max_queued_requests,
            max_notification_bytes,
            opening: Opening::unknown(),
            subscriptions: None,
        }
    }
}
