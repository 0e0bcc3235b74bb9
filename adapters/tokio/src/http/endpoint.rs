//! A service as one of tower: a request in, an answer out.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use mcp_proto::http::server::Options;
use mcp_service::{
    Later, Service,
    drive::{self, Runtime},
};

use super::Body;
use crate::driver::Tokio;

/// A [`Service`] at an endpoint of HTTP, as a service of tower: for axum and whatever else routes requests.
///
/// It is cheap to clone, and all clones are one endpoint. When the last one is dropped, it begins to [close](Self::close).
#[derive(Clone, Debug)]
pub struct Endpoint(pub(super) drive::http::Endpoint<Tokio>);

impl Endpoint {
    /// Puts a service behind an endpoint: under which names and paths it is reached, and how much it may hold.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn new(service: &Service, endpoint: Options) -> io::Result<Self> {
        Self::with(service, endpoint, &crate::Options::default())
    }

    /// [`new`](Self::new) with options for how each session is run.
    ///
    /// # Errors
    /// If there is no runtime.
    pub fn with(service: &Service, endpoint: Options, options: &crate::Options) -> io::Result<Self> {
        Ok(Self(drive::http::Endpoint::new(service, endpoint, options, Tokio::current()?)))
    }

    /// How long the body of a request may take to come in. Default 30 seconds.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self(self.0.patience(patience))
    }

    /// Answers a request. Who sends it is the [`Caller`](mcp_proto::http::server::Caller) in its extensions; nobody asked if
    /// there is none.
    ///
    /// Dropping the future, or the body of the answer before its end, says that the client has hung up.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body,
        B::Error: fmt::Display,
    {
        self.0.answer(request).await
    }

    /// Ends every session, refuses what comes in, and waits until all that belongs to it is gone, which takes a bounded time
    /// however clients behave. What was asked before is answered, if that does not take too long.
    pub fn close(&self) -> Later<()> {
        self.0.close()
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions()
    }
}

impl<B> tower_service::Service<Request<B>> for Endpoint
where
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
        Box::pin(async move { Ok(endpoint.answer(request).await) })
    }
}
