//! The routing table: the code that handles the requests about each topic.

use std::sync::{Arc, OnceLock};

use mcp_proto::{
    connection::ServerRole,
    protocol::Method,
    wire::{ErrorObject, RawJson},
};

use crate::{
    driver_api::job::Job,
    inbound::{request::InboundRequest, rpc_result::RpcResult, state::SessionState},
    server::visibility::Audience,
};

/// A request of a client.
pub(super) type Request<'a> = InboundRequest<'a, ServerRole>;

/// Responds to a request, or returns its job.
type RouteHandler = fn(&Arc<SessionState<ServerRole>>, Method, &Request<'_>) -> RpcResult<Option<Job>>;

/// The code that responds to the requests about a topic.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) answer: RouteHandler,
    /// Returns the scopes that a request needs. None if it is going to be refused for another reason.
    pub(super) scopes: fn(&SessionState<ServerRole>, &SentRequest<'_>) -> Vec<String>,
}

/// A request that was not passed to the connection yet.
pub(super) struct SentRequest<'a> {
    /// Returns what decides which items its sender may see, if not all of them.
    pub(super) audience: &'a dyn Fn() -> Option<Arc<Audience>>,
    pub(super) method: Method,
    pub(super) params: Option<&'a RawJson<'a>>,
}

impl SentRequest<'_> {
    /// Returns the name of the item that it is about.
    pub(super) fn subject(&self) -> Option<String> {
        self.params?.member(self.method.subject_param()?)?.decode().ok()
    }
}

/// The topic of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteKey {
    Tools,
    Prompts,
    Resources,
    Completion,
    Tasks,
    #[cfg(feature = "skills")]
    Skills,
}

impl RouteKey {
    /// The number of topics.
    const ALL: usize = if cfg!(feature = "skills") { 6 } else { 5 };

    const fn of(method: Method) -> Option<Self> {
        Some(match method {
            Method::CallTool | Method::ListTools => Self::Tools,
            Method::GetPrompt | Method::ListPrompts => Self::Prompts,
            Method::ReadResource
            | Method::ListResources
            | Method::ListResourceTemplates
            | Method::Subscribe
            | Method::Unsubscribe => Self::Resources,
            Method::Complete => Self::Completion,
            Method::GetTask
            | Method::GetTaskResult
            | Method::ListTasks
            | Method::CancelTask
            | Method::ExtGetTask
            | Method::ExtUpdateTask
            | Method::ExtCancelTask
            | Method::Listen => Self::Tasks,
            #[cfg(feature = "skills")]
            Method::ListSkills | Method::GetSkill | Method::ReadDirectory => Self::Skills,
            _ => return None,
        })
    }
}

/// The routing table. A route stays enabled: items of its topic may be registered again.
#[derive(Default)]
pub(super) struct Routes([OnceLock<Route>; RouteKey::ALL]);

impl Routes {
    /// Responds to a request; `None` if no topic has its method.
    pub(super) fn handle(
        &self,
        shared: &Arc<SessionState<ServerRole>>,
        method: Method,
        inbound: &Request<'_>,
    ) -> Option<RpcResult<Option<Job>>> {
        let route = self.0[RouteKey::of(method)? as usize].get();
        Some(route.map_or_else(
            || Err(ErrorObject::method_not_found(method.as_str())),
            |route| (route.answer)(shared, method, inbound),
        ))
    }

    /// Returns the scopes that a request needs.
    pub(super) fn scopes(&self, shared: &SessionState<ServerRole>, sent: &SentRequest<'_>) -> Vec<String> {
        let route = RouteKey::of(sent.method).and_then(|key| self.0[key as usize].get());
        route.map_or_else(Vec::new, |route| (route.scopes)(shared, sent))
    }

    /// Returns whether there is code for the requests about a topic.
    pub(super) fn has(&self, key: RouteKey) -> bool {
        self.0[key as usize].get().is_some()
    }

    pub(super) fn enable(&self, key: RouteKey, route: Route) {
        self.0[key as usize].get_or_init(|| route);
    }
}
