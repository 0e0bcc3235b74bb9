//! Requests and notifications of the peer, for both roles: the state of a session, dispatch, middleware, the handler
//! with its context, and the response.

pub(crate) mod builder_common;
pub(crate) mod catch_panic;
pub(crate) mod completion_request;
pub(crate) mod context;
pub(crate) mod custom_methods;
pub(crate) mod dispatch;
pub(crate) mod failure;
pub(crate) mod fault;
pub mod handler;
pub(crate) mod in_flight;
pub(crate) mod layered_call;
pub(crate) mod log;
#[cfg(feature = "log-layer")]
pub(crate) mod log_target;
pub(crate) mod middleware;
pub(crate) mod received;
pub(crate) mod replaceable;
pub(crate) mod request;
pub(crate) mod request_scope;
pub(crate) mod responder;
pub(crate) mod rpc_result;
pub(crate) mod session;
pub(crate) mod session_registry;
pub(crate) mod session_tasks;
pub(crate) mod shared_state;
pub(crate) mod span;
pub(crate) mod state;
pub(crate) mod task_policy;
