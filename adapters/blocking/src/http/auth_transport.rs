//! The requests of an authorization, each on a thread of its own.

use std::{future::Future, io, pin::Pin, sync::Arc};

use http::Response;
#[cfg(feature = "tls")]
use mcp_driver::http::rustls;
use mcp_driver::{
    Runtime,
    http::{
        self as driver,
        auth::{AuthRuntime, AuthTransport, Request, UrlPolicy},
    },
    run_in_task,
};

use super::{client_loop::ClientLoop, threads::Threads};

/// An HTTP client for the requests of authorizations, each on a separate connection and thread. Proxies are not used,
/// and redirects are not followed.
#[derive(Debug, Default)]
pub struct NetTransport(Arc<driver::NetTransport<ClientLoop>>);

impl NetTransport {
    /// Creates a transport with a configuration of TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(config: Arc<rustls::ClientConfig>) -> Self {
        Self(Arc::new(driver::NetTransport::tls(config)))
    }
}

impl AuthRuntime for Threads {
    fn transport() -> Arc<dyn AuthTransport<Self>> {
        Arc::new(NetTransport::default())
    }

    /// Returns the same threads for all flows of an [`OAuth`](super::OAuth).
    fn for_flow(last: Option<Self>) -> io::Result<Self> {
        last.map_or_else(Self::current, Ok)
    }
}

impl AuthTransport<Threads> for NetTransport {
    fn exchange(
        &self,
        _: &Threads,
        request: Request,
        policy: UrlPolicy,
    ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
        let transport = self.0.clone();
        Box::pin(async move {
            // Requests are rare, so no thread waits for the next one.
            let client_loop = ClientLoop::start()?;
            let exchange = transport.exchange(&client_loop, request, policy);
            let done = run_in_task(&client_loop, exchange).await;
            done.unwrap_or_else(|| Err(io::Error::other("the request has panicked")))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use mcp_driver::{
        http::auth::{Credentials, Generation, OAuth, StoreReply, TokenStore, Url, UrlRefused},
        os::thread::lock,
    };

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

    type Recorded = Vec<(Arc<Pool>, Request)>;

    /// Records its requests, and on which threads it is called.
    #[derive(Clone, Default)]
    struct Recording(Arc<Mutex<Recorded>>);

    impl AuthTransport<Threads> for Recording {
        fn exchange(
            &self,
            runtime: &Threads,
            request: Request,
            _: UrlPolicy,
        ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
            lock(&self.0).push((runtime.pool().clone(), request));
            Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
        }
    }

    /// Returns an authorization whose requests are recorded.
    fn recorded(recording: &Recording) -> OAuth<Threads> {
        let server = "https://mcp.example/mcp";
        let stored = br#"{"issuer": "https://as.example", "client_id": "client", "token_endpoint_auth_method": "none",
            "tokens": {"access_token": "a", "token_type": "Bearer", "resource": "https://mcp.example/mcp",
            "issued_at": 0}}"#;
        let credentials = Credentials::from_json(stored).expect("they are well formed");
        let builder = OAuth::<Threads>::builder(server).expect("a URL").transport(recording.clone());
        builder.store(Full(credentials)).build().expect("random bytes")
    }

    #[test]
    fn flows_share_their_threads() {
        let recording = Recording::default();
        let oauth = recorded(&recording);
        for flows in 1..=3 {
            // The metadata of the authorization server are looked up each time.
            mcp_service::block_on(oauth.sign_out()).expect("it is removed");
            let calls = lock(&recording.0);
            assert!(calls.len() >= flows && calls.iter().all(|(pool, _)| Arc::ptr_eq(pool, &calls[0].0)));
        }
    }

    /// Returns a request of an authorization for a URL, which the application has configured or not.
    fn request(url: &str, is_configured: bool) -> Request {
        let recording = Recording::default();
        mcp_service::block_on(recorded(&recording).sign_out()).expect("it is removed");
        let (_, request) = lock(&recording.0).swap_remove(0);
        Request { url: parse(url), is_configured, ..request }
    }

    fn parse(url: &str) -> Url {
        Url::parse(url).expect("a URL")
    }

    // req: SEC-005 SEC-007
    #[test]
    fn refuses_private_addresses_before_connecting() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://localhost:{}/", listener.local_addr().expect("an address").port());
        let connections = Arc::new(AtomicUsize::new(0));
        let served = connections.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                served.fetch_add(1, Ordering::SeqCst);
                let head = BufReader::new(&stream).lines().map_while(Result::ok);
                head.take_while(|line| !line.is_empty()).for_each(drop);
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is read");
            }
        });
        let (transport, threads) = (NetTransport::default(), Threads::current().expect("there are threads"));
        let get = |server: &str, is_configured: bool| {
            let policy = UrlPolicy::new(&parse(server));
            mcp_service::block_on(transport.exchange(&threads, request(&url, is_configured), policy))
        };
        let elsewhere = "https://mcp.example/mcp";
        let error = get(elsewhere, false).expect_err("it is refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the URL leads to a Loopback address");
        assert!(error.get_ref().is_some_and(|why| why.is::<UrlRefused>()), "it is found by its type");
        // A server on this machine may name others there, and a URL that the application has configured may be
        // anywhere.
        for (server, is_configured) in [(&*url, false), (elsewhere, true)] {
            assert_eq!(get(server, is_configured).expect("it connects").status(), 204);
        }
        assert_eq!(connections.load(Ordering::SeqCst), 2, "the refused request did not connect");
    }
}
