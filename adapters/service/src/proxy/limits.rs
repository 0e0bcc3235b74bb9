//! Limits of a backend.

use std::time::Duration;

/// The limits of one backend. A backend that exceeds a limit fails its own requests only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyLimits {
    /// The most items of one list: of tools, prompts, resources or templates. A longer list is refused, and the last
    /// accepted list stays. Default 20,000.
    pub items: usize,
    /// The most bytes of one list, in the form in which it is sent. A larger list is refused, and the last accepted
    /// list stays. Default 16 MiB.
    pub list_bytes: usize,
    /// The most time for one list. A list that takes longer is refused, and the last accepted list stays. Default 1
    /// minute.
    pub list_time: Duration,
    /// The least time between two requests for the lists. Changes in between are read together. Default 100
    /// milliseconds.
    pub list_pause: Duration,
    /// The most requests of clients in flight at the backend. At this number others fail at once, and those of one
    /// client at its [share](super#limits). Default 1,024.
    pub calls: usize,
    /// The most time for one request of a client, with all questions of the backend. Default 30 minutes.
    pub call_time: Duration,
    /// The time in which the backend may still work on a request that has ended without its response: the request was
    /// cancelled, has timed out, or its client has disconnected. For this time at most, or until the backend responds,
    /// messages that neither name their call nor arrive on its stream do not reach other clients. Default 1 minute.
    pub late_time: Duration,
    /// The time for which the backend counts as working on such a request after it has read the cancellation, if it
    /// sends no requests in this time. See [the reason](super#why-a-cancelled-call-counts). Default 5 seconds.
    pub grace_period: Duration,
    /// The most calls that wait for the input of clients without a session, between two requests of the client
    /// (2026-07-28). At this number others fail, and those of one client at its share. Default 256.
    pub waiting_calls: usize,
    /// The time that such a call waits for the client before it is cancelled. Default 10 minutes.
    pub input_time: Duration,
    /// The most resources to whose changes the proxy subscribes. At this number others fail, and those of one client at
    /// its share. Default 1,024.
    pub subscriptions: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            items: 20_000,
            list_bytes: 16 << 20,
            list_time: Duration::from_secs(60),
            list_pause: Duration::from_millis(100),
            calls: 1024,
            call_time: Duration::from_secs(30 * 60),
            late_time: Duration::from_secs(60),
            grace_period: Duration::from_secs(5),
            waiting_calls: 256,
            input_time: Duration::from_secs(10 * 60),
            subscriptions: 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let expected = ProxyLimits {
            items: 20_000,
            list_bytes: 16_777_216,
            list_time: Duration::from_secs(60),
            list_pause: Duration::from_millis(100),
            calls: 1_024,
            call_time: Duration::from_secs(1_800),
            late_time: Duration::from_secs(60),
            grace_period: Duration::from_secs(5),
            waiting_calls: 256,
            input_time: Duration::from_secs(600),
            subscriptions: 1_024,
        };
        assert_eq!(ProxyLimits::default(), expected);
    }
}
