//! An HTTP/1.1 client.

use std::{
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use http::{Request, Response, Uri, header, response::Parts, uri::Scheme};
use http_body::Body as _;
use hyper::body::Incoming;
use mcp_proto::http::client::ClientOptions;

use crate::http::net::{
    connect::ConnectPath,
    error::error_chain,
    net_runtime::ConnectRuntime,
    pool::{Origin, Pool, PooledConnection},
    proxy::Proxy,
};
use crate::http::{
    body::Body,
    client::{HttpClient, ResponseHandler},
};

/// An HTTP client on hyper. Each request uses an idle connection of the client, or a new one.
pub struct Http1Client<N> {
    route: Arc<ConnectPath>,
    pool: Arc<Pool>,
    net: PhantomData<fn() -> N>,
}

impl<N> Http1Client<N> {
    /// Creates a client that connects directly, and trusts the certificates that this system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self::of(ConnectPath::default())
    }

    pub(super) fn of(route: ConnectPath) -> Self {
        Self { route: Arc::new(route), pool: Arc::default(), net: PhantomData }
    }

    /// Adds the `Host` of the address to the headers of all requests, unless it is among them. Otherwise it is added to
    /// each request when it is sent, whose headers then need more memory. Call it after the address was set.
    pub fn add_host(options: &mut ClientOptions) {
        if let Ok(host) = Origin::of(&options.url).name().try_into() {
            options.headers.entry(header::HOST).or_insert(host);
        }
    }

    /// Sets the proxy. No connection is shared with clones of the client before.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        Arc::make_mut(&mut self.route).proxy = Some(proxy);
        // A connection of another route must not get the credentials of this one.
        self.pool = Arc::default();
        self
    }

    /// Sets the configuration of TLS. No connection is shared with clones of the client before.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        Arc::make_mut(&mut self.route).tls = config.into();
        self.pool = Arc::default();
        self
    }
}

impl<N: ConnectRuntime> Http1Client<N> {
    /// Sends a request unchanged, and passes its response on as it arrives. It follows no redirects. The future runs in
    /// a task of the runtime. Dropping it closes the connection of the request.
    ///
    /// # Errors
    /// If the request cannot be sent, or the response breaks off. The error is the reason.
    pub fn send(
        &self,
        request: Request<Arc<[u8]>>,
        response: &mut impl ResponseSink,
    ) -> impl Future<Output = Result<(), String>> + Send {
        let mut request = request.map(Body::shared);
        async move { exchange::<N>(&self.route, &self.pool, &mut request, response).await }
    }
}

impl<N> Clone for Http1Client<N> {
    fn clone(&self) -> Self {
        Self { route: self.route.clone(), pool: self.pool.clone(), net: PhantomData }
    }
}

impl<N> Default for Http1Client<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N> fmt::Debug for Http1Client<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1Client").finish_non_exhaustive()
    }
}

impl<N: ConnectRuntime> HttpClient for Http1Client<N> {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Boxed, so that the allocation of the future is small: allocators keep small ones at hand.
        let (client, mut request) = (self.clone(), Box::new(request.map(Body::shared)));
        Box::pin(async move {
            match exchange::<N>(&client.route, &client.pool, &mut request, &mut response).await {
                Ok(()) => response.end(),
                Err(why) => response.fail(why),
            }
        })
    }
}

/// Receives a response. Its sender reports the end, after all of it was received.
pub trait ResponseSink: Send {
    /// Takes the head.
    fn head(&mut self, head: Parts);

    /// Takes a piece of the body.
    ///
    /// # Errors
    /// If the rest is not needed: the request ends with this reason.
    fn chunk(&mut self, chunk: &[u8]) -> Result<(), String>;

    /// Takes a whole response, which arrived in one piece. It may take the end of the response as well: a report of the
    /// end has no effect then.
    ///
    /// # Errors
    /// Those of [`chunk`](Self::chunk).
    fn whole(&mut self, head: Parts, body: &[u8]) -> Result<(), String> {
        self.head(head);
        self.chunk(body)
    }
}

impl ResponseSink for ResponseHandler {
    fn head(&mut self, head: Parts) {
        Self::head(self, &head);
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        Self::chunk(self, chunk);
        Ok(())
    }

    fn whole(&mut self, head: Parts, body: &[u8]) -> Result<(), String> {
        Self::whole(self, &head, body);
        Ok(())
    }
}

/// Sends a request, which is left empty, and passes on the response. The caller reports its end.
pub(super) async fn exchange<N: ConnectRuntime>(
    route: &ConnectPath,
    pool: &Arc<Pool>,
    request: &mut Request<Body>,
    response: &mut impl ResponseSink,
) -> Result<(), String> {
    let (answer, connection) = send_request::<N>(route, pool, request).await?;
    let (head, body) = answer.into_parts();
    let mut body = pin!(body);
    let first = poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await;
    // Most responses arrive in one piece.
    if let Poll::Ready(Some(Ok(frame))) = &first
        && let Some(data) = frame.data_ref()
        && body.is_end_stream()
    {
        pool.keep(connection);
        return response.whole(head, data);
    }
    response.head(head);
    let mut next = match first {
        Poll::Ready(frame) => frame,
        Poll::Pending => connection.next_frame(body.as_mut()).await,
    };
    while let Some(frame) = next {
        if let Some(data) = frame.map_err(|error| error_chain(&error))?.data_ref() {
            response.chunk(data)?;
        }
        next = connection.next_frame(body.as_mut()).await;
    }
    // The caller has not reported the end of the response yet, so a request that this end causes can use the
    // connection.
    pool.keep(connection);
    Ok(())
}

/// Sends a request on an idle connection or on a new one. Returns the head of the response with its body, and the
/// connection.
///
/// The request is borrowed, since a future stores its parameters twice.
async fn send_request<N: ConnectRuntime>(
    route: &ConnectPath,
    pool: &Pool,
    request: &mut Request<Body>,
) -> Result<(Response<Incoming>, PooledConnection), String> {
    let runtime = &N::current().map_err(|error| error.to_string())?;
    // Boxed, since it needs much more memory than the rest, and few requests need it.
    let open = |origin| Box::pin(async move { route.open(runtime, &origin).await });
    let (mut connection, mut is_used) = match pool.take(|origin| origin.is_of(request.uri())) {
        Some(connection) => (connection, true),
        None => (open(Origin::of(request.uri())).await?, false),
    };
    prepare(request, &connection, route.forward_proxy(&connection.target.origin));
    loop {
        if let Some(answer) = send_on(&mut connection, request, is_used).await? {
            return Ok((answer, connection));
        }
        let origin = connection.into_origin();
        (connection, is_used) = match pool.take(|other| *other == origin) {
            Some(connection) => (connection, true),
            None => (open(origin).await?, false),
        };
    }
}

/// Sends a request on a connection. Returns `None` if the server closed the connection, which was used before, and
/// nothing of the request was written.
async fn send_on(
    connection: &mut PooledConnection,
    request: &mut Request<Body>,
    is_used: bool,
) -> Result<Option<Response<Incoming>>, String> {
    let (sender, driver) = connection.parts();
    let mut answer = pin!(sender.try_send_request(mem::take(request)));
    match driver.run(|cx| answer.as_mut().poll(cx)).await {
        Ok(answer) => Ok(Some(answer)),
        Err(mut error) => match error.take_message() {
            Some(unsent) if is_used => {
                *request = unsent;
                Ok(None)
            }
            _ => Err(error_chain(&error.into_error())),
        },
    }
}

/// Prepares a request for HTTP/1.1: sets `Host`, unless it is there, and reduces the URI to its path. For a proxy that
/// forwards the request, keeps the whole URI and adds the credentials of the proxy.
fn prepare(request: &mut Request<Body>, connection: &PooledConnection, forward_proxy: Option<&Proxy>) {
    request.headers_mut().entry(header::HOST).or_insert_with(|| connection.target.host.clone());
    let Some(proxy) = forward_proxy else {
        let path = mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        return;
    };
    if let Some(authorization) = &proxy.authorization {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
    }
}

impl Origin {
    fn of(uri: &Uri) -> Self {
        let (is_secure, host, port) = origin_parts(uri);
        Self { is_secure, host: host.to_ascii_lowercase(), port }
    }

    /// Returns whether this is the origin of a URI.
    fn is_of(&self, uri: &Uri) -> bool {
        if self.is_secure != is_secure(uri) {
            return false;
        }
        // Most authorities begin with the host in lower case, and are not parsed.
        let port = match uri.authority().and_then(|authority| authority.as_str().strip_prefix(&*self.host)) {
            Some("") => Some(default_port(self.is_secure)),
            rest => rest.and_then(|rest| decimal(rest.strip_prefix(':')?)),
        };
        if port == Some(self.port) {
            return true;
        }
        let (_, host, port) = origin_parts(uri);
        self.port == port && self.host.eq_ignore_ascii_case(host)
    }

    /// Returns the value of `Host`.
    pub(super) fn name(&self) -> String {
        if self.port == default_port(self.is_secure) {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn is_secure(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

const fn default_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

/// Returns the value of some decimal digits.
fn decimal(digits: &str) -> Option<u16> {
    if digits.starts_with('+') { None } else { digits.parse().ok() }
}

/// Returns whether the scheme is `https`, the host and the port.
fn origin_parts(uri: &Uri) -> (bool, &str, u16) {
    let is_secure = is_secure(uri);
    (is_secure, uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(default_port(is_secure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_ignores_case_and_default_port() {
        let uri = Uri::from_static;
        let origin = Origin::of(&uri("http://Host/a"));
        for same in ["http://host/b", "http://HOST:80", "http://host:80/", "http://user@host/", "http://user@host:80/"]
        {
            assert!(origin.is_of(&uri(same)) && Origin::of(&uri(same)) == origin, "{same}");
        }
        for other in [
            "https://host/",
            "https://host:80/",
            "http://host:81/",
            "http://host:8/",
            "http://hosts/",
            "http://hosts:80/",
            "http://host:80@other/",
            "http://host@other:80/",
            "/",
        ] {
            assert!(!origin.is_of(&uri(other)) && Origin::of(&uri(other)) != origin, "{other}");
        }
        let origin = Origin::of(&uri("http://[::1]:8080/a"));
        assert!(origin.is_of(&uri("http://[::1]:8080/")) && !origin.is_of(&uri("http://[::1]/")));
    }

    #[test]
    fn host_is_that_of_the_address() {
        for (url, expected) in [
            ("http://Server.example/mcp", "server.example"),
            ("http://server.example:80/mcp", "server.example"),
            ("https://server.example:80/mcp", "server.example:80"),
            ("https://server.example:443/mcp", "server.example"),
            ("http://127.0.0.1:8000/mcp", "127.0.0.1:8000"),
            ("http://[::1]:8000/mcp", "[::1]:8000"),
        ] {
            let mut options = ClientOptions::new(url, 1).expect("an address");
            Http1Client::<()>::add_host(&mut options);
            assert_eq!(options.headers[header::HOST], expected, "{url}");
        }
        let mut options = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        options.headers.insert(header::HOST, http::HeaderValue::from_static("other"));
        Http1Client::<()>::add_host(&mut options);
        assert_eq!(options.headers[header::HOST], "other");
    }

    #[test]
    fn clients_of_other_routes_share_no_connections() {
        let direct = Http1Client::<()>::new();
        assert!(Arc::ptr_eq(&direct.pool, &direct.clone().pool));
        let proxied = direct.clone().proxy(Proxy::new("http://proxy:1").expect("a proxy"));
        assert!(!Arc::ptr_eq(&direct.pool, &proxied.pool), "its requests have the credentials for the proxy");
    }
}
