//! Handlers that return futures, and the operations on which threads block and which tasks await.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Wake, Waker},
    time::Duration,
};

use mcp_proto::{
    connection::{ClientRole, Event, Limits, SendError, Settings},
    protocol::ProtocolVersion,
    schema::{
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult, ElicitSchema,
        ElicitUrlParams, Map, PromptArgument, Role, Root, RootsListChangedParams, SamplingContent, SamplingMessage,
        StringSchema, TaskMetadata, TaskStatus, TaskSupport, ToolsListChangedParams,
    },
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::echo;
use super::pair::{Pair, code};
use crate::{
    client::{Host, builder::HostBuilder, roots::Roots},
    driver_api::{
        connection_handle::Application,
        deferred::Deferred,
        job::{Job, JobKind, Schedule},
    },
    inbound::{completion_request::CompletionRequest, context::Context, failure::Failure},
    server::{
        builder::ServiceBuilder, prompt::Prompt, resource::Resource, resource_template::ResourceTemplate,
        service::Service, tool::Tool,
    },
    tasks::handle::ResultOrTask,
    util::lock::lock,
};

/// A future that is pending at its first poll.
async fn pause() {
    let mut turns = 0;
    std::future::poll_fn(|cx| {
        turns += 1;
        cx.waker().wake_by_ref();
        if turns > 2 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[derive(serde::Deserialize)]
struct Two {
    a: u8,
    b: u8,
}

/// A service with async handlers only.
fn patient() -> ServiceBuilder {
    let schema = JsonObject::parse(r#"{"type": "object"}"#).expect("an object");
    Service::builder("test", "1")
        .tool(Tool::new_async("plain", async || {
            pause().await;
            "plain"
        }))
        .tool(Tool::with_schema_async("sum", schema, async |two: Two, context: Context| {
            context.progress(1.0, None, None).await?;
            pause().await;
            Ok::<_, Failure>(format!("{}", two.a + two.b))
        }))
        .tool(Tool::new_async("fails", async || {
            pause().await;
            Err::<&str, _>("on purpose")
        }))
        .tool(Tool::new_async("panics_at_once", |_: Context| -> std::future::Ready<&'static str> { panic!("at once") }))
        .tool(Tool::new_async("panics_later", async || -> &'static str {
            pause().await;
            panic!("later")
        }))
        .tool(Tool::new("panics", || -> &'static str { panic!("a function") }))
        .prompt(
            Prompt::with_arguments_async("prompt", [PromptArgument::new("a")], async |two: Two| {
                pause().await;
                format!("{}", two.a)
            })
            .complete_async("a", async |completing: CompletionRequest| {
                pause().await;
                vec![format!("{}!", completing.value)]
            }),
        )
        .prompt(Prompt::new_async("bare", async || "bare"))
        .resource(Resource::new_async("test://r", "r", async || {
            pause().await;
            "resource"
        }))
        .template(
            ResourceTemplate::new_async("test://{a}/{b}", "t", async |two: Two| {
                pause().await;
                format!("{}", two.a * two.b)
            })
            .complete_async("a", async |_: CompletionRequest| vec!["1", "2"]),
        )
        .on_request_async("test/double", async |params: Value, _: Context| {
            pause().await;
            Ok::<_, Failure>(json!({"double": params["n"].as_i64().unwrap_or_default() * 2}))
        })
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

#[test]
fn every_handler_kind_can_be_async() {
    let pair = Pair::simple(&patient().build().expect("a good service"));
    let send_request = |method: &str, params: Value| pair.send_request(method, params).expect("a result");
    assert_eq!(text(&send_request("tools/call", json!({"name": "plain"}))), "plain");
    assert_eq!(text(&send_request("tools/call", json!({"name": "sum", "arguments": {"a": 1, "b": 2}}))), "3");
    let failed = send_request("tools/call", json!({"name": "fails"}));
    assert_eq!((text(&failed), &failed["isError"]), ("on purpose", &json!(true)));
    let bad = send_request("tools/call", json!({"name": "sum", "arguments": {"a": "x"}}));
    assert_eq!(bad["isError"], true, "arguments are read first");
    let filled = send_request("prompts/get", json!({"name": "prompt", "arguments": {"a": "7", "b": "0"}}));
    assert_eq!(filled["messages"][0]["content"]["text"], "7");
    assert_eq!(send_request("prompts/get", json!({"name": "bare"}))["messages"][0]["content"]["text"], "bare");
    assert_eq!(send_request("resources/read", json!({"uri": "test://r"}))["contents"][0]["text"], "resource");
    assert_eq!(send_request("resources/read", json!({"uri": "test://3/4"}))["contents"][0]["text"], "12");
    assert_eq!(code(&pair.send_request("resources/read", json!({"uri": "test://x/4"}))), -32002);
    let completed = |reference: Value| {
        let params = json!({"ref": reference, "argument": {"name": "a", "value": "v"}});
        send_request("completion/complete", params)["completion"]["values"].clone()
    };
    assert_eq!(completed(json!({"type": "ref/prompt", "name": "prompt"})), json!(["v!"]));
    assert_eq!(completed(json!({"type": "ref/resource", "uri": "test://{a}/{b}"})), json!(["1", "2"]));
    assert_eq!(send_request("test/double", json!({"n": 21}))["double"], 42);
    pair.assert_clean();
}

#[test]
fn a_panic_fails_the_one_request() {
    let pair = Pair::simple(&patient().build().expect("a good service"));
    for tool in ["panics", "panics_at_once", "panics_later"] {
        let beside = pair.send("tools/call", json!({"name": "plain"}));
        let answer = pair.send_request("tools/call", json!({"name": tool})).expect_err("an error");
        assert_eq!((&answer["code"], &answer["message"]), (&json!(-32603), &json!("Internal error")), "{tool}");
        assert!(pair.wait(beside).is_ok(), "{tool}");
    }
    pair.assert_clean();
}

/// A host with async handlers only, which records the requests that they receive.
fn thoughtful(received: &Arc<Mutex<Vec<String>>>) -> HostBuilder {
    let (first, second) = (received.clone(), received.clone());
    Host::builder("client", "1")
        .sampling_async(async |_: CreateMessageParams, _: Context<ClientRole>| {
            pause().await;
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("four"), "m"))
        })
        .elicitation_async(async |requested: ElicitFormParams, _: Context<ClientRole>| {
            pause().await;
            Ok::<_, Failure>(ElicitResult::accept([("name", requested.message.as_str().into())]))
        })
        .elicitation_url_async(async |_: ElicitUrlParams, _: Context<ClientRole>| {
            pause().await;
            Ok::<_, Failure>(ElicitAction::Decline)
        })
        .on_async(move |_: ToolsListChangedParams, _| {
            let received = first.clone();
            async move {
                lock(&received).push("begun".to_owned());
                pause().await;
                lock(&received).push("ended".to_owned());
            }
        })
        .on_notification_async("test/note", move |params: Value, _| {
            let received = second.clone();
            async move {
                pause().await;
                lock(&received).push(params.to_string());
            }
        })
        .roots(&Roots::new([Root::new("file:///a")]).expect("good roots"))
}

fn form() -> ElicitSchema {
    ElicitSchema {
        required: Some(vec!["name".into()]),
        ..ElicitSchema::new(Map::from([("name", StringSchema::default().into())]))
    }
}

fn input_request() -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::user("2 + 2?")], 10_u64)
}

/// A service with the same tool twice, blocking and async.
fn service_with_requests() -> ServiceBuilder {
    fn said(name: &ElicitResult, answer: &CreateMessageResult, page: &ElicitAction, roots: usize) -> String {
        let name = name.content.as_ref().and_then(|content| content.get("name"));
        format!("{name:?} {} {page} {roots}", answer.model)
    }
    Service::builder("test", "1")
        .tool(Tool::new("wait", |context: Context| {
            let name = context.elicit("Ada", form()).wait()?;
            let answer = context.sample(input_request()).wait()?;
            let page = context.elicit_url("Sign in", "https://example.com/").wait()?;
            Ok::<_, Failure>(said(&name, &answer, &page.action, context.roots().wait()?.len()))
        }))
        .tool(Tool::new_async("await", async |context: Context| {
            let name = context.elicit("Ada", form()).await?;
            let answer = context.sample(input_request()).await?;
            let page = context.elicit_url("Sign in", "https://example.com/").await?;
            Ok::<_, Failure>(said(&name, &answer, &page.action, context.roots().await?.len()))
        }))
        .tool(Tool::new_async("all_at_once", async |context: Context| {
            let (name, answer) = (context.elicit("Ada", form()), context.sample(input_request()));
            let (page, roots) = (context.elicit_url("Sign in", "https://example.com/"), context.roots());
            let (roots, page) = (roots.await, page.await);
            Ok::<_, Failure>(said(&name.await?, &answer.await?, &page?.action, roots?.len()))
        }))
}

#[test]
fn blocking_and_async_input_requests_are_equal() {
    let received = Arc::default();
    let service = service_with_requests().build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&thoughtful(&received).build(), &service, version);
        for tool in ["wait", "await", "all_at_once"] {
            let result = pair.send_request("tools/call", json!({"name": tool})).expect("a result");
            assert_eq!(text(&result), "Some(String(\"Ada\")) m decline 1", "{tool} {version}");
        }
        pair.assert_clean();
    }
}

#[test]
fn concurrent_input_requests_are_sent_together() {
    let service = service_with_requests().build().expect("a good service");
    let host = thoughtful(&Arc::default()).build();
    // In a session all four requests are sent before the first response.
    let pair = Pair::new(&host, &service, ProtocolVersion::V2025_11_25);
    let pending = pair.send("tools/call", json!({"name": "all_at_once"}));
    let mut lines = Vec::new();
    pair.only_upwards_until(&mut lines, |lines| lines.iter().filter(|line| line.get("method").is_some()).count() == 4);
    drop(pending);
    // Without a session all four are in the first result.
    let pair = Pair::new(&host, &service, ProtocolVersion::V2026_07_28);
    pair.send_request("tools/call", json!({"name": "all_at_once"})).expect("a result");
    let rounds: Vec<_> = pair
        .server
        .take_lines()
        .iter()
        .filter_map(|line| Some(line["result"].get("inputRequests")?.as_object()?.len()))
        .collect();
    assert_eq!(rounds, [4]);
}

#[test]
fn dropped_input_request_is_cancelled() {
    let requested = Arc::new(AtomicBool::new(false));
    let seen = requested.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new_async("impatient", move |context: Context| {
            let requested = requested.clone();
            async move {
                let input_request = context.sample(input_request());
                while !requested.load(Ordering::SeqCst) {
                    pause().await;
                }
                drop(input_request);
                "did without"
            }
        }))
        .build()
        .expect("a good service");
    let pair = Pair::new(&thoughtful(&Arc::default()).build(), &service, ProtocolVersion::V2025_11_25);
    let pending = pair.send("tools/call", json!({"name": "impatient"}));
    let mut lines = Vec::new();
    pair.only_upwards_until(&mut lines, |lines| lines.iter().any(|line| line["method"] == "sampling/createMessage"));
    seen.store(true, Ordering::SeqCst);
    pair.only_upwards_until(&mut lines, |lines| lines.iter().any(|line| line.get("result").is_some()));
    let requested = lines.iter().find(|line| line["method"] == "sampling/createMessage").expect("it was requested");
    let cancelled = lines.iter().find(|line| line["method"] == "notifications/cancelled").expect("it was taken back");
    assert_eq!(cancelled["params"]["requestId"], requested["id"]);
    assert_eq!(pair.server.with_conn(|conn| conn.usage().calls), 0);
    drop(pending);
}

#[test]
fn notifications_are_handled_one_at_a_time() {
    let received = Arc::default();
    let service = echo().build().expect("a good service");
    let pair = Pair::new(&thoughtful(&received).build(), &service, ProtocolVersion::V2025_11_25);
    for round in 0..10 {
        let name = format!("t{round}");
        pair.input_to_client(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        pair.input_to_client(&json!({"jsonrpc": "2.0", "method": "test/note", "params": {"n": name}}).to_string());
    }
    pair.settle();
    let expected: Vec<_> =
        (0..10).flat_map(|round| ["begun".into(), "ended".into(), format!("{{\"n\":\"t{round}\"}}")]).collect();
    assert_eq!(*lock(&received), expected);
    // Arguments that cannot be decoded are the peer's fault, as with blocking handlers.
    let faults = Arc::new(AtomicUsize::new(0));
    let count = faults.clone();
    let service = echo()
        .on_async(async |_: RootsListChangedParams, _| ())
        .on_fault(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    pair.input_to_server(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"_meta":7}}"#);
    pair.settle();
    assert_eq!(faults.load(Ordering::SeqCst), 1);
}

#[test]
fn cancelled_future_runs_to_completion() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let eye = seen.clone();
    let begun = Arc::new(AtomicBool::new(false));
    let beginning = begun.clone();
    let service = Service::builder("test", "1")
        .tool(Tool::new_async("tidy", move |context: Context| {
            let (eye, beginning) = (eye.clone(), beginning.clone());
            async move {
                beginning.store(true, Ordering::SeqCst);
                let slept = context.sleep(Duration::from_secs(60)).await;
                pause().await;
                // The operations that have begun can be completed.
                let said = context.progress(1.0, None, None).await;
                let requested = context.sample(input_request()).await;
                lock(&eye).push(format!("{slept:?} {said:?} {requested:?}"));
            }
        }))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let pending = pair.to_server().call_tool("tidy", ()).expect("it can be sent");
    pair.until(|| begun.load(Ordering::SeqCst));
    drop(pending);
    pair.settle();
    assert_eq!(*lock(&seen), ["Err(Cancelled) Ok(()) Err(Cancelled)"]);
    pair.assert_clean();
}

#[test]
fn sleeps_last_for_the_given_time() {
    let service = Service::builder("test", "1")
        .tool(Tool::new("wait", |context: Context| context.sleep(Duration::from_secs(50)).wait().map(|()| "waited")))
        .tool(Tool::new_async("await", async |context: Context| {
            context.sleep(Duration::from_secs(20)).await?;
            context.sleep(Duration::from_secs(30)).await.map(|()| "awaited")
        }))
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    for (tool, text) in [("wait", "waited"), ("await", "awaited")] {
        let pending = pair.to_server().call_tool(tool, ()).expect("it can be sent");
        let begin = pair.server.now();
        let result = pair.sleep_through(pending, Duration::from_secs(10)).expect("a result");
        assert_eq!(pair.server.now().saturating_since(begin), Duration::from_secs(50));
        assert_eq!(result.content[0].as_text(), Some(text));
    }
    pair.assert_clean();
}

/// The job of a request that was received but has not run yet.
pub(super) fn job(pair: &Pair, line: &Value) -> Job {
    let line = line.to_string();
    let event = pair.server.with_conn(|conn| {
        let frame = mcp_proto::codec::Frame::new(line.as_bytes());
        conn.handle_frame(Default::default(), frame).map(Event::into_owned)
    });
    pair.server_session.handle(&pair.server.connection(), event.expect("a request")).expect("a job")
}

pub(super) fn call(id: u8, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}})
}

pub(super) fn poll(run: &mut JobKind) -> Poll<()> {
    let JobKind::Async(future) = run else { panic!("a future") };
    Pin::new(future).poll(&mut std::task::Context::from_waker(Waker::noop()))
}

fn error_of(pair: &Pair, id: u8) -> String {
    pair.server.flush();
    let answer = pair.server.take_lines().into_iter().find(|line| line["id"] == id).expect("an answer");
    assert_eq!(answer["error"]["code"], -32603);
    answer["error"]["message"].as_str().expect("a text").to_owned()
}

#[test]
fn dropped_job_sends_error_with_reason() {
    let pair = Pair::simple(&patient().tool(Tool::new("sync", || "sync")).build().expect("a good service"));
    // Before the job has begun, for both kinds of handlers.
    drop(job(&pair, &call(1, "plain")));
    assert_eq!(error_of(&pair, 1), "Too many requests wait to be served");
    drop(job(&pair, &call(2, "sync")));
    assert_eq!(error_of(&pair, 2), "Too many requests wait to be served");
    // In the middle.
    let mut run = job(&pair, &call(3, "plain")).into_kind();
    assert!(poll(&mut run).is_pending());
    drop(run);
    assert_eq!(error_of(&pair, 3), "The handler of this request was dropped");
    // When the connection is about to end.
    let job = job(&pair, &call(4, "plain"));
    pair.server.with_conn(|conn| conn.close(Default::default()));
    drop(job);
    assert_eq!(error_of(&pair, 4), "The connection ends before this request was served");
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn dropped_job_sends_error_without_room() {
    let mut limits = Limits::default();
    limits.outbox_bytes = 2000;
    let service = patient().settings(Settings { limits, ..Settings::default() }).build().expect("a good service");
    let pair = Pair::simple(&service);
    let job = job(&pair, &call(1, "plain"));
    // The client does not read for a while.
    pair.server.with_conn(|conn| while conn.notify_raw("test/stuff", None).is_ok() {});
    drop(job);
    assert_eq!(error_of(&pair, 1), "Too many requests wait to be served");
    assert_eq!(pair.server.with_conn(|conn| conn.usage().requests), 0, "its slot is free");
}

#[test]
fn dropped_subscription_job_sends_an_error() {
    let mut limits = Limits::default();
    limits.outbox_bytes = 100;
    let tool = Tool::new_async("task", async || "done").task_support(TaskSupport::Optional);
    let service = Service::builder("test", "1").tool(tool).settings(Settings { limits, ..Settings::default() });
    let service = service.build().expect("a good service");
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2026_07_28);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let line = |id: u8, method: &str| {
        let params = json!({"_meta": meta, "notifications": {"taskIds": ["unknown"]}});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    // Its response waits for the client to read.
    pair.input_to_server(&line(1, "tools/list").to_string());
    drop(job(&pair, &line(2, "subscriptions/listen")));
    assert_eq!(error_of(&pair, 2), "Too many requests wait to be served");
    let left = (pair.server_session.shared().in_flight.len(), pair.server.with_conn(|conn| conn.usage().requests));
    assert_eq!(left, (0, 0));
}

#[test]
fn ready_future_completes_in_one_poll() {
    let service = Service::builder("test", "1").tool(Tool::new_async("quick", async || "quick")).build();
    let pair = Pair::simple(&service.expect("a good service"));
    let job = job(&pair, &call(1, "quick"));
    assert_eq!(job.schedule(), Schedule::Concurrent);
    assert!(poll(&mut job.into_kind()).is_ready());
    pair.server.flush();
    assert_eq!(pair.server.take_lines()[0]["result"]["content"][0]["text"], "quick");
}

#[test]
fn task_fails_when_its_job_is_dropped() {
    let service = Service::builder("test", "1")
        .tool(
            Tool::new_async("task", async || {
                pause().await;
                "done"
            })
            .task_support(TaskSupport::Optional),
        )
        .build()
        .expect("a good service");
    let pair = Pair::simple(&service);
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "task", "task": TaskMetadata::default()}});
    let mut run = job(&pair, &line).into_kind();
    assert!(poll(&mut run).is_pending());
    drop(run);
    pair.server.flush();
    let lines = pair.server.take_lines();
    let id = lines[0]["result"]["task"]["taskId"].as_str().expect("a task").to_owned();
    let answer = pair.send_request("tasks/get", json!({"taskId": id})).expect("a task");
    assert_eq!(
        (&answer["status"], &answer["statusMessage"]),
        (&json!("failed"), &json!("The handler of this task was dropped"))
    );
}

#[test]
fn tasks_run_futures() {
    let service = Service::builder("test", "1")
        .tool(
            Tool::new_async("task", async |context: Context| {
                pause().await;
                context.progress(1.0, None, None).await?;
                let answer = context.sample(input_request()).await?;
                Ok::<_, Failure>(answer.model)
            })
            .task_support(TaskSupport::Optional),
        )
        .build()
        .expect("a good service");
    let pair = Pair::new(&thoughtful(&Arc::default()).build(), &service, ProtocolVersion::V2025_11_25);
    let server = pair.to_server();
    let tools = pair
        .finish(std::thread::spawn(move || crate::driver_api::block_on::block_on(server.all_tools().try_collect())))
        .expect("a list");
    let started = pair.to_server().call_tool_as_task(&tools[0], (), None).expect("it can be sent");
    let ResultOrTask::Task(task) = pair.wait(started).expect("a task") else { panic!("a task") };
    assert_eq!(pair.wait(task.result().expect("it can be sent")).expect("a result").content[0].as_text(), Some("m"));
    assert_eq!(pair.wait(task.get().expect("it can be sent")).expect("a task").status, TaskStatus::Completed);
}

/// A waker that counts its calls.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A pair whose client has a small outbox, with a server that does not read.
fn narrow() -> Pair {
    let mut limits = Limits::default();
    limits.outbox_bytes = 2000;
    let host = Host::builder("client", "1").settings(Settings { limits, ..Settings::default() }).build();
    Pair::with(&host, &echo().build().expect("a good service"), |_| ())
}

fn fill_outbox(pair: &Pair) -> usize {
    (0..).take_while(|_| pair.to_server().notify_raw("test/stuff", None) != Err(SendError::Busy)).count()
}

#[test]
fn wakes_one_waiter_per_free_slot() {
    let pair = narrow();
    assert!(fill_outbox(&pair) > 10);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut cx = std::task::Context::from_waker(&waker);
    let mut waiting: Vec<Deferred<()>> = (0..10_000).map(|_| pair.to_server().wait_for_request_slot()).collect();
    for waiting in &mut waiting {
        assert!(Pin::new(waiting).poll(&mut cx).is_pending());
    }
    assert_eq!((pair.client.waiters.len(), woken.0.load(Ordering::SeqCst)), (10_000, 0));
    // Each time that there is room, one of them is woken, and takes all of it.
    for number in 0..10_000 {
        pair.client.flush();
        assert_eq!(woken.0.swap(0, Ordering::SeqCst), 1);
        assert!(Pin::new(&mut waiting[number]).poll(&mut cx).is_ready());
        fill_outbox(&pair);
        // The next one was woken when this one completed, and finds no room.
        let next = waiting.get_mut(number + 1);
        assert!(next.is_none_or(|next| Pin::new(next).poll(&mut cx).is_pending()));
        assert!(woken.0.swap(0, Ordering::SeqCst) <= 1);
    }
    assert_eq!(pair.client.waiters.len(), 0);
}

#[test]
fn connection_end_wakes_slot_waiters() {
    let pair = narrow();
    fill_outbox(&pair);
    let mut waiting: Vec<Deferred<()>> = (0..100).map(|_| pair.to_server().wait_for_request_slot()).collect();
    let mut cx = std::task::Context::from_waker(Waker::noop());
    assert!(waiting.iter_mut().all(|waiting| Pin::new(waiting).poll(&mut cx).is_pending()));
    let threads: Vec<_> = (0..10)
        .map(|_| {
            let server = pair.to_server();
            std::thread::spawn(move || server.wait_for_request_slot().wait())
        })
        .collect();
    pair.until(|| pair.client.waiters.len() == 110);
    pair.cut();
    assert!(waiting.iter_mut().all(|waiting| Pin::new(waiting).poll(&mut cx).is_ready()));
    drop(waiting);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(pair.client.waiters.len(), 0);
}
