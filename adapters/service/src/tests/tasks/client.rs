//! Tasks of a session (2025-11-25): clients that use them, and those of a client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::ClientRole,
    protocol::{ProtocolVersion, VersionSet},
    schema::{
        CallToolResult, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams,
        ElicitResult, ElicitSchema, Map, Role, SamplingContent, SamplingMessage, TaskMetadata, TaskStatus, TaskSupport,
        Tool as ListedTool,
    },
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::{Gate, RELATED, begun, gated, listed, simple, start};
use crate::tests::echo;
use crate::{
    client::{Host, builder::HostBuilder},
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    outbound::error::CallError,
    tasks::handle::{ResultOrTask, TaskHandle},
    tests::pair::{Pair, code},
};

// req: TASK-004 TASK-005 TASK-007 TASK-008 TASK-011
#[test]
fn client_follows_tool_task_support() {
    let (_open, gate) = Gate::new();
    let service = gated(&gate).build().expect("a good service");
    let tools = [
        (ListedTool::new("echo", JsonObject::empty()), false, false),
        (listed("echo", TaskSupport::Forbidden), false, false),
        (listed("echo", TaskSupport::Other("often".into())), false, false),
        (listed("works", TaskSupport::Optional), false, true),
        (listed("must", TaskSupport::Required), true, true),
    ];
    let (with, without) = (simple(&service), simple(&echo().build().expect("a good service")));
    let old = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_06_18);
    for (pair, has_tasks) in [(&with, true), (&without, false), (&old, false)] {
        for (tool, must, may) in &tools {
            let arguments = json!({"message": "hi"});
            let pending = pair.to_server().run_tool(tool, &arguments).expect("it can be sent");
            pair.client.flush();
            let requested =
                pair.client.take_lines().into_iter().find(|line| line["method"] == "tools/call").expect("it was sent");
            assert_eq!(requested["params"].get("task").is_some(), *must && has_tasks, "{requested}");
            drop(pending);
            let as_task = pair.to_server().call_tool_as_task(tool, &arguments, None);
            assert_eq!(as_task.is_ok(), *may && has_tasks);
        }
    }
}

// req: TASK-013 TASK-038
#[test]
fn client_follows_a_task_by_its_handle() {
    let (open, gate) = Gate::new();
    let pair = simple(&gated(&gate).build().expect("a good service"));
    let ResultOrTask::Task(task) = begun(&pair, "works") else { panic!("a task") };
    let requested =
        pair.client.take_lines().into_iter().find(|line| line["method"] == "tools/call").expect("it was sent");
    assert_eq!(requested["params"]["task"], json!({"ttl": 60_000}));
    assert_eq!((task.task().ttl, task.poll_interval()), (Some(60_000), Duration::from_secs(1)));
    assert_eq!(pair.quick(task.get().expect("it can be sent")).expect("a task").status, TaskStatus::Working);
    let tasks = pair.quick(pair.to_server().list_tasks(None).expect("it can be sent")).expect("a list").tasks;
    assert_eq!(tasks.len(), 1);
    let by_id: TaskHandle<CallToolResult, _> = pair.to_server().task(tasks[0].clone());
    open.send(()).expect("it waits");
    assert_eq!(
        pair.wait(by_id.result().expect("it can be sent")).expect("a result").content[0].as_text(),
        Some("done")
    );
    assert_eq!(pair.wait(task.get().expect("it can be sent")).expect("a task").status, TaskStatus::Completed);
    let too_late = pair.wait(task.cancel().expect("it can be sent"));
    assert!(matches!(too_late, Err(CallError::Rpc(error)) if error.code.0 == -32602));
    for line in pair.client.take_lines() {
        assert_eq!(line["params"]["_meta"].get(RELATED), None);
    }
    drop((task, by_id));

    let ResultOrTask::Task(task) = begun(&pair, "works") else { panic!("a task") };
    let cancelled = pair.wait(task.cancel().expect("it can be sent")).expect("it is cancelled");
    assert_eq!(cancelled.expect("it is told").status, TaskStatus::Cancelled);
    drop(task);
    pair.assert_clean();
}

// req: TASK-015 TASK-046 TASK-063
#[test]
fn client_handles_any_response_to_a_task_call() {
    let host = Host::builder("client", "1").versions(VersionSet::LEGACY).build();
    let pair = Pair::scripted(&host, |method, params| match (method, params["name"].as_str()) {
        ("tools/call", Some("at once")) => Ok(json!({"content": [], "task": "no task"})),
        ("tools/call", Some("refused")) => {
            Err(mcp_proto::wire::ErrorObject::new(mcp_proto::wire::ErrorCode::INVALID_REQUEST, "only as a task"))
        }
        ("tools/call", _) => Ok(json!({
            "_meta": {"io.modelcontextprotocol/model-immediate-response": "on it"},
            "task": {"taskId": "t", "status": "working", "createdAt": "2025-11-25T00:00:00Z", "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttl": null}
        })),
        _ => Ok(json!({"content": []})),
    });
    let server = pair.to_server();
    let ResultOrTask::Task(task) = pair
        .wait(server.call_tool_as_task(&listed("slow", TaskSupport::Optional), (), None).expect("it can be sent"))
        .expect("a task")
    else {
        panic!("a task")
    };
    assert_eq!(task.model_immediate_response().as_deref(), Some("on it"));
    assert_eq!(task.task().ttl, None);
    // The server has sent no further status.
    assert_eq!(pair.wait(task.result().expect("it can be sent")), Ok(CallToolResult::new([])));
    let refused = pair.wait(server.call_tool("refused", ()).expect("it can be sent"));
    assert!(matches!(refused, Err(CallError::Rpc(error)) if error.code.0 == -32600));
    let refused = pair
        .wait(server.call_tool_as_task(&listed("refused", TaskSupport::Required), (), None).expect("it can be sent"));
    assert!(matches!(refused, Err(CallError::Rpc(_))));
    drop(task);
    assert_eq!(pair.client_session.shared().calls.len(), 0, "nothing is followed any more");

    let bare = Pair::new(
        &Host::builder("client", "1").build(),
        &echo().build().expect("a good service"),
        ProtocolVersion::V2025_11_25,
    );
    assert!(
        bare.to_server().call_tool_as_task(&listed("echo", TaskSupport::Optional), (), None).is_err(),
        "nothing was declared"
    );
    assert!(bare.client.take_lines().is_empty());
}

fn host_with_tasks(gate: &Arc<AtomicBool>) -> HostBuilder {
    let gate = gate.clone();
    Host::builder("client", "1")
        .tasks(TaskPolicy::default())
        .sampling(move |params: CreateMessageParams, context: Context<ClientRole>| {
            while !gate.load(Ordering::SeqCst) {
                context.check()?;
                std::thread::yield_now();
            }
            context.progress(1.0, None, None).wait()?;
            match params.max_tokens {
                1 => Err(Failure::rejected()),
                _ => Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("4"), "m")),
            }
        })
        .elicitation(|_: ElicitFormParams, _| Ok::<_, Failure>(ElicitResult::cancel()))
}

// req: TASK-003 TASK-014 TASK-016 TASK-033 TASK-034 TASK-035 TASK-048 TASK-053 TASK-055 TASK-060
#[test]
fn client_runs_sampling_tasks_for_its_server() {
    let gate = Arc::new(AtomicBool::new(false));
    let service = echo().build().expect("a good service");
    let pair = Pair::new(&host_with_tasks(&gate).build(), &service, ProtocolVersion::V2025_11_25);
    let params = |max_tokens: u64| CreateMessageParams {
        task: Some(TaskMetadata::default()),
        ..CreateMessageParams::new([SamplingMessage::user("2 + 2?")], max_tokens)
    };
    let begin = |max_tokens: u64| {
        let client = pair.to_client();
        match pair.quick(client.sample_as_task(&params(max_tokens)).expect("it can be sent")).expect("a task") {
            ResultOrTask::Task(task) => task,
            ResultOrTask::Result(_) => panic!("a task"),
        }
    };
    let (good, bad, gone) = (begin(9), begin(1), begin(9));
    assert_eq!(pair.quick(good.get().expect("it can be sent")).expect("a task").status, TaskStatus::Working);
    assert_eq!(
        pair.quick(gone.cancel().expect("it can be sent")).expect("a task").expect("it is told").status,
        TaskStatus::Cancelled
    );
    gate.store(true, Ordering::SeqCst);
    let said = pair.wait(good.result().expect("it can be sent")).expect("an answer");
    assert_eq!(said.model, "m");
    let line = pair.client.take_lines().into_iter().find(|line| line["result"]["model"] == "m").expect("the answer");
    assert_eq!(line["result"]["_meta"][RELATED], json!({"taskId": good.id()}));
    assert!(
        matches!(pair.wait(bad.result().expect("it can be sent")), Err(CallError::Rpc(error)) if error.code.0 == -1)
    );
    assert_eq!(pair.wait(bad.get().expect("it can be sent")).expect("a task").status, TaskStatus::Failed);
    assert_eq!(
        pair.send_request_to_client("tasks/list", json!({})).expect("a list")["tasks"].as_array().map(Vec::len),
        Some(3)
    );
    assert_eq!(code(&pair.send_request_to_client("tasks/get", json!({"taskId": "unknown"}))), -32602);

    let form = ElicitParams::from(ElicitFormParams {
        task: Some(TaskMetadata::default()),
        ..ElicitFormParams::new("sure?", ElicitSchema::new(Map::new()))
    });
    let ResultOrTask::Task(requested) =
        pair.wait(pair.to_client().request_as_task(&form).expect("it can be sent")).expect("a task")
    else {
        panic!("a task")
    };
    assert_eq!(pair.wait(requested.result().expect("it can be sent")).expect("an answer").action, ElicitAction::Cancel);
    drop((good, bad, gone, requested));
    pair.assert_clean();

    // A client that has not declared tasks ignores the `task` member.
    let plain = Host::builder("client", "1").sampling(|_: CreateMessageParams, _| {
        Ok::<_, Failure>(CreateMessageResult::new(Role::Assistant, SamplingContent::text("4"), "m"))
    });
    let pair = Pair::new(&plain.build(), &service, ProtocolVersion::V2025_11_25);
    let line = json!({"jsonrpc": "2.0", "id": 99, "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 9, "task": {}}});
    pair.input_to_client(&line.to_string());
    pair.settle();
    assert_eq!(pair.client.take_lines()[0]["result"]["model"], "m");
}

#[test]
fn tasks_end_with_the_connection() {
    let (_open, gate) = Gate::new();
    let pair = simple(&gated(&gate).build().expect("a good service"));
    start(&pair, "works", Value::Null);
    pair.cut();
    assert_eq!(pair.server_session.shared().tasks.len(), 0);
    pair.assert_clean();
}
