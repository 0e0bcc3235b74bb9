//! A service as a handler of `fetch` events.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::pin,
    task::Poll,
    time::Duration,
};

use http::{HeaderValue, StatusCode, Uri, header, uri::PathAndQuery};
use js_sys::{Array, Reflect, Uint8Array};
use mcp_driver::{DriverOptions, http::Endpoint as HttpEndpoint};
use mcp_proto::{
    http::server::{Caller, EndpointOptions},
    rpc::Timestamp,
};
use mcp_service::{Deferred, Service, driver_api::SystemTime};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Request, Response};

use crate::{
    abort::Aborted,
    body::InboundBody,
    headers::{Received, TooManyHeaders, add_inbound},
    response::respond,
    runtime::Wasm,
};

/// The most bytes of an address. A `Uri` cannot hold more.
const MAX_URL: usize = u16::MAX as usize - 1;

/// A [`Service`] as a function from requests to responses of the Fetch standard: in a worker of a server platform, in a
/// service worker, and wherever JavaScript hands over a `Request`.
///
/// It is cheap to clone, and all clones are one endpoint. Sessions are in the memory of this module. When the last
/// clone is dropped, the endpoint begins to [close](Self::close).
#[derive(Clone)]
pub struct Endpoint(HttpEndpoint<Wasm>);

impl Endpoint {
    /// Creates an endpoint of a service. `endpoint` sets the names and paths under which it is reached, and its limits.
    ///
    /// # Errors
    /// If this is no JavaScript host.
    pub fn new(service: &Service, endpoint: EndpointOptions) -> io::Result<Self> {
        Self::with(service, endpoint, &DriverOptions::default())
    }

    /// Does what [`new`](Self::new) does, with options for each session.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(service: &Service, endpoint: EndpointOptions, options: &DriverOptions) -> io::Result<Self> {
        HttpEndpoint::with(service, endpoint, options).map(Self)
    }

    /// Sets how long reading the body of a request may take. Default 30 seconds.
    #[must_use]
    pub fn read_timeout(self, read_timeout: Duration) -> Self {
        Self(self.0.read_timeout(read_timeout))
    }

    /// Responds to a request of a client that is not authenticated.
    ///
    /// The response may be a stream that lasts for days. The client has disconnected when the host cancels the stream,
    /// when the signal of the request is aborted, or when this future is dropped.
    ///
    /// # Errors
    /// If its body was used already, or its signal was aborted before the response began. A request that is not one of
    /// HTTP gets a response that refuses it.
    pub async fn fetch(&self, request: &Request) -> Result<Response, JsValue> {
        self.fetch_as(request, Caller::Anybody).await
    }

    /// Responds to a request as [`fetch`](Self::fetch) does. The caller identifies the client: the principal that the
    /// application has authenticated, or the address from which an anonymous one sends, such as that in
    /// `CF-Connecting-IP`.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub async fn fetch_as(&self, request: &Request, caller: Caller) -> Result<Response, JsValue> {
        let mut head = match head(request) {
            Ok(head) => head,
            Err(HeadError::Refused(status, reason)) => return self.refuse(request, status, &reason).await,
            Err(HeadError::Host(error)) => return Err(error),
        };
        head.extensions.insert(caller);
        let received = http::Request::from_parts(head, body(request).await?);
        let aborted = Aborted::of(request);
        let response = {
            let mut response = pin!(self.0.handle(received));
            poll_fn(|cx| {
                if let Poll::Ready(reason) = aborted.poll(cx) {
                    return Poll::Ready(Err(reason));
                }
                response.as_mut().poll(cx).map(Ok)
            })
            .await
        };
        respond(response?, aborted).await
    }

    /// Returns the response to a request without a head.
    async fn refuse(&self, request: &Request, status: StatusCode, reason: &str) -> Result<Response, JsValue> {
        let origin = request.headers().get(header::ORIGIN.as_str())?;
        let origin = origin.and_then(|origin| HeaderValue::from_str(&origin).ok());
        respond(self.0.refuse(origin, status, reason), Aborted::of(request)).await
    }

    /// Ends all sessions, refuses further requests, and waits until all tasks of the sessions have ended. That takes a
    /// bounded time however clients behave. Requests in flight get a response if their handlers finish in that time.
    pub fn close(&self) -> Deferred<()> {
        self.0.close()
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions()
    }

    /// Returns a time by the clock of the endpoint, for [`Principal::expires`]. A time in the past is the current one.
    ///
    /// [`Principal::expires`]: mcp_proto::connection::Principal::expires
    #[must_use]
    pub fn timestamp(&self, at: SystemTime) -> Timestamp {
        self.0.timestamp(at)
    }
}

/// The reason why a request has no head.
#[derive(Debug)]
enum HeadError {
    /// It is not a request of HTTP, or exceeds a limit: the status of the response, and its text.
    Refused(StatusCode, String),
    /// An error of the host.
    Host(JsValue),
}

impl From<JsValue> for HeadError {
    fn from(error: JsValue) -> Self {
        Self::Host(error)
    }
}

impl From<http::Error> for HeadError {
    fn from(error: http::Error) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<TooManyHeaders> for HeadError {
    fn from(error: TooManyHeaders) -> Self {
        Self::Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, error.to_string())
    }
}

/// Returns the head of a request.
fn head(request: &Request) -> Result<http::request::Parts, HeadError> {
    let url = request.url();
    let (target, host) = target(url.as_str())?;
    let builder = http::Request::builder().method(request.method().as_str()).uri(target);
    let mut head = builder.body(())?.into_parts().0;
    for entry in request.headers().entries() {
        let entry: Array = entry?.dyn_into()?;
        if let (Some(name), Some(value)) = (entry.get(0).as_string(), entry.get(1).as_string()) {
            add_inbound(&mut head.headers, Received::Request, &name, &value)?;
        }
    }
    // Requests that did not come over the network, such as those of a page to its service worker, do not have it.
    if let Some(host) = host.filter(|_| !head.headers.contains_key(header::HOST)) {
        head.headers.insert(header::HOST, host);
    }
    Ok(head)
}

/// Splits the address of a request into its target and the value of `Host`.
fn target(url: &str) -> Result<(Uri, Option<HeaderValue>), HeadError> {
    let url = url.split('#').next().unwrap_or_default();
    if url.len() > MAX_URL {
        let reason = format!("the address has more than {MAX_URL} bytes");
        return Err(HeadError::Refused(StatusCode::URI_TOO_LONG, reason));
    }
    let url: Uri = url.parse().map_err(http::Error::from)?;
    let host = url.authority().map(|authority| HeaderValue::from_str(authority.as_str())).transpose();
    let target = url.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok((target.into(), host.map_err(http::Error::from)?))
}

/// Returns the body of a request.
async fn body(request: &Request) -> Result<InboundBody, JsValue> {
    if request.body_used() {
        return Err(js_sys::TypeError::new("the body of the request was used already").into());
    }
    // Some browsers do not have the body of a request as a stream.
    if Reflect::get(request, &"body".into())?.is_undefined() {
        let buffer = JsFuture::from(request.array_buffer()?).await?;
        return Ok(InboundBody::whole(Uint8Array::new(&buffer).to_vec()));
    }
    InboundBody::new(request.body())
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_split_into_target_and_host() {
        for (url, path, host) in [
            ("https://example.com/mcp", "/mcp", Some("example.com")),
            ("http://localhost:8000/a/b?c=d#e", "/a/b?c=d", Some("localhost:8000")),
            ("http://localhost:8000", "/", Some("localhost:8000")),
            ("/mcp", "/mcp", None),
        ] {
            let (target, found) = target(url).expect("an address");
            assert_eq!(target.to_string(), path, "{url}");
            assert!(target.authority().is_none());
            assert_eq!(found, host.map(HeaderValue::from_static), "{url}");
        }
    }

    #[test]
    fn bad_addresses_are_refused_with_a_status() {
        let refused = |url: &str| match target(url) {
            Err(HeadError::Refused(status, _)) => status.as_u16(),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused("http://["), 400);
        let start = "https://example.com/mcp?";
        let longest = format!("{start}{}", "a".repeat(MAX_URL - start.len()));
        assert_eq!(refused(&format!("{longest}a")), 414);
        let (uri, _) = target(&format!("{longest}#fragment")).expect("an address of the longest length");
        assert_eq!(uri.to_string().len(), MAX_URL - "https://example.com".len());
    }
}
