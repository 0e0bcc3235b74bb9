//! The tasks extension of 2026-07-28: a server may answer `tools/call` with a task.
//!
//! It has little in common with the [tasks](super::Task) of 2025-11-25 but the name: only servers run tasks, they decide
//! by themselves to do so, and the members of a task stand directly in the result. Two of its methods share their names
//! with those of 2025-11-25, see [`Method::in_era`](crate::protocol::Method::in_era).
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
                /// How the task stands.
                "status" => status: required TaskStatus, has_to(|status, _| status.is_known());
                /// The same for people, perhaps with a reason.
                "statusMessage" => status_message: optional String;
                /// When it was created, in ISO 8601.
                "createdAt" => created_at: required String, is(Timestamp);
                /// When it last changed, in ISO 8601.
                "lastUpdatedAt" => last_updated_at: required String, is(Timestamp);
                /// For how many milliseconds from its creation it is kept; `None` for as long as there is room.
                "ttlMs" => ttl_ms: nullable u64;
                /// How many milliseconds to wait between two questions about it.
                "pollIntervalMs" => poll_interval_ms: optional u64;
                $($last)*
            } $($gates)*
        }
    };
}

/// Declares an object that is a task with all that belongs to its status.
macro_rules! whole_task {
    ($(#[$attr:meta])* pub struct $Name:ident: [$($flavour:tt)*] $($gates:tt)*) => {
        task! {
            $(#[$attr])*
            pub struct $Name: [$($flavour)*, has_to(|task, _| task.is_whole()), mended($Name::make_whole)] {} {
                /// The questions that wait for an answer, if the status is `input_required`.
                "inputRequests" => input_requests: optional InputRequests;
                /// What the call would have got without a task, if the status is `completed`.
                "result" => result: optional JsonObject;
                /// The error that the call would have got without a task, if the status is `failed`.
                "error" => error: optional TaskError;
            } $($gates)*
        }

        impl $Name {
            /// Whether there is exactly what belongs to the status.
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
                let (asks, is_done, has_failed) =
                    (has(TaskStatus::InputRequired), has(TaskStatus::Completed), has(TaskStatus::Failed));
                self.input_requests = asks.then(|| self.input_requests.take().unwrap_or_default());
                self.result = is_done.then(|| self.result.take().unwrap_or_else(JsonObject::empty));
                self.error = has_failed.then(|| self.error.take().unwrap_or_else(|| TaskError::new(0, "")));
            }
        }
    };
}

/// The objects differ in what surrounds the members of the task.
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
    /// The JSON-RPC error that a task came to.
    pub struct TaskError: data, since(V2026_07_28) {
        /// What kind of failure.
        "code" => code: required i64;
        /// One short sentence.
        "message" => message: required String;
        /// Any detail.
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
    /// A task, with all that belongs to its status.
    pub struct Task: [data, since(V2026_07_28)]
}

task! {
    /// The result of a `tools/call` that became a task. What the task asks and comes to, only `tasks/get` tells.
    pub struct CreateTaskResult: [answer, since(V2026_07_28)] {
        /// What kind of result this is; always written, as `task`.
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
    /// The result of `tasks/get`: the task as it stands, which its status tells; a stray `resultType` means nothing.
    pub struct GetTaskResult: [result, since(V2026_07_28)]
}

object! {
    /// Params of `tasks/update`: answers to questions of the task.
    pub struct UpdateTaskParams: params(ExtUpdateTask => EmptyResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
        /// The answers, by the keys of their questions.
        "inputResponses" => input_responses: required InputResponses, is(Answer);
    }
}

object! {
    /// Params of `tasks/cancel`. It asks for an end; how the task ends, and when, is up to the server.
    pub struct CancelTaskParams: params(ExtCancelTask => EmptyResult) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

whole_task! {
    /// Params of `notifications/tasks`: the task as it stands.
    pub struct TaskParams: [params(ExtTaskChanged)]
    gates {
        fn task(&self) -> Option<&str> {
            Some(&self.task_id)
        }
    }
}

is_a_task!(GetTaskResult, TaskParams);

impl From<Task> for super::Task {
    /// What tasks of both kinds say of themselves.
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
