//! Limits of the tasks of a session.

use std::{
    thread,
    time::{Duration, Instant},
};

use mcp_proto::{
    codec::Frame,
    connection::{Event, Limits, Settings},
    protocol::VersionSet,
    schema::{CallToolResult, TaskSupport},
};
use serde_json::{Value, json};

use super::{Gate, begun, get, simple, start};
use crate::tests::{object, pair::Pair};
use crate::{
    client::Host,
    driver_api::connection_handle::Application as _,
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    server::{service::Service, tool::Tool},
    tasks::handle::ResultOrTask,
};

/// A service whose tool `large` returns 5 MiB, and whose tool `wait` waits until it is cancelled.
fn service() -> Service {
    service_with(Settings::default())
}

fn service_with(settings: Settings) -> Service {
    let any = object(&json!({"type": "object"}));
    let wait = Tool::with_schema_async("wait", any, async |_: Value, context: Context| {
        context.cancelled().await;
        "cancelled"
    });
    Service::builder("test", "1")
        .settings(settings)
        .tool(Tool::new_async("large", async || "x".repeat(5 << 20)).task_support(TaskSupport::Optional))
        .tool(wait.task_support(TaskSupport::Optional))
        .build()
        .expect("a good service")
}

#[test]
fn session_task_results_are_bounded() {
    let pair = simple(&service());
    let run = || {
        let (id, _) = start(&pair, "large", Value::Null);
        pair.until(|| get(&pair, &id).expect("it is there")["status"] != "working");
        let task = get(&pair, &id).expect("it is there");
        (id, task["status"].as_str().expect("a status").to_owned())
    };
    let tasks: Vec<_> = (0..4).map(|_| run()).collect();
    let statuses: Vec<_> = tasks.iter().map(|(_, status)| &**status).collect();
    assert_eq!(statuses, ["completed", "completed", "completed", "failed"], "16 MiB together");
    let why = get(&pair, &tasks[3].0).expect("it is there")["statusMessage"].clone();
    assert_eq!(why, "The results of tasks are larger than the limit");
    // A task whose result was fetched is removed for the next one, and others are not.
    let fetched = pair.answer_to("tasks/result", json!({"taskId": tasks[1].0}));
    assert_eq!(fetched["result"]["content"][0]["type"], "text", "{}", fetched["error"]);
    assert_eq!(run().1, "completed");
    let left: Vec<_> = tasks.iter().map(|(id, _)| get(&pair, id).is_ok()).collect();
    assert_eq!(left, [true, false, true, true]);
    assert_eq!(run().1, "failed");
}

#[test]
fn session_task_arguments_are_bounded() {
    let pair = simple(&service());
    let send_request = || {
        let arguments = json!({"text": "x".repeat(3 << 20)});
        pair.answer_to("tools/call", json!({"name": "wait", "arguments": arguments, "task": {}}))
    };
    let ids: Vec<_> = (0..5).map(|_| send_request()["result"]["task"]["taskId"].clone()).collect();
    assert!(ids.iter().all(Value::is_string), "{ids:?}");
    assert_eq!(send_request()["error"]["message"], "Too many tasks", "16 MiB together");
    // A task whose handler has ended does not hold its arguments any more.
    let cancelled = pair.answer_to("tasks/cancel", json!({"taskId": ids[0]}));
    assert_eq!(cancelled["result"]["status"], "cancelled");
    pair.until(|| send_request()["result"]["task"]["taskId"].is_string());
}

/// A cancelled `tasks/result` without a result does not count as a fetch.
#[test]
fn unfetched_results_are_not_evicted() {
    let any = object(&json!({"type": "object"}));
    let (open, gate) = Gate::new();
    let slow = Tool::with_schema("slow", any, move |_: Value, context: Context| {
        gate.pass(&context)?;
        Ok::<_, Failure>("x".repeat(5 << 20))
    });
    let service = Service::builder("test", "1")
        .tool(Tool::new_async("large", async || "x".repeat(5 << 20)).task_support(TaskSupport::Optional))
        .tool(slow.task_support(TaskSupport::Optional))
        .build()
        .expect("a good service");
    let pair = simple(&service);
    let ResultOrTask::Task(task) = begun(&pair, "slow") else { panic!("a task") };
    let id = task.id().to_owned();
    let requests = || pair.server.with_conn(|conn| conn.usage().requests);
    let result = task.result().expect("it can be sent");
    pair.until(|| requests() == 1);
    drop(result);
    pair.until(|| requests() == 0);
    open.send(()).expect("it waits");
    pair.until(|| get(&pair, &id).expect("it is there")["status"] == "completed");
    for _ in 0..3 {
        let (id, _) = start(&pair, "large", Value::Null);
        pair.until(|| get(&pair, &id).expect("it is there")["status"] != "working");
    }
    assert_eq!(get(&pair, &id).map(|task| task["status"].clone()), Ok(json!("completed")));
}

/// Requests that wait for a result when it arrives count as a fetch.
#[test]
fn results_delivered_to_waiters_can_be_evicted() {
    let any = object(&json!({"type": "object"}));
    let (open, gate) = Gate::new();
    let slow = Tool::with_schema("slow", any, move |_: Value, context: Context| {
        gate.pass(&context)?;
        Ok::<_, Failure>("x".repeat(5 << 20))
    });
    let service =
        Service::builder("test", "1").tool(slow.task_support(TaskSupport::Optional)).build().expect("a good service");
    let pair = simple(&service);
    for _ in 0..5 {
        let ResultOrTask::Task(task) = begun(&pair, "slow") else { panic!("a task") };
        let result = task.result().expect("it can be sent");
        pair.until(|| pair.server.with_conn(|conn| conn.usage().requests) == 1);
        open.send(()).expect("it waits");
        assert_eq!(pair.wait(result).map(|result| result.is_error), Ok(None));
    }
}

fn send_for(pair: &Pair, id: &str, method: &str, params: &Value) {
    pair.input_to_server(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
}

/// Sends requests until the outbox of the server is full of responses that the client does not read.
fn fill_outbox(pair: &Pair) {
    let connection = pair.server.connection();
    for number in 0..100 {
        if connection.read(|conn| conn.has_room()) {
            send_for(pair, &format!("list {number}"), "tools/list", &json!({}));
        }
    }
    assert!(!connection.read(|conn| conn.has_room()));
}

#[test]
fn a_session_task_that_waits_for_room_removes_no_other() {
    let any = object(&json!({"type": "object"}));
    let small = Tool::with_schema_async("small", any, async |_: Value, _: Context| "x".repeat(1000));
    let small = small.task_support(TaskSupport::Optional);
    let policy = TaskPolicy { max_bytes: 2000, ..TaskPolicy::default() };
    let service = Service::builder("test", "1").tool(small).task_policy(policy).build().expect("a good service");
    let host = Host::builder("client", "1").versions(VersionSet::LEGACY).build();
    let pair = Pair::with(&host, &service, |joining| joining.server.settings.limits.outbox_bytes = 4000);
    let (id, _) = start(&pair, "small", Value::Null);
    pair.until(|| get(&pair, &id).expect("it is there")["status"] == "completed");
    assert!(pair.answer_to("tasks/result", json!({"taskId": id}))["result"].is_object(), "it is fetched");
    // Its params have room only without that result.
    let call = json!({"name": "small", "arguments": {"text": "x".repeat(1500)}, "task": {}});
    for is_cancelled in [true, false] {
        fill_outbox(&pair);
        send_for(&pair, "call", "tools/call", &call);
        assert_eq!(pair.server_session.shared().tasks.len(), 1);
        if is_cancelled {
            let params = json!({"requestId": "call"});
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            pair.input_to_server(&cancelled.to_string());
            pair.settle();
            assert!(get(&pair, &id).is_ok(), "nothing takes its place");
        }
    }
    let task = pair.await_answer("call")["result"]["task"]["taskId"].clone();
    assert!(get(&pair, task.as_str().expect("a task")).is_ok() && get(&pair, &id).is_err());
}

#[test]
fn a_session_task_starts_when_the_outbox_has_room() {
    let host = Host::builder("client", "1").versions(VersionSet::LEGACY).build();
    let pair = Pair::with(&host, &service(), |joining| joining.server.settings.limits.outbox_bytes = 2000);
    fill_outbox(&pair);
    send_for(&pair, "call", "tools/call", &json!({"name": "wait", "arguments": {}, "task": {}}));
    assert_eq!(pair.server_session.shared().tasks.len(), 0);
    let task = pair.await_answer("call")["result"]["task"]["taskId"].clone();
    assert!(get(&pair, task.as_str().expect("a task")).is_ok());
    assert_eq!(pair.server_session.shared().tasks.len(), 1);
}

/// Requests that wait for one result share it, however many they are: a client may send many and read nothing.
#[test]
fn requests_that_wait_for_a_result_share_it() {
    let mut limits = Limits::default();
    limits.outbox_bytes = 200 << 10;
    let (open, gate) = Gate::new();
    let large = super::task_tool("large", move |context| {
        gate.pass(&context)?;
        Ok(CallToolResult::text("x".repeat(100 << 10)))
    });
    let service = Service::builder("test", "1").tool(large).settings(Settings { limits, ..Settings::default() });
    let pair = simple(&service.build().expect("a good service"));
    let (task, _) = start(&pair, "large", Value::Null);
    let waiting: Vec<_> = (0..100).map(|_| pair.send_line("tasks/result", json!({"taskId": task}))).collect();
    // One that is cancelled does not wait any more.
    let cancelled = pair.send_line("tasks/result", json!({"taskId": task}));
    let awaiting = || pair.server_session.shared().tasks.awaiting();
    assert_eq!(awaiting(), 101);
    let params = json!({"requestId": cancelled});
    pair.input_to_server(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string());
    assert_eq!(awaiting(), 100);
    open.send(()).expect("the handler waits");
    let holders = || pair.server_session.shared().tasks.outcome_holders(&task);
    let begin = Instant::now();
    // Those that fit are written, and the others wait.
    while !(90..100).contains(&holders()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} hold the outcome", holders());
        thread::yield_now();
    }
    for id in &waiting {
        assert_eq!(pair.await_answer(id)["result"]["content"][0]["text"].as_str().map(str::len), Some(100 << 10));
    }
    pair.settle();
    assert_eq!((holders(), awaiting()), (0, 0));
    assert_eq!(pair.answered(&cancelled), None);
}

/// If the job that sends them is dropped, the requests get errors, also without room.
#[test]
fn dropped_responses_of_tasks_become_errors() {
    let mut limits = Limits::default();
    limits.outbox_bytes = 2000;
    let service = service_with(Settings { limits, ..Settings::default() });
    let pair = simple(&service);
    let (task, _) = start(&pair, "wait", Value::Null);
    let waiting = pair.send_line("tasks/result", json!({"taskId": task}));
    pair.server.with_conn(|conn| while conn.notify_raw("test/stuff", None).is_ok() {});
    let line = json!({"jsonrpc": "2.0", "id": "cancel", "method": "tasks/cancel", "params": {"taskId": task}});
    let line = line.to_string();
    let now = pair.server.now();
    let event =
        pair.server.with_conn(|conn| conn.handle_frame(now, Frame::new(line.as_bytes())).map(Event::into_owned));
    let job = pair.server_session.handle(&pair.server.connection(), event.expect("a request"));
    drop(job.expect("the responses wait for room"));
    pair.server.flush();
    let lines = pair.server.take_lines();
    for (id, message) in [(&*waiting, "The task was cancelled"), ("cancel", "Too many requests wait to be served")] {
        let answer = lines.iter().find(|line| line["id"] == id).unwrap_or_else(|| panic!("no response to {id}"));
        assert_eq!(answer["error"]["message"], message, "{answer}");
    }
}
