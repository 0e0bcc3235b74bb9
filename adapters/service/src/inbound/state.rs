//! What differs between the two ends of a connection.

use std::{
    any::Any,
    fmt,
    future::Future,
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
    in_flight::{RoleWork, Work, Works},
    request::{Asked, RequestInfo},
    session_tasks::TaskStore,
};
use crate::{
    driver_api::{connection_handle::ConnectionHandle, job::Job},
    outbound::calls::Calls,
};

/// One of the two ends of a connection: [`ClientEnd`](mcp_proto::connection::ClientEnd) or
/// [`ServerEnd`](mcp_proto::connection::ServerEnd).
pub trait Role: Sized + Send + Sync + 'static {
    /// What all sessions of an application share: a [`Host`](crate::Host) or a [`Service`](crate::Service).
    type Home: Clone + fmt::Debug + Send + Sync;
    /// What each session has for itself.
    #[doc(hidden)]
    type State: Default + Send + Sync;
    /// What it knows of a request that it works on, beside what both roles know.
    #[doc(hidden)]
    type Work: RoleWork;

    /// The session of an application begins.
    #[doc(hidden)]
    fn begun(shared: &Arc<Shared<Self>>);

    /// The session is over.
    #[doc(hidden)]
    fn ended(shared: &Shared<Self>);

    /// The connection is ready for use.
    #[doc(hidden)]
    fn ready(_shared: &Arc<Shared<Self>>, _connection: &Arc<dyn ConnectionHandle<Self>>) {}

    /// Answers a request, or makes a job of it. What this crate does not know is handed back.
    #[doc(hidden)]
    fn asked<'a>(shared: &Arc<Shared<Self>>, asked: Asked<'a, Self>) -> Result<Option<Job>, Asked<'a, Self>>;

    /// Whether a notification is news, rather than something to be ignored.
    #[doc(hidden)]
    fn is_news(shared: &Shared<Self>, method: &MethodName<'_>, params: Option<&RawJson<'_>>) -> bool;

    /// A request of ours was answered with an error.
    #[doc(hidden)]
    fn refused(_shared: &Shared<Self>, _error: &ErrorObject) {}

    /// The handler of a task of the extension says what it is at (2026-07-28).
    #[doc(hidden)]
    fn said_of_task(
        _shared: &Arc<Shared<Self>>,
        _connection: &Arc<dyn ConnectionHandle<Self>>,
        _work: &Work<Self::Work>,
        _message: &str,
    ) {
    }

    /// Returns whether a result is one of a tool that has failed, which only servers send.
    #[doc(hidden)]
    fn has_failed(_result: &dyn Any) -> bool {
        false
    }

    /// Sleeps in a handler whose request has become a task of the extension: until `until`, even if the connection ends.
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

    /// In which circumstances a request was made.
    #[doc(hidden)]
    fn info(conn: &Connection<Self>, key: Option<ReplyKey>) -> RequestInfo;
}

/// What a session, its jobs and its handlers have in common.
pub struct Shared<E: Role> {
    pub(crate) home: E::Home,
    pub(crate) calls: Arc<Calls<E>>,
    pub(crate) works: Works<E::Work>,
    pub(crate) tasks: TaskStore<E::Work>,
    pub(crate) state: E::State,
    /// Jobs in sequence that have not ended.
    pub(super) sequenced: AtomicUsize,
    /// Its place among the sessions of its application.
    pub(crate) seat: AtomicU64,
}
