//! The requests of an authorization, on ureq.

use std::{
    future::Future,
    io::{self, Read},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderValue, Response, Uri};
use mcp_driver::{
    Runtime, Watched,
    http::auth::{AuthRuntime, AuthTransport, MAX_LEN, Request, Url, UrlPolicy},
    os::thread::lock,
};
use ureq::{
    Agent,
    config::Config,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use super::{threads::Threads, ureq_client::default_config};

/// The timeout of a request, with its connection and its response. It also bounds the time of its thread.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An HTTP client for the requests of authorizations, each on a separate connection and thread.
#[derive(Debug)]
pub struct UreqTransport {
    config: Config,
}

impl UreqTransport {
    /// Creates a transport with a configuration of ureq, for example for its certificates. Proxies are not used, and
    /// redirects are not followed.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Default for UreqTransport {
    fn default() -> Self {
        Self::new(default_config())
    }
}

impl AuthRuntime for Threads {
    fn transport() -> Arc<dyn AuthTransport<Self>> {
        Arc::new(UreqTransport::default())
    }

    /// Returns the same threads for all flows of an [`OAuth`](super::OAuth).
    fn for_flow(last: Option<Self>) -> io::Result<Self> {
        last.map_or_else(Self::current, Ok)
    }
}

impl AuthTransport<Threads> for UreqTransport {
    fn exchange(
        &self,
        runtime: &Threads,
        request: Request,
        policy: UrlPolicy,
    ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
        let policy = (!request.is_configured).then_some(policy);
        let resolver = CheckedResolver { url: request.url.clone(), policy, inner: DefaultResolver::default() };
        let agent = Agent::with_parts(self.config.clone(), DefaultConnector::default(), resolver);
        let slot = Arc::new(Mutex::new(None));
        let done = Arc::new(Watched::new(false));
        let (result, end) = (slot.clone(), EndGuard(done.clone()));
        runtime.spawn_blocking(move || {
            *lock(&result) = Some(exchange(&agent, &request));
            drop(end);
        });
        Box::pin(async move {
            done.wait_for(|done| done.then_some(())).await;
            let response = lock(&slot).take();
            response.unwrap_or_else(|| Err(io::Error::other("there is no thread for it")))
        })
    }
}

/// A guard that reports on drop that a function has ended or will not run.
struct EndGuard(Arc<Watched<bool>>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.update(|done| *done = true);
    }
}

fn exchange(agent: &Agent, request: &Request) -> io::Result<Response<Vec<u8>>> {
    let mut message = http::Request::builder().method(request.method).uri(request.url.as_str());
    for (name, value) in &request.headers {
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| io::ErrorKind::InvalidData)?;
        value.set_sensitive(true);
        message = message.header(*name, value);
    }
    let response = if request.body.expose().is_empty() {
        run(agent, message.body(()).map_err(|_| io::ErrorKind::InvalidData)?)
    } else {
        run(agent, message.body(request.body.expose()).map_err(|_| io::ErrorKind::InvalidData)?)
    };
    let (head, body) = response.map_err(ureq::Error::into_io)?.into_parts();
    let mut read = Vec::new();
    body.into_reader().take(MAX_LEN as u64 + 1).read_to_end(&mut read)?;
    Ok(Response::from_parts(head, read))
}

fn run(agent: &Agent, request: http::Request<impl ureq::AsSendBody>) -> Result<Response<ureq::Body>, ureq::Error> {
    let request = agent.configure_request(request).max_redirects(0).http_status_as_error(false);
    agent.run(request.proxy(None).timeout_global(Some(TIMEOUT)).build())
}

/// A resolver of the host of one URL, with the addresses that a policy allows.
#[derive(Debug)]
struct CheckedResolver {
    url: Url,
    /// The policy; `None` for a URL that the application has configured.
    policy: Option<UrlPolicy>,
    inner: DefaultResolver,
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let Some(policy) = &self.policy else { return Ok(found) };
        let (mut allowed, mut refused) = (self.empty(), None);
        for address in found.iter() {
            match policy.check_address(&self.url, address.ip()) {
                Ok(()) => allowed.push(*address),
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            Some(why) if allowed.is_empty() => {
                Err(ureq::Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, why)))
            }
            _ => Ok(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
    };

    use mcp_driver::http::auth::{Credentials, Generation, OAuth, StoreReply, TokenStore, UrlRefused};

    use super::{super::pool::Pool, *};

    /// A store that always has tokens.
    struct Full(Credentials);

    impl TokenStore for Full {
        fn load(&self, _: &str) -> io::Result<Option<(Generation, Credentials)>> {
            Ok(Some((Generation(1), self.0.clone())))
        }

        fn replace(&self, _: &str, _: Option<Generation>, _: Option<&Credentials>) -> io::Result<StoreReply> {
            Ok(StoreReply::Stored(Generation(2)))
        }
    }

    /// Records on which threads it is called.
    #[derive(Clone, Default)]
    struct Recording(Arc<Mutex<Vec<Arc<Pool>>>>);

    impl AuthTransport<Threads> for Recording {
        fn exchange(
            &self,
            runtime: &Threads,
            _: Request,
            _: UrlPolicy,
        ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
            lock(&self.0).push(runtime.pool().clone());
            Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
        }
    }

    #[test]
    fn flows_share_their_threads() {
        let server = "https://mcp.example/mcp";
        let stored = br#"{"issuer": "https://as.example", "client_id": "client", "token_endpoint_auth_method": "none",
            "tokens": {"access_token": "a", "token_type": "Bearer", "resource": "https://mcp.example/mcp",
            "issued_at": 0}}"#;
        let credentials = Credentials::from_json(stored).expect("they are well formed");
        let recording = Recording::default();
        let builder = OAuth::<Threads>::builder(server).expect("a URL").transport(recording.clone());
        let oauth = builder.store(Full(credentials)).build().expect("random bytes");
        for flows in 1..=3 {
            // The metadata of the authorization server are looked up each time.
            mcp_service::block_on(oauth.sign_out()).expect("it is removed");
            let pools = lock(&recording.0);
            assert!(pools.len() >= flows && pools.iter().all(|pool| Arc::ptr_eq(pool, &pools[0])));
        }
    }

    // req: SEC-005 SEC-007
    #[test]
    fn refuses_private_addresses_before_connecting() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://localhost:{}/", listener.local_addr().expect("an address").port());
        let get = |server: Option<&str>| {
            let parse = |text: &str| Url::parse(text).expect("a URL");
            let policy = server.map(|server| UrlPolicy::new(&parse(server)));
            let resolver = CheckedResolver { url: parse(&url), policy, inner: DefaultResolver::default() };
            let agent = Agent::with_parts(default_config(), DefaultConnector::default(), resolver);
            run(&agent, http::Request::get(&url).body(()).expect("a request")).map_err(ureq::Error::into_io)
        };
        let error = get(Some("https://mcp.example/mcp")).expect_err("it is refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the URL leads to a Loopback address");
        assert!(error.get_ref().is_some_and(|why| why.is::<UrlRefused>()), "it is found by its type");
        listener.set_nonblocking(true).expect("it is open");
        assert_eq!(listener.accept().expect_err("nothing has connected").kind(), io::ErrorKind::WouldBlock);
        // A server on this machine may name others there, and a URL that the application has configured may be
        // anywhere.
        listener.set_nonblocking(false).expect("it is open");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    let (mut stream, _) = listener.accept().expect("it connects");
                    let head = BufReader::new(&stream).lines().map_while(Result::ok);
                    head.take_while(|line| !line.is_empty()).for_each(drop);
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is read");
                }
            });
            for server in [Some(&*url), None] {
                assert_eq!(get(server).expect("it connects").status(), 204);
            }
        });
    }
}
