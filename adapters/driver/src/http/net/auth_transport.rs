//! The requests of an authorization, on hyper.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind},
    marker::PhantomData,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
};

use http::{HeaderValue, Response, header};
use mcp_proto::auth::{Url, UrlPolicy, client::Request, document::MAX_LEN};

use crate::http::{
    auth::AuthTransport,
    body::Body,
    client::BoxFuture,
    net::{
        connect::ConnectPath,
        error::error_chain,
        happy_eyeballs::{addresses, race},
        net_runtime::ConnectRuntime,
        pool::Origin,
    },
};

/// Sends the requests of authorizations, each on a connection of its own.
pub struct NetTransport<N> {
    route: Arc<ConnectPath>,
    net: PhantomData<fn() -> N>,
}

impl<N> NetTransport<N> {
    /// Creates a transport with a configuration of TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(config: Arc<rustls::ClientConfig>) -> Self {
        Self { route: Arc::new(ConnectPath { tls: config.into(), ..ConnectPath::default() }), net: PhantomData }
    }
}

impl<N> Default for NetTransport<N> {
    fn default() -> Self {
        Self { route: Arc::default(), net: PhantomData }
    }
}

impl<N> fmt::Debug for NetTransport<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetTransport").finish_non_exhaustive()
    }
}

impl<N: ConnectRuntime> AuthTransport<N> for NetTransport<N> {
    fn exchange(
        &self,
        runtime: &N,
        request: Request,
        policy: UrlPolicy,
    ) -> BoxFuture<'static, io::Result<Response<Vec<u8>>>> {
        let (route, runtime) = (self.route.clone(), runtime.clone());
        Box::pin(async move { exchange(&route, &runtime, &request, &policy).await })
    }
}

async fn exchange<N: ConnectRuntime>(
    route: &ConnectPath,
    runtime: &N,
    request: &Request,
    policy: &UrlPolicy,
) -> io::Result<Response<Vec<u8>>> {
    let url = &request.url;
    let origin = Origin { is_secure: url.is_https(), host: url.host().to_ascii_lowercase(), port: url.port() };
    let found = addresses(runtime, &origin.host, origin.port).await?;
    let found = if request.is_configured { found } else { allowed(found, url, policy)? };
    let stream = race(runtime, found).await?;
    let mut connection = route.start(runtime, &origin, stream).await.map_err(io::Error::other)?;
    let mut message = http::Request::builder().method(request.method);
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = if url.path().is_empty() { "/" } else { url.path() };
    message = message.uri(format!("{path}{query}")).header(header::HOST, origin.name());
    for (name, value) in &request.headers {
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        value.set_sensitive(true);
        message = message.header(*name, value);
    }
    let body = Body::shared(Arc::from(request.body.expose().as_bytes()));
    let message = message.body(body).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    let failed = |error: hyper::Error| io::Error::other(error_chain(&error));
    let (sender, driver) = connection.parts();
    let mut response = pin!(sender.send_request(message));
    let response = driver.run(|cx| response.as_mut().poll(cx)).await;
    let (head, body) = response.map_err(failed)?.into_parts();
    let (mut body, mut read) = (pin!(body), Vec::new());
    while let Some(frame) = connection.next_frame(body.as_mut()).await {
        if let Some(data) = frame.map_err(failed)?.data_ref() {
            let room = MAX_LEN + 1 - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if read.len() > MAX_LEN {
                break;
            }
        }
    }
    Ok(Response::from_parts(head, read))
}

/// Returns the addresses to which the policy lets the client connect.
fn allowed(found: VecDeque<SocketAddr>, url: &Url, policy: &UrlPolicy) -> io::Result<VecDeque<SocketAddr>> {
    let mut refused = None;
    let mut check = |address: &SocketAddr| match policy.check_address(url, address.ip()) {
        Ok(()) => true,
        Err(why) => {
            refused = Some(why);
            false
        }
    };
    let allowed: VecDeque<_> = found.into_iter().filter(|address| check(address)).collect();
    match refused {
        Some(why) if allowed.is_empty() => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::{
        auth::{
            AuthClient, UrlRefused,
            client::{Action, Attempts, Now, Settings},
        },
        rpc::Timestamp,
    };

    use super::*;
    use crate::http::net::happy_eyeballs::tests::{TestRuntime, connects};

    /// Returns the first request of an authorization at a server.
    fn first_request(server: &str) -> Request {
        let now = Now { instant: Timestamp::ZERO, unix_seconds: 1 };
        let mut client = AuthClient::new(url(server), Settings::default(), [0; 32]);
        let _ = client.handle_challenge(now, 401, &[], None, &mut Attempts::default());
        loop {
            match client.poll_action().expect("an action") {
                Action::Request(request) => return request,
                Action::Load { id, .. } => {
                    client.handle_loaded(id, Ok(None));
                    let _ = client.handle_challenge(now, 401, &[], None, &mut Attempts::default());
                }
                action => panic!("{action:?}"),
            }
        }
    }

    #[test]
    fn refuses_private_addresses_before_connecting() {
        let (route, runtime, request) =
            (ConnectPath::default(), TestRuntime { fires: true }, first_request("http://localhost:3/mcp"));
        let send = |server: &str| {
            let (policy, before) = (UrlPolicy::new(&url(server)), connects());
            let result = mcp_service::block_on(exchange(&route, &runtime, &request, &policy));
            (result.expect_err("nothing answers").kind(), connects() - before)
        };
        assert_eq!(send("https://mcp.example/mcp"), (ErrorKind::PermissionDenied, 0));
        assert_eq!(send("http://localhost:3/mcp"), (ErrorKind::Other, 1));
    }

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    // req: SEC-005 SEC-007
    #[test]
    fn only_addresses_of_the_policy_are_connected_to() {
        let policy = UrlPolicy::new(&url("https://mcp.example/mcp"));
        let all = |addresses: &[&str]| -> VecDeque<SocketAddr> {
            addresses.iter().map(|address| SocketAddr::new(address.parse().expect("an address"), 443)).collect()
        };
        let document = url("https://as.example/token");
        let found = all(&["10.0.0.1", "8.8.8.8", "169.254.169.254", "::1", "2606:4700::1"]);
        assert_eq!(allowed(found, &document, &policy).expect("two are public"), all(&["8.8.8.8", "2606:4700::1"]));
        for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "0.0.0.0"] {
            let refused = allowed(all(&[address]), &document, &policy).expect_err("it is private");
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{address}");
            assert!(refused.get_ref().is_some_and(|why| why.is::<UrlRefused>()), "{address}: without its reason");
        }
        assert_eq!(allowed(VecDeque::new(), &document, &policy).expect("none"), VecDeque::new());
        // The name of the server may lead into a private network.
        let own = url("https://mcp.example/.well-known/oauth-protected-resource/mcp");
        let found = all(&["10.0.0.1", "169.254.169.254"]);
        assert_eq!(allowed(found, &own, &policy).expect("the server"), all(&["10.0.0.1"]));
    }
}
