//! Requests about resources and their templates.

use std::{collections::BTreeSet, sync::Arc};

use mcp_proto::{
    connection::{SendError, ServerRole},
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
        in_flight::InFlight,
        request::params,
        responder::{Responder, of_any_result},
        rpc_result::RpcResult,
        state::{Role, SessionState},
    },
    server::{
        catalog::{FoundResource, ResourceHandler},
        client_key::ClientKey,
        required_scopes::lacks_scopes,
        resource::Begun,
        routes::{Request, Route, SentRequest},
        scopes::has_scopes,
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

/// The resources of a subscription that belong to other servers which do not notify of their changes.
pub(in crate::server) type Silent = BTreeSet<String>;

/// The resources of a subscription that belong to other servers.
#[derive(Default)]
pub(in crate::server) struct Origins {
    /// The subscriptions that have begun there, by URI.
    begun: Vec<(String, Deferred<Result<Begun, Failure>>)>,
    /// The resources without a subscription: the client may not read them, or there are too many.
    silent: Silent,
}

impl Origins {
    /// Returns whether the subscription can be accepted at once.
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.silent.is_empty()
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
        let ReadResourceParams { uri, .. } = params(inbound.params.as_ref())?;
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
                self.run_with_input(inbound, caller(inbound), kind, |_| false, of_any_result(run))
            }
            ResourceHandler::Template(template, variables) => {
                let kind = template.kind();
                let run = move |context: &Context| template.run(uri, &variables, context).map(finish);
                self.run_with_input(inbound, caller(inbound), kind, |_| false, of_any_result(run))
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
            let client = ClientKey::of(inbound.connection, self.calls.number());
            let run = move |context: &Context| {
                let context = context.clone();
                origin.subscribe(&uri, &client).map(move |subscribed| {
                    let begun = subscribed.map_err(|failure| context.explain(failure))?;
                    let (shared, limits) = (&context.shared, context.shared.app.0.subscription_limits);
                    shared.state.subscriptions.insert(uri, begun, limits).map(|()| EmptyResult::default())
                })
            };
            return Ok(Some(self.handler_job(inbound, HandlerKind::Async, of_any_result(run))));
        }
        Ok(self.answer(inbound, move |shared| {
            let limits = shared.app.0.subscription_limits;
            shared.state.subscriptions.insert(uri, None, limits).map(|()| EmptyResult::default())
        }))
    }

    /// Accepts a subscription without a session, of a service without tasks, when the other servers notify of the
    /// resources that it names, or cannot (2026-07-28).
    pub(in crate::server) fn listen_to_origins(self: &Arc<Self>, inbound: &Request<'_>) -> Option<Job> {
        let (connection, key) = (inbound.connection.clone(), inbound.key);
        let accept = move |silent: &Silent| {
            connection.update(|conn, _| conn.accept_subscription_with(key, |_| false, |uri| !silent.contains(uri)))
        };
        Some(self.listen_job(inbound, self.subscribe_to_origins(inbound), accept))
    }

    /// Creates the job that accepts a subscription after other servers have begun to notify of its resources, or have
    /// refused to. The acknowledgement leaves out the resources of which they do not notify.
    pub(in crate::server) fn listen_job(
        self: &Arc<Self>,
        inbound: &Request<'_>,
        origins: Origins,
        accept: impl Fn(&Silent) -> Result<(), SendError> + Send + 'static,
    ) -> Job {
        let (shared, connection, key) = (self.clone(), inbound.connection.clone(), inbound.key);
        let in_flight = self.in_flight.begin(InFlight::from_pool(), key, None, |_| {});
        // Responds with an error if the job is dropped.
        let responder = Responder::of(self.context(&connection, in_flight.clone()), key);
        Job::future(Schedule::Concurrent, async move {
            let all = async {
                let (mut held, mut silent) = (Vec::<Box<dyn Send>>::new(), origins.silent);
                for (uri, subscribed) in origins.begun {
                    match subscribed.await {
                        Ok(begun) => held.extend(begun),
                        Err(_) => _ = silent.insert(uri),
                    }
                }
                (held, silent)
            };
            let (held, silent) = in_flight.unless_cancelled(all).await.unwrap_or_default();
            let requests = &shared.state.listen_requests;
            // Before it can be cancelled as a subscription.
            requests.hold(key, held);
            let accepted = connection.when_writable(move || accept(&silent)).await;
            let is_open = accepted.is_ok() && connection.read(|conn| conn.context(key).is_some());
            if !is_open {
                requests.release(key);
            }
            responder.disarm();
            shared.in_flight.end(key);
        })
    }

    /// Begins to subscribe to those resources that belong to other servers, as far as the client may read them.
    pub(in crate::server) fn subscribe_to_origins(self: &Arc<Self>, inbound: &Request<'_>) -> Origins {
        let mut origins = Origins::default();
        let Ok(SubscriptionsListenParams { notifications, .. }) = params(inbound.params.as_ref()) else {
            return origins;
        };
        let service = &*self.app.0;
        let visible = service.visible_to(inbound);
        let sender = inbound.connection.read(|conn| ServerRole::info(conn, Some(inbound.key))).principal;
        let client = ClientKey::of(inbound.connection, self.calls.number());
        for (number, uri) in notifications.resource_subscriptions.into_iter().flatten().enumerate() {
            let Some(found) = visible.find(service, &uri) else { continue };
            let Some(origin) = found.handler.origin() else { continue };
            let is_within = number < service.subscription_limits.number;
            if is_within && has_scopes(inbound.connection, sender.as_ref(), &found.scopes) {
                let subscribed = origin.subscribe(&uri, &client);
                origins.begun.push((uri, subscribed));
            } else {
                origins.silent.insert(uri);
            }
        }
        origins
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
