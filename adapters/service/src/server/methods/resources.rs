//! Requests about resources and their templates.

use std::sync::Arc;

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    schema::{
        EmptyResult, ListResourceTemplatesParams, ListResourceTemplatesResult, ListResourcesParams,
        ListResourcesResult, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SubscribeParams,
        SubscriptionsListenParams, UnsubscribeParams,
    },
    wire::ErrorObject,
};

use super::common::{Page, caller, valid_uri};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{HandlerKind, Job, Schedule},
    },
    inbound::{
        context::Context,
        failure::{Failure, resource_not_found},
        request::params,
        responder::of_any_result,
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    server::{
        catalog::{FoundResource, ResourceHandler},
        required_scopes::lacks_scopes,
        resource::Begun,
        routes::{Request, Route, SentRequest},
        visible_items::VisibleItems,
    },
};

pub(super) const ROUTE: Route = Route { answer, scopes };

fn scopes(shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
    let find = || VisibleItems::of(sent).find(&shared.app.0, &sent.params?.member("uri")?.decode::<String>().ok()?);
    let needs = matches!(sent.method, Method::ReadResource | Method::Subscribe);
    needs.then(find).flatten().map(|found| found.scopes).unwrap_or_default()
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
        let Some(FoundResource { handler, scopes }) = app.0.visible_to(inbound).find(&app.0, &uri) else {
            return Err(not_found(inbound, &uri));
        };
        if let Some(refused) = lacks_scopes(inbound, &scopes) {
            return refused.map(|()| None);
        }
        let is_private = !scopes.is_empty();
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
        let Some(FoundResource { handler, scopes }) = service.visible_to(inbound).find(service, &uri) else {
            return Err(not_found(inbound, &uri));
        };
        if let Some(refused) = lacks_scopes(inbound, &scopes) {
            return refused.map(|()| None);
        }
        if let Some(origin) = handler.origin() {
            let run = move |context: &Context| {
                let context = context.clone();
                origin.subscribe(&uri).map(move |subscribed| {
                    // Held until the client is a subscriber.
                    let _begun = subscribed.map_err(|failure| context.explain(failure))?;
                    let (shared, limits) = (&context.shared, context.shared.app.0.subscription_limits);
                    shared.state.subscriptions.insert(uri, limits).map(|()| EmptyResult::default())
                })
            };
            return Ok(Some(self.handler_job(inbound, inbound.meta(), HandlerKind::Async, of_any_result(run))));
        }
        Ok(self.answer(inbound, move |shared| {
            shared.state.subscriptions.insert(uri, shared.app.0.subscription_limits).map(|()| EmptyResult::default())
        }))
    }

    /// Returns whether a subscription without a session names resources of other servers and no tasks
    /// (2026-07-28). The other servers begin to notify of the resources in any case.
    pub(in crate::server) fn listens_to_origins(self: &Arc<Self>, inbound: &Request<'_>) -> bool {
        let Ok(SubscriptionsListenParams { notifications, .. }) = params(inbound.params.as_ref()) else { return false };
        let names_tasks = notifications.task_ids.is_some_and(|tasks| !tasks.is_empty());
        if names_tasks {
            self.subscribe_to_origins(inbound).into_iter().for_each(|begun| drop(Deferred::poll_once(begun)));
        }
        !names_tasks
    }

    /// Accepts a subscription when the other servers notify of the resources that it names, or cannot.
    pub(in crate::server) fn listen_to_origins(self: &Arc<Self>, inbound: &Request<'_>) -> Option<Job> {
        let (begun, connection, key) = (self.subscribe_to_origins(inbound), inbound.connection.clone(), inbound.key);
        Some(Job::future(Schedule::Concurrent, async move {
            // Held until the client is a subscriber.
            let mut held = Vec::new();
            for subscribed in begun {
                // Without its server the subscription is silent.
                held.extend(subscribed.await);
            }
            // It is only ever refused as busy.
            let accept = || connection.update(|conn, _| conn.accept_subscription(key, |_| false));
            let _ = connection.when_writable(accept).await;
            drop(held);
        }))
    }

    fn subscribe_to_origins(self: &Arc<Self>, inbound: &Request<'_>) -> Vec<Deferred<Result<Begun, Failure>>> {
        let Ok(SubscriptionsListenParams { notifications, .. }) = params(inbound.params.as_ref()) else {
            return Vec::new();
        };
        let service = &*self.app.0;
        let visible = service.visible_to(inbound);
        let uris = notifications.resource_subscriptions.unwrap_or_default();
        let origins = uris.iter().take(service.subscription_limits.number).filter_map(|uri| {
            let origin = visible.find(service, uri)?.handler.origin()?;
            Some(origin.subscribe(uri))
        });
        origins.collect()
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
