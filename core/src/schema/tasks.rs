//! Tasks: requests that are accepted at once and completed later. Only 2025-11-25; 2026-07-28 has [an
//! extension](super::tasks_extension) instead.
//!
//! Spec: [tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks)

use alloc::{string::String, vec::Vec};

use serde_core::de::DeserializeOwned;

use super::{At, Encode, Meta, keys};
use crate::{
    protocol::ProtocolVersion,
    schema::base::{decode::peek, encode::Output, macros::*},
    wire::reader::read,
};

impl Meta {
    /// Returns the id of the task that the message belongs to. Only 2025-11-25.
    #[must_use]
    pub fn related_task(&self) -> Option<String> {
        self.decode::<RelatedTask>(keys::RELATED_TASK).map(|task| task.task_id)
    }

    /// Sets the id of the task that the message belongs to. Only 2025-11-25.
    ///
    /// # Errors
    /// Never in practice, since JSON can represent every text.
    pub fn set_related_task(&mut self, task_id: impl Into<String>) -> Result<(), serde_json::Error> {
        self.set(keys::RELATED_TASK, &RelatedTask::new(task_id))
    }
}

object! {
    /// The value of `io.modelcontextprotocol/related-task` in `_meta`. Only 2025-11-25.
    pub struct RelatedTask: data {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

object! {
    /// The member `task` of params, which requests a task instead of a result. Only 2025-11-25.
    pub struct TaskMetadata: data, only(V2025_11_25) {
        /// The time for which to keep the task after its creation, in milliseconds.
        "ttl" => ttl: optional u64;
    }
}

open_enum! {
    /// The status of a task.
    pub enum TaskStatus {
        /// The request is in progress.
        Working = "working",
        /// The task waits for a response of the side that requested it.
        InputRequired = "input_required",
        /// The task is complete and has a result.
        Completed = "completed",
        /// The task ended without a result.
        Failed = "failed",
        /// The task was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Returns whether the status is final.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether a task with this status may change to `next`.
    #[must_use]
    pub fn may_become(&self, next: &Self) -> bool {
        match self {
            Self::Working | Self::InputRequired => self != next && !matches!(next, Self::Other(_)),
            _ => false,
        }
    }
}

/// Declares an object that consists of the members of a task and a few more.
macro_rules! task {
    ($(#[$attr:meta])* pub struct $Name:ident: $($flavour:tt)*) => {
        object! {
            $(#[$attr])*
            pub struct $Name: $($flavour)* {
                /// The id, chosen by the side that runs the task.
                "taskId" => task_id: required String;
                /// The status of the task.
                "status" => status: required TaskStatus, has_to(|status, _| status.is_known());
                /// A description of the status for people, perhaps with a reason.
                "statusMessage" => status_message: optional String;
                /// The time of the creation, in ISO 8601.
                "createdAt" => created_at: required String, is(Timestamp);
                /// The time of the last change of the status, in ISO 8601.
                "lastUpdatedAt" => last_updated_at: required String, is(Timestamp);
                /// The time for which the task is kept after its creation, in milliseconds; `None` for no limit.
                "ttl" => ttl: nullable u64;
                /// The time to wait between two polls, in milliseconds.
                "pollInterval" => poll_interval: optional u64;
            }
        }
    };
}

/// Converts between a task and the objects that contain its members.
macro_rules! is_a_task {
    ($($Name:ident),*) => {
        $(
            impl From<Task> for $Name {
                fn from(task: Task) -> Self {
                    let Task { task_id, status, status_message, created_at, last_updated_at, ttl, poll_interval, extra } = task;
                    Self {
                        status_message,
                        ttl,
                        poll_interval,
                        extra,
                        ..Self::new(task_id, status, created_at, last_updated_at)
                    }
                }
            }

            impl From<$Name> for Task {
                fn from(task: $Name) -> Self {
                    let $Name { task_id, status, status_message, created_at, last_updated_at, ttl, poll_interval, extra, .. } = task;
                    Self {
                        status_message,
                        ttl,
                        poll_interval,
                        extra,
                        ..Self::new(task_id, status, created_at, last_updated_at)
                    }
                }
            }
        )*
    };
}

task! {
    /// A task. Only 2025-11-25.
    pub struct Task: data, only(V2025_11_25)
}

object! {
    /// The result of a request that became a task. Only 2025-11-25.
    pub struct CreateTaskResult: result, only(V2025_11_25) {
        /// The task.
        "task" => task: required Task;
    }
}

object! {
    /// Params of `tasks/get`. Only 2025-11-25.
    pub struct GetTaskParams: params(GetTask => GetTaskResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

task! {
    /// The result of `tasks/get`: the current state of the task. Only 2025-11-25.
    pub struct GetTaskResult: result, only(V2025_11_25)
}

object! {
    /// Params of `tasks/result`. Only 2025-11-25.
    pub struct GetTaskPayloadParams: params(GetTaskResult => GetTaskPayloadResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

object! {
    /// The result of `tasks/result`: the result of the request that became the task, in `extra`. Only 2025-11-25.
    pub struct GetTaskPayloadResult: result, only(V2025_11_25) {}
}

impl GetTaskPayloadResult {
    /// Creates the result of the task `task_id` from that of its request.
    ///
    /// # Errors
    /// Returns an error if `result` is not an object or cannot be sent in 2025-11-25.
    pub fn of<T: Encode>(result: &T, task_id: impl Into<String>) -> Result<Self, serde_json::Error> {
        let mut payload: Self = At(result, Some(ProtocolVersion::V2025_11_25)).to_json()?.decode()?;
        payload.meta.get_or_insert_with(Meta::new).set_related_task(task_id)?;
        Ok(payload)
    }

    /// Decodes the result as that of the request that became the task.
    ///
    /// # Errors
    /// Returns an error if the result does not fit `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        At(self, None).to_json()?.decode()
    }
}

object! {
    /// Params of `tasks/list`. Only 2025-11-25.
    pub struct ListTasksParams: params(ListTasks => ListTasksResult) {
        /// The `next_cursor` of the previous page; absent for the first page.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `tasks/list`: one page of tasks. Only 2025-11-25.
    pub struct ListTasksResult: result, only(V2025_11_25) {
        /// The tasks.
        "tasks" => tasks: required Vec<Task>;
        /// The cursor of the next page; absent on the last page.
        "nextCursor" => next_cursor: optional String;
    }
}

object! {
    /// Params of `tasks/cancel`. Only 2025-11-25.
    pub struct CancelTaskParams: params(CancelTask => CancelTaskResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

task! {
    /// The result of `tasks/cancel`: the cancelled task. Only 2025-11-25.
    pub struct CancelTaskResult: result, only(V2025_11_25)
}

task! {
    /// Params of `notifications/tasks/status`: the current state of the task. Only 2025-11-25.
    pub struct TaskStatusParams: params(TaskStatus)
}

is_a_task!(GetTaskResult, CancelTaskResult, TaskStatusParams);

/// The response to a request with `task`: its result, or the task that it became. Only 2025-11-25.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "results are large, too")]
pub enum TaskOr<R> {
    /// The result of the request.
    Result(R),
    /// The task that the request became.
    Task(CreateTaskResult),
}

impl<R: DeserializeOwned> TaskOr<R> {
    /// Decodes a result. A member `task` means a task only if the request had one (`carried_task`); otherwise it is an
    /// unknown member.
    ///
    /// # Errors
    /// Returns an error if the result does not fit its type.
    pub fn decode(result: &str, carried_task: bool) -> Result<Self, serde_json::Error> {
        let became_task = carried_task && peek(result, "task")?.is_some();
        if became_task { read(result).map(Self::Task) } else { read(result).map(Self::Result) }
    }
}

impl<R: Encode> TaskOr<R> {
    fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
        match self {
            Self::Result(result) => out.value(result, version),
            Self::Task(task) => out.value(task, version),
        }
    }
}

through_write! { TaskOr<R> where [R: Encode] }
