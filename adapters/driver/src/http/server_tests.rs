//! Requests of one session on several threads, whose event loop is polled by hand.

use std::{
    future::Future,
    io, mem,
    pin::{Pin, pin},
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use http::Request;
use mcp_proto::http::{
    Policy,
    server::{Caller, EndpointOptions},
};
use mcp_service::{CatalogItem, Context as HandlerContext, RequestInfo, Service, Tool};
use serde_json::{Value, json};

use super::{response_stream::ResponseStream, server::HttpServer};
use crate::{
    options::DriverOptions,
    runtime::{Runtime, Timer},
    sync::lock,
};

/// How long a thread waits for another one, if that does not come.
const LIMIT: Duration = Duration::from_secs(20);

/// A runtime that keeps its tasks, and whose timers never fire.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<Task>>>);

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Tasks {
    /// Polls each task once.
    fn poll(&self) {
        let mut tasks = mem::take(&mut *lock(&self.0));
        let cx = &mut Context::from_waker(Waker::noop());
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        lock(&self.0).append(&mut tasks);
    }
}

impl Runtime for Tasks {
    type Task = ();
    type Timer = Never;

    fn current() -> io::Result<Self> {
        Ok(Self::default())
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0).push(Box::pin(future));
    }

    fn detach((): ()) {}

    fn spawn_blocking(&self, f: impl FnOnce() + Send + 'static) {
        f();
    }

    fn timer(&self) -> Never {
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

    /// Waits until the number is at least `wanted`, and returns whether it is.
    fn reaches(&self, wanted: usize) -> bool {
        let waited = self.1.wait_timeout_while(lock(&self.0), LIMIT, |count| *count < wanted);
        !waited.expect("no panic").1.timed_out()
    }
}

/// A server with a session.
struct Site {
    server: HttpServer<Tasks>,
    tasks: Tasks,
    session: String,
}

impl Site {
    fn new(service: &Service) -> Self {
        let tasks = Tasks::default();
        let endpoint = EndpointOptions::new(Policy::loopback());
        let server = HttpServer::new(service, endpoint, &DriverOptions::default(), tasks.clone(), None);
        let mut site = Self { server, tasks, session: String::new() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"}});
        let mut begun = site.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let Poll::Ready(head) = poll(&mut begun) else { panic!("no response") };
        site.session = head.headers["mcp-session-id"].to_str().expect("ASCII").to_owned();
        while let Poll::Ready(Some(_)) = begun.poll_data(&mut Context::from_waker(Waker::noop())) {}
        let mut ready = site.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(poll(&mut ready).is_ready());
        site.tasks.poll();
        site
    }

    fn send(&self, message: &Value) -> ResponseStream {
        let mut head = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        head = head.header("accept", "application/json, text/event-stream");
        if !self.session.is_empty() {
            head = head.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-11-25");
        }
        let head = head.body(()).expect("a request").into_parts().0;
        let mut reader = self.server.begin(&head, Caller::Anybody).expect("it is accepted");
        reader.feed(message.to_string().as_bytes()).expect("there is room");
        let request = reader.end().expect("a message");
        self.server.open(request, None).expect("it is accepted")
    }

    fn call(&self, id: u32) -> ResponseStream {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "tool"}}))
    }
}

fn poll(response: &mut ResponseStream) -> Poll<http::response::Parts> {
    let head = pin!(response.head());
    head.poll(&mut Context::from_waker(Waker::noop()))
}

/// Each of two requests is dispatched only if the other one is at the same time.
#[test]
fn requests_of_a_session_are_dispatched_at_once() {
    let dispatched = Arc::<Count>::default();
    let count = dispatched.clone();
    let visible = move |_: CatalogItem<'_>, _: &RequestInfo| {
        count.raise();
        count.reaches(2)
    };
    let service = Service::builder("x", "1").visible(visible).tool(Tool::new_async("tool", async || "x"));
    let site = Site::new(&service.build().expect("a service"));
    let answered = thread::scope(|scope| {
        let threads = [1, 2].map(|id| {
            let site = &site;
            scope.spawn(move || poll(&mut site.call(id)).is_ready())
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!((answered, *lock(&dispatched.0)), ([true; 2], 2));
}

/// A notification that arrives while a request is dispatched, such as its cancellation, is handled after the request.
#[test]
fn cancellation_during_dispatch_reaches_the_handler() {
    let [dispatching, cancelled, stopped] = <[Arc<Count>; 3]>::default();
    let (entered, sent, seen) = (dispatching.clone(), cancelled.clone(), stopped.clone());
    let visible = move |_: CatalogItem<'_>, _: &RequestInfo| {
        entered.raise();
        sent.reaches(1)
    };
    let tool = Tool::new_async("tool", move |context: HandlerContext| {
        let seen = seen.clone();
        async move {
            context.cancelled().await;
            seen.raise();
            "x"
        }
    });
    let site = Site::new(&Service::builder("x", "1").visible(visible).tool(tool).build().expect("a service"));
    thread::scope(|scope| {
        let called = scope.spawn(|| site.call(1));
        assert!(dispatching.reaches(1));
        let params = json!({"requestId": 1});
        let sent = site.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        assert_eq!(*lock(&stopped.0), 0);
        cancelled.raise();
        let called = called.join().expect("no panic");
        // The event loop handles the notification, and starts the task of the handler, which then ends.
        (0..3).for_each(|_| site.tasks.poll());
        assert_eq!(*lock(&stopped.0), 1);
        drop((called, sent));
    });
}
