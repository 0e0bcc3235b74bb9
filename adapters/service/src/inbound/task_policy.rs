//! How many tasks are kept, and for how long.

use std::time::Duration;

/// How many tasks an application keeps, and for how long: in a session those of its connection (2025-11-25), otherwise those of
/// all clients of a service together (2026-07-28).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPolicy {
    /// Tasks of a session that are kept at once, finished ones included. At this number new ones are refused. Default 128.
    pub max_tasks: usize,
    /// The bytes that the tasks of a session may take together: what those that run were asked, and the results of those that
    /// have ended. Tasks whose results were fetched are removed for others, oldest first. Beyond that a new task is refused, and
    /// a task whose result does not fit fails. Default 16 MiB.
    pub max_bytes: usize,
    /// Tasks without a session that are kept at once, finished ones included. At this number, and at each of the following
    /// three, a finished task is removed for a new one or for a result: first those whose client has asked for the result,
    /// then those of the principal with most tasks. Where none has finished, new ones are refused. Default 1,024.
    pub max_shared_tasks: usize,
    /// What all tasks without a session may weigh, in bytes: what they were asked, what they ask, what they came to. A task
    /// is refused for which there is no room, and fails if there is none for its result. Default 64 MiB.
    pub max_shared_bytes: usize,
    /// How many of [`max_shared_tasks`](Self::max_shared_tasks) one principal may have, so that no client takes the tasks of
    /// all others. Where principals are not known, this holds for each address over HTTP and at a listener for TCP on a runtime,
    /// and else for each connection. Where an HTTP server tells no addresses (`PeerAddr`), it is no bound there, since each
    /// request of 2026-07-28 is a connection. Default 256.
    pub max_tasks_per_principal: usize,
    /// How much of [`max_shared_bytes`](Self::max_shared_bytes) the tasks of one principal may weigh, in bytes, as above.
    /// Default 16 MiB.
    pub max_bytes_per_principal: usize,
    /// Questions that a task without a session may ask at once. Default 64.
    pub max_questions: usize,
    /// How long a task is kept from its creation if the peer does not say, and without a session it never does. `None` keeps
    /// it for as long as the connection or the service lives. Default 1 hour.
    pub default_ttl: Option<Duration>,
    /// How long a task is kept at most, whatever the peer asks for. `None` is without limit. Default 24 hours.
    pub max_ttl: Option<Duration>,
    /// How long the peer is asked to wait between two looks at a task. Default 1 second.
    pub poll_interval: Duration,
    /// Tasks in one answer to `tasks/list`. Default 50.
    pub page_size: usize,
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self {
            max_tasks: 128,
            max_bytes: 16 << 20,
            max_shared_tasks: 1024,
            max_shared_bytes: 64 << 20,
            max_tasks_per_principal: 256,
            max_bytes_per_principal: 16 << 20,
            max_questions: 64,
            default_ttl: Some(Duration::from_secs(3600)),
            max_ttl: Some(Duration::from_secs(24 * 3600)),
            poll_interval: Duration::from_secs(1),
            page_size: 50,
        }
    }
}

impl TaskPolicy {
    /// What is granted to a peer that asks for `milliseconds`.
    pub(crate) fn grant(&self, milliseconds: Option<u64>) -> Option<Duration> {
        let wanted = milliseconds.map(Duration::from_millis).or(self.default_ttl);
        match (wanted, self.max_ttl) {
            (Some(wanted), Some(max)) => Some(wanted.min(max)),
            (wanted, max) => wanted.or(max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: TASK-068
    #[test]
    fn nobody_gets_more_time_than_there_is() {
        let secs = |secs| Some(Duration::from_secs(secs));
        let policy = |default_ttl, max_ttl| TaskPolicy { default_ttl, max_ttl, ..TaskPolicy::default() };
        assert_eq!(policy(secs(5), secs(10)).grant(None), secs(5));
        assert_eq!(policy(secs(5), secs(10)).grant(Some(7000)), secs(7));
        assert_eq!(policy(secs(5), secs(10)).grant(Some(u64::MAX)), secs(10));
        assert_eq!(policy(None, secs(10)).grant(None), secs(10));
        assert_eq!(policy(None, None).grant(None), None);
        assert_eq!(policy(None, None).grant(Some(1000)), secs(1));
    }
}
