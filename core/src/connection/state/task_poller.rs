//! The state of a task of the extension (2026-07-28) that a call of this client has become.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use crate::{
    connection::state::task_questions::TaskQuestions,
    protocol::Method,
    rpc::{ReplyKey, Timestamp},
    schema::TaskStatus,
    wire::{RawJson, encode},
};

/// How much longer the pauses are while the task waits for an answer of this side: nothing much can come of it before.
pub(crate) const WHILE_ASKED: u32 = 4;

/// What is known of the task that a call has become.
#[derive(Clone, Debug)]
pub(crate) struct TaskPoller {
    pub(crate) task: String,
    /// No other call has its id, so it is cancelled with this call.
    pub(crate) is_own: bool,
    /// When it was first heard of. The times that it says itself are those of the server's clock.
    pub(crate) since: Timestamp,
    /// For how long it is kept from then on.
    pub(crate) ttl: Option<Duration>,
    /// How long the server wants to be left in peace between two looks.
    pub(crate) interval: Option<Duration>,
    /// Looks in a row that came to nothing.
    pub(crate) failures: u32,
    pub(crate) questions: TaskQuestions,
}

impl TaskPoller {
    pub(crate) fn new(task: String, since: Timestamp) -> Self {
        Self { task, is_own: true, since, ttl: None, interval: None, failures: 0, questions: TaskQuestions::default() }
    }

    pub(crate) fn task(&self) -> &str {
        &self.task
    }

    pub(crate) fn weight(&self) -> usize {
        // It is looked up by its id as well.
        2 * self.task.len() + self.questions.weight()
    }

    /// The questions that the application has and has not answered.
    pub(crate) fn open_questions(&self) -> impl Iterator<Item = ReplyKey> {
        self.questions.open().map(|(_, key)| key)
    }

    /// Whether the application has questions to answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.questions.is_asking()
    }

    /// Whether there are answers that the server does not have.
    pub(crate) fn has_answers(&self) -> bool {
        self.questions.has_answers()
    }

    /// Writes the params of the next request: answers if there are some, else a look.
    pub(crate) fn write(&mut self, params: &mut Vec<u8>) -> Method {
        params.extend_from_slice(b"{\"taskId\":");
        encode::text(params, &self.task);
        if !self.has_answers() {
            params.push(b'}');
            return Method::ExtGetTask;
        }
        params.extend_from_slice(b",\"inputResponses\":");
        self.questions.write_answers(params);
        params.push(b'}');
        Method::ExtUpdateTask
    }

    /// The answers that were on their way have arrived, or have not.
    pub(crate) fn sent(&mut self, arrived: bool) -> bool {
        self.questions.sent(arrived)
    }

    /// Whether the server may have forgotten it.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.ttl.is_some_and(|ttl| self.since + ttl <= now)
    }
}

/// What a task says of itself that concerns polling.
pub(crate) struct TaskStatusUpdate {
    pub(crate) task: Option<String>,
    pub(crate) status: TaskStatus,
    pub(crate) ttl: Option<Duration>,
    pub(crate) interval: Option<Duration>,
}

impl TaskStatusUpdate {
    /// Lenient: a task that says less than it should can still be polled.
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
