//! Server applications: tools, prompts and resources, registered once and served on any number of connections.

pub(crate) mod builder;
mod call_arguments;
pub(crate) mod call_params;
pub(crate) mod capabilities;
pub(crate) mod catalog;
pub(crate) mod catalog_update;
pub(crate) mod client_key;
pub(crate) mod client_requests;
pub(crate) mod completion;
pub(crate) mod composition;
#[cfg(feature = "skills")]
pub(crate) mod directory;
#[cfg(feature = "schemas")]
pub(crate) mod elicited;
pub(crate) mod file;
pub mod form;
pub(crate) mod in_flight;
pub(crate) mod inner;
pub(crate) mod input_required;
pub(crate) mod layered_tool_call;
pub(crate) mod methods;
pub(crate) mod mount;
pub(crate) mod offers;
pub(crate) mod peer;
mod pool;
pub(crate) mod pooled_call;
pub(crate) mod prompt;
pub(crate) mod register_error;
pub(crate) mod required_scopes;
pub(crate) mod resource;
pub(crate) mod resource_subscriptions;
pub(crate) mod resource_template;
pub(crate) mod role;
pub(crate) mod routes;
pub(crate) mod scopes;
pub(crate) mod service;
#[cfg(feature = "skills")]
pub(crate) mod skill;
pub(crate) mod tasks;
pub(crate) mod tool;
pub(crate) mod tool_result;
pub(crate) mod visibility;
pub(crate) mod visible_items;
