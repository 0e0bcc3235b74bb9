//! Requests about tools.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::{Capability, CapabilitySet, Era, Method},
    schema::{CallToolResult, ListToolsParams, ListToolsResult, MissingRequiredClientCapability},
    wire::{ErrorCode, ErrorObject},
};

use super::common::{Page, caller};
use crate::{
    driver_api::job::Job,
    inbound::{
        context::Context,
        request::{InboundRequest, params},
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    server::{
        call_arguments::CallArguments,
        call_params::CallParams,
        layered_tool_call::LayeredToolCall,
        pooled_call::PooledCall,
        required_scopes::lacks_scopes,
        routes::{Request, Route, SentRequest},
        tool::{Tool, ToolCall},
        tool_result::ToolAnswer,
        visible_items::VisibleItems,
    },
    util::{lock::read, text_arguments::excerpt},
};

pub(super) const ROUTE: Route = Route { answer, scopes };

fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    let find = || {
        let (service, name) = (&*shared.app.0, sent.subject()?);
        let tool = read(&service.catalog).tools.get(&name).filter(|tool| !tool.scopes.is_empty()).cloned()?;
        VisibleItems::of(sent).allows(&*tool).then(|| tool.scopes.clone())
    };
    (sent.method == Method::CallTool).then(find).flatten().unwrap_or_default()
}

fn answer(shared: &Arc<SessionState<ServerRole>>, method: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    match method {
        Method::CallTool => shared.call_tool(inbound),
        _ => {
            let ListToolsParams { cursor, .. } = params(inbound.params.as_ref())?;
            Ok(shared.list(inbound, cursor, |catalog| &catalog.tools, result))
        }
    }
}

fn result(page: Page<mcp_proto::schema::Tool>) -> ListToolsResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListToolsResult { next_cursor, ttl_ms, cache_scope, ..ListToolsResult::new(items) }
}

impl SessionState<ServerRole> {
    fn call_tool(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let called = CallParams::of(inbound)?;
        let service = &*self.app.0;
        let tool = service.visible_to(inbound).get(service, |catalog| &catalog.tools, &called.name);
        let tool =
            tool.ok_or_else(|| ErrorObject::invalid_params(excerpt(&format_args!("Unknown tool: {}", called.name))))?;
        if let Some(refused) = lacks_scopes(inbound, &tool.scopes) {
            return refused.map(|()| None);
        }
        let InboundRequest { connection, key, .. } = *inbound;
        if !tool.headers.is_empty() {
            connection.read(|conn| conn.verify_headers(key, &tool.headers, Some(&called.arguments)))?;
        }
        if let Some(lacking) = self.missing_capabilities(inbound, tool.requires) {
            return lacking.map(|result| self.answer(inbound, |_| Ok(result)));
        }
        match tool.tasks {
            Some(tasks) => {
                let extension = match called.meta {
                    Some(_) => connection.read(|conn| Self::may_become_task(conn, key)),
                    None => None,
                };
                (tasks.call)(self, inbound, ToolCall { called, tool, extension })
            }
            None => self.call_directly(inbound, &called, tool),
        }
    }

    /// Calls a tool without a task.
    pub(super) fn call_directly(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        CallParams { name, arguments, task, meta, is_plain }: &CallParams<'_>,
        tool: Arc<Tool>,
    ) -> RpcResult<Option<Job>> {
        if task.is_some() && self.has_tasks(inbound.connection, inbound.key, Capability::TasksToolsCall) {
            let why = format!("{name} cannot be run as a task");
            return Err(ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, why));
        }
        let (has_layers, meta) = (self.has_layers(), meta.as_ref());
        // A call in a session has no rounds of input, nor has a handler without a context. Middleware has a context.
        let has_rounds = meta.is_some() && (!is_plain || has_layers || tool.takes_context);
        let Some(caller) = has_rounds.then(|| caller(inbound)).flatten() else {
            return Ok(Some(match has_layers {
                true => LayeredToolCall::job(self, inbound, tool, arguments, meta),
                false => PooledCall::job(self, inbound, tool, arguments, meta, None),
            }));
        };
        if !has_layers {
            let rounds = self.begin_rounds(inbound, caller)?;
            return Ok(Some(PooledCall::job(self, inbound, tool, arguments, meta, Some(rounds))));
        }
        let kind = tool.kind();
        let run =
            move |context: &Context| CallArguments::Received.with(context, |arguments| tool.run(arguments, context));
        self.run_with_input(inbound, Some(caller), kind, ToolAnswer::is_error, run)
    }

    /// Returns the response to a client without the capabilities that a tool requires.
    fn missing_capabilities(
        &self,
        inbound: &Request<'_>,
        required: CapabilitySet,
    ) -> Option<RpcResult<CallToolResult>> {
        if required == CapabilitySet::EMPTY {
            return None;
        }
        let info = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key)));
        let declared = info.client_capabilities.set();
        let missing: CapabilitySet = required.iter().filter(|required| !declared.contains(*required)).collect();
        if missing == CapabilitySet::EMPTY {
            return None;
        }
        let error = MissingRequiredClientCapability::error(missing);
        Some(match info.version.era() {
            Era::Modern => Err(error),
            Era::Legacy => Ok(CallToolResult::error(error.message)),
        })
    }
}
