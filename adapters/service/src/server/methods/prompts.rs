//! Requests about prompts.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{GetPromptParams, ListPromptsParams, ListPromptsResult},
    wire::ErrorObject,
};

use super::common::{Page, caller};
use crate::{
    driver_api::job::Job,
    inbound::{
        context::Context, request::params, responder::of_any_result, rpc_result::RpcResult, state::SessionState,
    },
    server::{
        required_scopes::lacks_scopes,
        routes::{Request, Route, SentRequest},
        visible_items::VisibleItems,
    },
    util::text_arguments::excerpt,
};

pub(super) const ROUTE: Route = Route { answer, scopes };

fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    let find = || VisibleItems::of(sent).get(&shared.app.0, |catalog| &catalog.prompts, &sent.subject()?);
    let prompt = (sent.method == Method::GetPrompt).then(find).flatten();
    prompt.map(|prompt| prompt.scopes.clone()).unwrap_or_default()
}

fn answer(shared: &Arc<SessionState<ServerRole>>, method: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    match method {
        Method::GetPrompt => shared.get_prompt(inbound),
        _ => {
            let ListPromptsParams { cursor, .. } = params(inbound.params.as_ref())?;
            Ok(shared.list(inbound, cursor, |catalog| &catalog.prompts, result))
        }
    }
}

fn result(page: Page<mcp_proto::schema::Prompt>) -> ListPromptsResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListPromptsResult { next_cursor, ttl_ms, cache_scope, ..ListPromptsResult::new(items) }
}

impl SessionState<ServerRole> {
    fn get_prompt(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let GetPromptParams { name, arguments, .. } = params(inbound.params.as_ref())?;
        let service = &*self.app.0;
        let prompt = service.visible_to(inbound).get(service, |catalog| &catalog.prompts, &name);
        let prompt =
            prompt.ok_or_else(|| ErrorObject::invalid_params(excerpt(&format_args!("Unknown prompt: {name}"))))?;
        if let Some(refused) = lacks_scopes(inbound, &prompt.scopes) {
            return refused.map(|()| None);
        }
        let arguments = arguments.unwrap_or_default();
        let (kind, run) = (prompt.kind(), move |context: &Context| prompt.run(&arguments, context));
        self.run_with_input(inbound, caller(inbound), kind, |_| false, of_any_result(run))
    }
}
