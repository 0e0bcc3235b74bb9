//! Requests about resources and their templates.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{
        EmptyResult, ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams,
        ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SubscribeParams,
        UnsubscribeParams,
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
        required_scopes::lacks_scopes,
        routes::{Request, Route, SentRequest},
        visible_items::VisibleItems,
    },
};

pub(super) const ROUTE: Route = Route { answer, scopes };

fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    let find = || VisibleItems::of(sent).find(&shared.app.0, &sent.params?.member("uri")?.decode::<String>().ok()?);
    let needs = matches!(sent.method, Method::ReadResource | Method::Subscribe);
    needs.then(find).flatten().map(|handler| handler.scopes().to_vec()).unwrap_or_default()
}

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
        let Some(handler) = app.0.visible_to(inbound).find(&app.0, &uri) else {
            return Err(not_found(inbound, &uri));
        };
        if let Some(refused) = lacks_scopes(inbound, handler.scopes()) {
            return refused.map(|()| None);
        }
        let is_private = !handler.scopes().is_empty();
        let finish = move |read: RpcResult<ReadResourceResult>| Ok(app.0.restrict_cache(read?, is_private));
        match handler {
            ResourceHandler::Resource(resource) => {
                let kind = resource.kind();
                let run = move |context: &Context| resource.run(context).map(finish);
                self.run_with_input(inbound, caller(inbound), meta, kind, |_| false, of_any_result(run))
            }
            ResourceHandler::Template(template, variables) => {
                let kind = template.kind();
                let run = move |context: &Context| template.run(uri, &variables, context).map(finish);
                self.run_with_input(inbound, caller(inbound), meta, kind, |_| false, of_any_result(run))
            }
        }
    }

    fn subscribe(self: &Arc<Self>, inbound: &Request<'_>) -> RpcResult<Option<Job>> {
        let SubscribeParams { uri, .. } = params(inbound.params.as_ref())?;
        let uri = valid_uri(uri)?;
        let service = &*self.app.0;
        let Some(handler) = service.visible_to(inbound).find(service, &uri) else {
            return Err(not_found(inbound, &uri));
        };
        if let Some(refused) = lacks_scopes(inbound, handler.scopes()) {
            return refused.map(|()| None);
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
