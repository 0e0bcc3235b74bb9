//! The types of tasks as JSON.

use mcp_proto::{protocol::ProtocolVersion, schema::*};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    schema_support::{assert_same, encode, shape},
    shapes::{fails, is},
};

// req: TASK-013 TASK-016 TASK-018 TASK-022 TASK-027 TASK-028 TASK-032 TASK-045
#[test]
fn tasks() {
    let task = json!({"taskId": "t", "status": "working", "statusMessage": "m", "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:40:00Z", "ttl": 60000, "pollInterval": 5000});
    // `ttl` is required and may be null.
    let required = ["taskId", "status", "createdAt", "lastUpdatedAt"];
    let shapes: [fn(Value); 4] = [
        |json| check_task::<Task>(json),
        |json| check_task::<GetTaskResult>(json),
        |json| check_task::<CancelTaskResult>(json),
        |json| check_task::<TaskStatusParams>(json),
    ];
    shapes.iter().for_each(|check| check(task.clone()));
    fn check_task<T: Encode + DeserializeOwned>(task: Value) {
        let mut forever = task.clone();
        forever["ttl"] = json!(null);
        let read: T = is(forever.clone());
        assert_same(&encode(&read, ProtocolVersion::V2025_11_25).expect("text"), &forever.to_string());
        let mut without = task.clone();
        without.as_object_mut().expect("an object").remove("ttl");
        let error = serde_json::from_value::<T>(without).err().expect("no ttl").to_string();
        assert!(error.contains("missing member `ttl`"), "{error}");
        let mut known = task;
        known.as_object_mut().expect("an object").remove("ttl");
        for name in ["taskId", "status", "createdAt", "lastUpdatedAt"] {
            let mut less = known.clone();
            less["ttl"] = json!(5);
            less.as_object_mut().expect("an object").remove(name);
            let error = serde_json::from_value::<T>(less).err().expect(name).to_string();
            assert!(error.contains(name), "{error}");
        }
    }
    assert!(required.iter().all(|name| task.get(name).is_some()));
    shape::<CreateTaskResult>(json!({"_meta": {}, "task": task}), &["task"]);
    shape::<ListTasksResult>(json!({"_meta": {}, "tasks": [task], "nextCursor": "c"}), &["tasks"]);
    shape::<GetTaskParams>(json!({"_meta": {}, "taskId": "t"}), &["taskId"]);
    shape::<GetTaskPayloadParams>(json!({"_meta": {}, "taskId": "t"}), &["taskId"]);
    shape::<CancelTaskParams>(json!({"_meta": {}, "taskId": "t"}), &["taskId"]);
    shape::<TaskMetadata>(json!({"ttl": 5}), &[]);
    for method in [json!({"name": "n", "task": {}}), json!({"name": "n", "task": {"ttl": 60000}})] {
        let params: CallToolParams = is(method.clone());
        assert!(params.task.is_some());
        assert_same(&encode(&params, ProtocolVersion::V2025_11_25).expect("text"), &method.to_string());
    }
    fails::<CallToolParams>(json!({"name": "n", "task": {"ttl": 5}, "_meta": 5}));
    fails::<CallToolParams>(json!({"name": "n", "task": true}));

    let read: Task = is(task.clone());
    assert_eq!((read.ttl, read.poll_interval), (Some(60000), Some(5000)));
    assert_eq!(Task::from(GetTaskResult::from(read.clone())), read);
    assert_eq!(Task::from(CancelTaskResult::from(read.clone())), read);
    assert_eq!(Task::from(TaskStatusParams::from(read.clone())), read);
    let words = ["working", "input_required", "completed", "failed", "cancelled"];
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    assert_eq!([Working, InputRequired, Completed, Failed, Cancelled].map(|status| status.as_str().to_owned()), words);
}

// req: TASK-023 TASK-024 TASK-025 M-TASK-023 M-TASK-024
#[test]
fn task_status_transitions() {
    use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
    let all = [Working, InputRequired, Completed, Failed, Cancelled];
    for from in &all {
        for to in &all {
            let expected = match from {
                Working => matches!(to, InputRequired | Completed | Failed | Cancelled),
                InputRequired => matches!(to, Working | Completed | Failed | Cancelled),
                _ => false,
            };
            assert_eq!(from.may_become(to), expected, "{from} {to}");
        }
        assert_eq!(from.is_terminal(), matches!(from, Completed | Failed | Cancelled), "{from}");
    }
}
