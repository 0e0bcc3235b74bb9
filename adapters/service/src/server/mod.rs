//! What a server offers: tools, prompts and resources, registered once and served on any number of connections.

pub(crate) mod builder;
pub(crate) mod call_params;
pub(crate) mod capabilities;
pub(crate) mod catalog;
pub(crate) mod client_requests;
pub(crate) mod completion;
#[cfg(feature = "skills")]
pub(crate) mod directory;
pub(crate) mod in_flight;
pub(crate) mod input_required;
pub(crate) mod methods;
pub(crate) mod peer;
pub(crate) mod prompt;
pub(crate) mod register_error;
pub(crate) mod resource;
pub(crate) mod resource_template;
pub(crate) mod role;
pub(crate) mod service;
#[cfg(feature = "skills")]
pub(crate) mod skill;
pub(crate) mod tasks;
pub(crate) mod tool;
pub(crate) mod tool_result;
pub(crate) mod visibility;
