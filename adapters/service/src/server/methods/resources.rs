//! Requests about resources and their templates.

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

use super::common::{Page, caller, valid_uri};
use crate::{
    driver_api::job::Job,
    inbound::{
        context::Context,
        failure::resource_not_found,
        request::params,
        responder::of_any_result,
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    server::{
        catalog::ResourceHandler,
        routes::{Request, Route},
    },
};

pub(super) const ROUTE: Route = Route { answer, scopes: |_, _| Vec::new() };

fn answer(shared: &Arc<SessionState<ServerRole>>, method: Method, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
    match method {
        Method::ReadResource => shared.read_resource(inbound),
        Method::Subscribe => shared.subscribe(inbound),
        Method::Unsubscribe => shared.unsubscribe(inbound),
        Method::ListResourceTemplates => {
            let ListResourceTemplatesParams { cursor, .. } = params(inbound.params.as_ref())?;
            Ok(shared.list(inbound, cursor, |catalog| &catalog.templates, templates))
        }
        _ => {
            let ListResourcesParams { cursor, .. } = params(inbound.params.as_ref())?;
            Ok(shared.list(inbound, cursor, |catalog| &catalog.resources, resources))
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

impl SessionState<ServerRole> {
    fn read_resource(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let ReadResourceParams { uri, meta, .. } = params(inbound.params.as_ref())?;
        let uri = valid_uri(uri)?;
        let app = self.app.clone();
        match app.0.visible_to(inbound).find(&app.0, &uri) {
            Some(ResourceHandler::Resource(resource)) => {
                let kind = resource.kind();
                let run =
                    move |context: &Context| resource.run(context).map(move |read| Ok(app.0.restrict_cache(read?)));
                self.run_with_input(inbound, caller(inbound), meta, kind, |_| false, of_any_result(run))
            }
            Some(ResourceHandler::Template(template, variables)) => {
                let kind = template.kind();
                let run = move |context: &Context| {
                    template.run(uri, &variables, context).map(move |read| Ok(app.0.restrict_cache(read?)))
                };
                self.run_with_input(inbound, caller(inbound), meta, kind, |_| false, of_any_result(run))
            }
            None => Err(not_found(inbound, &uri)),
        }
    }

    fn subscribe(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let SubscribeParams { uri, .. } = params(inbound.params.as_ref())?;
        let uri = valid_uri(uri)?;
        let service = &*self.app.0;
        if service.visible_to(inbound).find(service, &uri).is_none() {
            return Err(not_found(inbound, &uri));
        }
        Ok(self.answer(inbound, move |shared| {
            shared.state.subscriptions.insert(uri, shared.app.0.subscription_limits).map(|()| EmptyResult::default())
        }))
    }

    fn unsubscribe(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let UnsubscribeParams { uri, .. } = params(inbound.params.as_ref())?;
        let uri = valid_uri(uri)?;
        Ok(self.answer(inbound, move |shared| {
            shared.state.subscriptions.remove(&uri);
            Ok(EmptyResult::default())
        }))
    }
}

fn not_found(inbound: &Request<'_>, uri: &str) -> ErrorObject {
    let info = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key)));
    resource_not_found(uri, info.version)
}
