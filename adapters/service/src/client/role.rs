//! Dispatch of requests and notifications to a client.

use std::{
    collections::VecDeque,
    future::Future,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use mcp_proto::{
    connection::{ClientRole, Connection, RequestOptions, SendError},
    protocol::{Capability, Method, MethodName, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
        ElicitUrlParams, ElicitationCompleteParams, Encode, ListRootsParams, ListRootsResult, Meta, TaskMetadata,
        UrlElicitationRequired, check_tool_results,
    },
    wire::{ErrorCode, ErrorObject, RawJson},
};

use super::{Host, in_flight::ClientInFlight, roots::Roots, subscription};
use crate::{
    driver_api::{
        connection_handle::ConnectionHandle,
        deferred::Deferred,
        job::{HandlerKind, Job},
    },
    inbound::{
        context::Context,
        custom_methods::{CustomMethods, Dispatch},
        request::{InboundRequest, RequestInfo, params},
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    util::{elicitation_form as form, lock::lock, text_arguments::excerpt},
};

/// The most pages that may be open at once. The oldest is removed first, since users may close pages without completing
/// them.
const OPEN_PAGES: usize = 256;

/// The state of a client on one connection: the pages of URL elicitations, by id.
#[derive(Default)]
pub struct ClientRoleState {
    pages: Mutex<VecDeque<String>>,
}

impl ClientRoleState {
    fn opened(&self, id: &str) {
        let mut pages = lock(&self.pages);
        if pages.len() == OPEN_PAGES {
            pages.pop_front();
        }
        pages.push_back(id.to_owned());
    }

    /// Removes a page. Returns whether it was open.
    fn closed(&self, id: &str) -> bool {
        let mut pages = lock(&self.pages);
        let found = pages.iter().position(|page| page == id);
        found.and_then(|at| pages.remove(at)).is_some()
    }
}

impl Dispatch for ClientRole {
    fn custom(app: &Host) -> &CustomMethods<Self> {
        &app.0.custom
    }
}

impl Role for ClientRole {
    type App = Host;
    type State = ClientRoleState;
    type InFlight = ClientInFlight;

    const CONTINUES_CALLS: bool = true;

    fn on_start(shared: &Arc<SessionState<Self>>) {
        if let Some(roots) = &shared.app.0.roots {
            roots.insert(shared);
        }
    }

    fn on_end(shared: &SessionState<Self>) {
        if let Some(roots) = &shared.app.0.roots {
            roots.remove(shared);
        }
    }

    fn handle_request(
        shared: &Arc<SessionState<Self>>,
        inbound: &InboundRequest<'_, Self>,
    ) -> ControlFlow<Option<Job>> {
        let host = &shared.app.0;
        let answer = match inbound.method.known() {
            // The connection refuses requests for capabilities that the host does not declare.
            Some(Method::ListRoots) if host.roots.is_some() => Ok(shared.answer(inbound, |shared| {
                Ok(ListRootsResult::new(shared.app.0.roots.as_ref().map_or_else(Vec::new, Roots::list)))
            })),
            Some(Method::ListRoots) => shared.list_roots(inbound),
            Some(Method::CreateMessage) => shared.sample(inbound),
            Some(Method::Elicit) => shared.elicit(inbound),
            Some(method @ (Method::GetTask | Method::GetTaskResult | Method::ListTasks | Method::CancelTask)) => {
                Ok(shared.handle_session_task_request(method, inbound, &|_| true))
            }
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(answer.unwrap_or_else(|error| shared.refuse(inbound, error)))
    }

    fn on_ready(shared: &Arc<SessionState<Self>>, connection: &Arc<dyn ConnectionHandle<Self>>) {
        subscription::ready(connection, &shared.calls);
    }

    fn accepts_notification(
        shared: &SessionState<Self>,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        related_call: Option<CallId>,
    ) -> bool {
        let observe = || {
            if let Some(observer) = &shared.app.0.observer {
                observer.notification(method, params, shared.calls.number(), related_call);
            }
        };
        if method.known() == Some(Method::SubscriptionsAcknowledged)
            && let (Some(connection), Some(params)) = (shared.calls.connection(), params)
            && let Some(call) = connection.update(|conn, _| conn.subscription(params))
        {
            shared.calls.acknowledged(call, params);
        }
        if method.known() != Some(Method::ElicitationComplete) {
            observe();
            return true;
        }
        let done = params.and_then(|params| params.decode::<ElicitationCompleteParams>().ok());
        let is_open = done.is_some_and(|done| shared.state.closed(&done.elicitation_id));
        if is_open {
            observe();
        }
        is_open
    }

    fn on_request(shared: &SessionState<Self>, inbound: &InboundRequest<'_, Self>, in_flight: &mut ClientInFlight) {
        let observer = shared.app.0.observer.as_ref();
        let arrival = observer.map(|it| it.request(inbound.connection, shared.calls.number(), inbound.key));
        in_flight.set_arrival(arrival);
    }

    fn on_response(shared: &SessionState<Self>, call: CallId) {
        shared.app.0.observer.iter().for_each(|observer| observer.response(shared.calls.number(), call));
    }

    fn on_late_response(shared: &SessionState<Self>, call: CallId) {
        shared.app.0.observer.iter().for_each(|observer| observer.late_response(shared.calls.number(), call));
    }

    fn on_error_response(shared: &SessionState<Self>, error: &ErrorObject) {
        if error.code == ErrorCode::URL_ELICITATION_REQUIRED
            && let Some(required) = error.data.as_ref().and_then(|data| data.decode::<UrlElicitationRequired>().ok())
        {
            for id in required.elicitations.iter().filter_map(|page| page.elicitation_id.as_deref()) {
                shared.state.opened(id);
            }
        }
    }

    fn follow_task(
        conn: &mut Connection<Self>,
        now: Timestamp,
        task: &str,
        options: RequestOptions,
    ) -> Result<CallId, SendError> {
        conn.follow_task(now, task, options)
    }

    fn info(conn: &Connection<Self>, _: Option<ReplyKey>) -> RequestInfo {
        RequestInfo {
            version: conn.version().unwrap_or(ProtocolVersion::LATEST_LEGACY),
            peer: conn.server().map(|server| server.server_info.clone()),
            client_capabilities: Default::default(),
            log_level: None,
            progress_token: None,
            trace: None,
            principal: None,
            extension: None,
            has_stream: false,
        }
    }
}

/// A request for sampling or elicitation, with the members that all such params have.
struct UserRequest<P> {
    params: P,
    meta: Option<Meta>,
    task: Option<TaskMetadata>,
}

impl SessionState<ClientRole> {
    fn sample(self: &Arc<Self>, inbound: &InboundRequest<'_, ClientRole>) -> RpcResult<Option<Job>> {
        let mut params: CreateMessageParams = params(inbound.params.as_ref())?;
        check_tool_results(&params.messages)
            .map_err(|fault| ErrorObject::invalid_params(excerpt(&format_args!("Invalid params: {fault}"))))?;
        let (meta, task) = (params.meta.clone(), params.task.take());
        let kind = self.app.0.sampling.as_ref().map(|sampling| sampling.kind);
        Ok(self.user_request_job(inbound, kind, Capability::TasksSampling, UserRequest { params, meta, task }, sample))
    }

    fn list_roots(self: &Arc<Self>, inbound: &InboundRequest<'_, ClientRole>) -> RpcResult<Option<Job>> {
        let list: ListRootsParams = params(inbound.params.as_ref())?;
        Ok(Some(self.handler_job(inbound, HandlerKind::Async, move |context| {
            Deferred::poll_once(list_roots(list, context.clone()))
        })))
    }

    fn elicit(self: &Arc<Self>, inbound: &InboundRequest<'_, ClientRole>) -> RpcResult<Option<Job>> {
        Ok(match params(inbound.params.as_ref())? {
            ElicitParams::Form(mut params) => {
                let (meta, task) = (params.meta.clone(), params.task.take());
                let (kind, request) =
                    (self.app.0.form.as_ref().map(|form| form.kind), UserRequest { params, meta, task });
                self.user_request_job(inbound, kind, Capability::TasksElicitation, request, fill_in_form)
            }
            ElicitParams::Url(mut params) => {
                let (meta, task) = (params.meta.clone(), params.task.take());
                let (kind, request) = (self.app.0.url.as_ref().map(|url| url.kind), UserRequest { params, meta, task });
                self.user_request_job(inbound, kind, Capability::TasksElicitation, request, open_page)
            }
            ElicitParams::Other(_) => {
                return Err(ErrorObject::invalid_params("Invalid params: unsupported elicitation mode"));
            }
        })
    }

    /// Creates the job of a request to the user or the model, as a task if the server requests one and this client
    /// supports it.
    fn user_request_job<P, R, F>(
        self: &Arc<Self>,
        inbound: &InboundRequest<'_, ClientRole>,
        kind: Option<HandlerKind>,
        capability: Capability,
        request: UserRequest<P>,
        f: fn(P, Context<ClientRole>) -> F,
    ) -> Option<Job>
    where
        P: Send + 'static,
        R: Encode + Send + Sync + 'static,
        F: Future<Output = RpcResult<R>> + Send + 'static,
    {
        let InboundRequest { connection, key, .. } = *inbound;
        let UserRequest { params, meta, task } = request;
        // Without a handler nothing blocks.
        let kind = kind.unwrap_or(HandlerKind::Async);
        Some(match task.filter(|_| self.has_tasks(connection, key, capability)) {
            Some(task) => self.session_task_job(
                inbound,
                meta,
                (task, Vec::new()),
                kind,
                |_| None,
                move |context| Deferred::poll_once(f(params, context.clone())),
            ),
            None => self.handler_job(inbound, kind, move |context| Deferred::poll_once(f(params, context.clone()))),
        })
    }
}

async fn sample(params: CreateMessageParams, context: Context<ClientRole>) -> RpcResult<CreateMessageResult> {
    let host = context.shared.app.clone();
    let Some(sample) = &host.0.sampling else {
        return Err(ErrorObject::method_not_found(Method::CreateMessage.as_str()));
    };
    (sample.run)(params, context.clone()).await.map_err(|failure| context.explain(failure))
}

async fn list_roots(params: ListRootsParams, context: Context<ClientRole>) -> RpcResult<ListRootsResult> {
    let host = context.shared.app.clone();
    let Some(list) = &host.0.list_roots else {
        return Err(ErrorObject::method_not_found(Method::ListRoots.as_str()));
    };
    (list.run)(params, context.clone()).await.map_err(|failure| context.explain(failure))
}

async fn fill_in_form(params: ElicitFormParams, context: Context<ClientRole>) -> RpcResult<ElicitResult> {
    let host = context.shared.app.clone();
    let Some(fill_in) = &host.0.form else {
        return Err(ErrorObject::invalid_params("This client does not show forms"));
    };
    let schema = params.requested_schema.clone();
    let answer = (fill_in.run)(params, context.clone()).await;
    let mut answer = answer.map_err(|failure| context.explain(failure))?;
    if host.0.forwards_forms {
        return Ok(answer);
    }
    if answer.action == ElicitAction::Accept {
        form::fill_in(&schema, answer.content.get_or_insert_default());
    } else {
        answer.content = None;
    }
    match form::check_answer(&schema, &answer) {
        Ok(()) => Ok(answer),
        Err(why) => Err(ErrorObject::internal(excerpt(&format_args!(
            "The response does not match the requested schema: {why}"
        )))),
    }
}

async fn open_page(params: ElicitUrlParams, context: Context<ClientRole>) -> RpcResult<ElicitResult> {
    let host = context.shared.app.clone();
    let Some(open) = &host.0.url else {
        return Err(ErrorObject::invalid_params("This client does not open pages"));
    };
    if let Some(id) = &params.elicitation_id {
        context.shared.state.opened(id);
    }
    let action = (open.run)(params, context.clone()).await.map_err(|failure| context.explain(failure))?;
    Ok(ElicitResult::new(action))
}
