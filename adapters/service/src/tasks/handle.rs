//! A task that the peer runs for us.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{RequestOptions, SendError},
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
        cancel::Desk,
        error::CallError,
        peer::Peer,
        pending::{Pending, decode},
    },
};

/// What came of a request that asked for a task.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "results are large, too")]
pub enum Started<T, E: 'static> {
    /// The peer has done it at once.
    Done(T),
    /// The peer does it as a task.
    Task(TaskHandle<T, E>),
}

/// A task that the peer runs for us (2025-11-25, 2026-07-28). `T` is what it will result in.
///
/// Look at it with [`get`](Self::get) not more often than its [poll interval](Self::poll_interval) says, or just ask
/// for the [`result`](Self::result), which comes when the task is done. Dropping the handle changes nothing for the task.
pub struct TaskHandle<T, E: 'static> {
    peer: Peer<E>,
    task: Task,
    /// What came with the task.
    meta: Option<Meta>,
    /// Under which its progress comes.
    followed: Followed<E>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static, E: Role> TaskHandle<T, E> {
    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.task.task_id
    }

    /// The task as it was when it was created.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// What the model can be told while the task runs (2025-11-25).
    #[must_use]
    pub fn model_immediate_response(&self) -> Option<String> {
        self.meta.as_ref()?.model_immediate_response()
    }

    /// How long to wait between two looks. A second if the peer does not say.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.task.poll_interval.map_or(Duration::from_secs(1), Duration::from_millis)
    }

    /// Asks how the task stands.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn get(&self) -> Result<Pending<Task>, SendError> {
        if self.peer.is_modern() {
            let looked = self.peer.request(&tasks_extension::GetTaskParams::new(self.id()))?;
            return Ok(looked.and_then(|task| Ok(tasks_extension::Task::from(task).into())));
        }
        Ok(self.peer.request(&GetTaskParams::new(self.id()))?.and_then(|task: GetTaskResult| Ok(task.into())))
    }

    /// Asks for what the task comes to, which comes when it is done. Meanwhile its progress comes (2025-11-25), or it is looked
    /// at as often as the peer wants, its questions go to the handlers of this side, and
    /// [`on_task`](Pending::on_task) shows how it stands (2026-07-28).
    ///
    /// Unless the handle's peer has its own times, this takes as long as the task is kept. Giving up on it does not end the
    /// task.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn result(&self) -> Result<Pending<T>, SendError> {
        let kept = self.task.ttl.map(Duration::from_millis);
        let usual = RequestOptions::default();
        let total_timeout = kept.or(usual.total_timeout);
        if self.peer.is_modern() {
            let options = self.peer.options().unwrap_or(RequestOptions { total_timeout, ..usual });
            let id = self.id().to_owned();
            let follow = move |conn: &mut _, now, options| E::follow_task(conn, now, &id, options);
            return self.peer.with_options(options).call(false, follow, decode);
        }
        let options = self.peer.options().unwrap_or(RequestOptions {
            idle_timeout: None,
            total_timeout,
            progress: false,
            ..usual
        });
        let pending = self.peer.with_options(options).request(&GetTaskPayloadParams::new(self.id()))?;
        if let Some(call) = self.followed.call {
            self.peer.calls().redirect(call, pending.waiter());
        }
        Ok(pending.and_then(|payload: GetTaskPayloadResult| {
            payload.decode().map_err(|error| CallError::Decode(error.to_string()))
        }))
    }

    /// Asks the peer to end the task early. How it stands after that, if the peer says so (2025-11-25): it may take a while,
    /// and end in another way (2026-07-28).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
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
struct Followed<E: 'static> {
    calls: Arc<Calls<E>>,
    call: Option<CallId>,
}

impl<E> Drop for Followed<E> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.calls.forget(call);
        }
    }
}

impl<E: Role> Peer<E> {
    /// Asks for something that may become a task: because `params` carry
    /// [`TaskMetadata`](mcp_proto::schema::TaskMetadata) (2025-11-25), or because the server wants it so (2026-07-28).
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn request_as_task<R: Request<Result: 'static>>(
        &self,
        params: &R,
    ) -> Result<Pending<Started<R::Result, E>>, SendError> {
        let carries_task = params.is_task();
        let (peer, calls) = (self.clone(), self.calls().clone());
        self.call(
            carries_task,
            |conn, now, options| conn.request(now, params, RequestOptions { follow_task: false, ..options }),
            move |call, result| {
                let followed = Followed { calls, call: Some(call) };
                let begun = read(&result, carries_task, peer.is_modern());
                Ok(match begun.map_err(|error| CallError::Decode(error.to_string()))? {
                    TaskOr::Result(result) => Started::Done(result),
                    TaskOr::Task(CreateTaskResult { task, meta, .. }) => {
                        Started::Task(TaskHandle { peer, task, meta, followed, result: PhantomData })
                    }
                })
            },
        )
    }

    /// A handle for a task whose id was kept from elsewhere, for example from `tasks/list` (2025-11-25) or an earlier
    /// connection (2026-07-28). Its progress is not heard.
    #[must_use]
    pub fn task<T>(&self, task: Task) -> TaskHandle<T, E> {
        let followed = Followed { calls: self.calls().clone(), call: None };
        TaskHandle { peer: self.clone(), task, meta: None, followed, result: PhantomData }
    }
}

/// Reads what a request was answered with that may have become a task.
fn read<R: DeserializeOwned>(
    result: &RawJson<'_>,
    carried_task: bool,
    is_modern: bool,
) -> Result<TaskOr<R>, serde_json::Error> {
    if !is_modern {
        return TaskOr::decode(result.get(), carried_task);
    }
    // The connection has seen to it that only what can be a task is one.
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
    fn a_task_is_one_however_its_kind_is_spelled() {
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
