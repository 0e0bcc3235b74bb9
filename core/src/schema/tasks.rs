//! Tasks: requests that are answered at once and done later. Only 2025-11-25; 2026-07-28 has
//! [an extension](super::tasks_extension) instead.
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
    /// The id of the task that the message belongs to. Only 2025-11-25.
    #[must_use]
    pub fn related_task(&self) -> Option<String> {
        self.decode::<RelatedTask>(keys::RELATED_TASK).map(|task| task.task_id)
    }

    /// Says to which task the message belongs. Only 2025-11-25.
    ///
    /// # Errors
    /// None in practice: every text can be written as JSON.
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
    /// The member `task` of params: run this request as a task. Only 2025-11-25.
    pub struct TaskMetadata: data, only(V2025_11_25) {
        /// For how many milliseconds the task should be kept.
        "ttl" => ttl: optional u64;
    }
}

open_enum! {
    /// How a task stands.
    pub enum TaskStatus {
        /// It is being worked on.
        Working = "working",
        /// It waits for an answer of the side that asked for it.
        InputRequired = "input_required",
        /// It is done, and there is a result.
        Completed = "completed",
        /// It came to an end without a result.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl TaskStatus {
    /// Whether the status does not change any more.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether a task with this status may go over to `next`.
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
                /// How it stands.
                "status" => status: required TaskStatus, has_to(|status, _| status.is_known());
                /// The same for people, perhaps with a reason.
                "statusMessage" => status_message: optional String;
                /// When it was created, in ISO 8601.
                "createdAt" => created_at: required String, is(Timestamp);
                /// When its status last changed, in ISO 8601.
                "lastUpdatedAt" => last_updated_at: required String, is(Timestamp);
                /// For how many milliseconds from its creation it is kept; `None` for as long as there is room.
                "ttl" => ttl: nullable u64;
                /// How many milliseconds to wait between two questions about it.
                "pollInterval" => poll_interval: optional u64;
            }
        }
    };
}

/// The task objects differ in what surrounds the members of the task.
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
    /// The result of `tasks/get`: the task as it stands. Only 2025-11-25.
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
    /// The result of `tasks/result`: what the request would have got if it had not become a task, in `extra`.
    /// Only 2025-11-25.
    pub struct GetTaskPayloadResult: result, only(V2025_11_25) {}
}

impl GetTaskPayloadResult {
    /// The result of the task `task_id`.
    ///
    /// # Errors
    /// If `result` is not an object or cannot be sent in 2025-11-25.
    pub fn of<T: Encode>(result: &T, task_id: impl Into<String>) -> Result<Self, serde_json::Error> {
        let mut payload: Self = At(result, Some(ProtocolVersion::V2025_11_25)).to_json()?.decode()?;
        payload.meta.get_or_insert_with(Meta::new).set_related_task(task_id)?;
        Ok(payload)
    }

    /// The result, as what answers the request that became the task.
    ///
    /// # Errors
    /// What `T` has against it.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        At(self, None).to_json()?.decode()
    }
}

object! {
    /// Params of `tasks/list`. Only 2025-11-25.
    pub struct ListTasksParams: params(ListTasks => ListTasksResult) {
        /// Where to go on: `next_cursor` of the page before.
        "cursor" => cursor: optional String;
    }
}

object! {
    /// The result of `tasks/list`: one page of tasks. Only 2025-11-25.
    pub struct ListTasksResult: result, only(V2025_11_25) {
        /// The tasks.
        "tasks" => tasks: required Vec<Task>;
        /// Where the next page starts. Without it this is the last page.
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
    /// The result of `tasks/cancel`: the task, which is cancelled. Only 2025-11-25.
    pub struct CancelTaskResult: result, only(V2025_11_25)
}

task! {
    /// Params of `notifications/tasks/status`: the task as it stands. Only 2025-11-25.
    pub struct TaskStatusParams: params(TaskStatus)
}

is_a_task!(GetTaskResult, CancelTaskResult, TaskStatusParams);

/// What answers a request that carried `task`: its result, or the task that it became. Only 2025-11-25.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "results are large, too")]
pub enum TaskOr<R> {
    /// The request was done at once.
    Result(R),
    /// The request became a task.
    Task(CreateTaskResult),
}

impl<R: DeserializeOwned> TaskOr<R> {
    /// Reads a result. Only a request that `carried_task` can have become a task: otherwise a member `task` is
    /// nothing but a member that is not known.
    ///
    /// # Errors
    /// What the type of the result has against it.
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
