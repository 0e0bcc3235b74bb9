//! Requests about skills.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{
        CacheHints, GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams, Skill,
    },
    wire::ErrorObject,
};

use super::common::{Page, valid_uri};
use crate::{
    driver_api::job::Job,
    inbound::{request::params, rpc_result::RpcResult, state::SessionState},
    server::routes::{Request, Route},
    util::text_arguments::excerpt,
};

pub(super) const ROUTE: Route = Route { answer, scopes: |_, _| Vec::new() };

fn answer(shared: &Arc<SessionState<ServerRole>>, method: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    match method {
        Method::GetSkill => shared.get_skill(inbound),
        Method::ReadDirectory => shared.read_directory(inbound),
        _ => {
            let ListSkillsParams { cursor, .. } = params(inbound.params.as_ref())?;
            Ok(shared.list(inbound, cursor, |catalog| &catalog.skills, result))
        }
    }
}

fn result(page: Page<Skill>) -> ListSkillsResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListSkillsResult { next_cursor, ttl_ms, cache_scope, ..ListSkillsResult::new(items) }
}

impl SessionState<ServerRole> {
    fn get_skill(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let GetSkillParams { uri, .. } = params(inbound.params.as_ref())?;
        let uri = valid_uri(uri)?;
        let service = &*self.app.0;
        let skill = service.visible_to(inbound).get(service, |catalog| &catalog.skills, &uri);
        let skill = skill.ok_or_else(|| ErrorObject::invalid_params(excerpt(&format_args!("Unknown skill: {uri}"))))?;
        let CacheHints { ttl_ms, scope } = service.skill_hints(&skill);
        let result = GetSkillResult::new((*skill.about).clone());
        Ok(self
            .answer(inbound, move |_| Ok(GetSkillResult { ttl_ms: Some(ttl_ms), cache_scope: Some(scope), ..result })))
    }

    fn read_directory(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let requested: ReadDirectoryParams = params(inbound.params.as_ref())?;
        let service = &*self.app.0;
        let result = service.directory(&service.listed_for(inbound), &requested)?;
        Ok(self.answer(inbound, move |_| Ok(result)))
    }
}
