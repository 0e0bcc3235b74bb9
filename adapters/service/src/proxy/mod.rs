//! Backends: other servers whose tools, prompts, resources and templates a service offers.
//!
//! ```no_run
//! use mcp_service::{Service, proxy::Backend};
//!
//! # async fn example<C, F>(connect: impl Fn(&mcp_service::Host) -> F) -> Result<(), Box<dyn std::error::Error>>
//! # where
//! #     C: std::ops::Deref<Target = mcp_service::Peer<mcp_proto::connection::ClientRole>>,
//! #     F: Future<Output = Result<C, mcp_service::CallError>>,
//! # {
//! let service = Service::builder("all", "1.0.0").enable_backends().build()?;
//! let files = Backend::builder("files").join(&service)?;
//! // In a task of its own. It connects with a client of the adapter, and again when the connection has ended.
//! files.run(|| connect(files.host())).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The service offers the tool `read` of `files` as `files__read`, and the resource `file:///notes` as
//! `files+file:///notes`. The service is served as any other service, and can have other items as well. A backend does
//! not depend on a driver, and uses any connected client. For servers of [configuration files](crate::config), the
//! adapters have `ConfiguredServer`. For services of the same process, see [`Service::mount`](crate::Service::mount).
//!
//! # What passes
//!
//! Each side can have any revision: the client, the service in front and the backend each speak their own.
//!
//! | from | to | |
//! | --- | --- | --- |
//! | client | backend | calls, completions, their `_meta` of applications, cancellation, the trace, the log level, the capabilities of the client (2026-07-28) |
//! | backend | client | results and errors with unknown members, progress, log messages, changes of lists and of resources, requests for sampling, forms, pages and roots |
//!
//! - **Definitions and results** are not checked again. Only URIs of resource links, embedded resources and contents
//!   get the prefix, and metadata of the connection is replaced. The response to a form gets no defaults.
//! - **A request of the backend** is passed to the client to whose call it [belongs](#requests-of-the-backend), or
//!   refused.
//! - **A call with questions** of a backend with a session runs once, also for a client without a session: the call
//!   waits for the next request of the client, in this process and for a [limited time](ProxyLimits::input_time).
//! - **A change of a list** that the backend announces before a result is applied before the client gets the result.
//! - **A subscription** of a client begins when that of the service at the backend has. A resource of whose changes the
//!   backend does not notify is refused, or left out of the acknowledgement (2026-07-28). The service subscribes again
//!   if the backend ends a subscription, or refuses it on a new connection, after pauses that grow up to
//!   [`list_time`](ProxyLimits::list_time). Changes in between are not notified, so the clients are notified of each
//!   resource that is subscribed again: it may have changed. When the last client ends its subscription to a resource,
//!   or disconnects, the subscription at the backend ends.
//! - **A backend that refuses a request because of one resource** (2026-07-28) still notifies of the others: the
//!   service requests them without it. It finds it by halves, and separately for each client.
//!
//! # What does not pass
//!
//! | | reason |
//! | --- | --- |
//! | tasks as such | a task that a backend of 2026-07-28 makes of a call is followed, and the client gets its result. A tool of 2025-11-25 that can be a task can be one of this service, with its own id |
//! | skills, custom methods | they belong to no list of items |
//! | log messages that are not on the stream of a call, while calls of several clients are in flight, or outside of calls with several clients | a message does not name its call, and may be about that of any client |
//! | log messages on the stream of another request, such as that for a list | the request may be a call that has ended |
//! | `notifications/roots/list_changed`, roots and questions outside of a call | they belong to one client, the connection to all |
//! | pings, instructions, `serverInfo` | they concern one connection |
//! | hints for caching lists | the service in front has its own |
//! | members of params besides `name`, `arguments`, `uri` and `_meta` | only results and definitions keep unknown members |
//! | `notifications/elicitation/complete` of backends of 2026-07-28 | that revision does not have it |
//!
//! # Limits
//!
//! A backend that ends, is slow or sends too much affects only its own calls, which fail with a [`BackendError`]. Its
//! lists, calls and subscriptions have [limits](ProxyLimits). Messages for which a client has no room are dropped,
//! except responses. A client can take at most seven eighths of the calls and of the subscriptions of a backend, as of
//! the connections of a listener: it gets another one while it has less than seven times the number of free ones. It is
//! identified by its principal, its address or its connection.
//!
//! A request is sent while less than 1 MiB waits for the backend, and only one request of each client waits for that.
//! So a client does not wait for all requests of another one, however many large ones that has sent.
//!
//! The backend has one connection for all clients: it sees the credentials of the connection, and never those of a
//! client.
//!
//! # Requests of the backend
//!
//! The call of a request is found when the request arrives, before its handler waits for a free slot:
//!
//! 1. In 2026-07-28 a request names its call.
//! 2. In a session over Streamable HTTP it arrives on the stream of its call, or of the task that the call has become.
//!    It is refused if that call has ended, and on the stream of any other request.
//! 3. Otherwise, over pipes and on the stream that a client opens with `GET`, nothing names the call. The request
//!    belongs to a client if all calls in flight on the connection are those of this client. It is refused if calls of
//!    several clients are in flight, or none.
//!
//! In the third case, a call is in flight from the time when the driver has taken its request from the outbox, until
//! the response arrives. A cancelled call [counts longer](#why-a-cancelled-call-counts). A call that begins later does
//! not get the request, also if it is the only one that is left.
//!
//! The proxy cannot observe when the backend reads a request. So the third case relies on the backend: it sends
//! requests only about calls without a response. A backend that asks outside of all calls, while the request of a
//! client is on its way, asks this client. Streamable HTTP and 2026-07-28 do not have this limit.
//!
//! # Why a cancelled call counts
//!
//! Over a pipe, a question or a log message of a backend names no call. A server that ignores a cancellation
//! may still send a question, whose text may contain data of the client that has cancelled. So the call counts until
//! the backend responds to it. Most servers stop and do not respond. Then it counts for the [grace
//! period](ProxyLimits::grace_period) after the backend has read the cancellation, as its response to a later ping
//! shows. In these cases it counts longer, at most for [`late_time`](ProxyLimits::late_time):
//!
//! - the backend sends a request in the grace period, which is refused, and the period begins again;
//! - the backend has responded to another cancelled call after it had read the cancellation;
//! - the backend does not respond to the ping;
//! - the call has become a task of 2025-11-25, or is about to. A task goes on after its request was cancelled.
//!
//! No time proves that a server has stopped. A server that ignores a cancellation, and sends nothing in the grace
//! period, can still send a question about the call afterwards. For such servers, set the grace period to `late_time`
//! or more, or use Streamable HTTP, or a backend of 2026-07-28, whose questions name their calls.

pub(crate) mod backend;
mod call_table;
mod calls;
mod error;
mod late_calls;
mod limits;
mod listener;
mod listing;
mod one_result;
mod questions;
mod retry;
mod shared;
mod subscriber;
mod watches;

pub use backend::{Backend, BackendBuilder};
pub use error::{BackendError, BackendFault};
pub use limits::ProxyLimits;

#[cfg(test)]
mod tests;
