//! The two roles of an application, and the state of a session.

use std::{
    any::Any,
    fmt,
    future::Future,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize},
    },
};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError},
    protocol::MethodName,
    rpc::{CallId, ReplyKey, Timestamp},
    wire::{ErrorObject, RawJson},
};

use super::{
    in_flight::{InFlight, InFlightTable, RoleInFlight},
    request::{InboundRequest, RequestInfo},
    session_tasks::TaskStore,
};
use crate::{
    driver_api::{connection_handle::ConnectionHandle, job::Job},
    outbound::calls::Calls,
};

/// One of the two ends of a connection: [`ClientRole`](mcp_proto::connection::ClientRole) or
/// [`ServerRole`](mcp_proto::connection::ServerRole).
///
/// The trait is sealed: no other type can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a role",
    label = "neither `ServerRole` nor `ClientRole`",
    note = "the context of the handlers of a service is `Context`, which is short for `Context<ServerRole>`; that of \
            the handlers of a host is `Context<ClientRole>`",
    note = "a handler has the shared state as a parameter of its own: `&S`, `State<S>` or `Arc<S>`"
)]
pub trait Role: Sized + Send + Sync + 'static {
    /// The application, which all of its sessions share: a [`Host`](crate::Host) or a [`Service`](crate::Service).
    type App: Clone + fmt::Debug + Send + Sync;
    /// The state of each session.
    #[doc(hidden)]
    type State: Default + Send + Sync;
    /// The data of a request in flight that only this role has.
    #[doc(hidden)]
    type InFlight: RoleInFlight;

    /// Whether a response may continue a call of this side, whose timeouts then begin at the current time.
    #[doc(hidden)]
    const CONTINUES_CALLS: bool;

    /// Notes that a session of the application begins.
    #[doc(hidden)]
    fn on_start(shared: &Arc<SessionState<Self>>);

    /// Notes that the session has ended.
    #[doc(hidden)]
    fn on_end(shared: &SessionState<Self>);

    /// Notes that the connection is ready for use.
    #[doc(hidden)]
    fn on_ready(_shared: &Arc<SessionState<Self>>, _connection: &Arc<dyn ConnectionHandle<Self>>) {}

    /// Notes that the peer has cancelled a request, with or without a response so far.
    #[doc(hidden)]
    fn on_cancelled(_shared: &SessionState<Self>, _key: ReplyKey) {}

    /// Notes that the connection has ended.
    #[doc(hidden)]
    fn on_closed(_shared: &SessionState<Self>) {}

    /// Responds to a request, or returns its job. Continues if the method of the request is not in the specification.
    #[doc(hidden)]
    fn handle_request(shared: &Arc<SessionState<Self>>, inbound: &InboundRequest<'_, Self>)
    -> ControlFlow<Option<Job>>;

    /// Returns whether a notification is to be handled; others are ignored.
    #[doc(hidden)]
    fn accepts_notification(
        shared: &SessionState<Self>,
        method: &MethodName<'_>,
        params: Option<&RawJson<'_>>,
        related_call: Option<CallId>,
    ) -> bool;

    /// Records data about a request that gets a handler, when it arrives.
    #[doc(hidden)]
    fn on_request(_shared: &SessionState<Self>, _inbound: &InboundRequest<'_, Self>, _in_flight: &mut Self::InFlight) {}

    /// Notes that the peer has responded to a request of this side.
    #[doc(hidden)]
    fn on_response(_shared: &SessionState<Self>, _call: CallId) {}

    /// Notes that a response to a request of this side has arrived that has ended before.
    #[doc(hidden)]
    fn on_late_response(_shared: &SessionState<Self>, _call: CallId) {}

    /// Records an error response to a request of this side.
    #[doc(hidden)]
    fn on_error_response(_shared: &SessionState<Self>, _error: &ErrorObject) {}

    /// Sets the status message of a task of the extension (2026-07-28).
    #[doc(hidden)]
    fn on_task_message(
        _shared: &Arc<SessionState<Self>>,
        _connection: &Arc<dyn ConnectionHandle<Self>>,
        _in_flight: &InFlight<Self::InFlight>,
        _message: &str,
    ) {
    }

    /// Returns whether a result is one of a tool that has failed, which only servers send.
    #[doc(hidden)]
    fn has_failed(_result: &dyn Any) -> bool {
        false
    }

    /// Returns whether the texts of errors are kept from the peer.
    #[doc(hidden)]
    fn masks_failures(_app: &Self::App) -> bool {
        false
    }

    /// Sleeps in a handler whose request has become a task of the extension: until `until`, even if the connection
    /// ends.
    #[doc(hidden)]
    fn sleep_as_task(
        connection: Arc<dyn ConnectionHandle<Self>>,
        calls: Arc<Calls<Self>>,
        until: Timestamp,
    ) -> impl Future<Output = ()> + Send {
        async move {
            drop(calls);
            connection.sleep_until(until).await;
        }
    }

    /// Follows a task of the extension to its end, which only clients do.
    #[doc(hidden)]
    fn follow_task(
        conn: &mut Connection<Self>,
        now: Timestamp,
        task: &str,
        options: RequestOptions,
    ) -> Result<CallId, SendError>;

    /// Returns the circumstances of a request.
    #[doc(hidden)]
    fn info(conn: &Connection<Self>, key: Option<ReplyKey>) -> RequestInfo;
}

/// The state of a session, which its jobs and handlers share.
pub struct SessionState<E: Role> {
    pub(crate) app: E::App,
    pub(crate) calls: Arc<Calls<E>>,
    pub(crate) in_flight: InFlightTable<E::InFlight>,
    pub(crate) tasks: TaskStore<E::InFlight>,
    pub(crate) state: E::State,
    /// The number of sequential jobs that have not ended.
    pub(super) serial_jobs: AtomicUsize,
    /// Its place among the sessions of its application.
    pub(crate) registry_id: AtomicU64,
}
