//! The start and the outcome of tasks.

use std::{
    pin::Pin,
    task::{self, Waker},
    time::Duration,
};

use mcp_proto::{
    protocol::{Capability, ProtocolVersion},
    schema::{CallToolResult, ElicitAction, ElicitSchema, LoggingLevel, Map, StringSchema, TaskSupport},
    wire::{ErrorCode, ErrorObject},
};
use serde_json::{Value, json};

use super::{
    EXTENSION, begin, everything, get, listen, methods_sent, modern, notifications_of, send_as, send_request,
    send_request_as, task_tool, until, until_status, works,
};
use crate::tests::tasks::Gate;
use crate::{
    client::Host,
    driver_api::deferred::Deferred,
    inbound::{context::Context, failure::Failure, task_policy::TaskPolicy},
    outbound::error::CallError,
    server::{builder::ServiceBuilder, service::Service, tool::Tool},
    tests::{
        echo,
        pair::{Pair, code},
    },
};

fn services(gate: &Gate) -> ServiceBuilder {
    echo()
        .tool(works(gate))
        .tool(task_tool("must", |_| Ok(CallToolResult::text("done"))).task_support(TaskSupport::Required))
}

fn text(result: &Value) -> &Value {
    &result["content"][0]["text"]
}

// req: M-DUAL-034
#[test]
fn tool_runs_as_task_in_both_eras() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    // A session, and stateless requests on the same connection.
    let pair = Pair::new(&Host::builder("client", "1").build(), &service, ProtocolVersion::V2025_11_25);
    let mine = begin(&pair, "works");
    let answer = pair.answer_to("tools/call", json!({"name": "works", "task": {}}));
    let task = &answer["result"]["task"];
    let id = task["taskId"].as_str().expect("a task");
    assert!(task.get("ttlMs").is_none() && task["ttl"].is_number() && answer["result"].get("resultType").is_none());
    // Tasks of the session and of the extension are separate.
    assert_eq!(code(&get(&pair, id)), -32602);
    assert_eq!(pair.answer_to("tasks/get", json!({"taskId": mine}))["error"]["code"], -32602);
    assert_eq!(pair.answer_to("tasks/cancel", json!({"taskId": id}))["result"]["status"], "cancelled");
    assert_eq!(get(&pair, &mine).expect("a task")["status"], "working");
    // The handler of the other task may still hold its turn at the gate, although it was cancelled.
    (0..2).for_each(|_| open.send(()).expect("it waits"));
    assert_eq!(text(&until_status(&pair, &mine, "completed")["result"]), "done");
    pair.assert_clean();
}

// req: M-TASK-004 M-TASK-007 M-TASK-008 M-TASK-072 M-DUAL-032
#[test]
fn tasks_require_the_declared_extension() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let pair = modern(&service);
    begin(&pair, "must");
    for declared in
        [json!({}), json!({"extensions": {"x.y/z": {}}}), json!({"tasks": {"requests": {"tools": {"call": {}}}}})]
    {
        let refused =
            send_request_as(&pair, &declared, "tools/call", json!({"name": "must"})).expect_err("it cannot be done");
        assert_eq!(refused["code"], -32021);
        assert_eq!(refused["data"], json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}}));
        // A tool that does not require a task runs as a plain call, with any value of `task`.
        for task in [json!({}), json!({"ttl": 60_000}), json!(7), json!(null)] {
            open.send(()).expect("it waits");
            let result = send_request_as(&pair, &declared, "tools/call", json!({"name": "works", "task": task}));
            let result = result.expect("a result");
            assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), &json!("done")));
        }
    }
    // A tool without task support never becomes a task.
    for task in [json!({}), json!([])] {
        let arguments = json!({"name": "echo", "arguments": {"message": "a"}, "task": task});
        assert_eq!(text(&send_request(&pair, "tools/call", arguments).expect("a result")), "a");
    }
    drop(open);

    let (open, gate) = Gate::new();
    let withheld = services(&gate).disable_capability(Capability::TasksExtension).build().expect("a good service");
    let pair = modern(&withheld);
    assert!(!pair.to_server().capabilities().contains(Capability::TasksExtension));
    open.send(()).expect("it waits");
    for name in ["must", "works"] {
        assert_eq!(text(&send_request(&pair, "tools/call", json!({"name": name})).expect("a result")), "done");
    }
    assert_eq!(code(&get(&pair, "x")), -32601);
}

// req: M-TASK-011 M-TASK-013 M-TASK-014 M-TASK-016 M-TASK-017 M-TASK-019 M-TASK-026 M-TASK-031 M-TASK-034
// req: M-TASK-073
#[test]
fn task_exists_when_its_result_is_sent() {
    let (_open, gate) = Gate::new();
    let policy = TaskPolicy {
        default_ttl: Some(Duration::from_secs(60)),
        poll_interval: Duration::from_millis(700),
        ..TaskPolicy::default()
    };
    let service = services(&gate).task_policy(policy).build().expect("a good service");
    let pair = modern(&service);
    let mut task = send_request(&pair, "tools/call", json!({"name": "works"})).expect("a result");
    let mut seen = get(&pair, task["taskId"].as_str().expect("an id")).expect("a task");
    for (task, kind) in [(&mut task, "task"), (&mut seen, "complete")] {
        let members = task.as_object_mut().expect("an object");
        assert_eq!(members.remove("resultType"), Some(json!(kind)));
        let meta = members.remove("_meta").expect("it says who gives it");
        assert_eq!(
            meta.as_object().expect("an object").keys().collect::<Vec<_>>(),
            ["io.modelcontextprotocol/serverInfo"]
        );
    }
    assert_eq!(seen, task);
    let (at, members) = (task["createdAt"].clone(), task.as_object_mut().expect("an object"));
    let at = at.as_str().expect("a text");
    assert!(at.len() == "2026-07-28T00:00:00.000Z".len() && at.ends_with('Z') && at.as_bytes()[10] == b'T', "{at}");
    members.remove("taskId");
    assert_eq!(
        task,
        json!({"status": "working", "createdAt": at, "lastUpdatedAt": at, "ttlMs": 60_000, "pollIntervalMs": 700})
    );
    // A task can be kept without a time limit.
    let policy = TaskPolicy { default_ttl: None, max_ttl: None, ..TaskPolicy::default() };
    let service = services(&gate).task_policy(policy).build().expect("a good service");
    let task = send_request(&modern(&service), "tools/call", json!({"name": "must"})).expect("a result");
    assert_eq!(task.get("ttlMs"), Some(&Value::Null));
}

fn endings() -> ServiceBuilder {
    echo()
        .tool(task_tool("done", |_| Ok(CallToolResult::text("done"))))
        .tool(task_tool("fails", |_| Err(Failure::new("no luck"))))
        .tool(task_tool("breaks", |_| {
            let error = ErrorObject::new(ErrorCode(-32099), "broken");
            Err(Failure::rpc(error.with_data(mcp_proto::wire::Json::new(&7).expect("JSON"))))
        }))
        .tool(task_tool("panics", |_| panic!("secret")))
        .tool(task_tool("huge", |_| Ok(CallToolResult::text("x".repeat(200_000)))))
}

// req: M-TASK-029 M-TASK-030 M-TASK-032 M-TASK-033 M-TASK-061 M-TASK-077
#[test]
fn task_ends_with_the_outcome_of_its_request() {
    let service = endings().build().expect("a good service");
    let pair = Pair::with(&Host::builder("client", "1").build(), &service, |joining| {
        joining.client.settings.versions = mcp_proto::protocol::VersionSet::only(ProtocolVersion::V2026_07_28);
        joining.server.settings.limits.frame_bytes = 50_000;
    });
    let ends = |name: &str, status: &str| {
        let task = until(&pair, &begin(&pair, name), |task| task["status"] != "working");
        assert_eq!((&task["status"], &task["resultType"]), (&json!(status), &json!("complete")), "{task}");
        task
    };
    let done = ends("done", "completed");
    let plain = send_request_as(&pair, &json!({}), "tools/call", json!({"name": "done"})).expect("a result");
    assert_eq!((&done["result"]["content"], done.get("error")), (&plain["content"], None));
    let fails = ends("fails", "completed");
    assert_eq!((&fails["result"]["isError"], text(&fails["result"])), (&json!(true), &json!("no luck")));
    let breaks = ends("breaks", "failed");
    assert_eq!(breaks["error"], json!({"code": -32099, "message": "broken", "data": 7}));
    assert_eq!((breaks.get("result"), &breaks["statusMessage"]), (None, &json!("broken")));
    assert_eq!(ends("panics", "failed")["error"], json!({"code": -32603, "message": "Internal error"}));
    // The result exists, but is too large to be sent.
    let huge = begin(&pair, "huge");
    pair.settle();
    assert_eq!(code(&get(&pair, &huge)), -32603);
    pair.assert_clean();
}

// req: M-TASK-068
#[test]
fn progress_messages_become_task_status() {
    let (open, gate) = Gate::new();
    let service = echo()
        .tool(task_tool("talks", move |context| {
            context.progress(1.0, Some(2.0), Some("half")).wait()?;
            // The number of the progress is not part of the status.
            context.progress(0.5, None, None).wait()?;
            context.log(LoggingLevel::Error, None, "said").wait()?;
            gate.pass(&context)?;
            context.progress(2.0, Some(2.0), Some("all of it")).wait()?;
            gate.pass(&context)?;
            Ok(CallToolResult::text(context.task_id().unwrap_or_default()))
        }))
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    let id = send_as(&pair, &everything(), "tools/call", json!({"name": "talks", "_meta": meta}));
    let task = pair.await_answer(&id)["result"]["taskId"].as_str().expect("an id").to_owned();
    let half = until(&pair, &task, |task| task.get("statusMessage").is_some());
    assert_eq!((&half["statusMessage"], &half["status"]), (&json!("half"), &json!("working")));
    open.send(()).expect("it waits");
    until(&pair, &task, |task| task["statusMessage"] == "all of it");
    open.send(()).expect("it waits");
    let done = until_status(&pair, &task, "completed");
    assert_eq!((text(&done["result"]), &done["statusMessage"]), (&json!(task), &json!("all of it")));
    assert_eq!(methods_sent(&pair), [""; 0]);
    // Without a task the notification is sent, and the progress has to grow.
    open.send(()).expect("it waits");
    open.send(()).expect("it waits");
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    let refused = send_request_as(&pair, &json!({}), "tools/call", json!({"name": "talks", "_meta": meta}));
    assert_eq!(refused.expect("a result")["isError"], true, "progress has to grow there");
    assert_eq!(methods_sent(&pair), ["notifications/progress"]);
    pair.assert_clean();
}

fn name_form() -> ElicitSchema {
    ElicitSchema {
        required: Some(vec!["name".into()]),
        ..ElicitSchema::new(Map::from([("name", StringSchema::default().into())]))
    }
}

/// Requests input, becomes a task, and requests input again.
fn late(context: &Context) -> Result<String, Failure> {
    let who = |answer: mcp_proto::schema::ElicitResult| match answer.action {
        ElicitAction::Accept => format!("{:?}", answer.content.as_ref().and_then(|content| content.get("name"))),
        _ => "declined".into(),
    };
    let first = who(context.elicit("Who are you?", name_form()).wait()?);
    let is_task = context.become_task().wait()?;
    assert_eq!(context.become_task().wait().expect("nothing happens"), is_task);
    let second = who(context.elicit("And who else?", name_form()).wait()?);
    Ok(format!("{first} {second} {is_task}"))
}

// req: M-TASK-021
#[test]
fn deferred_tool_can_become_a_task() {
    let service = Service::builder("test", "1")
        .state_key([7; 32])
        .tool(Tool::new("late", |context: Context| late(&context)).task_support(TaskSupport::Optional).defer_task())
        .tool(
            Tool::new("hasty", |context: Context| {
                let requested = context.elicit("Who are you?", name_form());
                let short_timeout = context.become_task().wait();
                assert!(matches!(short_timeout, Err(CallError::InputRequired)), "{short_timeout:?}");
                requested.wait().map(|_| "asked")
            })
            .task_support(TaskSupport::Optional)
            .defer_task(),
        )
        .tool(Tool::new("never", |_: Context| "little to do").task_support(TaskSupport::Optional).defer_task())
        .build()
        .expect("a good service");
    let pair = modern(&service);
    let ada = json!({"action": "accept", "content": {"name": "Ada"}});
    for (declared, is_task) in [(everything(), true), (json!({"elicitation": {}}), false)] {
        let call = |params: Value| send_request_as(&pair, &declared, "tools/call", params).expect("a result");
        let requested = call(json!({"name": "late"}));
        assert_eq!(
            (&requested["resultType"], requested["inputRequests"].as_object().map(|it| it.len())),
            (&json!("input_required"), Some(1))
        );
        let params = json!({"name": "late", "requestState": requested["requestState"], "inputResponses": {"q1": ada}});
        let second = call(params);
        let done = if is_task {
            assert_eq!(second["resultType"], "task");
            let id = second["taskId"].as_str().expect("an id");
            let asking = until_status(&pair, id, "input_required");
            let requested = asking["inputRequests"].as_object().expect("input requests");
            let (key, requested) = requested.iter().next().expect("an input request");
            assert_eq!(
                (requested["method"].as_str(), requested["params"]["message"].as_str()),
                (Some("elicitation/create"), Some("And who else?"))
            );
            super::update(&pair, id, json!({key: {"action": "decline"}})).expect("a receipt");
            until_status(&pair, id, "completed")["result"].take()
        } else {
            assert_eq!(second["resultType"], "input_required");
            call(json!({
                "name": "late", "requestState": second["requestState"],
                "inputResponses": {"q2": {"action": "decline"}}
            }))
        };
        assert_eq!(*text(&done), format!("Some(String(\"Ada\")) declined {is_task}"));
    }
    for (name, kind) in [("hasty", "input_required"), ("never", "complete")] {
        let result = send_request(&pair, "tools/call", json!({"name": name})).expect("a result");
        assert_eq!(result["resultType"], kind);
    }
    // In a session the upgrade has no effect.
    let host = Host::builder("client", "1").elicitation(
        |_: mcp_proto::schema::ElicitFormParams, _: Context<mcp_proto::connection::ClientRole>| {
            Ok::<_, Failure>(mcp_proto::schema::ElicitResult::decline())
        },
    );
    let session = Pair::new(&host.build(), &service, ProtocolVersion::V2025_11_25);
    assert_eq!(
        text(&session.send_request("tools/call", json!({"name": "late"})).expect("a result")),
        "declined declined false"
    );
    pair.assert_clean();
}

#[test]
fn dropped_job_fails_its_task() {
    let (_open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let pair = modern(&service);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": everything(),
    });
    let line = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "works", "_meta": meta}});
    // Its job does not run, but the task exists.
    let connection = pair.server.connection();
    let event = connection.update(|conn, now| {
        let line = line.to_string();
        conn.handle_frame(now, mcp_proto::codec::Frame::new(line.as_bytes()))
            .map(mcp_proto::connection::Event::into_owned)
    });
    let job = crate::driver_api::connection_handle::Application::handle(
        &*pair.server_session,
        &connection,
        event.expect("a request"),
    )
    .expect("a job");
    assert!(job.outlives_connection());
    pair.server.flush();
    let lines = pair.server.take_lines();
    let id = lines[0]["result"]["taskId"].as_str().expect("a task").to_owned();
    assert_eq!(get(&pair, &id).expect("a task")["status"], "working");
    drop(job);
    let task = get(&pair, &id).expect("a task");
    assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert_eq!(task["statusMessage"], "The handler of this task was dropped");
    pair.assert_clean();
}

#[test]
fn tasks_ended_waits_for_handlers() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let is_ended =
        |ended: &mut Deferred<()>| Pin::new(ended).poll(&mut task::Context::from_waker(Waker::noop())).is_ready();
    assert!(is_ended(&mut service.tasks_ended()));
    let pair = modern(&service);
    let (first, second) = (begin(&pair, "works"), begin(&pair, "works"));
    let mut ended = service.tasks_ended();
    assert!(!is_ended(&mut ended));
    open.send(()).expect("it waits");
    pair.until(|| [&first, &second].iter().any(|id| get(&pair, id).expect("a task")["status"] == "completed"));
    assert!(!is_ended(&mut ended));
    open.send(()).expect("it waits");
    ended.wait();
    for id in [first, second] {
        assert_eq!(get(&pair, &id).expect("a task")["status"], "completed");
    }
}

#[test]
fn each_subscribed_connection_is_notified_of_a_task() {
    let (open, gate) = Gate::new();
    let service = services(&gate).build().expect("a good service");
    let (here, there) = (modern(&service), modern(&service));
    let task = begin(&here, "works");
    let (first, acknowledged) = listen(&here, &[&task]);
    assert_eq!(acknowledged, json!([task]));
    let (second, acknowledged) = listen(&there, &[&task]);
    assert_eq!(acknowledged, json!([task]));
    open.send(()).expect("it waits");
    until_status(&here, &task, "completed");
    let last = |pair: &Pair, subscription: &str| {
        pair.settle();
        notifications_of(pair, subscription).last().map(|task| task["status"].clone())
    };
    there.until(|| last(&there, &second) == Some(json!("completed")));
    assert_eq!(last(&here, &first), Some(json!("completed")), "the first subscription goes on");
}
