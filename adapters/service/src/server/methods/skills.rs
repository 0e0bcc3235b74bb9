//! What is asked about skills.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{
        CacheHints, GetSkillParams, GetSkillResult, ListSkillsParams, ListSkillsResult, ReadDirectoryParams, Skill,
    },
    wire::ErrorObject,
};

use super::common::{Page, valid};
use crate::{
    driver_api::job::Job,
    inbound::{answer::Answer, request::params, state::Shared},
    server::routes::Request,
    util::text_arguments::excerpt,
};

pub(super) fn answer(shared: &Arc<Shared<ServerRole>>, method: Method, asked: &Request<'_>) -> Answer<Option<Job>> {
    match method {
        Method::GetSkill => shared.get_skill(asked),
        Method::ReadDirectory => shared.read_directory(asked),
        _ => {
            let ListSkillsParams { cursor, .. } = params(asked.params.as_ref())?;
            Ok(shared.list(asked, cursor, |catalog| &catalog.skills, result))
        }
    }
}

fn result(page: Page<Skill>) -> ListSkillsResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListSkillsResult { next_cursor, ttl_ms, cache_scope, ..ListSkillsResult::new(items) }
}

impl Shared<ServerRole> {
    fn get_skill(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let GetSkillParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let service = &*self.home.0;
        let skill = service.view(asked).get(service, |catalog| &catalog.skills, &uri);
        let skill = skill.ok_or_else(|| ErrorObject::invalid_params(excerpt(&format_args!("Unknown skill: {uri}"))))?;
        let CacheHints { ttl_ms, scope } = service.skill_hints(&skill);
        let result = GetSkillResult::new((*skill.about).clone());
        Ok(self.answer(asked, move |_| Ok(GetSkillResult { ttl_ms: Some(ttl_ms), cache_scope: Some(scope), ..result })))
    }

    fn read_directory(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let asked_for: ReadDirectoryParams = params(asked.params.as_ref())?;
        let service = &*self.home.0;
        let result = service.directory(&service.view(asked), &asked_for)?;
        Ok(self.answer(asked, move |_| Ok(result)))
    }
}
