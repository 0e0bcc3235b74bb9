//! Requests about tasks of other processes.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    rpc::ReplyKey,
    schema::{
        EmptyResult, InputResponses,
        tasks_extension::{CancelTaskParams, GetTaskParams, GetTaskResult, UpdateTaskParams},
    },
    wire::ErrorObject,
};

use super::{
    input::check_response,
    stored_task::{RemoteTask, TaskCommand},
    task_store::TaskStore,
};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job},
    },
    inbound::{
        context::Context,
        log,
        request::{InboundRequest, params},
        rpc_result::RpcResult,
        state::SessionState,
    },
    server::required_scopes::check_scopes,
};

type Request<'a> = InboundRequest<'a, ServerRole>;

impl SessionState<ServerRole> {
    /// Responds to a request about a task of another process. Returns `None` if there is no store, or the task belongs
    /// to this process.
    pub(in crate::server) fn handle_remote_task_request(
        self: &Arc<Self>,
        method: Method,
        inbound: &Request<'_>,
    ) -> RpcResult<Option<Job>> {
        let Some(store) = self.app.tasks().store().cloned() else { return Ok(None) };
        let raw = inbound.params.as_ref();
        let id = match method {
            Method::ExtGetTask => params::<GetTaskParams>(raw)?.task_id,
            Method::ExtUpdateTask => params::<UpdateTaskParams>(raw)?.task_id,
            _ => params::<CancelTaskParams>(raw)?.task_id,
        };
        if !is_id(&id) || self.app.tasks().any(&id).is_some() {
            return Ok(None);
        }
        let command = match method {
            Method::ExtGetTask => None,
            Method::ExtUpdateTask => Some(TaskCommand::Respond(params::<UpdateTaskParams>(raw)?.input_responses)),
            _ => Some(TaskCommand::Cancel),
        };
        let key = inbound.key;
        let find = move |context: &Context| {
            let (connection, store) = (context.connection.clone(), store.clone());
            async move {
                let found = find(&*store, &connection, key, &id).await?;
                if let Some(command) = command {
                    send(&*store, &id, &found, command).await?;
                }
                Ok::<_, ErrorObject>(found.shown)
            }
        };
        let in_flight = self.begin_request(inbound, inbound.meta().as_ref(), false);
        Ok(Some(if method == Method::ExtGetTask {
            self.scoped_job(inbound, in_flight, HandlerKind::Async, move |context| Deferred::new(find(context)))
        } else {
            self.scoped_job(inbound, in_flight, HandlerKind::Async, move |context| {
                Deferred::new(find(context)).map(|found| found.map(|_: GetTaskResult| EmptyResult::default()))
            })
        }))
    }
}

impl SessionState<ServerRole> {
    /// Responds to `tasks/get` for an ended task of this process whose state may not be in the store yet: it is stored
    /// first, so that no other process shows an older state later. Returns `None` for other tasks.
    pub(super) fn store_ended_task(self: &Arc<Self>, inbound: &Request<'_>, id: &str) -> Option<Job> {
        let tasks = self.app.tasks();
        let store = tasks.store()?;
        let owner = inbound.connection.read(|conn| super::requests::owner(conn, inbound.key));
        let task = tasks.find(id, owner.as_deref()).ok().filter(|task| tasks.needs_storing(task))?;
        let (stored, service) = (store.put(tasks.record_of(&task)), self.app.clone());
        let in_flight = self.begin_request(inbound, inbound.meta().as_ref(), false);
        Some(self.scoped_job(inbound, in_flight, HandlerKind::Async, move |_| {
            Deferred::new(async move {
                let tasks = service.tasks();
                match stored.await {
                    Ok(()) if tasks.any(task.id()).is_some() => tasks.mark_stored(&task),
                    // It was removed while it was stored, and has to be removed from the store again.
                    Ok(()) => tasks.store().iter().for_each(|store| store.changed(task.id())),
                    // The client gets it all the same, and the background tries again.
                    Err(_) => log::failed("the end of a task cannot be stored"),
                }
                Ok(GetTaskResult::from(service.tasks().fetch(&task)))
            })
        }))
    }
}

/// Finds a task that the client of a request may see.
async fn find(
    store: &dyn TaskStore,
    connection: &Arc<dyn ConnectionHandle<ServerRole>>,
    key: ReplyKey,
    id: &str,
) -> RpcResult<RemoteTask> {
    let found = store.find(id).await.map_err(|_| ErrorObject::internal("The tasks cannot be read"))?;
    let owner = connection.read(|conn| super::requests::owner(conn, key));
    let task = found.as_ref().and_then(RemoteTask::read).filter(|task| task.owner == owner);
    let task = task.ok_or_else(|| ErrorObject::invalid_params("Task not found"))?;
    // A task has the result of its tool, so it is no way around the scopes of the tool.
    check_scopes(connection, key, &task.scopes)?;
    Ok(task)
}

/// Sends a command to the process of a task. A task that has ended ignores it.
async fn send(store: &dyn TaskStore, id: &str, task: &RemoteTask, command: TaskCommand) -> RpcResult<()> {
    if task.shown.status.is_terminal() {
        return Ok(());
    }
    if let TaskCommand::Respond(responses) = &command {
        check(task, responses)?;
        if responses.is_empty() {
            return Ok(());
        }
    }
    store.send(id, command.to_text()).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::QuotaExceeded => ErrorObject::internal("The process of the task is too busy"),
        _ => ErrorObject::internal("The process of the task cannot be reached"),
    })
}

/// Checks the responses to the requests for input that the store knows. If one is invalid, none is delivered. The
/// process of the task may have made others since, and checks the responses to them.
fn check(task: &RemoteTask, responses: &InputResponses) -> RpcResult<()> {
    for (key, response) in responses {
        if let Some(request) = task.shown.input_requests.as_ref().and_then(|pending| pending.get(key)) {
            check_response(key, request, response)?;
        }
    }
    Ok(())
}

/// Returns whether a text has the form of the ids of tasks. Others are not looked up.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
