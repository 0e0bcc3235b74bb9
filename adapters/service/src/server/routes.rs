//! The routing table: which code answers the requests about each topic.

use std::sync::{Arc, OnceLock};

use mcp_proto::{connection::ServerRole, protocol::Method, wire::ErrorObject};

use crate::{
    driver_api::job::Job,
    inbound::{request::InboundRequest, rpc_result::RpcResult, state::SessionState},
};

/// A request of a client.
pub(super) type Request<'a> = InboundRequest<'a, ServerRole>;

/// The code that responds to the requests about a topic.
pub(super) type Route = fn(&Arc<SessionState<ServerRole>>, Method, &Request<'_>) -> RpcResult<Option<Job>>;

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
            |route| route(shared, method, inbound),
        ))
    }

    pub(super) fn enable(&self, key: RouteKey, route: Route) {
        self.0[key as usize].get_or_init(|| route);
    }
}
