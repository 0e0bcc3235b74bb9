//! A service for HTTP servers with requests and responses of `http`: hyper, and libraries that use it.

#[cfg(feature = "tower")]
use std::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    time::Duration,
};

use bytes::Buf;
use http::{HeaderValue, Request, Response, StatusCode, header, response::Parts};
use mcp_proto::{
    http::{
        Cors, HttpResponse,
        server::{Caller, EndpointOptions, RequestReader},
    },
    rpc::Timestamp,
};
use mcp_service::{Deferred, Service, driver_api::SystemTime};

#[cfg(feature = "auth")]
use crate::http::resource_server::ResourceServer;
use crate::http::{body::Body, peer_addr::PeerAddr, response_stream::ResponseStream, server::HttpServer, store::Store};
use crate::{
    options::DriverOptions,
    runtime::{Runtime, race, sleep},
};

/// A [`Service`] at an HTTP endpoint, which turns requests into responses, with the bodies of hyper. With the feature
/// `tower` it is also a service of tower, for axum and other routers.
///
/// It is cheap to clone, and all clones are one endpoint. When the last clone is dropped, the endpoint begins to
/// [close](Self::close).
pub struct Endpoint<R: Runtime> {
    server: HttpServer<R>,
    runtime: R,
    /// Whether handlers may see the extensions of requests.
    pub(super) exposes_heads: bool,
    pub(super) read_timeout: Duration,
}

impl<R: Runtime> Endpoint<R> {
    /// Creates an endpoint of a service. `endpoint` sets the names and paths under which it is reached, and its limits.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn new(service: &Service, endpoint: EndpointOptions) -> io::Result<Self> {
        Self::with(service, endpoint, &DriverOptions::default())
    }

    /// Does what [`new`](Self::new) does, with options for each session.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn with(service: &Service, endpoint: EndpointOptions, options: &DriverOptions) -> io::Result<Self> {
        Ok(Self::on(service, endpoint, options, R::current()?))
    }

    /// Does what [`with`](Self::with) does, on a given runtime.
    #[must_use]
    pub fn on(service: &Service, endpoint: EndpointOptions, options: &DriverOptions, runtime: R) -> Self {
        Self::with_runtime(service, endpoint, options, runtime, None)
    }

    /// Does what [`with`](Self::with) does, with sessions that are shared with other processes, behind a proxy that
    /// routes requests to any of them.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn sharing(
        service: &Service,
        endpoint: EndpointOptions,
        options: &DriverOptions,
        shared: Store,
    ) -> io::Result<Self> {
        Ok(Self::with_runtime(service, endpoint, options, R::current()?, Some(shared)))
    }

    pub(super) fn with_runtime(
        service: &Service,
        endpoint: EndpointOptions,
        options: &DriverOptions,
        runtime: R,
        shared: Option<Store>,
    ) -> Self {
        let exposes_heads = endpoint.heads.is_some();
        let server = HttpServer::new(service, endpoint, options, runtime.clone(), shared);
        Self { server, runtime, exposes_heads, read_timeout: Duration::from_secs(30) }
    }

    /// Protects the endpoint: every request needs an access token. The endpoint also serves the metadata document of
    /// the server, so a router has to pass on requests for its [paths](mcp_proto::auth::ResourceMetadata::paths).
    ///
    /// It holds for all clones.
    ///
    /// # Panics
    /// If the endpoint is protected already.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn protect(self, server: ResourceServer) -> Self {
        self.server.protect(server);
        self
    }

    /// Sets how long reading the body of a request may take, and before that reading its head if the connection is
    /// [served](super::serve()) here. Default 30 seconds.
    #[must_use]
    pub fn read_timeout(mut self, read_timeout: Duration) -> Self {
        self.read_timeout = read_timeout;
        self
    }

    /// Responds to a request. The [`Caller`] in its extensions identifies the client. Without one, the client is
    /// anonymous, and the [`PeerAddr`] in the extensions distinguishes it from others.
    ///
    /// Dropping the future, or the body of the response before its end, means that the client has disconnected.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: fmt::Display,
    {
        let peer = request.extensions().get::<PeerAddr>().copied();
        self.handle_unless(sleep(&self.runtime, self.read_timeout), request, peer, || {}).await
    }

    /// Responds to a request whose head an adapter cannot represent, such as one with too many headers. `origin` is the
    /// value of its header `Origin`: a page whose origin is allowed can read the response.
    #[must_use]
    pub fn refuse(&self, origin: Option<HeaderValue>, status: StatusCode, reason: &str) -> Response<Body> {
        let mut head = Request::new(()).into_parts().0;
        head.headers.extend(origin.map(|origin| (header::ORIGIN, origin)));
        let mut response = HttpResponse::new(reason.into());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Some(cors) = self.server.policy().cors(&head) {
            cors.add_to(headers);
        }
        Cors::add_vary(headers);
        response.map(Body::whole)
    }

    /// Does what [`handle`](Self::handle) does for a client with the address `peer`, but responds with 408 if `late` is
    /// ready before the body is read. Calls `routed` when the request has reached its session.
    pub(super) async fn handle_unless<B>(
        &self,
        late: impl Future<Output = ()>,
        request: Request<B>,
        peer: Option<PeerAddr>,
        routed: impl FnOnce(),
    ) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: fmt::Display,
    {
        let (head, body) = request.into_parts();
        let body = pin!(body);
        let cors = self.server.policy().cors(&head);
        #[cfg(feature = "auth")]
        let has_proof = ResourceServer::has_proof(&head.headers);
        let mut response = match self.open(late, (&head, body), (peer, cors.as_ref()), routed).await {
            Ok((head, response)) => Response::from_parts(head, Body::streamed(response)),
            Err(response) => response.map(Body::whole),
        };
        #[cfg(feature = "auth")]
        if let Some(server) = self.server.resource_server()
            && let Some((name, value)) = server.nonce(has_proof, response.status())
        {
            response.headers_mut().insert(name, value);
        }
        if let Some(cors) = cors {
            cors.add_to(response.headers_mut());
        }
        Cors::add_vary(response.headers_mut());
        response
    }

    /// Responds to a request beside the messages of the protocol: the preflight request of a browser, or one for the
    /// metadata document. Returns `None` for all others.
    fn respond_without_message(&self, head: &http::request::Parts, cors: Option<&Cors>) -> Option<Box<HttpResponse>> {
        let preflight = cors.and_then(|cors| cors.preflight(head));
        #[cfg(feature = "auth")]
        if let Some(server) = self.server.resource_server().filter(|server| server.is_document(head)) {
            let answer = || Box::new(preflight.unwrap_or_else(|| server.document(head)));
            return Some(self.server.policy().admit(head).err().unwrap_or_else(answer));
        }
        let answer = Box::new(preflight?);
        Some(self.server.check(head).err().unwrap_or(answer))
    }

    /// Returns the sender of a request: the subject of its access token if the server is protected, or else the
    /// `Caller` that a layer in front of the endpoint has set.
    #[cfg_attr(
        not(feature = "auth"),
        expect(clippy::unused_async, reason = "with the feature `auth` it takes a while")
    )]
    async fn sender(&self, head: &http::request::Parts) -> Result<Option<Caller>, Box<HttpResponse>> {
        #[cfg(feature = "auth")]
        if let Some(server) = self.server.resource_server() {
            // No token is verified for a request that is refused anyway.
            self.server.check(head)?;
            return server.caller(head, || self.server.now()).await.map(Some);
        }
        Ok(head.extensions.get::<Caller>().cloned())
    }

    /// Reads a request and routes it. Nothing large is moved across an `await`: the head and the body stay with the
    /// caller, and the request is read and handled where it is.
    async fn open<B>(
        &self,
        late: impl Future<Output = ()>,
        (head, mut body): (&http::request::Parts, Pin<&mut B>),
        (peer, cors): (Option<PeerAddr>, Option<&Cors>),
        routed: impl FnOnce(),
    ) -> Result<(Parts, ResponseStream), Box<HttpResponse>>
    where
        B: http_body::Body,
        B::Error: fmt::Display,
    {
        let mut late = pin!(late);
        let received = self.receive_head(late.as_mut(), head, (peer, cors)).await;
        let (caller, peer) = received.map_err(|refusal| closes_unless_read(refusal, &*body))?;
        let begun = self.server.begin(head, caller);
        let mut reader = begun.map_err(|refusal| closes_unless_read(refusal, &*body))?;
        let received = self.receive_body(late, &mut reader, peer, body.as_mut()).await;
        received.map_err(|refusal| closes_unless_read(refusal, &*body))?;
        let mut request = reader.end()?;
        self.server.handle(&mut request, peer, routed).await
    }

    /// Identifies the sender of a request: its client, and the address that its unknown clients share.
    async fn receive_head(
        &self,
        late: impl Future<Output = ()>,
        head: &http::request::Parts,
        (peer, cors): (Option<PeerAddr>, Option<&Cors>),
    ) -> Result<(Caller, Option<PeerAddr>), Box<HttpResponse>> {
        if let Some(answer) = self.respond_without_message(head, cors) {
            return Err(answer);
        }
        let sender = race(late, self.sender(head)).await;
        Ok(match (sender.ok_or_else(|| refusal(StatusCode::REQUEST_TIMEOUT))??, peer) {
            (Some(Caller::Anybody) | None, Some(PeerAddr(address))) => (Caller::Anonymous(address), peer),
            (Some(Caller::Anonymous(address)), _) => (Caller::Anonymous(address), Some(PeerAddr(address))),
            (caller, _) => (caller.unwrap_or(Caller::Anybody), peer),
        })
    }

    /// Reads the body of a request.
    async fn receive_body<B>(
        &self,
        late: impl Future<Output = ()>,
        reader: &mut RequestReader,
        peer: Option<PeerAddr>,
        mut body: Pin<&mut B>,
    ) -> Result<(), Box<HttpResponse>>
    where
        B: http_body::Body,
        B::Error: fmt::Display,
    {
        self.server.admit(reader, peer).await?;
        let read = async {
            while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let Ok(frame) = frame else { return Err(refusal(StatusCode::BAD_REQUEST)) };
                let Ok(mut data) = frame.into_data() else { continue };
                while data.has_remaining() {
                    let chunk = data.chunk();
                    reader.feed(chunk)?;
                    let read = chunk.len();
                    data.advance(read);
                }
            }
            Ok(())
        };
        race(late, read).await.ok_or_else(|| refusal(StatusCode::REQUEST_TIMEOUT))?
    }

    /// Ends all sessions, refuses further requests, and waits until all tasks of the sessions have ended, and the
    /// messages of [shared](Self::sharing) ones are stored. That takes a bounded time however clients and the store
    /// behave. Requests in flight get a response if their handlers finish in that time.
    pub fn close(&self) -> Deferred<()> {
        self.server.begin_close();
        self.server.wait()
    }

    /// Returns a time by the clock of the endpoint, for [`Principal::expires`]: a layer that authenticates requests
    /// sets it, and streams end then. A time in the past is the current one. Later changes of the system's time do not
    /// move the result.
    ///
    /// [`Principal::expires`]: mcp_proto::connection::Principal::expires
    #[must_use]
    pub fn timestamp(&self, at: SystemTime) -> Timestamp {
        self.server.timestamp(at)
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.server.sessions()
    }

    /// Returns the runtime of its sessions.
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }
}

/// Makes a refusal close the connection if the body was not read to its end: the rest would precede the next request.
fn closes_unless_read(mut refusal: Box<HttpResponse>, body: &impl http_body::Body) -> Box<HttpResponse> {
    if !body.is_end_stream() {
        refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    refusal
}

/// Creates a refusal that concerns the transfer of a request, not its content.
fn refusal(status: StatusCode) -> Box<HttpResponse> {
    let mut response = HttpResponse::new(Vec::new());
    *response.status_mut() = status;
    Box::new(response)
}

#[cfg(feature = "tower")]
impl<R, B> tower_service::Service<Request<B>> for Endpoint<R>
where
    R: Runtime,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display + Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}

impl<R: Runtime> Clone for Endpoint<R> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            runtime: self.runtime.clone(),
            exposes_heads: self.exposes_heads,
            read_timeout: self.read_timeout,
        }
    }
}

impl<R: Runtime> fmt::Debug for Endpoint<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("server", &self.server).finish_non_exhaustive()
    }
}
