//! The objects of the tasks extension (2026-07-28).

use crate::schema_support::{assert_same, encode, same, shape, value};
use mcp_proto::{
    protocol::{Method, ProtocolVersion},
    schema::{
        CallToolResult, ClientRequest, Encode, MissingRequiredClientCapability, ServerNotification, ServerResult,
        TaskStatus, tasks_extension as tasks,
    },
    wire::{ErrorCode, ErrorObject, Json},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn is<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{error} in {json}"))
}

fn fails<T: DeserializeOwned + std::fmt::Debug>(json: Value) {
    serde_json::from_str::<T>(&json.to_string()).expect_err(&json.to_string());
}

// req: M-TASK-011 M-TASK-013 M-TASK-014 M-TASK-016 M-TASK-027 M-TASK-041 M-TASK-081
#[test]
fn extension_tasks() {
    const NOW: Option<ProtocolVersion> = Some(ProtocolVersion::V2026_07_28);
    let task = json!({"taskId": "t", "status": "completed", "statusMessage": "m", "createdAt": "2026-08-01T10:00:00Z",
        "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": null, "pollIntervalMs": 2000, "result": {"content": []}});
    let whole: tasks::Task = is(task.clone());
    let written = value(&encode(&tasks::CreateTaskResult::from(whole), NOW).expect("text"));
    assert_eq!((&written["resultType"], &written["taskId"]), (&json!("task"), &json!("t")));
    assert_eq!((&written["ttlMs"], written.get("result"), written.get("task")), (&json!(null), None, None));
    let created: tasks::CreateTaskResult = is(written);
    assert!(encode(&created, ProtocolVersion::V2025_11_25).is_err());
    for name in ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"] {
        let mut less = task.clone();
        less.as_object_mut().expect("an object").remove(name);
        fails::<tasks::Task>(less.clone());
        fails::<tasks::CreateTaskResult>(less.clone());
        fails::<tasks::GetTaskResult>(less.clone());
        fails::<tasks::TaskParams>(less);
    }
    let mut stray = task;
    stray["resultType"] = json!("task");
    let read: tasks::GetTaskResult = is(stray);
    assert_eq!(read.status, TaskStatus::Completed);
    let result = read.result.as_ref().expect("a result").decode::<CallToolResult>().expect("a tool result");
    assert_eq!(result, CallToolResult::new([]));
    assert_eq!(tasks::Task::from(tasks::TaskParams::from(tasks::Task::from(read.clone()))), tasks::Task::from(read));
    shape::<tasks::UpdateTaskParams>(
        json!({"taskId": "t", "inputResponses": {"a": {"action": "cancel"}}}),
        &["taskId", "inputResponses"],
    );
    shape::<tasks::GetTaskParams>(json!({"taskId": "t"}), &["taskId"]);
    shape::<tasks::CancelTaskParams>(json!({"taskId": "t"}), &["taskId"]);
}

// req: M-TASK-028 M-TASK-029 M-TASK-030 M-TASK-031
#[test]
fn extension_task_members_match_the_status() {
    let payloads = [
        ("inputRequests", json!({"q": {"method": "roots/list"}})),
        ("result", json!({"content": []})),
        ("error", json!({"code": -32603, "message": "no", "data": [1]})),
    ];
    let statuses = [
        ("working", None),
        ("input_required", Some("inputRequests")),
        ("completed", Some("result")),
        ("failed", Some("error")),
        ("cancelled", None),
        ("resting", None),
    ];
    for (status, own) in statuses {
        // Each of the eight combinations of the members beside the status.
        for bits in 0..1_u8 << payloads.len() {
            let mut task = json!({"taskId": "t", "status": status, "createdAt": "", "lastUpdatedAt": "", "ttlMs": 5});
            let there = payloads.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0).map(|(_, payload)| payload);
            for (name, payload) in there.clone() {
                task[name] = payload.clone();
            }
            let is_right = status != "resting" && there.map(|(name, _)| *name).eq(own);
            let read: tasks::Task = is(task.clone());
            for written in [
                encode(&read, ProtocolVersion::V2026_07_28),
                encode(&tasks::GetTaskResult::from(read.clone()), ProtocolVersion::V2026_07_28),
                encode(&tasks::TaskParams::from(read.clone()), ProtocolVersion::V2026_07_28),
            ] {
                assert_eq!(written.is_ok(), is_right, "{task}");
                assert!(!is_right || same(&value(&written.expect("text")), &task));
            }
        }
    }
    let data = Json::parse(r#"{"a":1}"#).expect("JSON");
    let error = ErrorObject::new(ErrorCode(-32000), "no").with_data(data);
    let kept = tasks::TaskError::from(error.clone());
    shape::<tasks::TaskError>(json!({"code": -32000, "message": "no", "data": {"a": 1}}), &["code", "message"]);
    assert_same(&encode(&kept, None).expect("text"), r#"{"code":-32000,"message":"no","data":{"a":1}}"#);
    assert_eq!(ErrorObject::from(kept), error);
}

fn unchanged<T: Encode>(read: Result<T, serde_json::Error>, json: &Value) {
    let read = read.unwrap_or_else(|error| panic!("{error} in {json}"));
    for version in [None, Some(ProtocolVersion::V2026_07_28)] {
        assert_same(&encode(&read, version).expect("text"), &json.to_string());
    }
}

/// Returns a task in each of its states.
fn task_states() -> Vec<Value> {
    let base = |status: &str| {
        json!({"taskId": "9b1c", "status": status, "createdAt": "2026-08-01T10:30:00Z",
            "lastUpdatedAt": "2026-08-01T10:50:00Z", "ttlMs": 3_600_000, "pollIntervalMs": 5000})
    };
    let with = |status: &str, more: Value| {
        let mut task = base(status);
        task.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        task
    };
    let form = json!({"mode": "form", "message": "Who are you?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}});
    let model = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Greet"}}], "maxTokens": 20});
    vec![
        base("working"),
        with("working", json!({"statusMessage": "On it.", "ttlMs": null})),
        with("input_required", json!({"inputRequests": {"name": {"method": "elicitation/create", "params": form}}})),
        with(
            "input_required",
            json!({"inputRequests": {
            "greeting": {"method": "sampling/createMessage", "params": model}, "roots": {"method": "roots/list"}}}),
        ),
        with("completed", json!({"result": {"content": [{"type": "text", "text": "Hello, Ada!"}], "isError": false}})),
        with("completed", json!({"result": {"content": [{"type": "text", "text": "bad input"}], "isError": true}})),
        with(
            "failed",
            json!({"statusMessage": "Too many calls", "error": {"code": -32603, "message": "Too many calls"}}),
        ),
        with("cancelled", json!({"statusMessage": "as asked"})),
    ]
}

/// Checks the acknowledgement of a subscription to tasks, and the error of a client without the extension.
fn check_subscriptions_and_errors() {
    let acknowledged =
        json!({"notifications": {"taskIds": ["9b1c"]}, "_meta": {"io.modelcontextprotocol/subscriptionId": 7}});
    unchanged(
        ServerNotification::decode(Method::SubscriptionsAcknowledged, Some(&acknowledged.to_string())),
        &acknowledged,
    );
    let lacking = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    unchanged(serde_json::from_value::<MissingRequiredClientCapability>(lacking.clone()), &lacking);
    let error =
        MissingRequiredClientCapability::error([mcp_proto::protocol::Capability::TasksExtension].into_iter().collect());
    assert_same(error.data.expect("it says what").get(), &lacking.to_string());
    assert_eq!(error.code.0, -32021);
}

/// The messages in the text of the extension: a task from its call to each of its ends.
// req: M-TASK-012 M-TASK-017 M-TASK-025 M-TASK-053 M-TASK-062
#[test]
fn extension_task_messages_round_trip() {
    let meta =
        json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let requests = [
        (Method::CallTool, json!({"name": "greet_slowly", "arguments": {}, "_meta": meta})),
        (Method::ExtGetTask, json!({"taskId": "9b1c"})),
        (
            Method::ExtUpdateTask,
            json!({"taskId": "9b1c", "inputResponses": {
            "name": {"action": "accept", "content": {"name": "Ada"}}}}),
        ),
        (Method::ExtUpdateTask, json!({"taskId": "9b1c", "inputResponses": {}})),
        (Method::ExtCancelTask, json!({"taskId": "9b1c", "_meta": meta})),
        (Method::Listen, json!({"notifications": {"taskIds": ["9b1c", "77e0"]}})),
    ];
    for (method, params) in requests {
        unchanged(ClientRequest::decode(method, Some(&params.to_string())), &params);
    }
    for task in &task_states() {
        let mut result = task.clone();
        result["resultType"] = json!("complete");
        unchanged(ServerResult::decode(Method::ExtGetTask, &result.to_string()), &result);
        let mut told = task.clone();
        told["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": 7});
        unchanged(ServerNotification::decode(Method::ExtTaskChanged, Some(&told.to_string())), &told);
        // In two places the text of the extension shows a task with another result type.
        result["resultType"] = json!("task");
        assert!(matches!(
            ServerResult::decode(Method::ExtGetTask, &result.to_string()),
            Ok(ServerResult::ExtGetTask(read)) if read.status.as_str() == task["status"]
        ));
    }
    let mut created = task_states().swap_remove(1);
    created["ttlMs"] = json!(3_600_000);
    created["resultType"] = json!("task");
    let read = ServerResult::decode(Method::CallTool, &created.to_string());
    assert!(matches!(&read, Ok(ServerResult::Task(Method::CallTool, _))), "{read:?}");
    unchanged(read, &created);
    for method in [Method::GetPrompt, Method::ReadResource, Method::ListTools] {
        let read = ServerResult::decode(method, &created.to_string());
        assert!(!matches!(read, Ok(ServerResult::Task(..))), "{method} becomes no task");
    }
    for method in [Method::ExtUpdateTask, Method::ExtCancelTask] {
        let done = json!({"resultType": "complete"});
        unchanged(ServerResult::decode(method, &done.to_string()), &done);
    }
    check_subscriptions_and_errors();
}
