//! What every driver shares: handlers for what the peer asks, and handles for what is asked of the peer.

mod audience;
mod builder;
mod calls;
mod clock;
mod context;
mod custom;
mod error;
mod failure;
mod form;
pub mod handler;
mod host;
#[cfg(feature = "schemas")]
mod json_schema;
mod link;
mod peer;
mod pending;
mod random;
mod registry;
mod reply;
mod role;
mod service;
mod session;
mod sync;
mod tasks;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod uri;
mod uri_template;
mod waiter;
mod work;

pub use calls::Calls;
pub use context::{Cancelled, Context, RequestInfo};
pub use custom::Fault;
pub use error::CallError;
pub use failure::Failure;
pub use host::{Host, HostBuilder, InvalidRoot, PageLimits, Pages, Roots};
#[cfg(feature = "schemas")]
pub use json_schema::{OutputSchema, SchemaError};
pub use link::{Application, Job, Link, Order};
pub use peer::Peer;
pub use pending::{Canceller, Pending};
pub use role::Role;
pub use service::{
    Changes, Completing, Entry, IntoCompletion, IntoPrompt, IntoResource, IntoToolResult, PageVisit, Prompt,
    RegisterError, Resource, ResourceTemplate, Service, ServiceBuilder, Structured, Tool, base64,
};
pub use session::{ClientSession, ServerSession, Session};
pub use tasks::{Started, TaskHandle, TaskPolicy};
pub use uri::is_uri;
pub use uri_template::{InvalidTemplate, UriTemplate};
