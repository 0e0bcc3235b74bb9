//! Tests how clients follow the tasks that their calls become.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_proto::{
    connection::RequestOptions,
    protocol::{Capability, ProtocolVersion},
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitResult, ElicitSchema, Map,
        Role, SamplingContent, SamplingMessage, StringSchema, Task, TaskStatus, TaskSupport, Tool as ListedTool,
        ToolExecution,
    },
    wire::{ErrorCode, ErrorObject},
};
use serde_json::{Value, json};

use super::{methods_sent, task_tool, works};
use crate::tests::tasks::Gate;
use crate::{
    client::{Host, builder::HostBuilder},
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    outbound::{error::CallError, pending::Pending},
    server::{builder::ServiceBuilder, service::Service},
    tasks::handle::ResultOrTask,
    tests::{echo, pair::Pair},
    util::lock::lock,
};

fn services(gate: &Gate) -> ServiceBuilder {
    echo()
        .tool(works(gate))
        .tool(task_tool("must", |_| Ok(CallToolResult::text("done"))).task_support(TaskSupport::Required))
        .tool(task_tool("fails", |_| Err(Failure::new("no luck"))))
        .tool(task_tool("breaks", |_| Err(Failure::rpc(ErrorObject::new(ErrorCode(-32099), "broken")))))
        .tool(task_tool("asks", |context: Context| {
            let form = ElicitSchema::new(Map::from([("name", StringSchema::default().into())]));
            let who = context.elicit("Who are you?", form);
            let verdict = context.sample(CreateMessageParams::new([SamplingMessage::user("Well?")], 10_u64));
            let (who, verdict) = (who.wait()?, verdict.wait()?);
            Ok(CallToolResult::text(format!("{} {}", who.action, verdict.model)))
        }))
        .task_policy(TaskPolicy { poll_interval: Duration::from_millis(200), ..TaskPolicy::default() })
}

fn host() -> HostBuilder {
    Host::builder("client", "1")
        .sampling(|_: CreateMessageParams, _| {
            Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("fine"), "m"))
        })
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::decline()))
}

fn modern(host: HostBuilder, service: &Service) -> Pair {
    Pair::new(&host.build(), service, ProtocolVersion::V2026_07_28)
}

/// Waits for a call, and advances the clock while the client waits for time.
fn finish<T: Send + 'static>(pair: &Pair, pending: Pending<T>) -> Result<T, CallError> {
    finish_while(pair, pending, || pair.tick())
}

fn finish_while<T: Send + 'static>(pair: &Pair, pending: Pending<T>, tick: impl Fn()) -> Result<T, CallError> {
    let thread = std::thread::spawn(move || pending.wait());
    pair.until(|| {
        tick();
        thread.is_finished()
    });
    thread.join().expect("no panic")
}

fn call(pair: &Pair, name: &str) -> Result<CallToolResult, CallError> {
    finish(pair, pair.to_server().call_tool(name, ()).expect("it can be sent"))
}

fn listed(name: &str, support: TaskSupport) -> ListedTool {
    let execution = Some(ToolExecution { task_support: Some(support), ..ToolExecution::default() });
    ListedTool { execution, ..ListedTool::new(name, crate::tests::object(&json!({"type": "object"}))) }
}

fn sent(pair: &Pair) -> Vec<Value> {
    pair.client.take_lines().into_iter().filter(|line| line.get("method").is_some()).collect()
}

// req: M-TASK-005 M-TASK-032 M-TASK-081
#[test]
fn call_that_becomes_a_task_returns_its_result() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let pair = modern(host(), &service);
    open.send(()).expect("it waits");
    assert_eq!(call(&pair, "works").expect("a result").content[0].as_text(), Some("done"));
    assert!(sent(&pair).iter().any(|line| line["method"] == "tasks/get"), "it was a task");
    assert!(call(&pair, "fails").expect("a result").is_error());
    match call(&pair, "breaks") {
        Err(CallError::Rpc(error)) => assert_eq!((error.code.0, &*error.message), (-32099, "broken")),
        other => panic!("{other:?}"),
    }
    assert_eq!(call(&pair, "must").expect("a result").content[0].as_text(), Some("done"));
    pair.assert_clean();
    // For a client without tasks the call has its usual timeouts, unless the tool requires a task.
    let pair = modern(host().disable_capability(Capability::TasksExtension), &service);
    open.send(()).expect("it waits");
    assert_eq!(call(&pair, "works").expect("a result").content[0].as_text(), Some("done"));
    assert!(sent(&pair).iter().all(|line| line["method"] == "tools/call"));
    assert!(matches!(call(&pair, "must"), Err(CallError::Rpc(error)) if error.code.0 == -32021));
    pair.assert_clean();
}

// req: M-TASK-051
#[test]
fn host_handlers_serve_input_requests_of_tasks() {
    let (_open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&host().build(), &service, version);
        assert_eq!(call(&pair, "asks").expect("a result").content[0].as_text(), Some("decline m"));
        pair.assert_clean();
    }
    let pair = modern(host(), &service);
    call(&pair, "asks").expect("a result");
    let (lines, server) = (sent(&pair), methods_sent(&pair));
    let answers: usize =
        lines.iter().filter_map(|line| line["params"]["inputResponses"].as_object()).map(|it| it.len()).sum();
    assert_eq!((answers, server), (2, vec![]), "each was asked once, and by the task");
}

// req: M-TASK-054
#[test]
fn dropping_a_call_cancels_its_task() {
    let (_open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let pair = modern(host(), &service);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let pending = pair.to_server().call_tool("works", ()).expect("it can be sent");
    pair.until(|| service.tasks().usage().0 == 1);
    pair.advance(Duration::from_millis(200));
    let id = lock(&pair.server.lines)
        .iter()
        .find_map(|line| serde_json::from_str::<Value>(line).ok()?["result"]["taskId"].as_str().map(ToOwned::to_owned));
    let id = id.expect("it is a task");
    pair.client.take_lines();
    drop(pending);
    let looks = seen.clone();
    let following = pair.to_server().follow_task(&id).expect("it can be sent");
    let following = following.on_task(move |task| lock(&looks).push(task.status));
    assert!(matches!(finish(&pair, following), Err(CallError::Cancelled)));
    assert!(lock(&seen).iter().all(|status| *status == TaskStatus::Working));
    let methods: Vec<_> = sent(&pair).iter().map(|line| line["method"].clone()).collect();
    assert!(
        methods.contains(&json!("tasks/cancel")) && !methods.contains(&json!("notifications/cancelled")),
        "{methods:?}"
    );
    pair.assert_clean();
}

#[test]
fn call_reports_task_status() {
    let (open, gate) = Gate::new();
    let service = services(&gate)
        .tool(task_tool("talks", move |context| {
            for word in ["one", "two"] {
                context.progress(1.0, None, Some(word)).wait()?;
                gate.pass(&context)?;
            }
            Ok(CallToolResult::text("done"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(host(), &service);
    let shown = Arc::new(Mutex::new(Vec::<Task>::new()));
    let tasks = shown.clone();
    let pending = pair.to_server().call_tool("talks", ()).expect("it can be sent");
    let pending = pending.on_task(move |task| lock(&tasks).push(task)).and_then(|result| Ok(result.content.len()));
    let thread = std::thread::spawn(move || pending.wait());
    for word in ["one", "two"] {
        pair.until(|| {
            pair.tick();
            lock(&shown).iter().any(|task| task.status_message.as_deref() == Some(word))
        });
        open.send(()).expect("it waits");
    }
    pair.until(|| {
        pair.tick();
        thread.is_finished()
    });
    assert_eq!(thread.join().expect("no panic").expect("a result"), 1);
    let shown = std::mem::take(&mut *lock(&shown));
    let first = &shown[0];
    assert_eq!((&first.status, first.ttl, first.poll_interval), (&TaskStatus::Working, Some(3_600_000), Some(200)));
    assert!(shown.iter().all(|task| task.task_id == first.task_id && task.status == TaskStatus::Working));
    pair.assert_clean();
}

// req: M-TASK-008
#[test]
fn task_handle_works_in_both_eras() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let pair = Pair::new(&host().build(), &service, version);
        let begin = |name: &str| {
            let tool = listed(name, TaskSupport::Optional);
            let started = pair.to_server().call_tool_as_task(&tool, (), None).expect("it can be sent");
            pair.quick(started).expect("an answer")
        };
        let ResultOrTask::Task(task) = begin("works") else { panic!("a task") };
        assert_eq!((&task.task().status, task.poll_interval()), (&TaskStatus::Working, Duration::from_millis(200)));
        assert_eq!(task.model_immediate_response(), None);
        let look = |task: &crate::tasks::handle::TaskHandle<CallToolResult, _>| {
            pair.quick(task.get().expect("it can be sent")).expect("a task").status
        };
        assert_eq!(look(&task), TaskStatus::Working);
        // A client that stopped waiting for the result can wait for it again.
        drop(task.result().expect("it can be sent"));
        pair.run_for_a_while();
        assert_eq!(look(&task), TaskStatus::Working);
        open.send(()).expect("it waits");
        let result = finish(&pair, task.result().expect("it can be sent")).expect("a result");
        assert_eq!(result.content[0].as_text(), Some("done"));
        assert_eq!(look(&task), TaskStatus::Completed);
        drop(task);

        let ResultOrTask::Task(task) = begin("works") else { panic!("a task") };
        let cancelled = pair.quick(task.cancel().expect("it can be sent")).expect("a receipt");
        assert_eq!(cancelled.map(|task| task.status).unwrap_or(TaskStatus::Cancelled), TaskStatus::Cancelled);
        pair.until(|| look(&task) == TaskStatus::Cancelled);
        let known: crate::tasks::handle::TaskHandle<CallToolResult, _> = pair.to_server().task(task.task().clone());
        assert_eq!(look(&known), TaskStatus::Cancelled);
        drop((task, known));
        // A tool without task support returns its result.
        let tool = listed("echo", TaskSupport::Forbidden);
        let done = pair.to_server().run_tool(&tool, json!({"message": "hello"})).expect("it can be sent");
        let ResultOrTask::Result(done) = pair.quick(done).expect("an answer") else { panic!("no task") };
        assert_eq!(done.content[0].as_text(), Some("hello"));
        pair.assert_clean();
    }
}

// req: M-TASK-038
#[test]
fn task_can_be_followed_on_another_connection() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let (here, there) = (modern(host(), &service), modern(host(), &service));
    let tool = listed("works", TaskSupport::Forbidden);
    let ResultOrTask::Task(task) =
        here.quick(here.to_server().run_tool(&tool, ()).expect("it can be sent")).expect("an answer")
    else {
        panic!("a task")
    };
    let id = task.id().to_owned();
    drop(task);
    open.send(()).expect("it waits");
    here.cut();
    let followed = there.to_server().follow_task(&id).expect("it can be sent");
    assert_eq!(finish(&there, followed).expect("a result").content[0].as_text(), Some("done"));
    let unknown = there.to_server().follow_task("x").expect("it can be sent");
    assert!(matches!(finish(&there, unknown), Err(CallError::Rpc(error)) if error.code == ErrorCode::INVALID_PARAMS));
    // The timeouts of requests apply.
    let short_timeout = there.to_server().with_options(RequestOptions::within(Duration::from_secs(1)));
    let works = short_timeout.call_tool("works", ()).expect("it can be sent");
    let late = finish_while(&there, works, || there.advance(Duration::from_millis(100)));
    assert!(matches!(late, Err(CallError::TimedOut { total: true })));
    there.assert_clean();
}
