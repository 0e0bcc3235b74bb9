//! The limits of tasks.

use std::time::Duration;

/// The limits of the tasks that an application keeps: in a session those of its connection (2025-11-25), otherwise
/// those of all clients of a service together (2026-07-28).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPolicy {
    /// The maximum number of tasks of a session, finished ones included. At this number new ones are refused. Default
    /// 128.
    pub max_tasks: usize,
    /// The maximum size of the tasks of a session together, in bytes: the params of running tasks, and the results of
    /// ended ones. Tasks whose results were fetched are removed for others, oldest first. Beyond that a new task is
    /// refused, and a task without room for its result fails. Default 16 MiB.
    ///
    /// The following four limits also hold for the tasks of all sessions of a service together, apart from the tasks
    /// without a session. One client gets at most seven times of what is left for others there, and no task of another
    /// session is removed.
    pub max_bytes: usize,
    /// The maximum number of tasks without a session, finished ones included. At this number, and at each of the
    /// following three limits, a finished task is removed for a new one or for a result: first those whose client has
    /// fetched the result, then those of the principal with most tasks. If none has finished, new ones are refused.
    /// Default 1,024.
    pub max_shared_tasks: usize,
    /// The maximum size of all tasks without a session together, in bytes: their params, their requests for input, and
    /// their results. A task without room is refused, and fails without room for its result. Default 64 MiB.
    pub max_shared_bytes: usize,
    /// The part of [`max_shared_tasks`](Self::max_shared_tasks) that one principal may have, so that one client cannot
    /// take all of it. Without principals, the limit holds for each address over HTTP and at a TCP listener on a
    /// runtime, and otherwise for each connection. If an HTTP server does not pass addresses on (`PeerAddr`), it has no
    /// effect there, since each request of 2026-07-28 is a connection. Default 256.
    pub max_tasks_per_principal: usize,
    /// The part of [`max_shared_bytes`](Self::max_shared_bytes) that the tasks of one principal may take, in bytes, as
    /// above. Default 16 MiB.
    pub max_bytes_per_principal: usize,
    /// The maximum number of pending requests for input of a task without a session. Default 64.
    pub max_input_requests: usize,
    /// How long a task is kept from its creation if the peer does not set it. Without a session the peer never does.
    /// `None` keeps it until the connection or the service ends. Default 1 hour.
    pub default_ttl: Option<Duration>,
    /// The longest time that a task is kept, also if the peer requests more. `None` is without limit. Default 24 hours.
    pub max_ttl: Option<Duration>,
    /// The poll interval of a task that is sent to the peer. Default 1 second.
    pub poll_interval: Duration,
    /// The number of tasks in one page of `tasks/list`. Default 50.
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
            max_input_requests: 64,
            default_ttl: Some(Duration::from_secs(3600)),
            max_ttl: Some(Duration::from_secs(24 * 3600)),
            poll_interval: Duration::from_secs(1),
            page_size: 50,
        }
    }
}

impl TaskPolicy {
    /// Returns the time that a task is kept if the peer requests `milliseconds`.
    pub(crate) fn grant(&self, milliseconds: Option<u64>) -> Option<Duration> {
        let requested = milliseconds.map(Duration::from_millis).or(self.default_ttl);
        match (requested, self.max_ttl) {
            (Some(requested), Some(max)) => Some(requested.min(max)),
            (requested, max) => requested.or(max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: TASK-068
    #[test]
    fn grants_ttl_up_to_the_maximum() {
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
