//! Client applications: handlers for requests of servers, and requests to servers.

pub(crate) mod builder;
pub(crate) mod in_flight;
pub(crate) mod pages;
pub(crate) mod requests;
pub(crate) mod role;
pub(crate) mod roots;
pub(crate) mod skills;
pub(crate) mod subscription;
mod typed_result;

use std::{any::Any, fmt, sync::Arc};

use mcp_proto::{
    connection::{ClientConfig, ClientRole},
    protocol::MethodName,
    rpc::{CallId, ReplyKey},
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitUrlParams,
        ListRootsParams, ListRootsResult,
    },
    wire::RawJson,
};

use crate::outbound::subscriptions::Subscriptions;
use crate::{
    driver_api::{connection_handle::ConnectionHandle, deferred::Deferred, job::BoxedHandler},
    inbound::{
        context::Context, custom_methods::CustomMethods, failure::Failure, session::ClientSession,
        session_tasks::TaskStore, task_policy::TaskPolicy,
    },
    util::random::Random,
};
use builder::HostBuilder;
use roots::Roots;

type TypedHandler<P, R> = BoxedHandler<dyn Fn(P, Context<ClientRole>) -> Deferred<Result<R, Failure>> + Send + Sync>;

/// Sees messages of a server when they arrive, before the messages after them are handled. It must not block. `number`
/// is that of the connection.
pub(crate) trait Observe: Send + Sync {
    /// Sees a request, before its handler waits for a free slot. Returns data for the handler, which
    /// [takes](in_flight::ClientInFlight::take_arrival) them.
    fn request(
        &self,
        connection: &Arc<dyn ConnectionHandle<ClientRole>>,
        number: u64,
        key: ReplyKey,
    ) -> Box<dyn Any + Send>;

    /// Sees a notification, with the request on whose stream it arrived.
    fn notification(
        &self,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        number: u64,
        related_call: Option<CallId>,
    );

    /// Sees that the server has responded to a request.
    fn response(&self, number: u64, call: CallId);

    /// Sees that the server has responded to a request that has ended before.
    fn late_response(&self, number: u64, call: CallId);
}

pub(crate) type Observer = Arc<dyn Observe>;

/// A client application: its handlers for sampling, elicitation, roots and notifications.
///
/// The specification calls an application a host. A host has one client for each connection to a server.
///
/// It is built once, is cheap to clone, and serves any number of connections, each with its own
/// [`session`](Self::session).
///
/// ```
/// use mcp_proto::schema::{LogMessageParams, Root};
/// use mcp_service::{Host, Roots};
///
/// let roots = Roots::new([Root::new("file:///home/me/project")])?;
/// let host = Host::builder("editor", "1.0.0")
///     .roots(&roots)
///     .on(|log: LogMessageParams, _server| eprintln!("{}: {}", log.level, log.data.get()))
///     .build();
/// assert!(host.config().capabilities.roots.is_some());
/// # Ok::<(), mcp_service::InvalidRoot>(())
/// ```
#[derive(Clone)]
#[doc(alias = "ClientHandler")]
pub struct Host(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    config: Arc<ClientConfig>,
    pub(crate) sampling: Option<TypedHandler<CreateMessageParams, CreateMessageResult>>,
    pub(crate) form: Option<TypedHandler<ElicitFormParams, ElicitResult>>,
    pub(crate) url: Option<TypedHandler<ElicitUrlParams, ElicitAction>>,
    pub(crate) roots: Option<Roots>,
    /// The handler of `roots/list` of a proxy, in place of `roots`.
    pub(crate) list_roots: Option<TypedHandler<ListRootsParams, ListRootsResult>>,
    pub(crate) observer: Option<Observer>,
    /// Whether responses to forms are those of a client of a proxy. The service in front has checked them.
    pub(crate) forwards_forms: bool,
    pub(crate) custom: CustomMethods<ClientRole>,
    tasks: Arc<TaskPolicy>,
    random: Random,
}

impl Host {
    /// Creates a builder of a host with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HostBuilder {
        HostBuilder::new(name.into(), version.into())
    }

    /// Returns the configuration of a connection: the name and version of the host, and its capabilities, which follow
    /// from the handlers.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.0.config.clone()
    }

    /// Creates the session of one connection.
    #[must_use]
    pub fn session(&self) -> ClientSession {
        self.session_with(Subscriptions::new())
    }

    /// Creates the session of one connection, with the subscriptions of an earlier one.
    #[must_use]
    pub fn session_with(&self, subscriptions: Subscriptions) -> ClientSession {
        let tasks = TaskStore::new(self.0.tasks.clone(), self.0.random.clone(), None);
        ClientSession::new(self.clone(), tasks, subscriptions)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("info", &self.0.config.info)
            .field("custom", &self.0.custom)
            .finish_non_exhaustive()
    }
}
