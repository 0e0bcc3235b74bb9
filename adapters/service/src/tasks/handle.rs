//! A task that the peer runs for us.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{RequestOptions, SendError},
    rpc::CallId,
    schema::{
        CancelTaskParams, CancelTaskResult, CreateTaskResult, GetTaskParams, GetTaskPayloadParams,
        GetTaskPayloadResult, GetTaskResult, Request, Task, TaskOr,
    },
};
use serde_core::de::DeserializeOwned;

use crate::{CallError, Calls, Peer, Pending, calls::Desk};

/// What came of a request that asked for a task.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "results are large, too")]
pub enum Started<T, E: 'static> {
    /// The peer has done it at once.
    Done(T),
    /// The peer does it as a task.
    Task(TaskHandle<T, E>),
}

/// A task that the peer runs for us (2025-11-25). `T` is what it will result in.
///
/// Look at it with [`get`](Self::get) not more often than its [poll interval](Self::poll_interval) says, or just ask
/// for the [`result`](Self::result), which comes when the task is done. Dropping the handle changes nothing for the task.
pub struct TaskHandle<T, E: 'static> {
    peer: Peer<E>,
    created: CreateTaskResult,
    /// Under which its progress comes.
    followed: Followed<E>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + 'static, E: 'static> TaskHandle<T, E> {
    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.created.task.task_id
    }

    /// The task as it was when it was created.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.created.task
    }

    /// What the model can be told while the task runs.
    #[must_use]
    pub fn model_immediate_response(&self) -> Option<String> {
        self.created.meta.as_ref()?.model_immediate_response()
    }

    /// How long to wait between two looks. A second if the peer does not say.
    #[must_use]
    pub fn poll_interval(&self) -> Duration {
        self.created.task.poll_interval.map_or(Duration::from_secs(1), Duration::from_millis)
    }

    /// Asks how the task stands.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn get(&self) -> Result<Pending<GetTaskResult>, SendError> {
        self.peer.request(&GetTaskParams::new(self.id()))
    }

    /// Asks for what the task comes to, which is answered when it is done. Its progress comes meanwhile.
    ///
    /// Unless the handle's peer has its own times, this takes as long as the task is kept.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn result(&self) -> Result<Pending<T>, SendError> {
        let kept = self.created.task.ttl.map(Duration::from_millis);
        let options = self.peer.options().unwrap_or(RequestOptions {
            idle_timeout: None,
            total_timeout: kept.or(RequestOptions::default().total_timeout),
            progress: false,
            ..RequestOptions::default()
        });
        let pending = self.peer.with_options(options).request(&GetTaskPayloadParams::new(self.id()))?;
        if let Some(call) = self.followed.call {
            self.peer.calls().redirect(call, pending.waiter());
        }
        Ok(pending.and_then(|payload: GetTaskPayloadResult| {
            payload.decode().map_err(|error| CallError::Decode(error.to_string()))
        }))
    }

    /// Asks the peer to end the task early.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn cancel(&self) -> Result<Pending<CancelTaskResult>, SendError> {
        self.peer.request(&CancelTaskParams::new(self.id()))
    }
}

impl<T, E> fmt::Debug for TaskHandle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("task", &self.created.task).finish_non_exhaustive()
    }
}

/// Forgets a followed call when nobody follows it any more.
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

impl<E: 'static> Peer<E> {
    /// Asks for something as a task: `params` carry [`TaskMetadata`](mcp_proto::schema::TaskMetadata) (2025-11-25).
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
            |conn, now, options| conn.request(now, params, options),
            move |call, result| {
                let followed = Followed { calls, call: Some(call) };
                match TaskOr::decode(result.get(), carries_task) {
                    Ok(TaskOr::Result(result)) => Ok(Started::Done(result)),
                    Ok(TaskOr::Task(created)) => {
                        Ok(Started::Task(TaskHandle { peer, created, followed, result: PhantomData }))
                    }
                    Err(error) => Err(CallError::Decode(error.to_string())),
                }
            },
        )
    }

    /// A handle for a task whose id was kept from elsewhere, for example from `tasks/list`. Its progress is not heard.
    #[must_use]
    pub fn task<T>(&self, task: Task) -> TaskHandle<T, E> {
        TaskHandle {
            peer: self.clone(),
            created: CreateTaskResult::new(task),
            followed: Followed { calls: self.calls().clone(), call: None },
            result: PhantomData,
        }
    }
}
