//! The way to a server over HTTP.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use mcp_service::{
    Host,
    drive::http::{Credentials, Requests, Response},
};

use super::Address;
use crate::{Client, Error, Options};

/// The way to a server over HTTP: where it is, what proves who asks, and who makes the requests.
#[derive(Clone)]
pub struct Connector {
    pub(crate) address: Address,
    pub(crate) options: Options,
    pub(crate) requests: Arc<dyn Requests>,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
}

impl Connector {
    /// The way to a server at an address such as `http://localhost:8000/mcp`.
    ///
    /// # Errors
    /// If it is no address of HTTP.
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |error| Error::Io(io::Error::new(io::ErrorKind::InvalidInput, error));
        Ok(Self::to(Address::new(url).map_err(invalid)?))
    }

    /// The same with more to choose: headers, limits, what to try. Whether there are
    /// [credentials](Self::credentials) decides what becomes of a challenge.
    #[must_use]
    pub fn to(address: Address) -> Self {
        Self { address, options: Options::default(), requests: Arc::new(Hyper::new()), credentials: None }
    }

    /// How the connection is run.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// What proves who asks.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Who makes the requests, instead of hyper over TCP: another library, a proxy, encryption.
    #[must_use]
    pub fn requests(mut self, requests: impl Requests) -> Self {
        self.requests = Arc::new(requests);
        self
    }

    /// Connects, in the newest way that the server knows.
    ///
    /// # Errors
    /// If there is no runtime, nobody listens there, or not a server that the host can talk to.
    pub async fn connect(mut self, host: &Host) -> Result<Client, Error> {
        self.address.proves = self.credentials.is_some();
        if self.address.seed == 0 {
            self.address.seed = mcp_service::drive::http::seed();
        }
        Client::over_http(self, host).await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address.url).finish_non_exhaustive()
    }
}

/// hyper, over TCP.
struct Hyper(Pool<HttpConnector, Full<Bytes>>);

impl Hyper {
    fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        Self(Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(tcp))
    }
}

impl Requests for Hyper {
    fn make(&self, request: Request<Arc<[u8]>>, mut response: Response) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let made = self.0.request(request.map(|body| Full::new(Bytes::from_owner(body))));
        Box::pin(async move {
            let (head, mut body) = match made.await {
                Ok(answer) => answer.into_parts(),
                Err(error) => return response.fail(whole_story(&error)),
            };
            response.head(&head);
            loop {
                match body.frame().await {
                    None => return response.end(),
                    Some(Err(error)) => return response.fail(whole_story(&error)),
                    Some(Ok(frame)) => {
                        if let Some(data) = frame.data_ref() {
                            response.chunk(data);
                        }
                    }
                }
            }
        })
    }
}

/// An error, and what it came from.
fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        story = format!("{story}: {error}");
        source = error.source();
    }
    story
}
