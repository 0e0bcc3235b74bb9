//! What is asked about resources and their templates.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{
        EmptyResult, ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams,
        ListResourcesResult, ReadResourceParams, Resource, ResourceTemplate, SubscribeParams, UnsubscribeParams,
    },
    wire::ErrorObject,
};

use super::common::{Page, asker, valid};
use crate::{
    driver_api::job::Job,
    inbound::{
        answer::Answer,
        context::Context,
        failure::resource_not_found,
        request::params,
        responder::of_any_result,
        state::{Role, Shared},
    },
    server::{catalog::Found, routes::Request},
};

pub(super) fn answer(shared: &Arc<Shared<ServerRole>>, method: Method, asked: &Request<'_>) -> Answer<Option<Job>> {
    match method {
        Method::ReadResource => shared.read_resource(asked),
        Method::Subscribe => shared.subscribe(asked),
        Method::Unsubscribe => shared.unsubscribe(asked),
        Method::ListResourceTemplates => {
            let ListResourceTemplatesParams { cursor, .. } = params(asked.params.as_ref())?;
            Ok(shared.list(asked, cursor, |catalog| &catalog.templates, templates))
        }
        _ => {
            let ListResourcesParams { cursor, .. } = params(asked.params.as_ref())?;
            Ok(shared.list(asked, cursor, |catalog| &catalog.resources, resources))
        }
    }
}

fn resources(page: Page<Resource>) -> ListResourcesResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListResourcesResult { next_cursor, ttl_ms, cache_scope, ..ListResourcesResult::new(items) }
}

fn templates(page: Page<ResourceTemplate>) -> ListResourceTemplatesResult {
    let Page { items, next_cursor, hints } = page;
    let (ttl_ms, cache_scope) = (Some(hints.ttl_ms), Some(hints.scope));
    ListResourceTemplatesResult { next_cursor, ttl_ms, cache_scope, ..ListResourceTemplatesResult::new(items) }
}

impl Shared<ServerRole> {
    fn read_resource(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let ReadResourceParams { uri, meta, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let home = self.home.clone();
        match home.0.view(asked).find(&home.0, &uri) {
            Some(Found::Resource(resource)) => {
                let kind = resource.kind();
                let run = move |context: &Context| resource.run(context).map(move |read| Ok(home.0.confined(read?)));
                self.in_rounds(asked, asker(asked), meta, kind, |_| false, of_any_result(run))
            }
            Some(Found::Template(template, variables)) => {
                let kind = template.kind();
                let run = move |context: &Context| {
                    template.run(uri, &variables, context).map(move |read| Ok(home.0.confined(read?)))
                };
                self.in_rounds(asked, asker(asked), meta, kind, |_| false, of_any_result(run))
            }
            None => Err(not_found(asked, &uri)),
        }
    }

    fn subscribe(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let SubscribeParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        let service = &*self.home.0;
        if service.view(asked).find(service, &uri).is_none() {
            return Err(not_found(asked, &uri));
        }
        Ok(self.answer(asked, move |shared| {
            shared.state.subscriptions.insert(uri, shared.home.0.subscription_limits).map(|()| EmptyResult::default())
        }))
    }

    fn unsubscribe(self: &Arc<Self>, asked: &Request<'_>) -> Answer<Option<Job>> {
        let UnsubscribeParams { uri, .. } = params(asked.params.as_ref())?;
        let uri = valid(uri)?;
        Ok(self.answer(asked, move |shared| {
            shared.state.subscriptions.remove(&uri);
            Ok(EmptyResult::default())
        }))
    }
}

fn not_found(asked: &Request<'_>, uri: &str) -> ErrorObject {
    let info = asked.connection.read(|conn| ServerRole::info(conn, Some(asked.key)));
    resource_not_found(uri, info.version)
}
