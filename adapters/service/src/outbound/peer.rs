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
    calls::Calls,
    error::CallError,
    pending::{Pending, decode},
};
use crate::driver_api::{
    connection_handle::ConnectionHandle,
    deferred::{Deferred, select_biased},
};

/// The other end of a connection: whom `E` asks and tells things. A client holds a `Peer<ClientRole>`, which is its
/// server.
///
/// It is cheap to clone and works from any thread. It does not wait: requests come back as [`Pending`], and what
/// cannot be sent now is a [`SendError`].
pub struct Peer<E> {
    connection: Arc<dyn ConnectionHandle<E>>,
    calls: Arc<Calls<E>>,
    options: Option<RequestOptions>,
    /// The times in the options were asked for.
    has_times: bool,
}

impl<E: 'static> Peer<E> {
    /// The other end of `connection`, whose events about requests go to `calls`.
    #[must_use]
    pub fn new(connection: Arc<dyn ConnectionHandle<E>>, calls: Arc<Calls<E>>) -> Self {
        calls.attach(&connection);
        Self { connection, calls, options: None, has_times: false }
    }

    /// The same peer, with other options for the requests that are made through this handle. Without it they are those
    /// of the connection's [settings](mcp_proto::connection::Settings::request).
    #[must_use]
    pub fn with_options(&self, options: RequestOptions) -> Self {
        Self { options: Some(options), has_times: true, ..self.clone() }
    }

    /// The same peer, with options that differ in something.
    fn map_options(&self, change: impl FnOnce(&mut RequestOptions)) -> Self {
        let own = self.options.clone();
        let mut options = own.unwrap_or_else(|| self.connection.read(|conn| conn.settings().request.clone()));
        change(&mut options);
        Self { options: Some(options), ..self.clone() }
    }

    /// The same peer, for requests that belong to a distributed trace.
    #[must_use]
    pub fn with_trace(&self, trace: TraceContext) -> Self {
        self.map_options(|options| options.trace = Some(Arc::new(trace)))
    }

    /// The same peer, for requests that belong to this trace if nothing else says where they belong.
    pub(crate) fn with_default_trace(&self, trace: TraceContext) -> Self {
        let has_trace = self.options.as_ref().is_some_and(|options| options.trace.is_some());
        if has_trace || self.calls.trace().is_some() { self.clone() } else { self.with_trace(trace) }
    }

    /// The same peer, with the time that the answer to an `R` needs: people and models are slow, and say nothing meanwhile.
    pub(crate) fn with_user_timeout<R: Request>(&self) -> Self {
        match R::METHOD {
            Method::CreateMessage | Method::Elicit if !self.has_times => {
                self.map_options(|options| options.idle_timeout = None)
            }
            _ => self.clone(),
        }
    }

    /// The same peer, for requests on behalf of one of its own: they travel with that, where there are several streams.
    pub(crate) fn caused_by(&self, request: ReplyKey) -> Self {
        self.map_options(|options| options.related_request = Some(request))
    }

    /// The same peer, for requests that take at most `timeout`, whatever progress they make.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        let RequestOptions { idle_timeout, total_timeout, progress, .. } = RequestOptions::within(timeout);
        let peer = self.map_options(|options| {
            (options.idle_timeout, options.total_timeout, options.progress) = (idle_timeout, total_timeout, progress);
        });
        Self { has_times: true, ..peer }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn request<R: Request<Result: 'static>>(&self, params: &R) -> Result<Pending<R::Result>, SendError> {
        self.call(false, |conn, now, options| conn.request(now, params, options), decode)
    }

    /// Asks for something by name: a method of your own, or one of the specification with params as text.
    ///
    /// `params` is a JSON object, or absent.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn request_raw(
        &self,
        method: &str,
        params: Option<&RawJson<'_>>,
    ) -> Result<Pending<RawJson<'static>>, SendError> {
        self.call(false, |conn, now, options| conn.request_raw(now, method, params, options), |_, result| Ok(result))
    }

    /// Tells something.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn notify<N: Notification>(&self, params: &N) -> Result<(), SendError> {
        self.connection.update(|conn, _| conn.notify(params))
    }

    /// Tells something by name.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn notify_raw(&self, method: &str, params: Option<&RawJson<'_>>) -> Result<(), SendError> {
        self.connection.update(|conn, _| conn.notify_raw(method, params))
    }

    /// Asks whether it is there.
    ///
    /// # Errors
    /// If it is not allowed now; nothing has been sent then.
    pub fn ping(&self) -> Result<Pending<EmptyResult>, SendError> {
        self.request(&PingParams::default())
    }

    /// Makes a request, and enters it before anything can come of it.
    pub(crate) fn call<T>(
        &self,
        follows: bool,
        request: impl FnOnce(&mut Connection<E>, Timestamp, RequestOptions) -> Result<CallId, SendError>,
        read: impl FnOnce(CallId, RawJson<'static>) -> Result<T, CallError> + Send + 'static,
    ) -> Result<Pending<T>, SendError> {
        let trace = self.calls.trace().map(Arc::new);
        let (call, slot) = self.connection.update(|conn, now| {
            let mut options = self.options.as_ref().unwrap_or(&conn.settings().request).clone();
            options.trace = options.trace.or(trace);
            let call = request(conn, now, options)?;
            Ok::<_, SendError>((call, self.calls.enter(call, follows)))
        })?;
        Ok(Pending::new(call, slot, self.calls.clone(), read))
    }

    /// Waits until less is in flight and queued than [`SendError::Busy`] takes, or the connection has ended. However many
    /// wait, one at a time is told.
    pub fn room(&self) -> Deferred<()> {
        let connection = self.connection.clone();
        Deferred::new(async move { connection.wait_for_request_slot().await })
    }

    /// Waits until the handshake is over, or says why the connection has ended before that. A client of 2026-07-28 shakes no
    /// hands, so a server waits for its end.
    pub fn ready(&self) -> Deferred<Result<(), CloseReason>> {
        self.calls.ready()
    }

    /// Waits for `time`, which is that of the connection, or says why the connection has ended before that.
    pub fn sleep(&self, time: Duration) -> Deferred<Result<(), CloseReason>> {
        let (connection, closed) = (self.connection.clone(), self.closed());
        let until = connection.update(|_, now| now) + time;
        Deferred::new(async move { select_biased(connection.sleep_until(until), closed).await })
    }

    /// Waits until the connection has ended; why it has.
    pub fn closed(&self) -> Deferred<CloseReason> {
        self.calls.closed()
    }

    /// Whether the handshake is over and the connection neither closed nor about to be.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.connection.read(|conn| conn.is_ready())
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.calls.close_reason()
    }

    /// Ends the connection. Requests of ours end at once; what the peer was promised may still be answered for a
    /// while.
    pub fn close(&self) {
        self.connection.update(|conn, now| conn.close(now));
    }

    /// The negotiated revision, once the handshake has begun.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.connection.read(|conn| conn.version())
    }

    /// Whether requests stand alone (2026-07-28), as far as that is known.
    pub(crate) fn is_modern(&self) -> bool {
        self.version().is_some_and(|version| version.era() == Era::Modern)
    }

    /// What the peer has declared.
    #[must_use]
    pub fn capabilities(&self) -> CapabilitySet {
        self.connection.read(|conn| conn.peer_capabilities())
    }

    /// The connection.
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
    /// The same peer, for requests that are not answered with what is known already, however good it still is
    /// (2026-07-28). Whole lists that are asked for in this way are as of one time.
    #[must_use]
    #[doc(alias = "no_cache")]
    #[doc(alias = "fresh")]
    pub fn bypass_cache(&self) -> Self {
        self.map_options(|options| options.bypass_cache = true)
    }

    /// The same peer, for requests about which log messages of this level, and of more severe ones, are to be sent
    /// (2026-07-28). In a session that is not a matter of the request: see [`set_log_level`](Self::set_log_level).
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
