//! Short requests, on a thread of their client.

use std::{
    fmt, io,
    sync::{Arc, Mutex, OnceLock},
};

use http::{Request, Response};
#[cfg(feature = "tls")]
use mcp_driver::http::rustls;
use mcp_driver::{
    http::{self as driver, HttpFetch, Proxy},
    os::thread::lock,
    run_in_task,
};
use mcp_service::{Deferred, driver_api::WaitQueue};

use super::{client_loop::ClientLoop, own_loop::OwnLoop};

/// The most requests of a client at the same time.
const REQUESTS: usize = 32;

/// An HTTP client for short requests, on hyper. A request that takes longer than 10 seconds fails. At most 32 requests
/// run at the same time, and others wait. All of them run on one thread, which starts with the first request.
#[derive(Clone)]
pub struct FetchClient {
    requests: OwnLoop,
    direct: driver::FetchClient<ClientLoop>,
    /// The proxy, if it is not that of the environment.
    proxy: Option<Proxy>,
    /// The client with its proxy, if it has one, once a request was made.
    client: Arc<OnceLock<driver::FetchClient<ClientLoop>>>,
    slots: Arc<Slots>,
}

impl FetchClient {
    /// Creates a client that trusts the certificates that this system trusts, and uses the proxy that the environment
    /// names: see [`Proxy::from_env`].
    #[must_use]
    pub fn new() -> Self {
        let direct = driver::FetchClient::new();
        Self { requests: OwnLoop::default(), direct, proxy: None, client: Arc::default(), slots: Arc::default() }
    }

    /// Sets the proxy of every connection, instead of that of the environment.
    #[must_use]
    pub fn proxy(self, proxy: Proxy) -> Self {
        Self { proxy: Some(proxy), client: Arc::default(), ..self }
    }

    /// Sets the configuration of TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, config: Arc<rustls::ClientConfig>) -> Self {
        Self { direct: self.direct.tls(config), client: Arc::default(), ..self }
    }

    fn client(&self) -> io::Result<driver::FetchClient<ClientLoop>> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let proxy = match &self.proxy {
            Some(proxy) => Some(proxy.clone()),
            None => Proxy::from_env().map_err(io::Error::other)?,
        };
        let direct = self.direct.clone();
        let client = match proxy {
            Some(proxy) => direct.proxy(proxy),
            None => direct,
        };
        // Requests share the configuration of TLS, which is created for the first one.
        Ok(self.client.get_or_init(|| client).clone())
    }
}

impl Default for FetchClient {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FetchClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchClient").finish_non_exhaustive()
    }
}

impl HttpFetch for FetchClient {
    fn fetch(&self, request: Request<Vec<u8>>, limit: usize) -> Deferred<io::Result<Response<Vec<u8>>>> {
        let (requests, slots, client) = (self.requests.clone(), self.slots.clone(), self.client());
        Deferred::new(async move {
            let client = client?;
            let slot = slots.waiting.acquire(|| slots.take()).await;
            let fetched = async move {
                let response = client.fetch(request, limit).await;
                drop(slot);
                response
            };
            let done = run_in_task(&requests.get()?, fetched).await;
            done.unwrap_or_else(|| Err(io::Error::other("the request has panicked")))
        })
    }
}

/// The slots of the requests of a client.
#[derive(Debug, Default)]
struct Slots {
    used: Mutex<usize>,
    waiting: WaitQueue,
}

impl Slots {
    fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut used = lock(&self.used);
        if *used >= REQUESTS {
            return None;
        }
        *used += 1;
        Some(Slot(self.clone()))
    }
}

/// The slot of a request, until that has ended or was cancelled.
struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.0.used) -= 1;
        self.0.waiting.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        pin::Pin,
        task::{Context, Waker},
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn number_of_requests_is_bounded_until_they_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let client = FetchClient::new().proxy(Proxy::new("http://unused.example").expect("an address").exempt("*"));
        let cx = &mut Context::from_waker(Waker::noop());
        let request = || Request::get(&*url).body(Vec::new()).expect("a request");
        let mut fetches: Vec<_> = (0..REQUESTS + 1).map(|_| client.fetch(request(), 16)).collect();
        for fetch in &mut fetches {
            assert!(Pin::new(fetch).poll(cx).is_pending());
        }
        let mut accepted: Vec<_> = (0..REQUESTS).map(|_| listener.accept().expect("it connects").0).collect();
        listener.set_nonblocking(true).expect("it is open");
        thread::sleep(Duration::from_millis(20));
        assert_eq!(listener.accept().expect_err("the last one waits").kind(), io::ErrorKind::WouldBlock);
        assert!(client.slots.take().is_none());
        // Requests that are dropped are cancelled, and free their slots.
        let last = fetches.pop().expect("there are some");
        let began = Instant::now();
        drop(fetches);
        listener.set_nonblocking(false).expect("it is open");
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it connects");
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it reads");
            stream
        });
        assert_eq!(last.wait().expect("there is a slot").status(), 204);
        // Their slots did not wait for the timeout of requests.
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
        accepted.push(served.join().expect("no panic"));
        while *lock(&client.slots.used) > 0 {
            thread::yield_now();
        }
    }
}
