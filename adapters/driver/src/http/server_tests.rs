//! Requests of one session on several threads, whose event loop is polled by hand.

use std::{
    future::{Future, poll_fn},
    io, mem,
    pin::{Pin, pin},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use http::{Request, StatusCode};
use mcp_proto::{
    http::{
        Policy,
        server::{Caller, EndpointOptions, Request as EndpointRequest},
    },
    rpc::Timestamp,
    schema::LoggingLevel,
    wire::{Json, RawJson},
};
use mcp_service::{CatalogItem, Context as HandlerContext, RequestInfo, Service, Tool, driver_api::ConnectionHandle};
use serde_json::{Value, json};

use super::{response_stream::ResponseStream, server::HttpServer};
use crate::{
    event_loop::run_loop::BATCH,
    options::DriverOptions,
    runtime::{Runtime, Timer},
    sync::lock,
};

/// How long a thread waits for another one, if that does not come.
const LIMIT: Duration = Duration::from_secs(20);

/// A runtime that keeps its tasks and functions, and whose timers never fire.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// They run only in tests that take them.
    functions: Vec<Box<dyn FnOnce() + Send>>,
    /// How many event loops have begun: each has one timer.
    timers: usize,
}

impl Tasks {
    /// Polls each task once, in the order of their beginnings, with a waker that raises a count.
    fn poll(&self, wakes: &Arc<Count>) {
        let mut tasks = mem::take(&mut lock(&self.0).tasks);
        let waker = wakes.clone().into();
        tasks.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let kept = &mut lock(&self.0).tasks;
        tasks.append(kept);
        *kept = tasks;
    }
}

impl Runtime for Tasks {
    type Task = ();
    type Timer = Never;

    fn current() -> io::Result<Self> {
        Ok(Self::default())
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0).tasks.push(Box::pin(future));
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        lock(&self.0).functions.push(Box::new(f));
    }

    fn timer(&self) -> Never {
        lock(&self.0).timers += 1;
        Never
    }
}

struct Never;

impl Timer for Never {
    fn poll_until(&mut self, _: Instant, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// A number that threads raise, and wait for.
#[derive(Default)]
struct Count(Mutex<usize>, Condvar);

impl Count {
    fn raise(&self) {
        *lock(&self.0) += 1;
        self.1.notify_all();
    }

    fn get(&self) -> usize {
        *lock(&self.0)
    }

    /// Waits until the number is at least `wanted`, and returns whether it is.
    fn reaches(&self, wanted: usize) -> bool {
        let waited = self.1.wait_timeout_while(lock(&self.0), LIMIT, |count| *count < wanted);
        !waited.expect("no panic").1.timed_out()
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.raise();
    }
}

/// A point that threads reach, and at which they wait until it is opened.
#[derive(Clone, Default)]
struct Gate {
    reached: Arc<Count>,
    opened: Arc<Count>,
}

impl Gate {
    fn pass(&self) -> bool {
        self.reached.raise();
        self.opened.reaches(1)
    }
}

/// A server with a session.
struct Site {
    server: HttpServer<Tasks>,
    tasks: Tasks,
    /// How often its event loop was woken.
    wakes: Arc<Count>,
    session: String,
}

impl Site {
    fn new(service: &Service) -> Self {
        Self::with_options(service, &DriverOptions::default())
    }

    fn with_options(service: &Service, options: &DriverOptions) -> Self {
        Self::with_endpoint(service, options, EndpointOptions::new(Policy::loopback()))
    }

    fn with_endpoint(service: &Service, options: &DriverOptions, endpoint: EndpointOptions) -> Self {
        let tasks = Tasks::default();
        let server = HttpServer::new(service, endpoint, options, tasks.clone(), None);
        let mut site = Self { server, tasks, wakes: Arc::default(), session: String::new() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"}});
        let mut begun = site.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let Poll::Ready(head) = poll(&mut begun) else { panic!("no response") };
        site.session = head.headers["mcp-session-id"].to_str().expect("ASCII").to_owned();
        while let Poll::Ready(Some(_)) = begun.poll_data(&mut Context::from_waker(Waker::noop())) {}
        let mut ready = site.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(poll(&mut ready).is_ready());
        site.poll();
        site
    }

    fn request(&self, message: &Value) -> EndpointRequest {
        let mut head = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        head = head.header("accept", "application/json, text/event-stream");
        if !self.session.is_empty() {
            head = head.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-11-25");
        } else if let Some(name) = message["params"]["name"].as_str() {
            head = head.header("mcp-protocol-version", "2026-07-28").header("mcp-name", name);
            head = head.header("mcp-method", "tools/call");
        }
        let head = head.body(()).expect("a request").into_parts().0;
        let mut reader = self.server.begin(&head, Caller::Anybody).expect("it is accepted");
        reader.feed(message.to_string().as_bytes()).expect("there is room");
        reader.end().expect("a message")
    }

    fn send(&self, message: &Value) -> ResponseStream {
        self.server.open(self.request(message), None).expect("it is accepted")
    }

    /// Sends a request without a body: for a stream, or to end the session.
    fn send_head(&self, method: &str) -> ResponseStream {
        let head = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let head = head.header("accept", "text/event-stream").header("mcp-protocol-version", "2025-11-25");
        let head = head.header("mcp-session-id", &self.session).body(()).expect("a request").into_parts().0;
        let reader = self.server.begin(&head, Caller::Anybody).expect("it is accepted");
        self.server.open(reader.end().expect("it has no body"), None).expect("it is accepted")
    }

    fn call(&self, id: u32, tool: &str) -> ResponseStream {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}))
    }

    /// Polls the tasks until they change nothing any more: the event loop, and handlers that it continues.
    fn poll(&self) {
        (0..4).for_each(|_| self.tasks.poll(&self.wakes));
    }
}

fn poll(response: &mut ResponseStream) -> Poll<http::response::Parts> {
    let head = pin!(response.head());
    head.poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a predicate that waits at a gate while a tool of this name is dispatched.
fn visible<const N: usize>(
    gates: [(&'static str, &Gate); N],
) -> impl Fn(CatalogItem<'_>, &RequestInfo) -> bool + use<N> {
    let gates = gates.map(|(name, gate)| (name, gate.clone()));
    move |item, _| gates.iter().filter(|(name, _)| *name == item.name()).all(|(_, gate)| gate.pass())
}

#[test]
fn requests_of_a_session_are_dispatched_at_once() {
    let [first, second] = <[Gate; 2]>::default();
    let service = Service::builder("x", "1").visible(visible([("first", &first), ("second", &second)]));
    let service = service.tool(Tool::new_async("first", async || "x")).tool(Tool::new_async("second", async || "x"));
    let site = Site::new(&service.build().expect("a service"));
    thread::scope(|scope| {
        let calls = [(1, "first"), (2, "second")];
        let calls = calls.map(|(id, tool)| {
            scope.spawn({
                let site = &site;
                move || poll(&mut site.call(id, tool)).is_ready()
            })
        });
        let dispatched = [&first, &second].map(|gate| gate.reached.reaches(1));
        [&first, &second].into_iter().for_each(|gate| gate.opened.raise());
        assert_eq!(dispatched, [true; 2]);
        assert_eq!(calls.map(|call| call.join().expect("no panic")), [true; 2], "they are answered");
    });
}

/// A notification that arrives while requests are dispatched, such as a cancellation, is handled after all of them, and
/// requests that arrive after it are dispatched after it.
#[test]
fn cancellations_wait_for_requests_before_them_only() {
    let [cancelled, other, later, running] = <[Gate; 4]>::default();
    let stopped = Arc::<Count>::default();
    let (seen, run) = (stopped.clone(), running.clone());
    let service =
        Service::builder("x", "1").visible(visible([("first", &cancelled), ("second", &other), ("third", &later)]));
    let first = Tool::new_async("first", move |context: HandlerContext| {
        let seen = seen.clone();
        async move {
            context.cancelled().await;
            seen.raise();
            "x"
        }
    });
    // It blocks the thread that polls it, after its dispatch.
    let second = Tool::new_async("second", move || {
        let run = run.clone();
        async move { if run.pass() { "x" } else { "y" } }
    });
    let service = service.tool(first).tool(second).tool(Tool::new_async("third", async || "x"));
    let site = Site::new(&service.build().expect("a service"));
    later.opened.raise();
    thread::scope(|scope| {
        let calls = [(1, "first"), (2, "second")];
        let [first, second] = calls.map(|(id, tool)| {
            scope.spawn({
                let site = &site;
                move || site.call(id, tool)
            })
        });
        assert!(cancelled.reached.reaches(1) && other.reached.reaches(1));
        let params = json!({"requestId": 1});
        let sent = site.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        let third = site.call(3, "third");
        cancelled.opened.raise();
        let first = first.join().expect("no panic");
        site.poll();
        assert_eq!((stopped.get(), later.reached.get()), (0, 0), "the second request is still being dispatched");
        let before = site.wakes.get();
        other.opened.raise();
        assert!(running.reached.reaches(1));
        assert_eq!(site.wakes.get(), before + 1, "the event loop can go on while the second handler runs");
        site.poll();
        assert_eq!((stopped.get(), later.reached.get()), (1, 1));
        running.opened.raise();
        drop((first, second.join().expect("no panic"), third, sent));
    });
}

/// The event loop learns the deadline of a request also while another one is dispatched.
#[test]
fn deadlines_count_while_another_request_is_dispatched() {
    let slow = Gate::default();
    let service = Service::builder("x", "1").visible(visible([("slow", &slow)])).reply_timeout(Duration::from_secs(1));
    let service = service.tool(Tool::new_async("slow", async || "x")).tool(Tool::new("function", || "x"));
    let site = Site::new(&service.build().expect("a service"));
    let before = site.wakes.get();
    thread::scope(|scope| {
        let first = scope.spawn(|| site.call(1, "slow"));
        assert!(slow.reached.reaches(1));
        let second = site.call(2, "function");
        let woken = site.wakes.get() - before;
        slow.opened.raise();
        drop((first.join().expect("no panic"), second));
        assert_eq!(woken, 1);
    });
}

/// The event loop learns the deadline of a handler also while the first poll of another one takes its time.
#[test]
fn deadlines_count_while_another_handler_blocks() {
    let (blocked, kept) = (Gate::default(), Arc::<Mutex<Option<HandlerContext>>>::default());
    let (gate, keeper) = (blocked.clone(), kept.clone());
    let keep = Tool::new_async("keep", move |context: HandlerContext| {
        *lock(&keeper) = Some(context.clone());
        async move { format!("{:?}", context.cancelled().await) }
    });
    let block = Tool::new_async("block", move || {
        let gate = gate.clone();
        async move { if gate.pass() { "x" } else { "y" } }
    });
    let site = Site::new(&Service::builder("x", "1").tool(keep).tool(block).build().expect("a service"));
    let first = site.call(1, "keep");
    site.poll();
    let context = lock(&kept).take().expect("the handler runs");
    thread::scope(|scope| {
        let second = scope.spawn(|| site.call(2, "block"));
        assert!(blocked.reached.reaches(1));
        let before = site.wakes.get();
        let mut sleep = pin!(context.sleep(Duration::from_secs(1)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let woken = site.wakes.get() - before;
        blocked.opened.raise();
        drop((first, second.join().expect("no panic")));
        assert_eq!(woken, 1);
    });
}

/// A request that finds free room for handlers does not run all handlers that waited for it before its own response.
#[test]
fn a_request_runs_few_handlers_of_others() {
    let (ends, done) = (Arc::<AtomicBool>::default(), Arc::<Count>::default());
    let (may_end, count) = (ends.clone(), done.clone());
    let last = Tool::new_async("last", move || {
        let may_end = may_end.clone();
        poll_fn(move |_| if may_end.load(Ordering::SeqCst) { Poll::Ready("x") } else { Poll::Pending })
    });
    let quick = Tool::new_async("quick", move || {
        let count = count.clone();
        async move {
            count.raise();
            "x"
        }
    });
    let service = Service::builder("x", "1").tool(last).tool(quick).build().expect("a service");
    let site = Site::with_options(&service, &DriverOptions { async_handlers: 1, ..DriverOptions::default() });
    let mut responses = vec![site.call(0, "last")];
    site.poll();
    responses.extend((1..100).map(|id| site.call(id, "quick")));
    assert_eq!(done.get(), 0, "they wait for the first one");
    ends.store(true, Ordering::SeqCst);
    // The event loop is polled first, then the handler.
    site.tasks.poll(&site.wakes);
    assert_eq!(done.get(), 0, "the event loop does not know yet that it has ended");
    responses.push(site.call(100, "quick"));
    assert_eq!(done.get(), BATCH);
    site.poll();
    assert_eq!(done.get(), 100);
}

/// Sends a call of a tool as an endpoint does. Returns how often its session was locked before the handler of a
/// function runs, and until the response was taken, and the response.
fn count_locks(site: &Site, id: u32, tool: &str) -> (usize, usize, Vec<u8>) {
    let session = site.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"})).session.clone();
    site.poll();
    let cx = &mut Context::from_waker(Waker::noop());
    let mut request =
        site.request(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}));
    let before = session.locks.load(Ordering::Relaxed);
    let count = || session.locks.load(Ordering::Relaxed) - before;
    let mut handled = pin!(site.server.handle(&mut request, None, || {}));
    let first = handled.as_mut().poll(cx);
    let begun = count();
    let functions = mem::take(&mut lock(&site.tasks.0).functions);
    functions.into_iter().for_each(|function| function());
    let handled = if first.is_pending() { handled.poll(cx) } else { first };
    let Poll::Ready(Ok((_, mut response))) = handled else { panic!("no response") };
    let Poll::Ready(Some(Ok(body))) = response.poll_data(cx) else { panic!("no body") };
    let is_ended = response.is_ended();
    drop(response);
    assert!(is_ended, "nothing follows");
    (begun, count(), body)
}

/// Threads that serve clients of one session wait for each other at its lock. A call takes it when it arrives and when
/// its handler responds, and a function also when its response is awaited.
#[test]
fn a_call_locks_its_session_twice() {
    let service = Service::builder("x", "1").tool(Tool::new_async("async", async || "small"));
    let service = service.tool(Tool::new("function", || "small"));
    let service = service.tool(Tool::new_async("large", async || "x".repeat(8 << 10)));
    let site = Site::new(&service.build().expect("a service"));
    for (id, tool, expected) in [(1, "async", (2, 2)), (2, "function", (2, 3)), (3, "large", (3, 3))] {
        let (begun, all, body) = count_locks(&site, id, tool);
        assert_eq!((begun, all), expected, "{tool}");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let text = body["result"]["content"][0]["text"].as_str().expect("a text");
        assert!(body["id"] == id && text == if tool == "large" { "x".repeat(8 << 10) } else { "small".into() });
    }
}

#[test]
fn requests_without_a_session_need_no_event_loop() {
    let service = Service::builder("x", "1").tool(Tool::new_async("async", async || "x"));
    let service = service.tool(Tool::new_async("pending", async || poll_fn(|_| Poll::<&str>::Pending).await));
    let mut site = Site::new(&service.build().expect("a service"));
    site.session.clear();
    let before = lock(&site.tasks.0).timers;
    for (tool, loops) in [("async", 0), ("pending", 1), ("unknown", 1)] {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": tool, "_meta": meta});
        let mut response = site.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let is_over = poll(&mut response).is_ready();
        assert_eq!((is_over, lock(&site.tasks.0).timers - before), (tool != "pending", loops), "{tool}");
    }
}

/// A response that leaves the session in one piece makes room for a request that waits.
#[test]
fn a_response_in_one_piece_admits_the_next_request() {
    let service = Service::builder("x", "1").tool(Tool::new("function", || "x")).build().expect("a service");
    let mut endpoint = EndpointOptions::new(Policy::loopback());
    endpoint.limits.exchanges = 1;
    let site = Site::with_endpoint(&service, &DriverOptions::default(), endpoint);
    let call = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "function"}});
    let run = || {
        let functions = mem::take(&mut lock(&site.tasks.0).functions);
        functions.into_iter().map(|function| function()).count()
    };
    let [mut first, mut second] = [1, 2].map(|id| site.request(&call(id)));
    let cx = &mut Context::from_waker(Waker::noop());
    let mut first = pin!(site.server.handle(&mut first, None, || {}));
    let mut second = pin!(site.server.handle(&mut second, None, || {}));
    assert!(first.as_mut().poll(cx).is_pending() && second.as_mut().poll(cx).is_pending());
    site.poll();
    let before = site.wakes.get();
    assert_eq!(run(), 1, "the second request waits for room");
    assert_eq!(site.wakes.get(), before + 1);
    assert!(first.poll(cx).is_ready());
    site.poll();
    assert_eq!(run(), 1);
    assert!(second.poll(cx).is_ready());
}

#[test]
fn a_session_takes_over_the_state_of_another_process() {
    let site = Site::new(&Service::builder("x", "1").build().expect("a service"));
    let session = site.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).session.clone();
    let mut state = session.lock();
    let binding = &mut state.binding;
    let mut snapshot = binding.session.snapshot().expect("a session with streams");
    for (stored, expected) in [((false, None), None), ((true, None), Some(LoggingLevel::Error))] {
        binding.stored = Some(stored);
        snapshot.log_level = Some(LoggingLevel::Error);
        binding.apply_snapshot(Timestamp::ZERO, &snapshot);
        assert_eq!(binding.session.mutable_state(), Some((true, expected)), "changes that are not stored are kept");
    }
    assert_eq!(binding.stored, binding.session.mutable_state());
}

/// A session has ended, and its last handler runs on the thread of its request.
#[test]
fn the_end_of_the_last_inline_handler_wakes_the_event_loop() {
    let running = Gate::default();
    let run = running.clone();
    let tool = Tool::new_async("blocks", move || {
        let run = run.clone();
        async move { if run.pass() { "x" } else { "y" } }
    });
    let site = Site::new(&Service::builder("x", "1").tool(tool).build().expect("a service"));
    thread::scope(|scope| {
        let call = scope.spawn(|| site.call(1, "blocks"));
        assert!(running.reached.reaches(1));
        let ended = site.send_head("DELETE");
        site.poll();
        let before = site.wakes.get();
        running.opened.raise();
        let call = call.join().expect("no panic");
        assert_eq!(site.wakes.get(), before + 1);
        site.poll();
        assert!(lock(&site.tasks.0).tasks.is_empty(), "the event loop has ended");
        drop((call, ended));
    });
}

/// A session ends as soon as it holds more than its client may hold.
#[test]
fn a_response_beyond_the_quota_reports_no_success() {
    let service = Service::builder("x", "1").tool(Tool::new_async("text", async || "x".repeat(2000)));
    let options = DriverOptions { unwritten: (4 << 10) - 1, ..DriverOptions::default() };
    let site = Site::with_options(&service.build().expect("a service"), &options);
    let unread = site.send_head("GET");
    let params = Json::new(&json!({"text": "x".repeat(3000)})).expect("JSON");
    unread.session.with_mut(&mut |connection, _| {
        connection.notify_raw("vendor/news", Some(&RawJson::from(&params))).expect("there is room");
    });
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "text"}});
    let mut request = site.request(&call);
    let handled = finish(site.server.handle(&mut request, None, || {}));
    assert_eq!(handled.map(|(head, _)| head.status).ok(), Some(StatusCode::SERVICE_UNAVAILABLE));
    drop(unread);
}

/// The runtime ends while a request waits for a free thread. The job of a request refers to its session.
#[test]
fn an_event_loop_that_is_dropped_leaves_no_jobs() {
    let service = Service::builder("x", "1").tool(Tool::new("function", || "x")).build().expect("a service");
    let site = Site::with_options(&service, &DriverOptions { handlers: 1, ..DriverOptions::default() });
    let responses = [1, 2].map(|id| site.call(id, "function"));
    site.poll();
    assert_eq!(lock(&site.tasks.0).functions.len(), 1, "the second one waits");
    let session = Arc::downgrade(&responses[0].session);
    let tasks = mem::take(&mut lock(&site.tasks.0).tasks);
    drop((tasks, responses, site));
    assert!(session.upgrade().is_none());
}

/// Runs a future on this thread. Fails if nothing wakes it in time.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let (mut future, woken) = (pin!(future), Arc::<Count>::default());
    let waker = Waker::from(woken.clone());
    loop {
        let before = woken.get();
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        assert!(woken.reaches(before + 1), "nothing wakes the task");
    }
}

/// Some threads serve requests of one session, one runs functions, and one polls the event loop when that is woken.
#[test]
fn threads_lose_no_response_of_a_session() {
    const CALLS: u32 = 300;
    let service = Service::builder("x", "1").tool(Tool::new_async("async", async || "x"));
    let service = service.tool(Tool::new("function", || "x")).tool(Tool::new("large", || "x".repeat(8 << 10)));
    let mut endpoint = EndpointOptions::new(Policy::loopback());
    // Most requests wait for room.
    endpoint.limits.exchanges = 2;
    let site = Site::with_endpoint(&service.build().expect("a service"), &DriverOptions::default(), endpoint);
    let is_over = AtomicBool::new(false);
    let call = |id: u32| {
        let tool = ["async", "function", "large"][id as usize % 3];
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}});
        let mut request = site.request(&call);
        let handled = finish(site.server.handle(&mut request, None, || {}));
        let (_, mut response) = handled.unwrap_or_else(|refused| panic!("{refused:?}"));
        let mut body = Vec::new();
        while let Some(data) = finish(poll_fn(|cx| response.poll_data(cx))) {
            body.extend(data.expect("it is complete"));
        }
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(body["id"] == id && body["result"]["isError"].is_null(), "{body}");
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let functions = mem::take(&mut lock(&site.tasks.0).functions);
                functions.into_iter().for_each(|function| function());
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::SeqCst) {
                let woken = site.wakes.get();
                if mem::replace(&mut seen, woken) != woken {
                    site.tasks.poll(&site.wakes);
                }
                thread::yield_now();
            }
        });
        let call = &call;
        let clients: Vec<_> =
            (0..4).map(|client| scope.spawn(move || (0..CALLS).for_each(|n| call(client * CALLS + n)))).collect();
        let ended: Vec<_> = clients.into_iter().map(|client| client.join().is_ok()).collect();
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(ended, [true; 4]);
    });
}
