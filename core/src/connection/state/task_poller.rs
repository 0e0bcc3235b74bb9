//! The state of a polled task of the extension (2026-07-28) that a call of this client has become.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use crate::{
    connection::state::task_input_requests::TaskInputRequests,
    protocol::Method,
    rpc::{ReplyKey, Timestamp},
    schema::TaskStatus,
    wire::{RawJson, encode},
};

/// The factor of the poll interval while the task waits for an input response of this side, since its status rarely
/// changes before.
pub(crate) const INPUT_REQUIRED_FACTOR: u32 = 4;

/// The task that a call has become.
#[derive(Clone, Debug)]
pub(crate) struct TaskPoller {
    pub(crate) task: String,
    /// Whether the task was created for this call, so that it is cancelled with the call. `false` if the application
    /// passed in its id.
    pub(crate) is_own: bool,
    /// The local time at which the client first received the task. The timestamps in the task are of the server's
    /// clock.
    pub(crate) since: Timestamp,
    /// How long the server keeps the task, counted from `since`.
    pub(crate) ttl: Option<Duration>,
    /// The poll interval that the server requests.
    pub(crate) interval: Option<Duration>,
    /// The number of consecutive requests about the task that failed.
    pub(crate) failures: u32,
    pub(crate) input_requests: TaskInputRequests,
}

impl TaskPoller {
    pub(crate) fn new(task: String, since: Timestamp) -> Self {
        Self {
            task,
            is_own: true,
            since,
            ttl: None,
            interval: None,
            failures: 0,
            input_requests: TaskInputRequests::default(),
        }
    }

    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    pub(crate) fn weight(&self) -> usize {
        // The id is also stored in the index of tasks.
        2 * self.task.len() + self.input_requests.weight()
    }

    /// Returns the input requests without a response of the application.
    pub(crate) fn open_input_requests(&self) -> impl Iterator<Item = ReplyKey> {
        self.input_requests.open().map(|(_, key)| key)
    }

    /// Returns whether an input request waits for a response.
    pub(crate) fn has_open_input(&self) -> bool {
        self.input_requests.has_open_input()
    }

    /// Returns whether input responses are ready to be sent.
    pub(crate) fn has_responses(&self) -> bool {
        self.input_requests.has_responses()
    }

    /// Writes the params of the next request: `tasks/update` if input responses are ready, else `tasks/get`. Returns
    /// the method.
    pub(crate) fn write(&mut self, params: &mut Vec<u8>) -> Method {
        params.extend_from_slice(b"{\"taskId\":");
        encode::text(params, &self.task);
        if !self.has_responses() {
            params.push(b'}');
            return Method::ExtGetTask;
        }
        params.extend_from_slice(b",\"inputResponses\":");
        self.input_requests.write_answers(params);
        params.push(b'}');
        Method::ExtUpdateTask
    }

    /// Records whether the input responses in flight have arrived. Returns whether there were any.
    pub(crate) fn sent(&mut self, arrived: bool) -> bool {
        self.input_requests.sent(arrived)
    }

    /// Returns whether the server may have removed the task.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.ttl.is_some_and(|ttl| self.since + ttl <= now)
    }
}

/// The fields of a task that affect polling.
pub(crate) struct TaskStatusUpdate {
    pub(crate) task: Option<String>,
    pub(crate) status: TaskStatus,
    pub(crate) ttl: Option<Duration>,
    pub(crate) interval: Option<Duration>,
}

impl TaskStatusUpdate {
    /// Reads a task leniently: a task without some required fields can still be polled.
    pub(crate) fn read(task: &RawJson<'_>) -> Option<Self> {
        let status: String = task.member("status")?.decode().ok()?;
        let millis = |name| task.member(name)?.decode::<u64>().ok().map(Duration::from_millis);
        Some(Self {
            task: task.member("taskId").and_then(|id| id.decode().ok()),
            status: TaskStatus::from(&*status),
            ttl: millis("ttlMs"),
            interval: millis("pollIntervalMs"),
        })
    }
}
