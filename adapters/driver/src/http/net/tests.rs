//! Clients and listeners over connections in memory, whose tasks are polled by hand.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::{Future, pending, poll_fn},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use http::{HeaderValue, Request, StatusCode, Uri, header, response::Parts};
use hyper::rt::{Read, ReadBufCursor, Write};
use mcp_proto::http::{Policy, server::EndpointOptions};
use mcp_service::Service;
use rustix::io::Errno;

use super::{
    connect::ConnectPath,
    connection_driver::{ConnectionDriver, IDLE_TIMEOUT, UNREAD_TIMEOUT},
    fetch::FetchClient,
    http1::{Http1Client, ResponseSink, exchange},
    listener::Listener,
    net_runtime::{ConnectRuntime, NetRuntime},
    pool::Pool,
    proxy::Proxy,
    tracked_stream::PendingWrite,
};
use crate::{
    http::{body::Body, client::ResponseHandler, fetch::HttpFetch as _, memory_limit, server::HttpServer},
    options::DriverOptions,
    runtime::{Runtime, Timer},
    sync::lock,
};

/// A runtime whose tasks, connections and results of `accept` are those of the thread.
#[derive(Clone)]
struct ByHand;

#[derive(Default)]
struct Net {
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whether timers fire early.
    fires: bool,
    /// How much later it is for timers than for the clock.
    passed: Duration,
    /// A time that has passed for timers, and all before.
    fired: Option<Instant>,
    /// How often a task has waited for a time, and for which one it has waited last.
    waits: usize,
    awaited: Option<Instant>,
    /// What is called when a timer is dropped: its task has decided to end.
    at_timer_drop: Option<Box<dyn FnOnce()>>,
    /// The servers of the connections that were opened.
    servers: Vec<Arc<Mutex<Server>>>,
    /// Whether servers close new connections.
    refuses: bool,
    /// The most bytes that servers of new connections read.
    window: Option<usize>,
    /// Whether new connections write several slices at once.
    is_vectored: bool,
    /// The next results of `accept`: a connection, an error, or nothing for now. Then there are no more.
    accepts: VecDeque<Option<io::Result<()>>>,
}

thread_local! {
    static NET: RefCell<Net> = RefCell::default();
}

/// A server that responds to the head of one request.
#[derive(Default)]
struct Server {
    received: Vec<u8>,
    /// The most bytes that it reads.
    window: Option<usize>,
    is_vectored: bool,
    has_responded: bool,
    is_closed: bool,
}

struct Stream(Arc<Mutex<Server>>);

impl Runtime for ByHand {
    type Task = ();
    type Timer = HandTimer;

    fn current() -> io::Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        NET.with_borrow_mut(|net| net.tasks.push(Box::pin(future)));
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        f();
    }

    fn timer(&self) -> HandTimer {
        HandTimer
    }
}

/// A timer that fires when a test says so.
struct HandTimer;

impl Drop for HandTimer {
    fn drop(&mut self) {
        let hook = NET.try_with(|net| net.try_borrow_mut().ok().and_then(|mut net| net.at_timer_drop.take()));
        if let Ok(Some(hook)) = hook {
            hook();
        }
    }
}

impl Timer for HandTimer {
    fn poll_until(&mut self, at: Instant, _: &mut Context<'_>) -> Poll<()> {
        NET.with_borrow_mut(|net| {
            net.waits += 1;
            net.awaited = Some(at);
            let has_passed =
                net.fires || net.fired.is_some_and(|fired| at <= fired) || at <= Instant::now() + net.passed;
            if has_passed { Poll::Ready(()) } else { Poll::Pending }
        })
    }
}

impl ConnectRuntime for ByHand {
    type Stream = Stream;

    async fn connect(_: SocketAddr) -> io::Result<Stream> {
        NET.with_borrow_mut(|net| {
            if net.servers.len() == 10 {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (window, is_vectored) = (net.window, net.is_vectored);
            let server = Server { is_closed: net.refuses, window, is_vectored, ..Server::default() };
            let server = Arc::new(Mutex::new(server));
            net.servers.push(server.clone());
            Ok(Stream(server))
        })
    }
}

impl NetRuntime for ByHand {
    type Socket = TcpListener;

    fn listen(&self, socket: TcpListener) -> io::Result<TcpListener> {
        Ok(socket)
    }

    fn poll_accept(_: &TcpListener, _: &mut Context<'_>) -> Poll<io::Result<(Stream, SocketAddr)>> {
        match NET.with_borrow_mut(|net| net.accepts.pop_front()).flatten() {
            Some(result) => Poll::Ready(result.map(|()| (Stream(Arc::default()), (Ipv4Addr::LOCALHOST, 1).into()))),
            None => Poll::Pending,
        }
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut server = lock(&self.0);
        if server.is_closed {
            return Poll::Ready(Ok(()));
        }
        if server.has_responded || !server.received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            return Poll::Pending;
        }
        server.has_responded = true;
        buffer.put_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut server = lock(&self.0);
        let room = server.window.map_or(usize::MAX, |window| window - server.received.len());
        if room == 0 {
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(room)];
        server.received.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).is_vectored
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls all tasks once.
fn run_tasks() {
    run_tasks_with(Waker::noop());
}

fn run_tasks_with(waker: &Waker) {
    let mut tasks = NET.with_borrow_mut(|net| std::mem::take(&mut net.tasks));
    tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    NET.with_borrow_mut(|net| net.tasks.append(&mut tasks));
}

/// The number of wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls a future and all tasks until the future is ready.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..1000 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        run_tasks();
    }
    panic!("it does not end");
}

/// The statuses of responses.
#[derive(Default)]
struct Statuses(Vec<StatusCode>);

impl ResponseSink for Statuses {
    fn head(&mut self, head: Parts) {
        self.0.push(head.status);
    }

    fn chunk(&mut self, chunk: &[u8]) -> Result<(), String> {
        Err(format!("{chunk:?}"))
    }
}

/// Sends a request. Returns the status of the response, and the number of connections that were opened so far.
fn send(pool: &Arc<Pool>) -> (Result<StatusCode, String>, usize) {
    send_to("http://127.0.0.1:9/mcp", pool)
}

/// Sends a request whose body is larger than the windows of servers.
fn send_large(pool: &Arc<Pool>) -> (Result<StatusCode, String>, usize) {
    send_body("http://127.0.0.1:9/mcp", &[b'x'; 100_000], pool)
}

fn send_to(uri: &str, pool: &Arc<Pool>) -> (Result<StatusCode, String>, usize) {
    send_body(uri, &[], pool)
}

fn send_body(uri: &str, body: &[u8], pool: &Arc<Pool>) -> (Result<StatusCode, String>, usize) {
    let mut request = Request::new(Body::shared(Arc::from(body)));
    *request.uri_mut() = uri.parse().expect("an address");
    send_request(request, pool)
}

fn send_request(mut request: Request<Body>, pool: &Arc<Pool>) -> (Result<StatusCode, String>, usize) {
    let mut statuses = Statuses::default();
    let sent = run(exchange::<ByHand>(&ConnectPath::default(), pool, &mut request, &mut statuses));
    assert_eq!(statuses.0.len(), usize::from(sent.is_ok()));
    (sent.map(|()| statuses.0[0]), NET.with_borrow(|net| net.servers.len()))
}

/// Returns what the server of this connection has received.
fn received(connection: usize) -> String {
    let server = NET.with_borrow(|net| net.servers[connection].clone());
    String::from_utf8_lossy(&lock(&server).received).into_owned()
}

#[test]
fn requests_reuse_a_connection_that_is_open() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    run_tasks();
    *lock(&NET.with_borrow(|net| net.servers[0].clone())) = Server::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
}

#[test]
fn connections_are_used_for_their_origin_only() {
    let pool = Arc::default();
    let hosts = ["127.0.0.1:9", "127.0.0.1:10", "127.0.0.2:9", "127.0.0.1"];
    for (opened, host) in (1..).zip(hosts) {
        assert_eq!(send_to(&format!("http://{host}/mcp"), &pool), (Ok(StatusCode::OK), opened), "{host}");
        run_tasks();
        let server = NET.with_borrow(|net| net.servers[opened - 1].clone());
        let request = String::from_utf8(std::mem::take(&mut *lock(&server)).received).expect("a request");
        assert!(request.starts_with("GET /mcp HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("\r\nhost: {host}\r\n")), "{request}");
    }
    assert_eq!(send_to("http://127.0.0.1:80?x", &pool), (Ok(StatusCode::OK), hosts.len()), "the usual port");
    let last = NET.with_borrow(|net| net.servers[hosts.len() - 1].clone());
    assert!(lock(&last).received.starts_with(b"GET /?x HTTP/1.1\r\n"));
}

#[test]
fn an_unsent_request_is_sent_on_another_connection() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    run_tasks();
    let first = NET.with_borrow(|net| net.servers[0].clone());
    // The client notices it when it uses the connection.
    lock(&first).is_closed = true;
    let before = lock(&first).received.len();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 2));
    assert_eq!(lock(&first).received.len(), before, "the first connection did not get it");
    assert_eq!(received(1), "GET /mcp HTTP/1.1\r\nhost: 127.0.0.1:9\r\n\r\n");
}

#[test]
fn request_keeps_its_own_host() {
    let mut request = Request::new(Body::shared(Arc::from([])));
    *request.uri_mut() = Uri::from_static("http://127.0.0.1:9/mcp");
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("other"));
    assert_eq!(send_request(request, &Arc::default()), (Ok(StatusCode::OK), 1));
    assert_eq!(received(0), "GET /mcp HTTP/1.1\r\nhost: other\r\n\r\n");
}

#[test]
fn a_new_connection_that_closes_fails_the_request() {
    NET.with_borrow_mut(|net| net.refuses = true);
    let (sent, connections) = send(&Arc::default());
    assert!(sent.is_err());
    assert_eq!(connections, 1, "it is not tried again");
}

/// Opens a connection whose server responds to a large request of which it has read a part. Returns that server.
fn respond_early(pool: &Arc<Pool>, is_vectored: bool) -> Arc<Mutex<Server>> {
    NET.set(Net { window: Some(1000), is_vectored, ..Net::default() });
    assert_eq!(send_large(pool), (Ok(StatusCode::OK), 1));
    run_tasks();
    NET.with_borrow(|net| net.servers[0].clone())
}

fn tasks() -> usize {
    NET.with_borrow(|net| net.tasks.len())
}

#[test]
fn a_request_that_is_not_read_closes_its_connection() {
    for is_vectored in [false, true] {
        let pool = Arc::default();
        let server = respond_early(&pool, is_vectored);
        assert_eq!(tasks(), 1, "the rest may still be read");
        NET.with_borrow_mut(|net| net.passed = UNREAD_TIMEOUT);
        run_tasks();
        assert_eq!((tasks(), Arc::strong_count(&server)), (0, 2), "only the lists of the test have the server");
        assert_eq!(lock(&server).received.len(), 1000);
        assert_eq!(send(&pool).1, 2, "another connection is opened");
    }
}

/// The task of a connection that requests use is woken only if its timer is not set, or something is left to do.
#[test]
fn requests_seldom_wake_the_task_of_their_connection() {
    let driver = ConnectionDriver::new(&ByHand, pending(), PendingWrite::default());
    let wakes = Arc::<Wakes>::default();
    let run_tasks = || run_tasks_with(&Waker::from(wakes.clone()));
    let request = |is_ready, expected, why| {
        assert!(driver.begin_request());
        driver.end_request(is_ready);
        assert_eq!(wakes.0.swap(0, Ordering::Relaxed), expected, "{why}");
    };
    run_tasks();
    request(true, 1, "the timer is not set");
    run_tasks();
    request(true, 0, "the timer is set");
    request(false, 1, "something is left to do");
    assert!(driver.begin_request());
    run_tasks();
    request(true, 1, "the timer has fired during a request");
}

#[test]
fn an_idle_connection_that_the_server_closes_ends() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    let server = NET.with_borrow(|net| net.servers[0].clone());
    lock(&server).is_closed = true;
    run_tasks();
    assert_eq!(tasks(), 1, "it is polled a little later");
    NET.with_borrow_mut(|net| net.fired = net.awaited);
    run_tasks();
    assert_eq!((tasks(), Arc::strong_count(&server)), (0, 2), "only the lists of the test have the server");
}

/// A request begins while the task of its connection ends, because that was idle for too long.
#[test]
fn a_request_on_a_connection_that_ends_is_sent_on_another_one() {
    let pool = Arc::<Pool>::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    *lock(&NET.with_borrow(|net| net.servers[0].clone())) = Server::default();
    let sent = Rc::new(RefCell::new(None));
    let (late, hooked) = (pool.clone(), sent.clone());
    let hook = move || {
        NET.with_borrow_mut(|net| net.passed = Duration::ZERO);
        *hooked.borrow_mut() = Some(send(&late));
    };
    NET.with_borrow_mut(|net| {
        net.passed = 2 * IDLE_TIMEOUT;
        net.at_timer_drop = Some(Box::new(hook));
    });
    run_tasks();
    assert_eq!(sent.take(), Some((Ok(StatusCode::OK), 2)));
    assert_eq!(received(0), "", "the first connection did not get it");
}

#[test]
fn a_connection_that_has_ended_is_not_polled_again() {
    let ended = poll_fn(|_| Poll::Ready(Ok(())));
    let driver = Rc::new(ConnectionDriver::new(&ByHand, ended, PendingWrite::default()));
    driver.end_request(false);
    let (late, is_polled) = (driver.clone(), Rc::<Cell<bool>>::default());
    let polled = is_polled.clone();
    let hook = move || {
        assert!(!late.begin_request());
        let mut run = pin!(late.run(|_| Poll::<()>::Pending));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        polled.set(true);
    };
    NET.with_borrow_mut(|net| net.at_timer_drop = Some(Box::new(hook)));
    run_tasks();
    assert!(is_polled.get());
}

/// The runtime ends before the client.
#[test]
fn a_connection_ends_with_its_task() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    let server = NET.with_borrow(|net| net.servers[0].clone());
    NET.with_borrow_mut(|net| std::mem::take(&mut net.tasks)).clear();
    assert_eq!(Arc::strong_count(&server), 2, "only the lists of the test have the server");
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 2));
}

/// The timer fires first when the task begins to poll the connection.
#[test]
fn the_timer_of_an_idle_connection_is_set_anew() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    let idle_since = Instant::now();
    run_tasks();
    NET.with_borrow_mut(|net| net.fired = net.awaited);
    run_tasks();
    let (fired, awaited) = NET.with_borrow(|net| (net.fired, net.awaited));
    assert_eq!(tasks(), 1, "it was not idle for long enough");
    assert!(awaited > fired && awaited <= Some(idle_since + IDLE_TIMEOUT));
    NET.with_borrow_mut(|net| net.fired = net.awaited);
    run_tasks();
    assert_eq!(tasks(), 0, "it was idle for that time");
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    let pool = Arc::default();
    assert_eq!(send(&pool), (Ok(StatusCode::OK), 1));
    let minute = Duration::from_secs(60);
    for (passed, left) in [(Duration::ZERO, 1), (IDLE_TIMEOUT - minute, 1), (IDLE_TIMEOUT + minute, 0)] {
        NET.with_borrow_mut(|net| (net.passed, net.waits) = (passed, 0));
        run_tasks();
        assert_eq!(tasks(), left, "{passed:?}");
        assert!(NET.with_borrow(|net| net.waits) <= 2, "the task does not wait for times in the past");
    }
    NET.with_borrow_mut(|net| net.passed = Duration::ZERO);
    assert_eq!(send(&pool).1, 2, "another connection is opened");
}

#[test]
fn a_connection_is_not_reused_before_its_request_is_read() {
    for is_vectored in [false, true] {
        let pool = Arc::default();
        let server = respond_early(&pool, is_vectored);
        assert_eq!(send(&pool), (Ok(StatusCode::OK), 2));
        lock(&server).window = None;
        run_tasks();
        assert!(lock(&server).received.len() > 100_000, "the rest is written");
        NET.with_borrow_mut(|net| net.passed = UNREAD_TIMEOUT);
        run_tasks();
        assert_eq!(tasks(), 2, "both are idle");
        // The second connection was used last, and its server does not respond twice.
        lock(&NET.with_borrow(|net| net.servers[1].clone())).is_closed = true;
        *lock(&server) = Server::default();
        run_tasks();
        assert_eq!(send(&pool), (Ok(StatusCode::OK), 2));
    }
}

#[test]
fn a_dropped_pool_closes_unread_requests_at_once() {
    for is_vectored in [false, true] {
        let pool = Arc::default();
        respond_early(&pool, is_vectored);
        drop(pool);
        run_tasks();
        assert_eq!(tasks(), 0);
    }
}

fn service() -> Service {
    Service::builder("x", "1").build().expect("a service")
}

/// Serves with these results of `accept`. Returns whether it ended without an error, how many connections are served,
/// and how many results are left.
fn serve(is_stopped: bool, accepts: impl IntoIterator<Item = Option<io::Result<()>>>) -> (bool, usize, usize) {
    NET.with_borrow_mut(|net| (net.fires, net.accepts) = (true, accepts.into_iter().collect()));
    let listener = run(Listener::<ByHand>::bind("127.0.0.1:0")).expect("a port");
    if is_stopped {
        listener.stop_handle()();
    }
    let mut served = pin!(async { listener.serve(&service()).await.is_ok() });
    let ended = served.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let (tasks, left) = NET.with_borrow(|net| (net.tasks.len(), net.accepts.len()));
    (ended == Poll::Ready(true), tasks, left)
}

#[test]
fn a_stopped_listener_serves_connections_that_wait() {
    let aborted = || Some(Err(io::ErrorKind::ConnectionAborted.into()));
    // The runtime may need a moment to see them, once.
    let accepts = [None, Some(Ok(())), aborted(), Some(Ok(())), None, Some(Ok(()))];
    assert_eq!(serve(true, accepts), (true, 2, 1));
}

#[test]
fn a_stopped_listener_ends_at_an_error() {
    assert_eq!(serve(true, [Some(Ok(())), Some(Err(Errno::MFILE.into())), Some(Ok(()))]), (true, 1, 1));
}

#[test]
fn only_errors_of_the_socket_end_a_listener() {
    let passing = [Errno::MFILE, Errno::CONNABORTED, Errno::WOULDBLOCK].map(|errno| Some(Err(errno.into())));
    let accepts = passing.into_iter().chain([Some(Ok(())), Some(Err(Errno::BADF.into())), Some(Ok(()))]);
    assert_eq!(serve(false, accepts), (false, 1, 1));
    assert_eq!(NET.with_borrow(|net| net.waits), 1, "a pause after a shortage only");
}

#[test]
fn short_requests_are_sent_to_the_proxy() {
    let proxy = Proxy::new("http://127.0.0.1:9").expect("an address");
    let request = Request::get("http://192.0.2.1/keys").body(Vec::new()).expect("a request");
    let response = run(FetchClient::<ByHand>::new().proxy(proxy).fetch(request, 1024)).expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    let server = NET.with_borrow(|net| net.servers[0].clone());
    assert!(lock(&server).received.starts_with(b"GET http://192.0.2.1/keys HTTP/1.1\r\n"));
}

#[test]
fn the_memory_limit_of_a_listener_counts_its_connections() {
    let listener = run(Listener::<ByHand>::bind("127.0.0.1:0")).expect("a port").connections(8);
    let (limits, options) = (EndpointOptions::new(Policy::loopback()).limits, DriverOptions::default());
    assert_eq!(listener.memory_limit(&service()), memory_limit(&service(), &limits, &options, 8));
}

#[test]
fn debug_output_tells_servers_and_listeners_apart() {
    let endpoint = EndpointOptions::new(Policy::loopback());
    let server = HttpServer::new(&service(), endpoint, &DriverOptions::default(), ByHand, None);
    assert_eq!(format!("{server:?}"), "HttpServer { sessions: 0, running: 0, .. }");
    let listener = run(Listener::<ByHand>::bind("127.0.0.1:0")).expect("a port");
    assert_eq!(format!("{listener:?}"), format!("Listener {{ address: {:?}, .. }}", listener.local_addr()));
}

/// Common allocators serve up to about 1 KiB from a cache. The future of a request has the client, the boxed request
/// and the handler of the response besides this one.
#[test]
fn the_future_of_a_request_is_small() {
    let (route, pool) = (ConnectPath::default(), Arc::default());
    let (mut request, mut statuses) = (Request::new(Body::shared(Arc::from([]))), Statuses::default());
    let future = exchange::<ByHand>(&route, &pool, &mut request, &mut statuses);
    let others = size_of::<Http1Client<ByHand>>() + size_of::<Box<Request<Body>>>() + size_of::<ResponseHandler>();
    assert!(size_of_val(&future) + others <= 1024, "{} and {others}", size_of_val(&future));
}
