//! The tasks extension of 2026-07-28: a server may respond to `tools/call` with a task.
//!
//! It differs from the [tasks](super::Task) of 2025-11-25: only servers run tasks, the server alone decides to do so,
//! and the members of a task are directly in the result. Two of its methods have the names of methods of 2025-11-25,
//! see [`Method::in_era`](crate::protocol::Method::in_era).
//!
//! Spec: [tasks](https://modelcontextprotocol.io/extensions/tasks)

use alloc::string::String;

use super::{EmptyResult, InputRequests, InputResponses, ResultType, TaskStatus};
use crate::{
    schema::base::macros::*,
    wire::{ErrorCode, ErrorObject, Json, JsonObject},
};

/// Declares an object that consists of the members of a task and a few more.
macro_rules! task {
    (
        $(#[$attr:meta])* pub struct $Name:ident: [$($flavour:tt)*] { $($first:tt)* } { $($last:tt)* }
        $($gates:tt)*
    ) => {
        object! {
            $(#[$attr])*
            pub struct $Name: $($flavour)* {
                $($first)*
                /// The id, chosen by the server.
                "taskId" => task_id: required String;
                /// The status of the task.
                "status" => status: required TaskStatus, has_to(|status, _| status.is_known());
                /// A description of the status for people, perhaps with a reason.
                "statusMessage" => status_message: optional String;
                /// The time of the creation, in ISO 8601.
                "createdAt" => created_at: required String, is(Timestamp);
                /// The time of the last change, in ISO 8601.
                "lastUpdatedAt" => last_updated_at: required String, is(Timestamp);
                /// The time for which the task is kept after its creation, in milliseconds; `None` for no limit.
                "ttlMs" => ttl_ms: nullable u64;
                /// The time to wait between two polls, in milliseconds.
                "pollIntervalMs" => poll_interval_ms: optional u64;
                $($last)*
            } $($gates)*
        }
    };
}

/// Declares an object that is a task with the members of its status.
macro_rules! whole_task {
    ($(#[$attr:meta])* pub struct $Name:ident: [$($flavour:tt)*] $($gates:tt)*) => {
        task! {
            $(#[$attr])*
            pub struct $Name: [$($flavour)*, has_to(|task, _| task.is_whole()), mended($Name::make_whole)] {} {
                /// The input requests without a response, if the status is `input_required`.
                "inputRequests" => input_requests: optional InputRequests;
                /// The result of the call, if the status is `completed`.
                "result" => result: optional JsonObject;
                /// The error of the call, if the status is `failed`.
                "error" => error: optional TaskError;
            } $($gates)*
        }

        impl $Name {
            /// Returns whether the task has exactly the members of its status.
            fn is_whole(&self) -> bool {
                let there = (self.input_requests.is_some(), self.result.is_some(), self.error.is_some());
                there
                    == (
                        self.status == TaskStatus::InputRequired,
                        self.status == TaskStatus::Completed,
                        self.status == TaskStatus::Failed,
                    )
            }

            fn make_whole(&mut self) {
                let has = |status| self.status == status;
                let (needs_input, is_done, has_failed) =
                    (has(TaskStatus::InputRequired), has(TaskStatus::Completed), has(TaskStatus::Failed));
                self.input_requests = needs_input.then(|| self.input_requests.take().unwrap_or_default());
                self.result = is_done.then(|| self.result.take().unwrap_or_else(JsonObject::empty));
                self.error = has_failed.then(|| self.error.take().unwrap_or_else(|| TaskError::new(0, "")));
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
                    let Task {
                        task_id, status, status_message, created_at, last_updated_at, ttl_ms, poll_interval_ms,
                        input_requests, result, error, extra,
                    } = task;
                    Self {
                        status_message,
                        ttl_ms,
                        poll_interval_ms,
                        input_requests,
                        result,
                        error,
                        extra,
                        ..Self::new(task_id, status, created_at, last_updated_at)
                    }
                }
            }

            impl From<$Name> for Task {
                fn from(task: $Name) -> Self {
                    let $Name {
                        task_id, status, status_message, created_at, last_updated_at, ttl_ms, poll_interval_ms,
                        input_requests, result, error, extra, ..
                    } = task;
                    Self {
                        status_message,
                        ttl_ms,
                        poll_interval_ms,
                        input_requests,
                        result,
                        error,
                        extra,
                        ..Self::new(task_id, status, created_at, last_updated_at)
                    }
                }
            }
        )*
    };
}

object! {
    /// The JSON-RPC error of a failed task.
    pub struct TaskError: data, since(V2026_07_28) {
        /// The error code.
        "code" => code: required i64;
        /// A short description of the failure, one sentence.
        "message" => message: required String;
        /// Further details, any JSON value.
        "data" => data: optional Json;
    }
}

impl From<ErrorObject> for TaskError {
    fn from(error: ErrorObject) -> Self {
        Self { data: error.data, ..Self::new(error.code.0, error.message) }
    }
}

impl From<TaskError> for ErrorObject {
    fn from(error: TaskError) -> Self {
        Self { data: error.data, ..Self::new(ErrorCode(error.code), error.message) }
    }
}

whole_task! {
    /// A task with the members of its status.
    pub struct Task: [data, since(V2026_07_28)]
}

task! {
    /// The result of a `tools/call` that became a task. Input requests, result and error are only in the result of
    /// `tasks/get`.
    pub struct CreateTaskResult: [answer, since(V2026_07_28)] {
        /// The kind of the result; always written, as `task`.
        "resultType" => result_type: optional ResultType, has_to(|kind, _| *kind == ResultType::Task),
            or(|| ResultType::Task);
    } {}
}

impl From<Task> for CreateTaskResult {
    fn from(task: Task) -> Self {
        let Task {
            task_id, status, status_message, created_at, last_updated_at, ttl_ms, poll_interval_ms, extra, ..
        } = task;
        Self {
            result_type: Some(ResultType::Task),
            status_message,
            ttl_ms,
            poll_interval_ms,
            extra,
            ..Self::new(task_id, status, created_at, last_updated_at)
        }
    }
}

object! {
    /// Params of `tasks/get`.
    pub struct GetTaskParams: params(ExtGetTask => GetTaskResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

whole_task! {
    /// The result of `tasks/get`: the current state of the task. A `resultType` in it is ignored.
    pub struct GetTaskResult: [result, since(V2026_07_28)]
}

object! {
    /// Params of `tasks/update`: responses to input requests of the task.
    pub struct UpdateTaskParams: params(ExtUpdateTask => EmptyResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
        /// The responses, by the keys of their input requests.
        "inputResponses" => input_responses: required InputResponses, is(Answer);
    }
}

object! {
    /// Params of `tasks/cancel`. The server decides whether and when the task ends.
    pub struct CancelTaskParams: params(ExtCancelTask => EmptyResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

whole_task! {
    /// Params of `notifications/tasks`: the current state of the task.
    pub struct TaskParams: [params(ExtTaskChanged)]
    gates {
        fn task(&self) -> Option<&str> {
            Some(&self.task_id)
        }
    }
}

is_a_task!(GetTaskResult, TaskParams);

impl From<Task> for super::Task {
    /// Keeps the members that both kinds of tasks have.
    fn from(task: Task) -> Self {
        let Task { task_id, status, status_message, created_at, last_updated_at, ttl_ms, poll_interval_ms, .. } = task;
        Self {
            status_message,
            ttl: ttl_ms,
            poll_interval: poll_interval_ms,
            ..Self::new(task_id, status, created_at, last_updated_at)
        }
    }
}
