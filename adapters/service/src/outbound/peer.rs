//! The other end of a connection, to which requests are sent.

use std::{fmt, sync::Arc, time::Duration};

use mcp_proto::{
    connection::{ClientRole, CloseReason, Connection, RequestOptions, SendError},
    protocol::{CapabilitySet, Era, Method, ProtocolVersion},
    rpc::{CallId, ReplyKey, Timestamp},
    schema::{EmptyResult, LoggingLevel, Notification, PingParams, Request, TraceContext},
    wire::RawJson,
};

use super::{
    call_span::CallSpan,
    calls::Calls,
    error::CallError,
    pending::{Pending, decode},
};
use crate::driver_api::{
    connection_handle::ConnectionHandle,
    deferred::{Deferred, select_biased},
};

/// The other end of a connection, for requests and notifications to it. The parameter `E` is the role of this side: a
/// client holds a `Peer<ClientRole>`, which is its server.
///
/// It is cheap to clone and can be used on any thread. It does not block: a request returns a [`Pending`], and a
/// message that cannot be sent now is a [`SendError`].
pub struct Peer<E> {
    connection: Arc<dyn ConnectionHandle<E>>,
    calls: Arc<Calls<E>>,
    options: Option<RequestOptions>,
    /// Whether the caller has set the timeouts in the options.
    has_times: bool,
}

impl<E: 'static> Peer<E> {
    /// Creates a peer of a connection. `calls` gets the events of its requests.
    #[must_use]
    pub fn new(connection: Arc<dyn ConnectionHandle<E>>, calls: Arc<Calls<E>>) -> Self {
        calls.attach(&connection);
        Self { connection, calls, options: None, has_times: false }
    }

    /// Returns the same peer with other options for the requests through this handle. Without it they have the options
    /// of the connection's [settings](mcp_proto::connection::Settings::request).
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        Self { options: Some(options), has_times: true, ..self.clone() }
    }

    /// Returns the same peer with changed options.
    fn map_options(&self, change: impl FnOnce(&mut RequestOptions)) -> Self {
        let own = self.options.clone();
        let mut options = own.unwrap_or_else(|| self.connection.read(|conn| conn.settings().request.clone()));
        change(&mut options);
        Self { options: Some(options), ..self.clone() }
    }

    /// Returns the same peer with a distributed trace for its requests.
    #[must_use]
    pub fn with_trace(&self, trace: TraceContext) -> Self {
        self.map_options(|options| options.trace = Some(Arc::new(trace)))
    }

    /// Returns the same peer with a trace for requests that have no other one.
    pub(crate) fn with_default_trace(&self, trace: TraceContext) -> Self {
        let has_trace = self.options.as_ref().is_some_and(|options| options.trace.is_some());
        if has_trace || self.calls.trace().is_some() { self.clone() } else { self.with_trace(trace) }
    }

    /// Returns the same peer with the timeouts for an `R`: a request to a user or a model has no idle timeout, because
    /// the response takes long.
    pub(crate) fn with_user_timeout<R: Request>(&self) -> Self {
        match R::METHOD {
            Method::CreateMessage | Method::Elicit if !self.has_times => {
                self.map_options(|options| options.idle_timeout = None)
            }
            _ => self.clone(),
        }
    }

    /// Returns the same peer for requests on behalf of one of the peer's requests: they are sent on the stream of that
    /// request.
    pub(crate) fn caused_by(&self, request: ReplyKey) -> Self {
        self.map_options(|options| options.related_request = Some(request))
    }

    /// Returns the same peer with a total timeout for its requests, which progress does not extend.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        let RequestOptions { idle_timeout, total_timeout, progress, .. } = RequestOptions::within(timeout);
        let peer = self.map_options(|options| {
            (options.idle_timeout, options.total_timeout, options.progress) = (idle_timeout, total_timeout, progress);
        });
        Self { has_times: true, ..peer }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn request<R: Request<Result: 'static>>(&self, params: &R) -> Result<Pending<R::Result>, SendError> {
        self.call((R::METHOD.as_str(), false), |conn, now, options| conn.request(now, params, options), decode)
    }

    /// Sends a request on the stream of one of the peer's requests, which is chosen under the lock of the connection.
    pub(crate) fn request_on<R: Request<Result: 'static>>(
        &self,
        params: &R,
        choose: impl FnOnce(&Connection<E>) -> Option<ReplyKey>,
    ) -> Result<Pending<R::Result>, SendError> {
        let request = |conn: &mut Connection<E>, now, mut options: RequestOptions| {
            options.related_request = Some(choose(conn).ok_or(SendError::Answered)?);
            conn.request(now, params, options)
        };
        self.call((R::METHOD.as_str(), false), request, decode)
    }

    /// Sends a request with any method: one of your own, or one of the specification with params as text.
    ///
    /// `params` is a JSON object, or absent.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn request_raw(
        &self,
        method: &str,
        params: Option<&RawJson<'_>>,
    ) -> Result<Pending<RawJson<'static>>, SendError> {
        let send = |conn: &mut Connection<E>, now, options| conn.request_raw(now, method, params, options);
        self.call((method, false), send, |_, result| Ok(result))
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// If the notification is not allowed now. It was not sent then.
    pub fn notify<N: Notification>(&self, params: &N) -> Result<(), SendError> {
        self.connection.update(|conn, _| conn.notify(params))
    }

    /// Sends a notification with any method.
    ///
    /// # Errors
    /// If the notification is not allowed now. It was not sent then.
    pub fn notify_raw(&self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        self.connection.update(|conn, _| conn.notify_raw(method, params))
    }

    /// Sends a ping, to check whether the peer responds.
    ///
    /// # Errors
    /// If the request is not allowed now. It was not sent then.
    pub fn ping(&self) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&PingParams::default())
    }

    /// Makes a request, and adds it to the table before its response can arrive.
    pub(crate) fn call<T>(
        &self,
        (method, follows): (&str, bool),
        request: impl FnOnce(&mut Connection<E>, Timestamp, RequestOptions) -> Result<CallId, SendError>,
        read: impl FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send + 'static,
    ) -> Result<Pending<T>, SendError> {
        let span = CallSpan::new(method);
        let trace = self.calls.trace().map(Arc::new);
        let (call, slot) = self.connection.update_before_wait(|conn, now| {
            let mut options = self.options.as_ref().unwrap_or(&conn.settings().request).clone();
            options.trace = options.trace.or(trace);
            let call = request(conn, now, options)?;
            Ok::<_, SendError>((call, self.calls.insert(call, follows)))
        })?;
        Ok(Pending::new(call, slot, self.calls.clone(), read).in_span(span))
    }

    /// Waits until a request would not be refused as [`SendError::Busy`], or the connection has ended. Only one waiter
    /// is woken at a time.
    pub fn wait_for_request_slot(&self) -> Deferred<()> {
        let connection = self.connection.clone();
        Deferred::new(async move { connection.wait_for_request_slot().await })
    }

    /// Waits until the handshake is over. Fails with the reason if the connection has ended before. A client of
    /// 2026-07-28 performs no handshake, so on its server this waits until the connection ends.
    pub fn ready(&self) -> Deferred<Result<(), CloseReason>> {
        self.calls.ready()
    }

    /// Waits for `time` of the connection's clock. Fails with the reason if the connection ends before.
    pub fn sleep(&self, time: Duration) -> Deferred<Result<(), CloseReason>> {
        let (connection, closed) = (self.connection.clone(), self.closed());
        let until = connection.update(|_, now| now) + time;
        Deferred::new(async move { select_biased(connection.sleep_until(until), closed).await })
    }

    /// Waits until the connection has ended, and returns the reason.
    pub fn closed(&self) -> Deferred<CloseReason> {
        self.calls.closed()
    }

    /// Returns whether the handshake is over and the connection is neither closed nor closing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.connection.read(|conn| conn.is_ready())
    }

    /// Returns the reason for which the connection has ended, if it has.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.calls.close_reason()
    }

    /// Begins to close the connection. Requests of this side end at once. Responses to pending requests of the peer may
    /// still be sent for a while.
    pub fn close(&self) {
        self.connection.update(|conn, now| conn.close(now));
    }

    /// Returns the negotiated revision, once the handshake has begun.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.connection.read(|conn| conn.version())
    }

    /// Returns whether requests need no session (2026-07-28), as far as the revision is known.
    pub(crate) fn is_modern(&self) -> bool {
        self.version().is_some_and(|version| version.era() == Era::Modern)
    }

    /// Returns the capabilities that the peer has declared.
    #[must_use]
    pub fn capabilities(&self) -> CapabilitySet {
        self.connection.read(|conn| conn.peer_capabilities())
    }

    /// Returns the handle of the connection.
    #[must_use]
    pub const fn connection(&self) -> &Arc<dyn ConnectionHandle<E>> {
        &self.connection
    }

    pub(crate) const fn calls(&self) -> &Arc<Calls<E>> {
        &self.calls
    }

    pub(crate) fn options(&self) -> Option<RequestOptions> {
        self.options.clone()
    }
}

impl Peer<ClientRole> {
    /// Returns the same peer for requests that are sent even if the cache has a fresh result (2026-07-28). All pages of
    /// a list that is requested with it are current.
    #[must_use]
    #[doc(alias = "no_cache")]
    #[doc(alias = "fresh")]
    pub fn bypass_cache(&self) -> Self {
        self.map_options(|options| options.bypass_cache = true)
    }

    /// Returns the same peer for requests for which the server sends log messages of this level and of more severe ones
    /// (2026-07-28). In a session use [`set_log_level`](Self::set_log_level).
    #[must_use]
    pub fn logging(&self, level: LoggingLevel) -> Self {
        self.map_options(|options| options.log_level = Some(level))
    }
}

impl<E> Clone for Peer<E> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            calls: self.calls.clone(),
            options: self.options.clone(),
            has_times: self.has_times,
        }
    }
}

impl<E> fmt::Debug for Peer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("calls", &self.calls).finish_non_exhaustive()
    }
}
