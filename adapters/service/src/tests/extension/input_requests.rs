//! Input requests of tasks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_proto::{
    connection::{RequestOptions, SendError},
    protocol::Capability,
    schema::{
        CallToolResult, CreateMessageParams, ElicitFormParams, ElicitParams, ElicitResult, ElicitSchema,
        ListRootsParams, Map, NumberKind, NumberSchema, SamplingMessage,
    },
};
use serde_json::{Value, json};

use super::{
    EXTENSION, begin, cancel, get, listen, modern, notifications_of, send_as, task_tool, unlisten, until, until_status,
    update,
};
use crate::tests::tasks::Gate;
use crate::{
    inbound::{context::Context, failure::Failure},
    outbound::error::CallError,
    server::service::Service,
    tests::pair::code,
};

fn age() -> ElicitSchema {
    ElicitSchema {
        required: Some(vec!["age".into()]),
        ..ElicitSchema::new(Map::from([("age", NumberSchema::new(NumberKind::Number).into())]))
    }
}

fn said(answer: &ElicitResult) -> String {
    let age = answer.content.as_ref().and_then(|content| content.get("age"));
    age.map_or_else(|| answer.action.to_string(), |age| format!("{age:?}"))
}

fn keys(task: &Value) -> Vec<String> {
    task["inputRequests"].as_object().expect("input requests").keys().cloned().collect()
}

fn aged(age: u32) -> Value {
    json!({"action": "accept", "content": {"age": age}})
}

/// A service whose tool requests input until it has enough, and two inputs at once in between.
fn service_with_requests() -> Service {
    Service::builder("test", "1")
        .tool(task_tool("asks", |context| {
            let first = context.elicit("How old?", age()).wait()?;
            let form = ElicitParams::from(ElicitFormParams::new("And you?", age()));
            let both =
                context.request_inputs([("a", form.into()), ("roots", ListRootsParams::default().into())]).wait()?;
            let (second, roots) = (both.get::<ElicitParams>("a")?, both.get::<ListRootsParams>("roots")?);
            let third = context.elicit("How old now?", age()).wait()?;
            let all = [said(&first), said(&second), roots.roots.len().to_string(), said(&third)];
            Ok(CallToolResult::text(all.join(" ")))
        }))
        .build()
        .expect("a good service")
}

// req: M-TASK-023 M-TASK-028 M-TASK-043 M-TASK-045 M-TASK-046 M-TASK-047 M-TASK-048
#[test]
fn task_requests_input_until_all_is_answered() {
    let pair = modern(&service_with_requests());
    let id = begin(&pair, "asks");
    let (subscription, _) = listen(&pair, &[&id]);
    let first = until_status(&pair, &id, "input_required");
    let mut all = keys(&first);
    assert_eq!(all.len(), 1);
    assert_eq!(
        first["inputRequests"][&all[0]],
        json!({"method": "elicitation/create", "params": {
            "message": "How old?",
            "requestedSchema": {"type": "object", "properties": {"age": {"type": "number"}}, "required": ["age"]},
        }})
    );
    assert_eq!(first.get("result"), None);
    // A response to an unknown input request is ignored, and each other one is delivered once.
    let receipt = update(&pair, &id, json!({"never": {"action": "nonsense"}, &all[0]: aged(1)})).expect("a receipt");
    assert_eq!(receipt["resultType"], "complete");
    assert!(receipt.as_object().expect("an object").keys().eq(["_meta", "resultType"]), "{receipt}");
    let two = until(&pair, &id, |task| {
        task["status"] == "input_required" && task["inputRequests"][&all[0]].is_null() && keys(task).len() == 2
    });
    let mut both = keys(&two);
    both.sort_by_key(|key| two["inputRequests"][key]["method"] != "elicitation/create");
    assert_eq!(two["inputRequests"][&both[1]], json!({"method": "roots/list", "params": {}}));
    update(&pair, &id, json!({&all[0]: aged(2), &both[1]: {"roots": [{"uri": "file:///a"}]}})).expect("a receipt");
    let one = get(&pair, &id).expect("a task");
    assert_eq!((&one["status"], keys(&one)), (&json!("input_required"), vec![both[0].clone()]), "the other stays");
    update(&pair, &id, json!({&both[0]: aged(3)})).expect("a receipt");
    all.extend(both);
    let last = until(&pair, &id, |task| task["status"] == "input_required" && !all.contains(&keys(task)[0]));
    let last = keys(&last);
    update(&pair, &id, json!({&all[1]: aged(4), &last[0]: {"action": "cancel"}})).expect("a receipt");
    let done = until_status(&pair, &id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "Number(Number(1)) Number(Number(3)) 1 cancel");
    assert_eq!(done.get("inputRequests"), None);
    // A response without a request is accepted and ignored.
    update(&pair, &id, json!({&last[0]: aged(5)})).expect("a receipt");
    // A subscriber gets the same statuses.
    pair.settle();
    let statuses: Vec<_> = notifications_of(&pair, &subscription).iter().map(|task| task["status"].clone()).collect();
    assert!(
        statuses.contains(&json!("input_required")) && statuses.last() == Some(&json!("completed")),
        "{statuses:?}"
    );
    unlisten(&pair, &subscription);
    pair.assert_clean();
}

#[test]
fn invalid_input_responses_are_rejected() {
    let pair = modern(&service_with_requests());
    let id = begin(&pair, "asks");
    let key = keys(&until_status(&pair, &id, "input_required")).remove(0);
    let wrong =
        [json!({"action": "accept"}), json!({"action": "accept", "content": {"age": "old"}}), json!({}), json!(7)];
    for wrong in wrong {
        assert_eq!(code(&update(&pair, &id, json!({&key: wrong}))), -32602);
    }
    assert_eq!(code(&update(&pair, &id, json!([]))), -32602);
    update(&pair, &id, json!({&key: aged(1)})).expect("a receipt");
    let two = until(&pair, &id, |task| task["status"] == "input_required" && keys(task).len() == 2);
    let (roots, form): (Vec<_>, Vec<_>) =
        keys(&two).into_iter().partition(|key| two["inputRequests"][key]["method"] == "roots/list");
    // A valid response is not applied together with an invalid one.
    assert_eq!(code(&update(&pair, &id, json!({&form[0]: aged(2), &roots[0]: {"roots": 7}}))), -32602);
    assert_eq!(keys(&get(&pair, &id).expect("a task")).len(), 2);
    cancel(&pair, &id).expect("a receipt");
    until_status(&pair, &id, "cancelled");
    pair.assert_clean();
}

// req: M-TASK-052
#[test]
fn tasks_request_only_declared_input() {
    let service = Service::builder("test", "1")
        .tool(task_tool("tries", |context: Context| {
            let sample = CreateMessageParams::new([SamplingMessage::user("Well?")], 10_u64);
            let tried = [
                context.elicit("Who?", age()).wait().map(|_| ()),
                context.elicit_url("Look", "https://example.com").wait().map(|_| ()),
                context.sample(sample).wait().map(|_| ()),
                context.roots().wait().map(|_| ()),
                context.request_inputs([("roots", ListRootsParams::default().into())]).wait().map(|_| ()),
            ];
            let missing = tried.map(|tried| match tried {
                Err(CallError::Send(SendError::Undeclared(capability))) => capability,
                other => panic!("{other:?}"),
            });
            assert_eq!(missing[..2], [Capability::Elicitation; 2]);
            assert_eq!(missing[2..], [Capability::Sampling, Capability::Roots, Capability::Roots]);
            Ok(CallToolResult::text("did without"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let answer = send_as(&pair, &json!({"extensions": {EXTENSION: {}}}), "tools/call", json!({"name": "tries"}));
    let id = pair.await_answer(&answer)["result"]["taskId"].as_str().expect("a task").to_owned();
    let done = until(&pair, &id, |task| {
        assert_ne!(task["status"], "input_required");
        task["status"] != "working"
    });
    assert_eq!(done["result"]["content"][0]["text"], "did without", "{done}");
    pair.assert_clean();
}

#[test]
fn task_input_request_lasts_while_awaited() {
    let (open, gate) = Gate::new();
    let service = Service::builder("test", "1")
        .tool(task_tool("impatient", move |context: Context| {
            let dropped = context.elicit("Never mind?", age());
            gate.pass(&context)?;
            drop(dropped);
            let options = RequestOptions { total_timeout: Some(Duration::from_secs(5)), ..RequestOptions::default() };
            let late = context.with_options(options).elicit("Quick?", age()).wait();
            assert!(matches!(late, Err(CallError::TimedOut { total: true })), "{late:?}");
            Ok(CallToolResult::text("did without"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let id = begin(&pair, "impatient");
    let never = keys(&until_status(&pair, &id, "input_required")).remove(0);
    open.send(()).expect("it waits");
    let quick = until(&pair, &id, |task| task["status"] == "input_required" && keys(task)[0] != never);
    pair.until(|| pair.server.waiters.next_deadline() < Some(mcp_proto::rpc::Timestamp::from_nanos(100_000_000_000)));
    pair.advance(Duration::from_millis(4999));
    assert_eq!(keys(&get(&pair, &id).expect("a task")), keys(&quick));
    pair.advance(Duration::from_millis(1));
    let done = until_status(&pair, &id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "did without");
    pair.assert_clean();
}

#[test]
fn cancelled_task_requests_no_input() {
    let received = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = received.clone();
    let service = Service::builder("test", "1")
        .tool(task_tool("asks", move |context: Context| {
            let first = context.elicit("How old?", age()).wait().map(|_| ());
            let second = context.elicit("How old?", age()).wait().map(|_| ());
            crate::util::lock::lock(&seen).extend([first, second]);
            Err(Failure::new("no luck"))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let id = begin(&pair, "asks");
    let key = keys(&until_status(&pair, &id, "input_required")).remove(0);
    cancel(&pair, &id).expect("a receipt");
    let task = get(&pair, &id).expect("a task");
    assert!(task["status"] != "input_required" && task.get("inputRequests").is_none(), "{task}");
    update(&pair, &id, json!({key: aged(1)})).expect("a receipt");
    until_status(&pair, &id, "cancelled");
    let received = std::mem::take(&mut *crate::util::lock::lock(&received));
    assert!(matches!(received[..], [Err(CallError::Cancelled), Err(CallError::Cancelled)]), "{received:?}");
    pair.assert_clean();
}

#[test]
fn open_input_requests_per_task_are_limited() {
    let all = Arc::new(AtomicBool::new(false));
    let has_requested = all.clone();
    let service = Service::builder("test", "1")
        .task_policy(crate::inbound::task_policy::TaskPolicy {
            max_input_requests: 3,
            ..crate::inbound::task_policy::TaskPolicy::default()
        })
        .tool(task_tool("asks", move |context: Context| {
            let requested: Vec<_> = (0..5).map(|_| context.elicit("How old?", age())).collect();
            has_requested.store(true, Ordering::SeqCst);
            let answers = requested.into_iter().map(|requested| match requested.wait() {
                Err(CallError::Send(SendError::Busy)) => "busy".into(),
                answer => answer.map_or_else(|error| error.to_string(), |answer| said(&answer)),
            });
            Ok(CallToolResult::text(answers.collect::<Vec<_>>().join(" ")))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let id = begin(&pair, "asks");
    let task = until(&pair, &id, |task| task["status"] == "input_required" && keys(task).len() == 3);
    let answers: serde_json::Map<_, _> =
        keys(&task).into_iter().map(|key| (key, json!({"action": "decline"}))).collect();
    pair.until(|| all.load(Ordering::SeqCst));
    update(&pair, &id, answers.into()).expect("a receipt");
    let done = until_status(&pair, &id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "decline decline decline busy busy");
    pair.assert_clean();
}
