//! What differs between the two ends of a connection.

use std::{fmt, sync::Arc};

use mcp_proto::{
    connection::{Connection, RequestOptions, SendError},
    protocol::MethodName,
    rpc::{CallId, ReplyKey, Timestamp},
    schema::Meta,
    wire::{ErrorObject, RawJson},
};

use super::{
    context::{Context, RequestInfo},
    custom_methods::Custom,
    session::Shared,
};
use crate::driver_api::connection_handle::{Job, Link};

/// One of the two ends of a connection: [`ClientEnd`](mcp_proto::connection::ClientEnd) or
/// [`ServerEnd`](mcp_proto::connection::ServerEnd).
pub trait Role: Sized + Send + Sync + 'static {
    /// What all sessions of an application share: a [`Host`](crate::Host) or a [`Service`](crate::Service).
    type Home: Clone + fmt::Debug + Send + Sync;
    /// What each session has for itself.
    #[doc(hidden)]
    type State: Default + Send + Sync;

    /// The session of an application begins.
    #[doc(hidden)]
    fn begun(shared: &Arc<Shared<Self>>);

    /// The session is over.
    #[doc(hidden)]
    fn ended(shared: &Shared<Self>);

    /// The connection is ready for use.
    #[doc(hidden)]
    fn ready(_shared: &Arc<Shared<Self>>, _link: &Arc<dyn Link<Self>>) {}

    /// Answers a request, or makes a job of it. What this crate does not know is handed back.
    #[doc(hidden)]
    fn asked<'a>(shared: &Arc<Shared<Self>>, asked: Asked<'a, Self>) -> Result<Option<Job>, Asked<'a, Self>>;

    /// Whether a notification is news, rather than something to be ignored.
    #[doc(hidden)]
    fn is_news(shared: &Shared<Self>, method: &MethodName<'_>, params: Option<&RawJson<'_>>) -> bool;

    /// A request of ours was answered with an error.
    #[doc(hidden)]
    fn refused(_shared: &Shared<Self>, _error: &ErrorObject) {}

    /// The user's handlers for what this crate does not know.
    #[doc(hidden)]
    fn custom(home: &Self::Home) -> &Custom<Self>;

    /// The handler of a task of the extension says what it is at (2026-07-28).
    #[doc(hidden)]
    fn said_of_task(_context: &Context<Self>, _message: &str) {}

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

/// A request of the peer on its way to whoever answers it.
pub struct Asked<'a, E> {
    pub(crate) link: &'a Arc<dyn Link<E>>,
    pub(crate) key: ReplyKey,
    pub(crate) method: MethodName<'a>,
    pub(crate) params: Option<RawJson<'a>>,
}

impl<E> Asked<'_, E> {
    /// Its `_meta`, if there is one that can be read.
    pub(crate) fn meta(&self) -> Option<Meta> {
        self.params.as_ref()?.member("_meta")?.decode().ok()
    }
}
