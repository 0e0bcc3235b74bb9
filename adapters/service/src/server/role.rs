//! What a server answers.

use std::{any::Any, sync::Arc};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError, ServerRole},
    protocol::{Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{CallToolResult, EmptyResult, SetLevelParams},
    wire::RawJson,
};

use super::{
    in_flight::ServerWork,
    input_required::Finished,
    resource_subscriptions::ResourceSubscriptions,
    service::Service,
    tasks::clock::{TaskTime, outlast},
    tool_result::ToolAnswer,
};
use crate::{
    driver_api::{connection_handle::ConnectionHandle, job::Job},
    inbound::{
        custom_methods::{Custom, Dispatch},
        in_flight::Work,
        request::{Asked, RequestInfo, params},
        state::{Role, Shared},
    },
    outbound::calls::Calls,
};

/// What a server keeps of one connection: the resources that its client has subscribed to, and the time of tasks.
#[derive(Debug, Default)]
pub struct State {
    pub(super) subscriptions: ResourceSubscriptions,
    pub(super) task_time: TaskTime,
}

impl Role for ServerRole {
    type Home = Service;
    type State = State;
    type Work = ServerWork;

    fn begun(shared: &Arc<Shared<Self>>) {
        shared.home.0.clients.join(shared);
    }

    fn ended(shared: &Shared<Self>) {
        shared.home.0.clients.leave(shared);
    }

    fn asked<'a>(shared: &Arc<Shared<Self>>, asked: Asked<'a, Self>) -> Result<Option<Job>, Asked<'a, Self>> {
        let Some(method) = asked.method.known() else { return Err(asked) };
        let answer = match method {
            // The connection notes the level as soon as this is answered.
            Method::SetLevel => params(asked.params.as_ref())
                .map(|_: SetLevelParams| shared.answer(&asked, |_| Ok(EmptyResult::default()))),
            method => match shared.home.0.desks.ask(shared, method, &asked) {
                Some(answer) => answer,
                None => return Err(asked),
            },
        };
        Ok(answer.unwrap_or_else(|error| shared.refuse(&asked, error)))
    }

    fn is_news(_: &Shared<Self>, _: &MethodName<'_>, _: Option<&RawJson<'_>>) -> bool {
        true
    }

    fn said_of_task(
        shared: &Arc<Shared<Self>>,
        connection: &Arc<dyn ConnectionHandle<Self>>,
        work: &Work<ServerWork>,
        message: &str,
    ) {
        let (tasks, Some(task)) = (shared.home.tasks(), work.role.task.get()) else { return };
        tasks.say(shared.task_time(connection), task, message);
        tasks.tell(task);
    }

    fn has_failed(result: &dyn Any) -> bool {
        let answer = result.downcast_ref().or_else(|| result.downcast_ref::<Finished<ToolAnswer>>()?.complete());
        let result = result.downcast_ref().or_else(|| result.downcast_ref::<Finished<CallToolResult>>()?.complete());
        answer.is_some_and(ToolAnswer::is_error) || result.is_some_and(CallToolResult::is_error)
    }

    async fn sleep_as_task(connection: Arc<dyn ConnectionHandle<Self>>, calls: Arc<Calls<Self>>, until: Timestamp) {
        outlast(&connection, &calls, until).await;
    }

    fn follow_task(conn: &mut Connection<Self>, _: Timestamp, _: &str, _: RequestOptions) -> Result<CallId, SendError> {
        let version = conn.version().unwrap_or(ProtocolVersion::LATEST);
        Err(SendError::NotInRevision { method: Method::ExtGetTask, version })
    }

    fn info(conn: &Connection<Self>, key: Option<ReplyKey>) -> RequestInfo {
        if let Some(context) = key.and_then(|key| conn.context(key)) {
            return RequestInfo {
                version: context.version,
                peer: context.client_info.cloned(),
                client_capabilities: context.client_capabilities.clone(),
                log_level: context.log_level,
                progress_token: context.progress_token.cloned(),
                trace: context.trace.cloned(),
                principal: context.principal.cloned(),
            };
        }
        let client = conn.client();
        RequestInfo {
            version: conn.version().unwrap_or(ProtocolVersion::LATEST_LEGACY),
            peer: client.map(|client| client.client_info.clone()),
            client_capabilities: client.map(|client| client.capabilities.clone()).unwrap_or_default(),
            log_level: conn.log_level(),
            progress_token: None,
            trace: None,
            principal: None,
        }
    }
}

impl Dispatch for ServerRole {
    fn custom(home: &Service) -> &Custom<Self> {
        &home.0.common.custom
    }
}
