//! Tasks of a session (2025-11-25): those of a server.

mod bounds;
mod client;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::{Capability, ProtocolVersion, VersionSet},
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
        ElicitSchema, LoggingLevel, Map, Role, SamplingContent, SamplingMessage, TaskStatus, TaskStatusParams,
        TaskSupport, Tool as ListedTool, ToolExecution,
    },
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::echo;
use super::pair::Pair;
use crate::{
    client::Host,
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    server::{builder::ServiceBuilder, service::Service, tool::Tool},
    tasks::handle::ResultOrTask,
    util::lock::lock,
};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Lets tools complete, one at a time.
#[derive(Clone)]
pub(super) struct Gate(pub(super) Arc<Mutex<mpsc::Receiver<()>>>);

impl Gate {
    pub(super) fn new() -> (mpsc::Sender<()>, Self) {
        let (open, wait) = mpsc::channel();
        (open, Self(Arc::new(Mutex::new(wait))))
    }

    /// Waits until the gate is opened, or the request is cancelled.
    pub(super) fn pass(&self, context: &Context) -> Result<(), Failure> {
        loop {
            match lock(&self.0).recv_timeout(Duration::from_millis(1)) {
                Ok(()) => return Ok(()),
                Err(_) => context.check()?,
            }
        }
    }
}

fn task_tool(name: &str, f: impl Fn(Context) -> Result<CallToolResult, Failure> + Send + Sync + 'static) -> Tool {
    Tool::new(name, move |context: Context| f(context)).task_support(TaskSupport::Optional)
}

fn gated(gate: &Gate) -> ServiceBuilder {
    let (works, fails, breaks, panics) = (gate.clone(), gate.clone(), gate.clone(), gate.clone());
    echo()
        .tool(task_tool("works", move |context| {
            works.pass(&context)?;
            Ok(CallToolResult::text("done"))
        }))
        .tool(task_tool("fails", move |context| {
            fails.pass(&context)?;
            Err(Failure::new("no luck"))
        }))
        .tool(task_tool("breaks", move |context| {
            breaks.pass(&context)?;
            Err(Failure::rpc(mcp_proto::wire::ErrorObject::new(mcp_proto::wire::ErrorCode(-32099), "broken")))
        }))
        .tool(task_tool("panics", move |context| {
            panics.pass(&context)?;
            panic!("secret")
        }))
        .tool(task_tool("must", |_| Ok(CallToolResult::text("done"))).task_support(TaskSupport::Required))
}

fn simple(service: &Service) -> Pair {
    Pair::simple(service)
}

/// Starts a task and returns its id and the task.
fn start(pair: &Pair, name: &str, ttl: Value) -> (String, Value) {
    let task = if ttl.is_null() { json!({}) } else { json!({"ttl": ttl}) };
    let answer = pair.answer_to("tools/call", json!({"name": name, "task": task}));
    let task = answer["result"]["task"].clone();
    (task["taskId"].as_str().unwrap_or_else(|| panic!("a task: {answer}")).to_owned(), task)
}

fn get(pair: &Pair, id: &str) -> Result<Value, Value> {
    let answer = pair.answer_to("tasks/get", json!({"taskId": id}));
    answer.get("result").cloned().ok_or_else(|| answer["error"].clone())
}

fn listed(name: &str, support: TaskSupport) -> ListedTool {
    let execution = ToolExecution { task_support: Some(support), ..ToolExecution::default() };
    ListedTool { execution: Some(execution), ..ListedTool::new(name, JsonObject::empty()) }
}

fn begun(pair: &Pair, name: &str) -> ResultOrTask<CallToolResult, ClientRole> {
    let pending = pair
        .to_server()
        .call_tool_as_task(&listed(name, TaskSupport::Optional), (), Some(Duration::from_secs(60)))
        .expect("it can be sent");
    pair.quick(pending).expect("it has begun")
}

// req: TASK-001 TASK-002 TASK-010 TASK-012 TASK-014 TASK-009
#[test]
fn tools_become_tasks_by_their_task_support() {
    let (_open, gate) = Gate::new();
    let service = gated(&gate).build().expect("a good service");
    let pair = simple(&service);
    let declared = pair.to_server().capabilities();
    for capability in [Capability::Tasks, Capability::TasksList, Capability::TasksCancel, Capability::TasksToolsCall] {
        assert!(declared.contains(capability));
    }
    let call = |params: Value| pair.answer_to("tools/call", params);
    assert_eq!(call(json!({"name": "echo", "arguments": {"message": "a"}, "task": {}}))["error"]["code"], -32601);
    assert_eq!(call(json!({"name": "must"}))["error"]["code"], -32601);
    assert!(call(json!({"name": "must", "task": {}}))["result"]["task"].is_object());
    assert!(call(json!({"name": "works", "task": {}}))["result"]["task"].is_object());
    assert_eq!(call(json!({"name": "works", "task": []}))["error"]["code"], -32602);

    // Without the capability, and in revisions without tasks, there are only calls.
    let narrow = gated(&gate).disable_capability(Capability::Tasks).build().expect("a good service");
    let pairs =
        [simple(&narrow), Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_06_18)];
    for pair in pairs {
        assert!(!pair.to_server().capabilities().contains(Capability::Tasks));
        for params in [json!({"name": "must", "task": {}}), json!({"name": "must"})] {
            assert_eq!(pair.answer_to("tools/call", params)["result"]["content"][0]["text"], "done");
        }
        assert_eq!(pair.answer_to("tasks/list", json!({}))["error"]["code"], -32601);
    }
}

// req: TASK-016 TASK-017 TASK-018 TASK-019 TASK-021 TASK-022 TASK-023 TASK-026 TASK-027 TASK-032 TASK-033 TASK-034 TASK-035 TASK-039
#[test]
fn task_is_created_at_once_with_result_later() {
    let (open, gate) = Gate::new();
    let service = gated(&gate).build().expect("a good service");
    let pair = simple(&service);
    let (id, task) = start(&pair, "works", json!(60_000));
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
    assert!(
        task["createdAt"].as_str().is_some_and(|at| at.ends_with('Z') && at.contains('T'))
            && task["lastUpdatedAt"].is_string()
    );
    assert_eq!(get(&pair, &id), Ok(task.clone()), "the same members, directly in the result");

    let result = pair.send_line("tasks/result", json!({"taskId": id}));
    let second = pair.send_line("tasks/result", json!({"taskId": id}));
    pair.run_for_a_while();
    assert_eq!((pair.answered(&result), pair.answered(&second)), (None, None), "not before it is done");
    pair.advance(Duration::from_secs(2));
    open.send(()).expect("it waits");
    for line in [result, second] {
        let answer = pair.await_answer(&line);
        assert_eq!(answer["result"]["content"][0]["text"], "done");
        assert_eq!(answer["result"]["_meta"][RELATED], json!({"taskId": id}));
    }
    let done = get(&pair, &id).expect("it is kept");
    assert_eq!((&done["status"], &done["createdAt"]), (&json!("completed"), &task["createdAt"]));
    assert!(done["lastUpdatedAt"].as_str() > task["lastUpdatedAt"].as_str());
    assert_eq!(done.get("_meta"), None);
    let again = pair.answer_to("tasks/result", json!({"taskId": id}));
    assert_eq!(again["result"]["content"][0]["text"], "done");
}

// req: TASK-025 TASK-033 TASK-060 TASK-061 TASK-062
#[test]
fn task_fails_like_its_request() {
    let (open, gate) = Gate::new();
    let pair = simple(&gated(&gate).build().expect("a good service"));
    for (name, message) in [("fails", "no luck"), ("breaks", "broken"), ("panics", "Internal error")] {
        let (id, _) = start(&pair, name, Value::Null);
        open.send(()).expect("it waits");
        let result = pair.answer_to("tasks/result", json!({"taskId": id}));
        match name {
            "fails" => assert_eq!(
                (&result["result"]["isError"], &result["result"]["content"][0]["text"]),
                (&json!(true), &json!(message))
            ),
            "breaks" => assert_eq!(result["error"], json!({"code": -32099, "message": message})),
            _ => assert_eq!(result["error"], json!({"code": -32603, "message": message})),
        }
        let task = get(&pair, &id).expect("it is kept");
        assert_eq!((&task["status"], &task["statusMessage"]), (&json!("failed"), &json!(message)));
        assert_eq!(pair.answer_to("tasks/cancel", json!({"taskId": id}))["error"]["code"], -32602);
        assert_eq!(get(&pair, &id).expect("it is kept")["status"], "failed");
    }
}

// req: TASK-025 TASK-054 TASK-055 TASK-056 TASK-057 TASK-069
#[test]
fn cancelled_task_stays_cancelled() {
    let finished = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(AtomicUsize::new(0));
    let (finish, begin) = (finished.clone(), begun.clone());
    let service = Service::builder("test", "1")
        .tool(task_tool("stubborn", move |context| {
            begin.fetch_add(1, Ordering::SeqCst);
            assert!(context.sleep(Duration::from_secs(30)).wait().is_err());
            finish.fetch_add(1, Ordering::SeqCst);
            Ok(CallToolResult::text("done all the same"))
        }))
        .build()
        .expect("a good service");
    let pair = simple(&service);
    let (id, _) = start(&pair, "stubborn", Value::Null);
    pair.until(|| begun.load(Ordering::SeqCst) == 1);
    let waiting = pair.send_line("tasks/result", json!({"taskId": id}));
    let cancelled = pair.answer_to("tasks/cancel", json!({"taskId": id}));
    assert_eq!((&cancelled["result"]["status"], &cancelled["result"]["taskId"]), (&json!("cancelled"), &json!(id)));
    assert_eq!(cancelled["result"].get("_meta"), None);
    assert!(pair.await_answer(&waiting)["error"]["message"].as_str().is_some_and(|why| why.contains("cancelled")));
    pair.settle();
    assert_eq!(finished.load(Ordering::SeqCst), 1, "the handler was told");
    assert_eq!(get(&pair, &id).expect("it is kept")["status"], "cancelled");
    let again = pair.answer_to("tasks/cancel", json!({"taskId": id}));
    assert_eq!(again["error"]["code"], -32602);
    assert!(again["error"]["message"].as_str().is_some_and(|why| why.contains("cancelled")));
    assert!(pair.answer_to("tasks/result", json!({"taskId": id})).get("error").is_some());
    pair.assert_clean();
}

// req: TASK-053 TASK-037 TASK-064
#[test]
fn tasks_of_other_sessions_are_not_found() {
    let (open, gate) = Gate::new();
    let service = gated(&gate).build().expect("a good service");
    let [pair, other] = [simple(&service), simple(&service)];
    let (id, _) = start(&pair, "works", Value::Null);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for (pair, id) in [(&pair, "unknown"), (&pair, ""), (&other, id.as_str())] {
            let error = pair.answer_to(method, json!({"taskId": id}))["error"].clone();
            assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("Task not found")));
        }
        assert_eq!(pair.answer_to(method, json!({}))["error"]["code"], -32602);
    }
    assert_eq!(other.answer_to("tasks/list", json!({}))["result"]["tasks"], json!([]));
    // `_meta` of a request does not select a task.
    let misled = json!({"taskId": id, "_meta": {RELATED: {"taskId": "unknown"}}});
    assert_eq!(pair.answer_to("tasks/get", misled)["result"]["taskId"], json!(id));
    open.send(()).expect("it waits");
}

#[test]
fn params_count_until_the_job_of_an_expired_task_ends() {
    let ((open, gate), (begins, began)) = (Gate::new(), mpsc::channel());
    // It ignores its cancellation.
    let tool = task_tool("waits", move |_| {
        begins.send(()).expect("it is awaited");
        lock(&gate.0).recv().expect("it is opened");
        Ok(CallToolResult::text("done"))
    });
    let policy = TaskPolicy { max_bytes: 4096, ..TaskPolicy::default() };
    let pair = simple(&echo().tool(tool).task_policy(policy).build().expect("a good service"));
    let call = json!({"name": "waits", "_meta": {"example.com/text": "x".repeat(3000)}, "task": {"ttl": 1000}});
    let task = pair.answer_to("tools/call", call.clone())["result"]["task"].clone();
    pair.until(|| began.try_recv().is_ok());
    pair.advance(Duration::from_secs(2));
    assert!(get(&pair, task["taskId"].as_str().expect("an id")).is_err(), "it has expired");
    assert_eq!(pair.answer_to("tools/call", call.clone())["error"]["message"], "Too many tasks");
    open.send(()).expect("it waits");
    pair.settle();
    assert!(pair.answer_to("tools/call", call)["result"]["task"].is_object());
    open.send(()).expect("it waits");
    pair.settle();
    pair.assert_clean();
}

// req: TASK-020 TASK-048 TASK-049 TASK-050 TASK-052 TASK-066 PAGE-002
#[test]
fn tasks_are_listed_in_pages() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy { page_size: 3, ..TaskPolicy::default() };
    let pair = simple(&gated(&gate).task_policy(policy).build().expect("a good service"));
    let ids: Vec<_> = (0..8).map(|_| start(&pair, "works", Value::Null).0).collect();
    let (mut seen, mut params) = (Vec::new(), json!({}));
    loop {
        let page = pair.answer_to("tasks/list", params)["result"].clone();
        assert_eq!(page.get("_meta"), None);
        let tasks = page["tasks"].as_array().expect("an array");
        assert!(tasks.len() <= 3);
        seen.extend(tasks.iter().map(|task| task["taskId"].as_str().expect("an id").to_owned()));
        let Some(next) = page.get("nextCursor") else { break };
        params = json!({"cursor": next});
    }
    assert_eq!(seen, ids);
    assert!(ids.iter().all(|id| get(&pair, id).is_ok()));
    for bad in [json!("x"), json!(""), json!(1)] {
        assert_eq!(pair.answer_to("tasks/list", json!({"cursor": bad}))["error"]["code"], -32602);
    }
    // The ids have 128 bits each, and all are distinct.
    let distinct: BTreeSet<_> = ids.iter().collect();
    assert!(
        distinct.len() == 8 && ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    );
}

// req: TASK-027 TASK-028 TASK-029 TASK-068
#[test]
fn tasks_are_kept_for_the_granted_ttl() {
    let (open, gate) = Gate::new();
    let policy = TaskPolicy {
        max_tasks: 3,
        default_ttl: Some(Duration::from_secs(10)),
        max_ttl: Some(Duration::from_secs(20)),
        ..TaskPolicy::default()
    };
    let pair = simple(&gated(&gate).task_policy(policy).build().expect("a good service"));
    let (short, task) = start(&pair, "works", Value::Null);
    assert_eq!(task["ttl"], 10_000);
    let (long, task) = start(&pair, "works", json!(3_600_000));
    assert_eq!(task["ttl"], 20_000, "not as long as was asked for");
    start(&pair, "works", json!(1_000));
    let refused = pair.answer_to("tools/call", json!({"name": "works", "task": {}}));
    assert_eq!(refused["error"]["code"], -32603, "there are enough");
    pair.advance(Duration::from_secs(2));
    start(&pair, "works", json!(1_000));

    let waiting = pair.send_line("tasks/result", json!({"taskId": short}));
    pair.run_for_a_while();
    pair.advance(Duration::from_secs(9));
    assert_eq!(get(&pair, &short).expect_err("its time is up")["code"], -32602);
    let answer = pair.await_answer(&waiting);
    assert!(answer["error"]["code"] == -32602 && answer["error"]["message"] == "The task has expired");
    assert_eq!(get(&pair, &long).expect("it is kept")["status"], "working");
    assert_eq!(pair.answer_to("tasks/list", json!({}))["result"]["tasks"].as_array().map(Vec::len), Some(1));
    // Expired tasks may still be shutting down, and take a turn of the gate.
    (0..4).for_each(|_| open.send(()).expect("it waits"));
    assert_eq!(pair.answer_to("tasks/result", json!({"taskId": long}))["result"]["content"][0]["text"], "done");
    pair.pass(Duration::from_secs(10));
    assert!(get(&pair, &long).is_err());
    assert_eq!(pair.server_session.shared().tasks.len(), 0);
    pair.assert_clean();
}

// req: TASK-024 TASK-036 TASK-040 TASK-045 TASK-047
#[test]
fn messages_of_a_task_name_the_task() {
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let listening = statuses.clone();
    let host = Host::builder("client", "1")
        .sampling(|_: CreateMessageParams, _| {
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("4"), "m"))
        })
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::decline()))
        .roots(&crate::client::roots::Roots::default())
        .on(move |task: TaskStatusParams, _| lock(&listening).push(task.status));
    let service = Service::builder("test", "1")
        .tool(task_tool("talks", |context| {
            context.progress(1.0, Some(3.0), Some("begun")).wait()?;
            context.log(LoggingLevel::Info, None, "begun").wait()?;
            context.sample(CreateMessageParams::new([SamplingMessage::user("2 + 2?")], 10_u64)).wait()?;
            assert_eq!(context.elicit("sure?", ElicitSchema::new(Map::new())).wait()?.action, ElicitAction::Decline);
            context.roots().wait()?;
            context.progress(2.0, Some(3.0), None).wait()?;
            let id = context.task_id().expect("it is a task").to_owned();
            Ok(CallToolResult::text(id))
        }))
        .build()
        .expect("a good service");
    let pair = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = received.clone();
    let pending =
        pair.to_server().call_tool_as_task(&listed("talks", TaskSupport::Optional), (), None).expect("it can be sent");
    let ResultOrTask::Task(task) = pair.wait(pending).expect("a task") else { panic!("a task") };
    let result =
        task.result().expect("it can be sent").on_progress(move |progress| lock(&recorder).push(progress.progress));
    let result = pair.wait(result).expect("a result");
    assert_eq!(result.content[0].as_text(), Some(task.id()));
    assert_eq!(*lock(&received), [1.0, 2.0], "under the token of the request that became the task");

    let lines = pair.server.take_lines();
    let mut said = BTreeSet::new();
    for line in &lines {
        let Some(method) = line["method"].as_str() else { continue };
        let related = line["params"]["_meta"].get(RELATED);
        if method == "notifications/tasks/status" {
            assert_eq!(related, None);
        } else {
            assert_eq!(related, Some(&json!({"taskId": task.id()})), "{line}");
        }
        said.insert(method.to_owned());
    }
    let expected = [
        "elicitation/create",
        "notifications/message",
        "notifications/progress",
        "notifications/tasks/status",
        "roots/list",
        "sampling/createMessage",
    ];
    assert_eq!(said.into_iter().collect::<Vec<_>>(), expected);
    use TaskStatus::{Completed, InputRequired, Working};
    let turns = [InputRequired, Working, InputRequired, Working, InputRequired, Working, Completed];
    assert_eq!(*lock(&statuses), turns);
    drop(task);
    pair.assert_clean();
}

// req: PROG-014 PROG-015
#[test]
fn task_progress_ends_with_the_task() {
    let (open, gate) = Gate::new();
    let (hand_over, handed_over) = mpsc::channel();
    let service = Service::builder("test", "1")
        .tool(task_tool("works", move |context| {
            hand_over.send(context.clone()).expect("the test waits for it");
            gate.pass(&context)?;
            Ok(CallToolResult::text("done"))
        }))
        .build()
        .expect("a good service");
    let pair = simple(&service);
    let requested = json!({"name": "works", "task": {}, "_meta": {"progressToken": "t"}});
    let answer = pair.answer_to("tools/call", requested);
    let id = answer["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("a task: {answer}")).to_owned();
    let context = handed_over.recv().expect("it runs");
    context.progress(1.0, None, None).wait().expect("it grows");
    pair.until(|| {
        let said = pair.server.take_lines();
        said.iter().any(|line| line["method"] == "notifications/progress" && line["params"]["progressToken"] == "t")
    });
    open.send(()).expect("it waits");
    assert!(pair.answer_to("tasks/result", json!({"taskId": id})).get("result").is_some());
    pair.settle();
    pair.server.take_lines();
    assert_eq!(context.progress(9.0, None, None).wait(), Ok(()));
    pair.settle();
    assert!(pair.server.take_lines().is_empty());
}

#[test]
fn progress_reaches_the_request_that_waits_for_the_result() {
    let (open, gate) = Gate::new();
    let service = Service::builder("test", "1")
        .tool(task_tool("works", move |context| {
            for step in [1.0, 2.0] {
                gate.pass(&context)?;
                context.progress(step, None, None).wait()?;
            }
            Ok(CallToolResult::text("done"))
        }))
        .build()
        .expect("a good service");
    let pair = simple(&service);
    let ResultOrTask::Task(task) = begun(&pair, "works") else { panic!("a task") };
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = received.clone();
    let result = task.result().expect("it can be sent");
    let result = result.on_progress(move |progress| lock(&recorder).push(progress.progress));
    pair.until(|| pair.server.with_conn(|conn| conn.usage().requests) == 1);
    open.send(()).expect("it waits");
    open.send(()).expect("it waits");
    pair.wait(result).expect("a result");
    assert_eq!(*lock(&received), [1.0, 2.0]);
}

#[test]
fn dropped_result_request_frees_its_slot() {
    let (open, gate) = Gate::new();
    let pair = simple(&gated(&gate).build().expect("a good service"));
    let ResultOrTask::Task(task) = begun(&pair, "works") else { panic!("a task") };
    let result = task.result().expect("it can be sent");
    let requests = || pair.server.with_conn(|conn| conn.usage().requests);
    pair.until(|| requests() == 1);
    drop(result);
    // The request was cancelled, so its slot is free.
    pair.until(|| requests() == 0);
    open.send(()).expect("it waits");
    let result = task.result().expect("it can be sent");
    assert_eq!(pair.wait(result).expect("a result").content[0].as_text(), Some("done"));
    drop(task);
    pair.assert_clean();
}

// req: TASK-059
#[test]
fn oversized_result_is_an_internal_error() {
    let service = Service::builder("test", "1")
        .tool(task_tool("big", |_| Ok(CallToolResult::text("x".repeat(100_000)))))
        .build()
        .expect("a good service");
    let host = Host::builder("client", "1").versions(VersionSet::LEGACY).build();
    let pair = Pair::with(&host, &service, |joining| {
        joining.server.settings.limits.frame_bytes = 50_000;
    });
    let (id, _) = start(&pair, "big", Value::Null);
    let answer = pair.answer_to("tasks/result", json!({"taskId": id}));
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(pair.answer_to("tools/call", json!({"name": "big"}))["error"]["code"], -32603);
    assert!(get(&pair, &id).is_ok(), "the session lives");
}
