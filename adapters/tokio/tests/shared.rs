//! Sessions that two endpoints share, as two processes would: a session that begins at one of them continues at the
//! other.
//!
//! Each test runs with sessions in memory, and in a Redis server that it starts. Without Redis the latter are ignored.

#[path = "shared/bounds.rs"]
mod bounds;
#[path = "shared/clients.rs"]
mod clients;
#[path = "shared/ended.rs"]
mod ended;
#[path = "shared/failures.rs"]
mod failures;
#[path = "shared/redis.rs"]
mod redis_server;
#[path = "shared/scopes.rs"]
mod scopes;
#[path = "shared/stores.rs"]
mod stores;
#[path = "shared/tasks.rs"]
mod tasks;

use std::{
    future::Future,
    io,
    pin::Pin,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use self::{redis_server::Redis, stores::Broken};
use http::{Request, header, response::Parts};
use http_body_util::{BodyExt, Full};
use libtest_mimic::{Arguments, Trial};
use mcp_proto::{
    codec::SseDecoder,
    connection::Principal,
    http::server::Caller,
    protocol::{ProtocolVersion, VersionSet},
    schema::{LoggingLevel, TaskSupport},
};
use mcp_service::{Context, Failure, Host, Service, Tool};
use mcp_tokio::{
    DriverOptions,
    http::{
        Body, ClientOptions, Connector, Endpoint, EndpointOptions, HttpClient, MemoryStore, Policy, RedisStore,
        ResponseHandler, Store, StoreLimits,
    },
};
use serde_json::{Value, json};
use tokio::{runtime::Builder, sync::Semaphore, time::timeout};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(60);

/// The stores of two processes, which share their content.
type Both = [Store; 2];

type Test = fn(Both) -> Pin<Box<dyn Future<Output = ()>>>;

/// The tests that run with each kind of store.
const TESTS: [(&str, Test); 9] = [
    ("session_continues_on_another_endpoint", |shared| Box::pin(session_continues_on_another_endpoint(shared))),
    ("session_settings_apply_on_all_endpoints", |shared| Box::pin(session_settings_apply_on_all_endpoints(shared))),
    ("stream_needs_its_scopes_on_another_endpoint", |shared| {
        Box::pin(scopes::stream_needs_its_scopes_on_another_endpoint(shared))
    }),
    ("stream_resumes_on_another_endpoint", |shared| Box::pin(stream_resumes_on_another_endpoint(shared))),
    ("deleted_session_ends_on_all_endpoints", |shared| Box::pin(deleted_session_ends_on_all_endpoints(shared))),
    ("shared_session_is_bound_to_its_principal", |shared| Box::pin(shared_session_is_bound_to_its_principal(shared))),
    ("a_process_that_leaves_takes_no_session_with_it", |shared| Box::pin(a_process_that_leaves(shared))),
    ("a_client_need_not_know", |shared| Box::pin(a_client_need_not_know(shared))),
    ("sessions_may_last_forever", |shared| Box::pin(failures::sessions_may_last_forever(shared))),
];

fn main() -> ExitCode {
    let redis = Redis::start();
    let mut trials = Vec::new();
    for (name, test) in TESTS {
        trials.push(Trial::test(format!("memory::{name}"), move || {
            run(test, |_| {
                let shared = Store::new(MemoryStore::default());
                [shared.clone(), shared]
            })
        }));
        let url = redis.as_ref().map(|redis| redis.url());
        let is_there = url.is_some();
        let trial = Trial::test(format!("redis::{name}"), move || {
            let url = url.unwrap_or_default();
            run(test, |runtime| {
                [(); 2].map(|()| {
                    let store = runtime.block_on(RedisStore::connect(&url)).expect("it answers").prefix(name);
                    Store::new(store)
                })
            })
        });
        trials.push(trial.with_ignored_flag(!is_there));
    }
    for (name, test) in bounds::TESTS {
        trials.push(Trial::test(format!("memory::{name}"), move || {
            bounded(test, |limits, _| Arc::new(MemoryStore::new(limits)))
        }));
        let url = redis.as_ref().map(|redis| redis.url());
        let is_there = url.is_some();
        let trial = Trial::test(format!("redis::{name}"), move || {
            let url = url.unwrap_or_default();
            bounded(test, |limits, runtime| {
                let store = runtime.block_on(RedisStore::connect(&url)).expect("it answers");
                Arc::new(store.prefix(name).limits(limits))
            })
        });
        trials.push(trial.with_ignored_flag(!is_there));
    }
    let url = redis.as_ref().map(|redis| redis.url());
    let is_there = url.is_some();
    let trial = Trial::test("redis::streams_of_an_ended_process_are_lost", move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let test = ended::streams_of_an_ended_process_are_lost(url.unwrap_or_default());
        runtime.block_on(async { timeout(LONG, test).await.expect("it does not take that long") });
        Ok(())
    });
    trials.push(trial.with_ignored_flag(!is_there));
    let url = redis.as_ref().map(|redis| redis.url());
    let trial = Trial::test("redis::a_stream_is_left_outside_of_a_runtime", move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let test = ended::a_stream_is_left_outside_of_a_runtime(url.unwrap_or_default());
        runtime.block_on(async { timeout(LONG, test).await.expect("it does not take that long") });
        Ok(())
    });
    trials.push(trial.with_ignored_flag(!is_there));
    let url = redis.as_ref().map(|redis| redis.url());
    let trial = Trial::test("redis::tasks_are_shared", move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let test = tasks::tasks_are_shared(url.unwrap_or_default());
        runtime.block_on(async { timeout(LONG, test).await.expect("it does not take that long") });
        Ok(())
    });
    trials.push(trial.with_ignored_flag(!is_there));
    trials.extend(trials_in_memory());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the tests that need no Redis.
fn trials_in_memory() -> Vec<Trial> {
    let mut trials = Vec::new();
    // req: TASK-065
    trials.push(Trial::test("tasks_are_listed_to_their_principal", || {
        let shared = Store::new(MemoryStore::default());
        run(|both| Box::pin(tasks_of_a_principal(both)), |_| [shared.clone(), shared])
    }));
    trials.push(Trial::test("a_session_that_is_too_large_is_refused", || {
        let mut limits = StoreLimits::default();
        limits.bytes = 2048;
        let shared = Store::new(MemoryStore::new(limits));
        run(|both| Box::pin(oversized_session_is_rejected(both)), |_| [shared.clone(), shared])
    }));
    trials.push(Trial::test("the_oldest_session_of_a_principal_gives_way", || {
        let mut limits = StoreLimits::default();
        limits.bytes_each = 4096;
        let shared = Store::new(MemoryStore::new(limits));
        run(|both| Box::pin(oldest_session_is_evicted(both)), |_| [shared.clone(), shared])
    }));
    trials.push(Trial::test("adopted_sessions_count_for_their_client", || {
        let shared = Store::new(MemoryStore::default());
        run(|both| Box::pin(clients::adopted_sessions_count_for_their_client(both)), |_| [shared.clone(), shared])
    }));
    trials.push(Trial::test("failed_writes_are_repeated", || {
        failures::with_faults(failures::failed_write_is_visible_only_after_retry)
    }));
    trials.push(Trial::test("what_was_set_last_holds", || failures::with_faults(failures::what_was_set_last_holds)));
    trials.push(Trial::test("a_store_that_fails_is_told", || {
        run(|shared| Box::pin(failures::a_store_that_fails(shared)), |_| [(); 2].map(|()| Store::new(Broken)))
    }));
    let nothing = || [(); 2].map(|()| Store::new(Broken));
    trials.push(Trial::test("a_session_that_ends_while_it_is_resumed_is_unknown", move || {
        run(|_| Box::pin(failures::a_session_that_ends_while_it_is_resumed()), |_| nothing())
    }));
    trials.push(Trial::test("a_close_waits_for_the_store", move || {
        run(|_| Box::pin(failures::a_close_waits_for_the_store()), |_| nothing())
    }));
    trials
}

fn run(
    test: impl FnOnce(Both) -> Pin<Box<dyn Future<Output = ()>>>,
    shared: impl FnOnce(&tokio::runtime::Runtime) -> Both,
) -> Result<(), libtest_mimic::Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let shared = shared(&runtime);
    runtime.block_on(async { timeout(LONG, test(shared)).await.expect("it does not take that long") });
    Ok(())
}

/// Runs a test of the limits of a store. Creating one may block.
fn bounded(
    test: bounds::Test,
    make: impl Fn(StoreLimits, &tokio::runtime::Handle) -> Arc<dyn bounds::Store>,
) -> Result<(), libtest_mimic::Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let handle = runtime.handle().clone();
    let mut make = |limits| tokio::task::block_in_place(|| make(limits, &handle));
    runtime.block_on(async { timeout(LONG, test(&mut make)).await.expect("it does not take that long") });
    Ok(())
}

/// A service with a tool that reports progress once for each permit.
fn service(gate: &Arc<Semaphore>) -> Service {
    let gate = gate.clone();
    let count = Tool::new_async("count", move |context: Context| {
        let gate = gate.clone();
        async move {
            for step in 1..=3_u8 {
                gate.acquire().await.expect("it stays open").forget();
                context.progress(step.into(), Some(3.0), None).await?;
            }
            Ok::<_, Failure>("counted")
        }
    });
    let level = Tool::new_async("level", async |context: Context| {
        context.info().log_level.map_or("none", LoggingLevel::as_str).to_owned()
    });
    let later = Tool::new_async("later", async |context: Context| {
        context.release_stream(Some(Duration::from_millis(1)));
        context.sleep(Duration::from_millis(50)).await.map(|()| "you are back")
    });
    let client = Tool::new_async("client", async |context: Context| {
        context.info().peer.as_ref().map_or_else(String::new, |peer| peer.name.clone())
    });
    let client = client.task_support(TaskSupport::Optional);
    Service::builder("shared", "1").tool(count).tool(level).tool(later).tool(client).build().expect("a service")
}

fn process(shared: &Store, gate: &Arc<Semaphore>) -> Endpoint {
    process_with(EndpointOptions::new(Policy::loopback()), shared, gate)
}

fn process_with(endpoint: EndpointOptions, shared: &Store, gate: &Arc<Semaphore>) -> Endpoint {
    Endpoint::sharing(&service(gate), endpoint, &DriverOptions::default(), shared.clone()).expect("there is a runtime")
}

fn two([one, other]: &Both) -> (Endpoint, Endpoint, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    (process(one, &gate), process(other, &gate), gate)
}

/// Sends requests to one endpoint.
struct Site<'a> {
    endpoint: &'a Endpoint,
    session: Option<&'a str>,
    principal: Option<&'a str>,
}

fn at<'a>(endpoint: &'a Endpoint, session: &'a str) -> Site<'a> {
    Site { endpoint, session: Some(session), principal: None }
}

impl Site<'_> {
    async fn send(&self, method: &str, last: Option<&str>, message: Option<Value>) -> (Parts, Body) {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in [("mcp-session-id", self.session), ("last-event-id", last)] {
            request = value.into_iter().fold(request, |request, value| request.header(name, value));
        }
        if let Some(principal) = self.principal {
            request = request.extension(Caller::Known(Arc::new(Principal::new(principal))));
        }
        let body = message.map_or_else(String::new, |message| message.to_string());
        let answer = self.endpoint.handle(request.body(Full::new(io::Cursor::new(body))).expect("a request")).await;
        answer.into_parts()
    }

    async fn post(&self, message: Value) -> (u16, Value) {
        let (head, body) = self.send("POST", None, Some(message)).await;
        let body = body.collect().await.expect("it is whole").to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn call(&self, tool: &str) -> Value {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": params});
        let (status, answer) = self.post(message).await;
        assert_eq!((status, &answer["id"]), (200, &json!(tool)), "{answer}");
        answer["result"]["content"][0]["text"].clone()
    }

    /// Begins a session. Returns its id.
    async fn initialize(&self) -> String {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"sampling": {}},
            "clientInfo": {"name": "raw", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (head, body) = self.send("POST", None, Some(message)).await;
        assert_eq!(head.status, 200);
        body.collect().await.expect("it is whole");
        head.headers["mcp-session-id"].to_str().expect("a text").to_owned()
    }

    async fn is_ready(&self) {
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(ready).await.0, 202);
    }
}

fn nowhere(endpoint: &Endpoint) -> Site<'_> {
    Site { endpoint, session: None, principal: None }
}

/// The events of a stream.
struct Stream {
    body: Body,
    decoder: SseDecoder,
    chunk: Vec<u8>,
}

impl Stream {
    const fn new(body: Body, decoder: SseDecoder) -> Self {
        Self { body, decoder, chunk: Vec::new() }
    }

    /// Returns the next message with its id, or `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let mut rest = &self.chunk[..];
            let event = self.decoder.next_event(&mut rest).map(|event| event.expect("an event").data.to_vec());
            let left = rest.len();
            self.chunk.drain(..self.chunk.len() - left);
            match event {
                Some(data) if data.is_empty() => {}
                Some(data) => {
                    let message = serde_json::from_slice(&data).expect("JSON");
                    return Some((self.decoder.last_id().to_owned(), message));
                }
                None => {
                    let frame = self.body.frame().await?.expect("it is not broken");
                    self.chunk.extend_from_slice(frame.data_ref()?);
                }
            }
        }
    }

    /// Reads to the end. Returns the progress of the steps, and 0 for the response.
    async fn steps(&mut self) -> Vec<u64> {
        let mut steps = Vec::new();
        while let Some((_, message)) = self.next().await {
            let is_answer = message["result"]["content"][0]["text"] == "counted";
            steps.push(if is_answer { 0 } else { message["params"]["progress"].as_f64().expect("progress") as u64 });
        }
        steps
    }
}

async fn session_continues_on_another_endpoint(shared: Both) {
    let (a, b, _) = two(&shared);
    let id = nowhere(&a).initialize().await;
    // The later requests go to the other endpoint.
    at(&b, &id).is_ready().await;
    assert_eq!(at(&b, &id).call("client").await, "raw");
    assert_eq!(at(&a, &id).call("client").await, "raw");
    let (status, lists) = at(&b, &id).post(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    assert_eq!((status, lists["result"]["tools"].as_array().map(Vec::len)), (200, Some(4)));
    // A second handshake is refused there as it is here.
    let again = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    assert!(at(&b, &id).post(again).await.1["error"]["code"].is_i64());
    assert_eq!((a.sessions(), b.sessions()), (1, 1));
    // A session that was never started is unknown everywhere.
    assert_eq!(at(&b, &"A".repeat(32)).post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.0, 404);
    assert_eq!(b.sessions(), 1);
}

fn set_level(level: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": level, "method": "logging/setLevel", "params": {"level": level}})
}

async fn session_settings_apply_on_all_endpoints(shared: Both) {
    let (a, b, _) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    assert_eq!(at(&b, &id).call("level").await, "none");
    for (endpoint, other, level) in [(&a, &b, "error"), (&b, &a, "debug")] {
        assert_eq!(at(endpoint, &id).post(set_level(level)).await.0, 200);
        assert_eq!(at(other, &id).call("level").await, level);
    }
}

async fn stream_resumes_on_another_endpoint(shared: Both) {
    let (a, b, gate) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    let params = json!({"name": "count", "arguments": {}, "_meta": {"progressToken": "t"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    gate.add_permits(1);
    let (head, body) = at(&a, &id).send("POST", None, Some(call)).await;
    assert_eq!(head.status, 200);
    let mut stream = Stream::new(body, SseDecoder::new(1 << 20));
    let (last, first) = stream.next().await.expect("the first step");
    assert_eq!(first["params"]["progress"], 1.0);
    drop(stream);
    // The stream is lost. It is resumed at a process without the request, which still runs in the first one.
    let (head, body) = at(&b, &id).send("GET", Some(&last), None).await;
    assert_eq!(head.status, 200);
    let mut stream = Stream::new(body, SseDecoder::new(1 << 20));
    gate.add_permits(1);
    let (second, message) = stream.next().await.expect("the second step");
    assert_eq!(message["params"]["progress"], 2.0);
    gate.add_permits(1);
    assert_eq!(stream.steps().await, [3, 0], "the rest of it, and its end");
    // Once more, with the complete stream: at both processes, and after different messages.
    for (endpoint, from, rest) in [(&b, &last, vec![2, 3, 0]), (&b, &second, vec![3, 0]), (&a, &second, vec![3, 0])] {
        let (head, body) = at(endpoint, &id).send("GET", Some(from), None).await;
        assert_eq!(head.status, 200);
        assert_eq!(Stream::new(body, SseDecoder::new(1 << 20)).steps().await, rest, "behind {from}");
    }
    // The id of an event does not give access to another session.
    let other = nowhere(&b).initialize().await;
    let (head, _) = at(&b, &other).send("GET", Some(&last), None).await;
    assert_eq!(head.status, 400, "streams of this one were not sent elsewhere");
}

async fn deleted_session_ends_on_all_endpoints(shared: Both) {
    let (a, b, _) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    assert_eq!(at(&b, &id).call("client").await, "raw");
    assert_eq!(at(&b, &id).send("DELETE", None, None).await.0.status, 204);
    let ping = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for endpoint in [&a, &b, &a] {
        assert_eq!(at(endpoint, &id).post(ping()).await.0, 404);
        assert_eq!(at(endpoint, &id).send("GET", None, None).await.0.status, 404);
    }
    assert_eq!((a.sessions(), b.sessions()), (0, 0));
}

async fn shared_session_is_bound_to_its_principal(shared: Both) {
    let (a, b, _) = two(&shared);
    let me = |endpoint| Site { endpoint, session: None, principal: Some("me") };
    let id = me(&a).initialize().await;
    let ping = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for principal in [None, Some("you")] {
        let you = Site { endpoint: &b, session: Some(&id), principal };
        assert_eq!(you.post(ping()).await.0, 404);
        assert_eq!(you.send("GET", Some("1-0"), None).await.0.status, 404);
        assert_eq!(you.send("DELETE", None, None).await.0.status, 404);
    }
    assert_eq!(b.sessions(), 0, "nothing was begun for them");
    let mine = Site { session: Some(&id), ..me(&b) };
    assert_eq!(mine.post(ping()).await.0, 200);
}

async fn tasks_of_a_principal(shared: Both) {
    let (a, _, _) = two(&shared);
    let mut sessions = Vec::new();
    for principal in ["ada", "bob"] {
        let by = Site { endpoint: &a, session: None, principal: Some(principal) };
        let id = by.initialize().await;
        let site = Site { session: Some(&id), ..by };
        site.is_ready().await;
        let params = json!({"name": "client", "arguments": {}, "task": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let (status, begun) = site.post(call).await;
        assert_eq!(status, 200, "{begun}");
        let task = begun["result"]["task"]["taskId"].clone();
        assert!(task.is_string(), "{begun}");
        sessions.push((principal, id, task));
    }
    let list = || json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/list"});
    for (principal, id, task) in &sessions {
        for (other, ..) in &sessions {
            let site = Site { endpoint: &a, session: Some(id), principal: Some(other) };
            let (status, listed) = site.post(list()).await;
            if other != principal {
                assert_eq!(status, 404, "{listed}");
                continue;
            }
            let tasks = listed["result"]["tasks"].as_array().expect("a list");
            assert_eq!(tasks.iter().map(|task| &task["taskId"]).collect::<Vec<_>>(), [task]);
        }
    }
}

async fn a_process_that_leaves(shared: Both) {
    let (a, b, gate) = two(&shared);
    let id = nowhere(&a).initialize().await;
    at(&a, &id).is_ready().await;
    a.close().await;
    assert_eq!(at(&a, &id).post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.0, 503);
    assert_eq!(at(&b, &id).call("client").await, "raw");
    b.close().await;
    // Another process that starts later.
    let c = process(&shared[0], &gate);
    assert_eq!(at(&c, &id).call("client").await, "raw");
}

/// Passes requests to two endpoints in turn.
struct Balanced {
    endpoints: [Endpoint; 2],
    count: Arc<AtomicUsize>,
}

impl HttpClient for Balanced {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (mut head, body) = request.into_parts();
        head.headers.insert(header::HOST, header::HeaderValue::from_static("localhost"));
        head.uri = "/mcp".parse().expect("a path");
        let endpoint = self.endpoints[self.count.fetch_add(1, Ordering::SeqCst) % 2].clone();
        Box::pin(async move {
            let request = Request::from_parts(head, Full::new(io::Cursor::new(body)));
            let (head, mut body) = endpoint.handle(request).await.into_parts();
            response.head(&head);
            while let Some(Ok(frame)) = body.frame().await {
                frame.data_ref().into_iter().for_each(|data| response.chunk(data));
            }
            response.end();
        })
    }
}

async fn a_client_need_not_know(shared: Both) {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        let (a, b, gate) = two(&shared);
        gate.add_permits(30);
        let count = Arc::<AtomicUsize>::default();
        let mut address = ClientOptions::new("http://server.example/mcp", 1).expect("an address");
        address.listen = false;
        let balanced = Balanced { endpoints: [a.clone(), b.clone()], count: count.clone() };
        let host = Host::builder("round", "1").versions(VersionSet::only(version)).build();
        let client =
            Connector::with_client_options(address).http_client(balanced).connect(&host).await.expect("it serves");
        for round in 0..5 {
            for (tool, expected) in [("client", "round"), ("later", "you are back"), ("count", "counted")] {
                let result = client.call_tool(tool, json!({})).expect("it is sent").await;
                let result = result.unwrap_or_else(|error| panic!("{tool} in round {round}: {error}"));
                assert_eq!(result.content[0].as_text(), Some(expected));
            }
        }
        assert_eq!((a.sessions(), b.sessions()), (1, 1), "both have served it");
        client.close().await;
    }
}

/// Returns the `initialize` request of a client with a long title.
fn initialize(title: usize) -> Value {
    let info = json!({"name": "raw", "version": "1", "title": "x".repeat(title)});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// The client gets an error, and has no session.
async fn oversized_session_is_rejected(shared: Both) {
    let (a, _, _) = two(&shared);
    for (title, status) in [(1000, 503), (256 << 10, 413), (10, 200)] {
        let (head, body) = nowhere(&a).send("POST", None, Some(initialize(title))).await;
        let body = body.collect().await.expect("it is whole").to_bytes();
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(head.status, status, "{title}: {answer}");
        let is_refused = status != 200;
        assert_eq!(answer["error"]["message"].is_string(), is_refused, "{answer}");
        assert_eq!(head.headers.contains_key("mcp-session-id"), !is_refused);
        assert_eq!(head.headers.contains_key(header::RETRY_AFTER), status == 503);
        assert_eq!(a.sessions(), usize::from(!is_refused));
    }
}

/// Both processes refuse the removed session.
async fn oldest_session_is_evicted(shared: Both) {
    let (a, b, _) = two(&shared);
    let by = |endpoint, principal| Site { endpoint, session: None, principal: Some(principal) };
    let ping = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let yours = by(&a, "you").initialize().await;
    let mut mine = Vec::new();
    for endpoint in [&a, &b, &a, &b, &a] {
        let id = by(endpoint, "me").initialize().await;
        Site { session: Some(&id), ..by(endpoint, "me") }.is_ready().await;
        mine.push(id);
    }
    let mut statuses = Vec::new();
    for id in &mine {
        let statuses_of = [&a, &b].map(|endpoint| Site { session: Some(id), ..by(endpoint, "me") });
        let [first, second] = &statuses_of;
        statuses.push((first.post(ping()).await.0, second.post(ping()).await.0));
    }
    assert_eq!(statuses, [(404, 404), (404, 404), (200, 200), (200, 200), (200, 200)]);
    assert_eq!(Site { session: Some(&yours), ..by(&b, "you") }.post(ping()).await.0, 200);
}
