//! Handlers for what a peer asks, handles for what it is asked, and the seam to the drivers that move the bytes.
//!
//! The core ([`mcp_proto`]) says what the protocol means; a driver, such as `mcp-blocking`, moves bytes and runs jobs. This
//! crate is in between, and the same for every driver.
//!
//! # Servers
//!
//! A [`Service`] has tools, prompts and resources. Each is a function over types that serde reads, and whatever it returns
//! is made a result:
//!
//! ```
//! # #[cfg(feature = "schemas")] {
//! use mcp_service::{Context, Failure, Prompt, Resource, Service, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Dig {
//!     /// How deep, in metres.
//!     depth: u32,
//! }
//!
//! let service = Service::builder("digger", "1.0.0")
//!     .tool(
//!         Tool::new("dig", |dig: Dig, context: Context| {
//!             for metre in 1..=dig.depth {
//!                 context.check()?; // fails once the request is cancelled
//!                 context.progress(metre.into(), Some(dig.depth.into()), None).wait()?;
//!             }
//!             Ok::<_, Failure>(format!("{} m deep", dig.depth))
//!         })
//!         .description("Digs a hole"),
//!     )
//!     .prompt(Prompt::new("encourage", || "Dig on!"))
//!     .resource(Resource::new("hole://bottom", "bottom", || "dark").mime_type("text/plain"))
//!     .build()?;
//! # }
//! # Ok::<(), mcp_service::RegisterError>(())
//! ```
//!
//! - Arguments that do not fit the schema never reach the function. How that is said depends on the revision.
//! - Errors are a [`Failure`]: from a tool the model reads them, an [`ErrorObject`](mcp_proto::wire::ErrorObject) stays
//!   an error of the protocol. A panic fails the one request.
//! - The [`Context`] reports progress, logs, asks the client's model and user, and knows whether the request was
//!   cancelled. It is the only way to ask back, so that a handler works in every revision.
//! - A handler can be [asynchronous](#asynchronous-handlers) instead, whatever it handles.
//! - Tools can run [as tasks](#tasks), without a change to the function.
//! - What is offered can [change](Service::change) at any time, also from within a handler.
//!
//! # Asynchronous handlers
//!
//! Whatever takes a function has a sibling that takes a function which hands back a future; its name ends in `_async`:
//!
//! ```
//! use mcp_service::{CallError, Context, Service, Tool};
//!
//! let service = Service::builder("sleeper", "1.0.0")
//!     .tool(Tool::new_async("sleep", async |context: Context| {
//!         context.sleep(std::time::Duration::from_secs(1)).await?;
//!         Ok::<_, CallError>("slept")
//!     }))
//!     .build()?;
//! # Ok::<(), mcp_service::RegisterError>(())
//! ```
//!
//! A function may block, and runs on a thread. A future must not, and costs none; it runs on whatever runtime the driver
//! is of, or on a thread where there is no runtime. Both see the same [`Context`]: what may have to wait comes back as
//! [`Deferred`], to be waited for by a function and awaited by a future.
//!
//! A request that is cancelled does not end its handler, which may be in the middle of something: the handler
//! [notices](Context::is_cancelled), or is [told](Context::cancelled), and what it waits for through its context ends at once. The
//! future is dropped only if it is still not done when the connection is gone, and is not work on a task that has another.
//!
//! # Around handlers
//!
//! What many handlers need, such as checks, measurements and traces, is [put around](ServiceBuilder::layer) all of them, be they
//! functions or futures:
//!
//! ```
//! use mcp_service::{IncomingRequest, Next, Service, Tool};
//!
//! let service = Service::builder("vault", "1.0.0")
//!     .tool(Tool::new("open", || "open"))
//!     .layer(async |call: IncomingRequest, next: Next| {
//!         if call.name() == Some("open") && call.context().info().principal.is_none() {
//!             return Err("Authentication required".into());
//!         }
//!         let completed = next.run().await;
//!         eprintln!("{} took {:?}: {:?}", call.method(), completed.elapsed(), completed.kind());
//!         Ok(completed)
//!     })
//!     .build()?;
//! # Ok::<(), mcp_service::RegisterError>(())
//! ```
//!
//! Who gets to see which tool, prompt or resource is said by [one predicate](ServiceBuilder::visible), for lists and requests
//! alike.
//!
//! # Tasks
//!
//! A call that takes long can become a task: the client has something in hand at once, and comes back for the result. A tool
//! says whether it [can be one or has to](Tool::task_support), and its function stays the same.
//!
//! - In a session (2025-11-25) the client decides, and tasks end with the connection.
//! - Without a session (2026-07-28) the service decides, and its tasks are its own: clients that have them come back
//!   over any connection, and can be notified of changes. A question that such a task asks through its [`Context`] is
//!   part of the task until it is answered, the message of its [progress](Context::progress) is its status message, and
//!   a tool can [begin inline](Tool::defer_task) and become a task when it knows that there is much to do.
//! - A handler notices the cancellation of its task like that of a request, and ends it as it likes.
//! - How many tasks there are, what they weigh, and how long they are kept is bounded by a [`TaskPolicy`].
//!
//! # Skills
//!
//! A [`Skill`] is a folder that tells a model how to do something: a file `SKILL.md` and whatever belongs to it (feature
//! `skills`). A service lists its skills with the digests of all files, and serves the files as resources. A client asks for
//! one file after the other when it is needed, with [`load_skill`](Peer::load_skill) and
//! [`read_skill_file`](Peer::read_skill_file), which hand out nothing that differs from what was listed.
//!
//! # Clients
//!
//! A [`Host`] answers for the model, the user and the folders of a client, and hears notifications. Its server is a
//! [`Peer`], which has a method for everything that can be asked; each comes back as a [`Pending`], to be waited for or
//! awaited, and dropping that cancels the request. Its lists come page by page, as [`Pages`].
//!
//! Hosts speak every revision, and detect the one of each server. Some features of a `Peer` exist only without a
//! session (2026-07-28): results with a time to live are used again, unless they are requested [`bypass_cache`](Peer::bypass_cache),
//! and changes are reported to clients that [`listen`](Peer::listen), from one connection to the next.
//!
//! A call that the server makes a task (2026-07-28) stays one call: it is followed until it is done, and what the task asks goes
//! to the same handlers as everything else. Who would rather have the task in hand uses [`run_tool`](Peer::run_tool), and
//! can keep its id for [later](Peer::follow_task).
//!
//! # Drivers
//!
//! A driver owns a [`Connection`](mcp_proto::connection::Connection) and its I/O. It lends the connection out as a [`ConnectionHandle`],
//! and hands every event to the [`Application`] that runs on it: a session of a [`Service`] or a [`Host`], one for
//! each connection. What takes time comes back as a [`Job`], a function or a future; where that runs is up to the driver.
//! Responses, cancellations and progress are dealt with at once, so they arrive however busy the handlers are. Who waits
//! for a connection does so in its [`Waiters`].
//!
//! # Features
//!
//! - `schemas` (default): JSON Schemas from types (`schemars`), and values checked against all that schemas can say
//!   (`jsonschema`): draft 4, 6, 7, 2019-09 and 2020-12, of which the last is meant where a schema does not say. Without it,
//!   tools bring their schema as text, and it can say which types the members of an object have, which of them are required,
//!   and whether there may be others. That is checked; a tool whose schema says more is refused with
//!   [`RegisterError::Schema`].
//! - `skills` (default): skills of services, and their files checked by clients.
//! - `tracing`: a span `request` for each request (target `mcp_service`), from when it comes in until it is answered, with its
//!   `method`, `name`, `id`, `era`, `version`, `principal`, `traceparent`, `tracestate` and `baggage`, in the end with `outcome`
//!   (`result`, `failed`, `questions`, `error`, `cancelled`) and `code`. What a handler does happens in it. Events for handlers that panic
//!   (error), for what the peer does wrong (warn), for errors (info), for connections that begin and end (debug).
//! - `testing`: a client in memory with virtual time, for tests of servers: see `testing::TestClient`.

mod client;
pub mod driver_api;
mod inbound;
mod json_schema;
mod outbound;
mod server;
#[cfg(feature = "skills")]
mod skills;
mod tasks;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod util;

pub use client::{
    Host,
    builder::HostBuilder,
    pages::{PageLimits, Pages},
    roots::{InvalidRoot, Roots},
    subscription::Subscription,
};
pub use driver_api::{
    block_on::block_on,
    connection_handle::{Application, ConnectionHandle},
    deferred::Deferred,
    job::{Job, JobFunction, JobFuture, JobKind, Schedule},
    waiters::{Capacity, Waiters},
};
pub use inbound::{
    context::Context,
    failure::Failure,
    fault::Fault,
    handler,
    middleware::{Completed, IncomingRequest, Next},
    request::RequestInfo,
    rpc_result::ResponseKind,
    session::{ClientSession, ServerSession, Session},
    state::Role,
    task_policy::TaskPolicy,
};
pub use json_schema::{OutputSchema, SchemaError};
pub use outbound::subscriptions::Subscriptions;
pub use outbound::{
    calls::Calls,
    error::CallError,
    peer::Peer,
    pending::{Canceller, Pending},
};
/// To derive [`JsonSchema`](schemars::JsonSchema) for arguments, in the version that this crate knows.
#[cfg(feature = "schemas")]
pub use schemars;
#[cfg(feature = "skills")]
pub use server::skill::Skill;
pub use server::{
    builder::ServiceBuilder,
    catalog_update::{CatalogUpdate, Registration},
    client_requests::UrlElicitation,
    completion::{CompletionRequest, IntoCompletion},
    input_required::ClientResponses,
    prompt::{IntoPrompt, Prompt},
    register_error::RegisterError,
    resource::{IntoResource, Resource, base64},
    resource_template::ResourceTemplate,
    service::Service,
    tool::Tool,
    tool_result::{IntoToolResult, Structured},
    visibility::CatalogItem,
};
#[cfg(feature = "skills")]
pub use skills::verify::{SkillFault, SkillFile};
pub use tasks::handle::{ResultOrTask, TaskHandle};
pub use util::{
    uri::is_uri,
    uri_template::{InvalidTemplate, UriTemplate},
};
