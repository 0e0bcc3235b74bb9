//! The tasks extension of 2026-07-28: a server may answer `tools/call` with a task.
//!
//! It has little in common with the [tasks](super::Task) of 2025-11-25 but the name: only servers run tasks, they decide
//! by themselves to do so, and the members of a task stand directly in the result. Its methods are not part of the
//! [method table](crate::protocol::Method).
//!
//! Spec: [tasks](https://modelcontextprotocol.io/extensions/tasks)

use alloc::string::String;

use super::{InputRequests, InputResponses, ResultType, TaskStatus, macros::*};
use crate::wire::{Json, JsonObject};

/// The request with [`GetTaskParams`], answered by a [`GetTaskResult`].
pub const GET: &str = "tasks/get";
/// The request with [`UpdateTaskParams`], answered by an [`EmptyResult`](super::EmptyResult).
pub const UPDATE: &str = "tasks/update";
/// The request with [`CancelTaskParams`], answered by an [`EmptyResult`](super::EmptyResult).
pub const CANCEL: &str = "tasks/cancel";
/// The notification with [`TaskParams`].
pub const NOTIFICATION: &str = "notifications/tasks";

/// Declares an object that consists of the members of a task and a few more.
macro_rules! task {
    ($(#[$attr:meta])* pub struct $Name:ident: $flavour:ident { $($body:tt)* }) => {
        object! {
            $(#[$attr])*
            pub struct $Name: $flavour, since(V2026_07_28) {
                $($body)*
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
                /// The questions that wait for an answer, if the status is `input_required`.
                "inputRequests" => input_requests: optional InputRequests;
                /// What the call would have got without a task, if the status is `completed`.
                "result" => result: optional JsonObject;
                /// The JSON-RPC error that the call would have got without a task, if the status is `failed`.
                "error" => error: optional Json;
            }
        }
    };
}

task! {
    /// The result of a `tools/call` that became a task.
    pub struct CreateTaskResult: answer {
        /// What kind of result this is; always written, as `task`.
        "resultType" => result_type: optional ResultType, has_to(|kind, _| *kind == ResultType::Task),
            or(|| ResultType::Task);
    }
}

object! {
    /// Params of `tasks/get`.
    pub struct GetTaskParams: params, since(V2026_07_28) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

task! {
    /// The result of `tasks/get`: the task as it stands, which its status tells; a stray `resultType` means nothing.
    pub struct GetTaskResult: result {}
}

object! {
    /// Params of `tasks/update`: answers to questions of the task.
    pub struct UpdateTaskParams: params, since(V2026_07_28) {
        /// The id of the task.
        "taskId" => task_id: required String;
        /// The answers, by the keys of their questions.
        "inputResponses" => input_responses: required InputResponses, is(Answer);
    }
}

object! {
    /// Params of `tasks/cancel`.
    pub struct CancelTaskParams: params, since(V2026_07_28) {
        /// The id of the task.
        "taskId" => task_id: required String;
    }
}

task! {
    /// Params of `notifications/tasks`: the task as it stands.
    pub struct TaskParams: params {}
}
