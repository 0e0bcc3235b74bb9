//! Handles of tasks that the peer runs.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError},
    protocol::Method,
    rpc::CallId,
    schema::{
        CancelTaskParams, CancelTaskResult, CreateTaskResult, GetTaskParams, GetTaskPayloadParams,
        GetTaskPayloadResult, GetTaskResult, Meta, Request, Task, TaskOr, tasks_extension,
    },
    wire::RawJson,
};
use serde_core::de::DeserializeOwned;

use crate::{
    inbound::state::Role,
    outbound::{
        calls::Calls,
        cancel::CancelCall,
        error::CallError,
        peer::Peer,
        pending::{Pending, decode},
    },
};

/// The response to a request that may become a task.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "results are large, too")]
pub enum ResultOrTask<T, E: 'static> {
    /// The peer has responded with the result.
    Result(T),
    /// The peer runs the request as a task.
    Task(TaskHandle<T, E>),
}

/// A handle of a task that the peer runs (2025-11-25, 2026-07-28). `T` is the type of its result.
///
/// Poll it with [`get`](Self::get) not more often than its [poll interval](Self::poll_interval), or wait for its
/// [`result`](Self::result). Dropping the handle does not affect the task.
pub struct TaskHandle<T, E: 'static> {
    peer: Peer<E>,
    task: Task,
    /// The `_meta` of the response that created the task.
    meta: Option<Meta>,
    /// The call whose progress notifications belong to the task.
    guard: FollowGuard<E>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static, E: Role> TaskHandle<T, E> {
    /// Returns the id of the task.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task.task_id
    }

    /// Returns the task as it was when it was created.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// Returns the text that the model can be given while the task runs (2025-11-25).
    #[must_use]
    pub fn model_immediate_response(&self) -> Option<String> {
        self.meta.as_ref()?.model_immediate_response()
    }

    /// Returns how long to wait between two polls: one second if the peer has not set an interval.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.task.poll_interval.map_or(Duration::from_secs(1), Duration::from_millis)
    }

    /// Sends a request for the current state of the task.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn get(&self) -> Result<Pending<Task>, SendError> {
        if self.peer.is_modern() {
            let looked = self.peer.request(&tasks_extension::GetTaskParams::new(self.id()))?;
            return Ok(looked.and_then(|task| Ok(tasks_extension::Task::from(task).into())));
        }
        Ok(self.peer.request(&GetTaskParams::new(self.id()))?.and_then(|task: GetTaskResult| Ok(task.into())))
    }

    /// Sends a request for the result of the task. The response arrives when the task is done. Until then its progress
    /// notifications are delivered (2025-11-25). In 2026-07-28 the connection polls the task at the peer's interval,
    /// its requests for input go to the handlers of this side, and [`on_task`](Pending::on_task) observes its state.
    ///
    /// Unless the handle's peer has specific timeouts, the request may take as long as the peer keeps the task.
    /// Cancelling the request does not end the task.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn result(&self) -> Result<Pending<T>, SendError> {
        self.result_with(|_| ())
    }

    /// Sends a request as [`result`](Self::result) does. `began` gets its id under the lock of the connection, before
    /// any message about the request can arrive.
    pub(crate) fn result_with(&self, began: impl FnOnce(CallId)) -> Result<Pending<T>, SendError> {
        let kept = self.task.ttl.map(Duration::from_millis);
        let usual = RequestOptions::default();
        let total_timeout = kept.or(usual.total_timeout);
        if self.peer.is_modern() {
            let options = self.peer.options().unwrap_or(RequestOptions { total_timeout, ..usual });
            let id = self.id().to_owned();
            let follow =
                move |conn: &mut _, now, options| E::follow_task(conn, now, &id, options).inspect(|call| began(*call));
            return self.peer.with_options(options).call((Method::ExtGetTask.as_str(), false), follow, decode);
        }
        let options = self.peer.options().unwrap_or(RequestOptions {
            idle_timeout: None,
            total_timeout,
            progress: false,
            ..usual
        });
        let params = GetTaskPayloadParams::new(self.id());
        let request =
            |conn: &mut Connection<E>, now, options| conn.request(now, &params, options).inspect(|call| began(*call));
        let method = Method::GetTaskResult.as_str();
        let pending = self.peer.with_options(options).call((method, false), request, decode)?;
        if let Some(call) = self.guard.call {
            self.peer.calls().redirect(call, pending.slot());
        }
        Ok(pending.and_then(|payload: GetTaskPayloadResult| {
            payload.decode().map_err(|error| CallError::Decode(error.to_string()))
        }))
    }

    /// Sends a request to end the task early. The response is the state of the task after that (2025-11-25). It is
    /// `None` in 2026-07-28, where ending may take a while, and the task may end in another way.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn cancel(&self) -> Result<Pending<Option<Task>>, SendError> {
        if self.peer.is_modern() {
            return Ok(self.peer.request(&tasks_extension::CancelTaskParams::new(self.id()))?.and_then(|_| Ok(None)));
        }
        let cancelled = self.peer.request(&CancelTaskParams::new(self.id()))?;
        Ok(cancelled.and_then(|task: CancelTaskResult| Ok(Some(task.into()))))
    }
}

impl<T, E> fmt::Debug for TaskHandle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Removes a followed call when it is dropped.
struct FollowGuard<E: 'static> {
    calls: Arc<Calls<E>>,
    call: Option<CallId>,
}

impl<E> Drop for FollowGuard<E> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.calls.forget(call);
        }
    }
}

impl<E: Role> Peer<E> {
    /// Sends a request that may become a task: because `params` carry [`TaskMetadata`](mcp_proto::schema::TaskMetadata)
    /// (2025-11-25), or because the server decides so (2026-07-28).
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn request_as_task<R: Request<Result: 'static>>(
        &self,
        params: &R,
    ) -> Result<Pending<ResultOrTask<R::Result, E>>, SendError> {
        self.request_as_task_with(params, |_| ())
    }

    /// Sends a request as [`request_as_task`](Self::request_as_task) does. `began` gets its id under the lock of the
    /// connection, before any message about the request can arrive.
    pub(crate) fn request_as_task_with<R: Request<Result: 'static>>(
        &self,
        params: &R,
        began: impl FnOnce(CallId),
    ) -> Result<Pending<ResultOrTask<R::Result, E>>, SendError> {
        let carries_task = params.is_task();
        let (peer, calls) = (self.clone(), self.calls().clone());
        self.call(
            (R::METHOD.as_str(), carries_task),
            |conn, now, options| {
                let options = RequestOptions { follow_task: false, ..options };
                conn.request(now, params, options).inspect(|call| began(*call))
            },
            move |call, result| {
                let guard = FollowGuard { calls, call: Some(call) };
                let begun = read(&result, carries_task, peer.is_modern());
                Ok(match begun.map_err(|error| CallError::Decode(error.to_string()))? {
                    TaskOr::Result(result) => ResultOrTask::Result(result),
                    TaskOr::Task(CreateTaskResult { task, meta, .. }) => {
                        ResultOrTask::Task(TaskHandle { peer, task, meta, guard, result: PhantomData })
                    }
                })
            },
        )
    }

    /// Creates a handle for a known task, for example from `tasks/list` (2025-11-25) or an earlier connection
    /// (2026-07-28). Its progress notifications are not delivered.
    #[must_use]
    pub fn task<T>(&self, task: Task) -> TaskHandle<T, E> {
        let guard = FollowGuard { calls: self.calls().clone(), call: None };
        TaskHandle { peer: self.clone(), task, meta: None, guard, result: PhantomData }
    }
}

/// Decodes the result of a request that may have become a task.
fn read<R: DeserializeOwned>(
    result: &RawJson<'_>,
    carried_task: bool,
    is_modern: bool,
) -> Result<TaskOr<R>, serde_json::Error> {
    if !is_modern {
        return TaskOr::decode(result.get(), carried_task);
    }
    // The connection has checked that this request may become a task.
    if result.member("resultType").and_then(RawJson::into_text).is_some_and(|kind| kind == "task") {
        let task: tasks_extension::Task = result.decode()?;
        return Ok(TaskOr::Task(CreateTaskResult::new(task)));
    }
    result.decode().map(TaskOr::Result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::{schema::CallToolResult, wire::Json};

    #[test]
    fn recognizes_escaped_task_result_type() {
        let task = |kind: &str| {
            let task = r#""taskId":"t","status":"working","createdAt":"x","lastUpdatedAt":"x","ttlMs":null"#;
            let result = Json::parse(format!(r#"{{"resultType":{kind},{task}}}"#)).expect("JSON");
            let read = read::<CallToolResult>(&RawJson::from(&result), false, true);
            matches!(read, Ok(TaskOr::Task(_)))
        };
        assert!(task(r#""task""#) && task(r#""tas\u006b""#));
        assert!(!task(r#""complete""#) && !task(r#""tas\\u006b""#) && !task("1"));
    }
}
