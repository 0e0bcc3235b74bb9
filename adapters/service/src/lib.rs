//! Typed handlers and clients for the Model Context Protocol, independent of any runtime.
//!
//! The core, [`mcp_proto`], implements the protocol; a driver, such as `mcp-blocking`, does the I/O and runs jobs. This
//! crate is the layer between them, and the same for every driver.
//!
//! The [guide](https://github.com/mcp-proto/mcp-proto/blob/main/docs/guide/src/introduction.md) has a tutorial, how-to
//! pages, and a section with code for each feature of the protocol.
//!
//! # Servers
//!
//! A [`Service`] has tools, prompts and resources. Each is a function over types that serde can deserialize, and its
//! return value is converted into a result:
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
//! - Arguments that do not match the schema never reach the function. The client gets an error in the form of its
//!   revision.
//! - Errors are a [`Failure`]: the model reads the failure of a tool, and an
//!   [`ErrorObject`](mcp_proto::wire::ErrorObject) remains an error of the protocol. A panic fails only its request.
//! - The [`Context`] reports progress, logs, makes requests to the client's model and user, and notices cancellation.
//!   With its requests to the client a handler works in every revision.
//! - Two things are silent in 2026-07-28. A client gets no [log messages](Context::log) unless its request [asks
//!   for](Peer::logging) them. And a handler that [requests input](Context::elicit) ends there, and runs again from its
//!   start with the response: [side effects](Context::side_effect) come after the last request.
//! - Every handler can be [asynchronous](#asynchronous-handlers) instead.
//! - Tools can run [as tasks](#tasks), without a change to the function.
//! - The items of a service can [change](Service::update) at any time, also from within a handler.
//!
//! # State
//!
//! Handlers share a state: one value of any type, which the builder takes. A handler has it as its first parameter, so
//! methods of the type are handlers:
//!
//! ```
//! # #[cfg(feature = "schemas")] {
//! use std::sync::Mutex;
//!
//! use mcp_service::{Context, Prompt, Resource, Service, State, Tool};
//!
//! #[derive(Default)]
//! struct Counter(Mutex<i64>);
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Amount {
//!     by: i64,
//! }
//!
//! impl Counter {
//!     fn get(&self) -> String {
//!         self.0.lock().expect("no panic").to_string()
//!     }
//!
//!     async fn add(&self, amount: Amount) -> String {
//!         *self.0.lock().expect("no panic") += amount.by;
//!         self.get()
//!     }
//! }
//!
//! async fn reset(State(counter): State<Counter>, _context: Context) -> &'static str {
//!     *counter.0.lock().expect("no panic") = 0;
//!     "reset"
//! }
//!
//! let service = Service::builder("counter", "1.0.0")
//!     .with_state(Counter::default())
//!     .tool(Tool::new("get", Counter::get))
//!     .tool(Tool::new_async("add", Counter::add))
//!     .tool(Tool::new_async("reset", reset))
//!     .tool(Tool::new("double", |counter: &Counter| {
//!         *counter.0.lock().expect("no panic") *= 2;
//!         counter.get()
//!     }))
//!     .prompt(Prompt::new("report", Counter::get))
//!     .resource(Resource::new("counter://value", "value", Counter::get))
//!     .build()?;
//! # }
//! # Ok::<(), mcp_service::RegisterError>(())
//! ```
//!
//! - The parameters of a handler are the state, the arguments and the [`Context`], in this order, each of them
//!   optional.
//! - The state is `&S`, [`State<S>`](State) or `Arc<S>`. An `async fn` can use `&S` until it ends.
//! - The type needs no `Clone`. It is `Send` and `Sync`, and handlers run at the same time: what changes is behind a
//!   lock or atomic. A lock of `std` cannot be held across `.await` in a handler, since its future must be `Send`.
//! - A handler with another state than that of the builder does not compile. For a part of the state, see
//!   [`FromState`].
//! - [`with_shared_state`](ServiceBuilder::with_shared_state) takes an `Arc` that the program keeps.
//!   [`Tool::with_state`] sets the state of one item, which can then be [added](Service::add) later.
//!
//! # Asynchronous handlers
//!
//! Each method with a handler that is a function has a variant for a function that returns a future. Its name ends in
//! `_async`:
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
//! A function may block, and runs on a thread. A future must not block and takes no thread; it runs on the runtime of
//! the driver, or on a thread if the driver has no runtime. Both get the same [`Context`]. Its methods that may have to
//! wait return a [`Deferred`]: a function blocks on it, and a future awaits it.
//!
//! Cancelling a request does not end its handler. The handler [checks](Context::is_cancelled) for cancellation or
//! [waits](Context::cancelled) for it, and pending operations of its context end at once. A future that is
//! still pending when the connection has ended is dropped, unless it runs a task that outlives the connection.
//!
//! # Middleware
//!
//! Checks, measurements and traces for many handlers are [layers](ServiceBuilder::layer) around all of them, functions
//! and futures alike:
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
//!         let began = call.context().now();
//!         let completed = next.run().await;
//!         let elapsed = call.context().now().saturating_since(began);
//!         eprintln!("{} took {elapsed:?}: {:?}", call.method(), completed.kind());
//!         Ok(completed)
//!     })
//!     .build()?;
//! # Ok::<(), mcp_service::RegisterError>(())
//! ```
//!
//! Middleware can also set other [arguments](Next::with_arguments), [respond](Next::respond) without the handler, and
//! replace the [result](Completed::with_result). A result is encoded early only if middleware asks for it.
//!
//! [Ready-made layers](layers) limit, cache, mask, record and measure requests. [`Retry`](layers::Retry) repeats those
//! of clients.
//!
//! [One predicate](ServiceBuilder::visible) decides which callers can see a tool, a prompt or a resource, in lists and
//! requests.
//!
//! # Tasks
//!
//! A long call can become a task: the client gets a handle at once, and fetches the result later. A tool declares
//! whether its calls [can or must be tasks](Tool::task_support). Its function stays the same.
//!
//! - In a session (2025-11-25) the client decides, and tasks end with the connection.
//! - Without a session (2026-07-28) the service decides, and its tasks outlive connections: clients fetch them over any
//!   connection, and can be notified of changes. A request for input through the [`Context`] of such a task is part of
//!   the task until the client responds. The message of its [progress](Context::progress) is its status message. A tool
//!   can [start as a plain call](Tool::defer_task), and become a task when it finds that the work takes long.
//! - A handler notices the cancellation of its task like that of a request, and decides how the task ends.
//! - A [`TaskPolicy`] limits the number, the size and the lifetime of tasks.
//! - With a [`TaskStore`], several processes of one service share their tasks (2026-07-28).
//!
//! # Skills
//!
//! A [`Skill`] is a folder with instructions for a model: a file `SKILL.md` and other files (feature `skills`). A
//! service lists its skills with the digests of all files, and serves the files as resources. A client reads a file
//! when it is needed, with [`load_skill`](Peer::load_skill) and [`read_skill_file`](Peer::read_skill_file), which
//! refuse a file that differs from its listed digest.
//!
//! # Clients
//!
//! A [`Host`] has the handlers of a client: for sampling, elicitation, roots and notifications. Its server is a
//! [`Peer`], which has a method for each request. The method returns a [`Pending`], on which a thread blocks or which a
//! task awaits; dropping it cancels the request. Lists are read page by page, as [`Pages`].
//!
//! Hosts support every revision, and detect the one of each server. Some features of a `Peer` exist only without a
//! session (2026-07-28): results with a time to live are cached (see [`bypass_cache`](Peer::bypass_cache)), and clients
//! that [`listen`](Peer::listen) are notified of changes, from one connection to the next.
//!
//! A call that the server makes a task (2026-07-28) remains one call: the task is followed until it has ended, and its
//! requests for input go to the same handlers as other requests. To get a handle of the task instead, use
//! [`run_tool`](Peer::run_tool); its id can be kept to [follow](Peer::follow_task) the task later.
//!
//! # Drivers
//!
//! A driver owns a [`Connection`](mcp_proto::connection::Connection) and its I/O. It passes every event to a session
//! of a [`Service`] or a [`Host`], one for each connection, and runs the jobs that the session returns. Responses,
//! cancellations and progress are processed at once, so they arrive even if all handlers are busy. Drivers use the
//! module [`driver_api`].
//!
//! # Features
//!
//! - `json-schema`: checks of values against all keywords of JSON Schema, also of drafts 4 and 6. Without it, a schema
//!   with other keywords than those in common use is refused. [`OutputSchema`] lists them.
//! - `schemas` (default): JSON Schemas generated from types (`schemars`), and checks of values against the keywords in
//!   common use, in draft 7, 2019-09 and 2020-12, which is the default of a schema without a dialect. Without the
//!   feature, tools have their schema as text. It can contain the types of the members of an object, which of them are
//!   required, and whether others are allowed; a tool with another schema is refused with [`RegisterError::Schema`].
//! - `skills` (default): skills of services, and clients that verify their files.
//! - `macros`: the attribute `handlers`, which registers the methods of an `impl` block as tools, prompts and
//!   resources.
//! - `openapi`: tools from an OpenAPI document: see `openapi::OpenApi`.
//! - `tracing`: a span `request` for each request (target `mcp_service`), from its arrival until its response, with its
//!   `method`, `name`, `id`, `era`, `version`, `principal`, `traceparent`, `tracestate` and `baggage`, in the end with
//!   `outcome` (`result`, `failed`, `input_requests`, `error`, `cancelled`) and `code`. Handlers run in it. A
//!   request that the connection refuses itself, such as a malformed one, has none. Events for
//!   panics of handlers (error), faults of the peer (warn), errors (info), and the begin and end of connections
//!   (debug).
//!   A request of this side has a span `call` with its `method`, `name` and `outcome`.
//! - `log-layer`: `layers::LogLayer`, with which events of `tracing` become log messages for clients.
//! - `metrics`: `layers::Metrics::global`, which measures requests with the crate `metrics`.
//! - `js`: the time and the random numbers of a JavaScript host, on `wasm32-unknown-unknown`.
//! - `testing`: a client in memory with virtual time, for tests of servers: see `testing::TestClient`.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
pub mod config;
pub mod driver_api;
mod inbound;
mod json_schema;
pub mod layers;
#[cfg(feature = "openapi")]
pub mod openapi;
mod outbound;
pub mod proxy;
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
pub use driver_api::{block_on::block_on, deferred::Deferred};
pub use inbound::{
    completion_request::CompletionRequest,
    context::Context,
    failure::Failure,
    fault::Fault,
    handler,
    middleware::{Completed, IncomingRequest, Middleware, Next},
    request::RequestInfo,
    rpc_result::ResponseKind,
    session::{ClientSession, ServerSession, Session},
    shared_state::{FromState, HandlerState, JoinState, State},
    state::Role,
    task_policy::TaskPolicy,
};
pub use json_schema::{OutputSchema, SchemaError};
#[cfg(feature = "macros")]
pub use mcp_macros::handlers;
pub use mcp_proto::schema::ToolAnnotations;
pub use outbound::subscriptions::Subscriptions;
pub use outbound::{
    calls::Calls,
    error::CallError,
    peer::Peer,
    pending::{Canceller, Pending},
};
/// The crate to derive [`JsonSchema`](schemars::JsonSchema) for arguments, in the version that this crate supports.
#[cfg(feature = "schemas")]
pub use schemars;
/// The crate whose derives [`handlers`](macro@handlers) uses for the types of arguments.
#[cfg(feature = "macros")]
pub use serde;
#[cfg(feature = "skills")]
pub use server::skill::Skill;
pub use server::{
    builder::ServiceBuilder,
    catalog_update::{CatalogUpdate, IntoRegistration, Registration},
    client_requests::UrlElicitation,
    completion::IntoCompletion,
    file::File,
    form,
    input_required::ClientResponses,
    prompt::{IntoPrompt, Prompt},
    register_error::RegisterError,
    resource::{IntoResource, Resource},
    resource_template::ResourceTemplate,
    service::Service,
    tasks::task_store::{LocalTasks, StoredTask, TaskRecord, TaskStore},
    tool::Tool,
    tool_result::IntoToolResult,
    visibility::CatalogItem,
};
#[cfg(feature = "schemas")]
pub use server::{elicited::Elicited, tool_result::Structured};
#[cfg(feature = "skills")]
pub use skills::verify::{SkillFault, SkillFile};
pub use tasks::handle::{ResultOrTask, TaskHandle};
pub use util::{
    uri::is_uri,
    uri_template::{InvalidTemplate, UriTemplate},
};
