//! Dispatch of requests and notifications to a server.

use std::{any::Any, ops::ControlFlow, sync::Arc};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError, ServerRole},
    protocol::{Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{CallToolResult, EmptyResult, SetLevelParams},
    wire::RawJson,
};

use super::{
    in_flight::ServerInFlight,
    input_required::RoundResult,
    resource_subscriptions::{ListenRequests, ResourceSubscriptions},
    routes::RouteKey,
    service::Service,
    tasks::clock::{TaskClock, sleep_detached},
    tool_result::ToolAnswer,
};
use crate::{
    driver_api::{connection_handle::ConnectionHandle, job::Job},
    inbound::{
        custom_methods::{CustomMethods, Dispatch},
        in_flight::InFlight,
        request::{InboundRequest, RequestInfo, params},
        state::{Role, SessionState},
    },
    outbound::calls::Calls,
};

/// The state of a server on one connection: the resources to which its client has subscribed, and the clock of tasks.
#[derive(Debug, Default)]
pub struct ServerRoleState {
    pub(super) subscriptions: ResourceSubscriptions,
    pub(super) listen_requests: ListenRequests,
    pub(super) task_clock: TaskClock,
    /// The events that a test client reports.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) noted: Noted,
}

/// The events on a connection that tests check.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// The number of log messages that the client does not want.
    dropped_logs: std::sync::atomic::AtomicUsize,
    /// Side effects with a request for input after them.
    repeated: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

#[cfg(any(test, feature = "testing"))]
impl Noted {
    pub(super) fn add_dropped_log(&self) {
        self.dropped_logs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) fn add_repeated(&self, effect: &str) {
        crate::util::lock::lock(&self.repeated).insert(effect.to_owned());
    }

    pub(crate) fn dropped_logs(&self) -> usize {
        self.dropped_logs.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(crate) fn repeated(&self) -> Vec<String> {
        crate::util::lock::lock(&self.repeated).iter().cloned().collect()
    }
}

impl Role for ServerRole {
    type App = Service;
    type State = ServerRoleState;
    type InFlight = ServerInFlight;

    const CONTINUES_CALLS: bool = false;

    fn on_start(shared: &Arc<SessionState<Self>>) {
        shared.app.0.clients.insert(shared);
    }

    fn on_end(shared: &SessionState<Self>) {
        shared.app.0.clients.remove(shared);
    }

    fn on_cancelled(shared: &SessionState<Self>, key: ReplyKey) {
        shared.state.listen_requests.release(key);
    }

    fn on_closed(shared: &SessionState<Self>) {
        shared.state.subscriptions.close();
        shared.state.listen_requests.close();
        shared.unwatch_tasks();
    }

    fn handle_request(
        shared: &Arc<SessionState<Self>>,
        inbound: &InboundRequest<'_, Self>,
    ) -> ControlFlow<Option<Job>> {
        let Some(method) = inbound.method.known() else { return ControlFlow::Continue(()) };
        let answer = match method {
            // The connection stores the level when the response is queued.
            Method::SetLevel => params(inbound.params.as_ref()).map(|wanted: SetLevelParams| {
                shared.app.0.composition.wants_log(&wanted.level);
                shared.answer(inbound, |_| Ok(EmptyResult::default()))
            }),
            // The connection hands those over that name tasks, or that a composed service has to confirm.
            Method::Listen if !shared.app.0.routes.has(RouteKey::Tasks) => Ok(shared.listen_to_origins(inbound)),
            method => match shared.app.0.routes.handle(shared, method, inbound) {
                Some(answer) => answer,
                None => return ControlFlow::Continue(()),
            },
        };
        ControlFlow::Break(answer.unwrap_or_else(|error| shared.refuse(inbound, error)))
    }

    fn accepts_notification(
        _: &SessionState<Self>,
        _: &MethodName<'_>,
        _: Option<&RawJson<'_>>,
        _: Option<CallId>,
    ) -> bool {
        true
    }

    fn on_task_message(
        shared: &Arc<SessionState<Self>>,
        connection: &Arc<dyn ConnectionHandle<Self>>,
        in_flight: &InFlight<ServerInFlight>,
        message: &str,
    ) {
        let (tasks, Some(task)) = (shared.app.tasks(), in_flight.role.task.get()) else { return };
        tasks.set_status_message(shared.task_time(connection), task, message);
        tasks.notify_subscribers(task);
    }

    fn has_failed(result: &dyn Any) -> bool {
        let answer = result.downcast_ref().or_else(|| result.downcast_ref::<RoundResult<ToolAnswer>>()?.complete());
        let result = result.downcast_ref().or_else(|| result.downcast_ref::<RoundResult<CallToolResult>>()?.complete());
        answer.is_some_and(ToolAnswer::is_error) || result.is_some_and(CallToolResult::is_error)
    }

    fn masks_failures(app: &Service) -> bool {
        app.0.masks_failures
    }

    async fn sleep_as_task(connection: Arc<dyn ConnectionHandle<Self>>, calls: Arc<Calls<Self>>, until: Timestamp) {
        sleep_detached(&connection, &calls, until).await;
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
                extension: context.extension.cloned(),
                has_stream: context.has_stream,
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
            extension: None,
            has_stream: false,
        }
    }
}

impl Dispatch for ServerRole {
    fn custom(app: &Service) -> &CustomMethods<Self> {
        &app.0.common.custom
    }
}
