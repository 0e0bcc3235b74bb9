//! The upper bound of the memory that an endpoint holds for its peers.

use mcp_proto::http::Limits;

use crate::http::client_shares::{DESCRIBED_PART, REPLAY_PART};
use crate::options::DriverOptions;
use mcp_service::Service;

/// Bytes of a session: 4 KiB while it is idle, buffers and tables that it keeps for a second after a request, and bytes
/// that are too few to be counted in [`DriverOptions::unwritten`].
const SESSION: usize = 16 << 10;

/// Bytes of a request of 2026-07-28, which is a connection of its own, in addition to those that
/// [`Limits::request_bytes`] counts.
const REQUEST: usize = 8 << 10;

/// Bytes of a task, in addition to its counted size.
const TASK: usize = 4 << 10;

/// Bytes of a connection: hyper reads at most 128 KiB ahead and buffers at most 128 KiB of output. The rest is its task
/// and one exchange.
const CONNECTION: usize = (256 << 10) + (48 << 10);

/// Returns the most bytes that an endpoint with these limits holds for all of its peers together, in requests from the
/// allocator. With the defaults that is about 4.0 GiB with 2,048 connections. To use less memory, lower the limits
/// below.
///
/// It adds up
/// - [`unwritten`](DriverOptions::unwritten), and a quarter on top, four times: buffers grow by doubling, and keep
///   consumed bytes until those are more than the unread ones. It counts bytes that wait to be written, messages that
///   wait for a stream, and messages that are kept to be sent again;
/// - another quarter of `unwritten`, twice, for the params of `initialize`, which are kept as long as their session is;
/// - [`request_bytes`](Limits::request_bytes) three times: the body, the arguments that wait for their handler, and the
///   decoded arguments. It also counts the table entries of a request;
/// - [`body_bytes`](Limits::body_bytes) twice: the buffers of bodies that are being read grow by doubling;
/// - 16 KiB for each of [`sessions`](Limits::sessions), and 8 KiB for each of [`requests`](Limits::requests);
/// - [`max_shared_bytes`](mcp_service::TaskPolicy::max_shared_bytes) twice, and 4 KiB for each of
///   [`max_shared_tasks`](mcp_service::TaskPolicy::max_shared_tasks): once for the tasks of sessions (2025-11-25), and
///   once for those without (2026-07-28);
/// - 304 KiB for each of these `connections`. Connections that are encrypted take some 64 KiB more each;
/// - and ten messages of the [largest size](mcp_proto::connection::Limits::frame_bytes), which are being moved from one
///   of these to another: one for each thread that moves messages.
///
/// It does not count
/// - memory of handlers: their futures, their allocations, decoded arguments beyond the length of their text, and
///   results that they have not returned yet;
/// - URIs that a session has subscribed to
///   ([`max_subscription_bytes`](mcp_service::ServiceBuilder::max_subscription_bytes)), and requests that handlers send
///   to clients;
/// - the caches of a token verifier: at most 1,024 responses of 8 KiB for an introspection endpoint, and the keys;
/// - a [shared store](super::Store), and messages that wait to be written there;
/// - stacks of threads, and the buffers that the system has for sockets.
///
/// It assumes one request at a time on each connection, as with HTTP/1.1. If another server passes requests over HTTP/2
/// to an `Endpoint`, `connections` is the number of streams.
#[must_use]
pub fn memory_limit(service: &Service, limits: &Limits, options: &DriverOptions, connections: usize) -> usize {
    let (tasks, messages) = (service.task_policy(), service.config().settings.limits.frame_bytes);
    [
        (options.unwritten.saturating_add(options.unwritten / REPLAY_PART), 4),
        (options.unwritten / DESCRIBED_PART, 2),
        (limits.request_bytes, 3),
        (limits.body_bytes, 2),
        (limits.sessions, SESSION),
        (limits.requests, REQUEST),
        (tasks.max_shared_bytes, 2 * 2),
        (tasks.max_shared_tasks, 2 * TASK),
        (connections, CONNECTION),
        (messages, 10),
    ]
    .into_iter()
    .fold(0_usize, |sum, (amount, each)| sum.saturating_add(amount.saturating_mul(each)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_memory_limit_is_about_four_gib() {
        let service = Service::builder("x", "1").build().expect("a service");
        let limit = memory_limit(&service, &Limits::default(), &DriverOptions::default(), 2048);
        assert_eq!(limit >> 20, 4_104, "MiB");
        let options = DriverOptions { unwritten: usize::MAX, ..DriverOptions::default() };
        assert_eq!(memory_limit(&service, &Limits::default(), &options, 0), usize::MAX);
    }
}
