//! Requests of clients about tasks.

use std::sync::Arc;

use mcp_proto::{
    connection::{Connection, SendError, ServerRole},
    protocol::Method,
    rpc::ReplyKey,
    schema::{
        EmptyResult, SubscriptionsListenParams,
        tasks_extension::{CancelTaskParams, GetTaskParams, GetTaskResult, UpdateTaskParams},
    },
    wire::ErrorObject,
};

use crate::{
    driver_api::{connection_handle::ConnectionHandle, job::Job},
    inbound::{
        request::{InboundRequest, params},
        rpc_result::RpcResult,
        state::SessionState,
    },
    server::{input_required::CallerId, methods::resources::Silent},
};

type Request<'a> = InboundRequest<'a, ServerRole>;

impl SessionState<ServerRole> {
    /// Responds to a request about a task. The connection has checked that the client has declared the extension.
    pub(in crate::server) fn handle_task_request(
        self: &Arc<Self>,
        method: Method,
        inbound: &Request<'_>,
    ) -> RpcResult<Option<Job>> {
        let raw = inbound.params.as_ref();
        let (connection, key) = (inbound.connection.clone(), inbound.key);
        let owner = connection.read(|conn| owner(conn, key));
        self.expire_tasks(&connection);
        Ok(match method {
            Method::ExtGetTask => {
                let GetTaskParams { task_id, .. } = params(raw)?;
                if let Some(job) = self.store_ended_task(inbound, &task_id) {
                    return Ok(Some(job));
                }
                self.answer(inbound, move |shared| {
                    let tasks = shared.app.tasks();
                    Ok(GetTaskResult::from(tasks.fetch(&*tasks.find(&task_id, owner.as_deref())?)))
                })
            }
            Method::ExtUpdateTask => {
                let UpdateTaskParams { task_id, input_responses, .. } = params(raw)?;
                self.answer(inbound, move |shared| {
                    let tasks = shared.app.tasks();
                    let task = tasks.find(&task_id, owner.as_deref())?;
                    tasks.deliver_responses(shared.task_time(&connection), &task, &input_responses)?;
                    tasks.notify_subscribers(&task);
                    Ok(EmptyResult::default())
                })
            }
            Method::ExtCancelTask => {
                let CancelTaskParams { task_id, .. } = params(raw)?;
                self.answer(inbound, move |shared| {
                    let tasks = shared.app.tasks();
                    let task = tasks.find(&task_id, owner.as_deref())?;
                    tasks.cancel(shared.task_time(&connection), &task);
                    tasks.notify_subscribers(&task);
                    Ok(EmptyResult::default())
                })
            }
            other => return Err(ErrorObject::method_not_found(other.as_str())),
        })
    }

    /// Opens a subscription, which may name tasks, of a service that has some.
    pub(in crate::server) fn listen_to_tasks(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let SubscriptionsListenParams { notifications, .. } = params(inbound.params.as_ref())?;
        let (shared, connection, key) = (self.clone(), inbound.connection.clone(), inbound.key);
        let mut wanted = notifications.task_ids.unwrap_or_default();
        // A task that is named twice is notified once.
        wanted.sort_unstable();
        wanted.dedup();
        self.expire_tasks(&connection);
        let origins = self.subscribe_to_origins(inbound);
        if origins.is_empty() && self.try_to_listen(&connection, key, &wanted, &Silent::new()) != Err(SendError::Busy) {
            return Ok(None);
        }
        // It is only ever refused as busy.
        let accept = move |silent: &Silent| shared.try_to_listen(&connection, key, &wanted, silent);
        Ok(Some(self.listen_job(inbound, origins, accept)))
    }

    fn try_to_listen(
        self: &Arc<Self>,
        connection: &Arc<dyn ConnectionHandle<ServerRole>>,
        key: ReplyKey,
        wanted: &[String],
        silent: &Silent,
    ) -> Result<(), SendError> {
        let tasks = self.app.tasks();
        connection.update(|conn, _| {
            let owner = owner(conn, key);
            let find = |task: &str| tasks.find(task, owner.as_deref()).ok();
            conn.accept_subscription_with(key, |task| find(task).is_some(), |uri| !silent.contains(uri))?;
            // The client gets the current status first, if it is another one than in the response of its request.
            for task in wanted.iter().filter_map(|task| find(task)) {
                tasks.subscribe(&task, self, conn);
            }
            Ok(())
        })
    }
}

/// Returns the principal of a request, if it is known.
pub(super) fn owner(conn: &Connection<ServerRole>, key: ReplyKey) -> Option<String> {
    CallerId::of(conn, key)?.principal
}
