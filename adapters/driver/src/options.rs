//! How a connection is run.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, Opening},
    protocol::ProtocolVersion,
};

use mcp_service::{Peer, Subscriptions, driver_api::JobLimits};

/// Limits and settings of how a connection is run. What the connection itself may hold is limited by its
/// [`Limits`](mcp_proto::connection::Limits).
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Functions that run at the same time, each on a thread of its own; at least one. Where there is no runtime for them,
    /// asynchronous handlers count as well. Default 32: enough for handlers that wait for each other's slow friends, few
    /// enough for a small machine.
    pub handlers: usize,
    /// Asynchronous handlers that run at the same time, on the runtime; at least one. Default 1,024: they take no thread,
    /// but what they hold.
    pub async_handlers: usize,
    /// Functions that run at the same time for all sessions of an endpoint of HTTP, or, on a runtime, for all connections of a
    /// listener; at least one. A client gets a
    /// [part](super::Quota). As long as it has that, its other functions wait. If four times as many as this number wait, more
    /// are answered with an error. Requests that no function answers are not concerned. Default 384: less than the threads
    /// that runtimes have for functions, which is 512 on tokio and 500 on smol.
    pub functions: usize,
    /// How long a function waits to begin where [`functions`](Self::functions) run already. Its request is answered with an
    /// error after that. Default 60 seconds.
    pub function_wait: Duration,
    /// Bytes that wait to be written or for a stream, for all sessions of an endpoint of HTTP. A client gets a
    /// [part](super::Quota). While it holds that, its requests are refused with 503, and a session that takes more ends: its
    /// answers break off. A quarter of this comes on top for messages that are kept to be sent again: those for which there is no
    /// room are not kept. Another quarter is for what clients say of themselves in `initialize`: a session for which there is no
    /// room is refused with 503. What is less than 4 KiB is not counted. Default 256 MiB.
    pub unwritten: usize,
    /// Requests that wait for a handler. What comes on top is answered with an error. Default 16,384, which is what
    /// a connection takes [in all](mcp_proto::connection::Limits::requests).
    pub max_queued_requests: usize,
    /// Bytes of notifications that wait for their handlers; what comes on top is dropped, the newest first. Default 16 MiB.
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
