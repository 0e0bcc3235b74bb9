//! Tools that run as tasks, and the requests about these tasks.

use std::{collections::BTreeSet, sync::Arc};

use mcp_proto::{
    connection::ServerRole,
    protocol::{Capability, Method},
    schema::{MissingRequiredClientCapability, SubscriptionsListenParams, TaskSupport, ToolExecution},
    wire::{ErrorCode, ErrorObject},
};

use super::common::caller;
use crate::{
    driver_api::job::Job,
    inbound::{
        context::Context,
        rpc_result::RpcResult,
        shared_state::HandlerState,
        state::{Role, SessionState},
    },
    server::{
        call_arguments::CallArguments,
        call_params::CallParams,
        required_scopes::lacks_scopes,
        routes::{Request, Route, SentRequest},
        scopes::has_scopes,
        tool::{TaskRoutes, Tool, ToolCall},
        tool_result::ToolAnswer,
    },
};

/// Tools that can run as tasks. A program without such a tool does not contain the code of tasks: only these methods
/// refer to it.
impl<S: HandlerState> Tool<S> {
    /// Sets whether calls of the tool can or must run as tasks. Default: they cannot.
    ///
    /// In a session (2025-11-25) the client decides. If a task is required, older clients still call the tool without
    /// one. Without a session (2026-07-28) a call is a task if the client supports tasks; if a task is required, other
    /// clients get the error -32021.
    #[must_use]
    pub fn task_support(mut self, support: TaskSupport) -> Self {
        self.tasks = Some(&TASKS);
        self.about.execution = Some(ToolExecution { task_support: Some(support), ..ToolExecution::default() });
        self
    }

    /// Changes further members of the definition that clients get, such as icons and metadata.
    #[must_use]
    pub fn about(mut self, f: impl FnOnce(&mut mcp_proto::schema::Tool)) -> Self {
        f(&mut self.about);
        // That may have been that it can be run as a task.
        self.tasks = Some(&TASKS);
        self
    }
}

static TASKS: TaskRoutes = TaskRoutes { call, route: Route { answer, scopes } };

/// Returns the scopes of a request that was not passed to the connection yet. Only tasks of sessions have such
/// requests: each request of the modern era has a response of its own.
fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    sent.subject().map(|task| shared.tasks.scopes(&task)).unwrap_or_default()
}

/// Returns the scopes of the tools whose tasks a request is about.
fn needed_scopes(shared: &SessionState<ServerRole>, method: Method, inbound: &Request<'_>) -> Vec<String> {
    let Some(params) = inbound.params.as_ref() else { return Vec::new() };
    let subject = || params.member(method.subject_param()?)?.decode::<String>().ok();
    let named = match method {
        Method::GetTask | Method::GetTaskResult | Method::CancelTask => {
            return subject().map(|task| shared.tasks.scopes(&task)).unwrap_or_default();
        }
        Method::Listen => {
            let wanted = params.decode::<SubscriptionsListenParams>().ok();
            wanted.and_then(|wanted| wanted.notifications.task_ids).unwrap_or_default()
        }
        _ => subject().into_iter().collect(),
    };
    let owner = caller(inbound).and_then(|caller| caller.principal);
    let found = named.iter().filter_map(|task| shared.app.tasks().find(task, owner.as_deref()).ok());
    let needed: BTreeSet<String> = found.flat_map(|task| task.scopes().to_vec()).collect();
    needed.into_iter().collect()
}

fn answer(shared: &Arc<SessionState<ServerRole>>, method: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    if matches!(method, Method::ExtGetTask | Method::ExtUpdateTask | Method::ExtCancelTask)
        && let Some(job) = shared.handle_remote_task_request(method, inbound)?
    {
        return Ok(Some(job));
    }
    // A task has the result of its tool, so it is no way around the scopes of the tool.
    if let Some(refused) = lacks_scopes(inbound, &needed_scopes(shared, method, inbound)) {
        return refused.map(|()| None);
    }
    match method {
        Method::Listen => shared.listen_to_tasks(inbound),
        Method::ExtGetTask | Method::ExtUpdateTask | Method::ExtCancelTask => {
            shared.handle_task_request(method, inbound)
        }
        _ => {
            let principal = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key))).principal;
            let has_scopes = |required: &[String]| has_scopes(inbound.connection, principal.as_ref(), required);
            Ok(shared.handle_session_task_request(method, inbound, &has_scopes))
        }
    }
}

fn call(
    shared: &Arc<SessionState<ServerRole>>,
    inbound: &Request<'_>,
    mut tool_call: ToolCall<'_>,
) -> RpcResult<Option<Job>> {
    let support = tool_call.tool.about.task_support();
    match (tool_call.extension, support) {
        (Some(false), TaskSupport::Required) => {
            let missing = [Capability::TasksExtension].into_iter().collect();
            return Err(MissingRequiredClientCapability::error(missing));
        }
        (Some(true), TaskSupport::Optional | TaskSupport::Required) => {
            let ToolCall { called: CallParams { arguments, meta, .. }, tool, .. } = tool_call;
            let how = (tool.kind(), tool.task_start, tool.scopes.clone());
            let arguments = CallArguments::of(shared, arguments);
            let run = move |context: &Context| {
                let running = arguments.with(context, |arguments| tool.run(arguments, context));
                running.map(|answer| answer.map(ToolAnswer::into_result))
            };
            return shared.task_job(inbound, meta.as_ref(), how, run);
        }
        _ => {}
    }
    let has_tasks = || shared.has_tasks(inbound.connection, inbound.key, Capability::TasksToolsCall);
    match (tool_call.called.task.take(), support) {
        (Some(task), TaskSupport::Optional | TaskSupport::Required) if has_tasks() => {
            let ToolCall { called: CallParams { arguments, meta, .. }, tool, .. } = tool_call;
            let (kind, arguments) = (tool.kind(), CallArguments::of(shared, arguments));
            let (task, meta) = ((task, tool.scopes.clone()), meta.and_then(|meta| meta.decode().ok()));
            let run = move |context: &Context| arguments.with(context, |arguments| tool.run(arguments, context));
            Ok(Some(shared.session_task_job(inbound, meta, task, kind, failure_text, run)))
        }
        (None, TaskSupport::Required) if has_tasks() => {
            let why = format!("{} has to be run as a task", tool_call.called.name);
            Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, why))
        }
        (task, _) => {
            let ToolCall { mut called, tool, .. } = tool_call;
            called.task = task;
            shared.call_directly(inbound, &called, tool)
        }
    }
}

/// Returns the status message of a task with a failed result.
fn failure_text(answer: &ToolAnswer) -> Option<String> {
    let ToolAnswer::Result(result) = answer else { return None };
    let text = || result.content.iter().find_map(|content| content.as_text()).unwrap_or("The tool failed");
    result.is_error().then(|| text().to_owned())
}
