//! Calls that become tasks of the extension: a client polls each task until it ends.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, Deadline, Event, Outcome, RequestOptions, ResourceUsage, SendError, Settings, Wake},
    protocol::{Capability, Method, MethodName, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey},
    schema::{CallToolParams, GetPromptParams, tasks_extension::Task},
    wire::{ErrorObject, RawJson},
};
use mcp_tests::harness::{Harness, full_client};
use serde_json::{Value, json};

pub(super) type Client = Harness<ClientRole>;

pub(super) const NOTHING: [Value; 0] = [];

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a client with all capabilities, connected to a server with all capabilities.
pub(super) fn client_with(settings: impl FnOnce(&mut Settings)) -> Client {
    let mut config = full_client();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    settings(&mut config.settings);
    let mut client = Harness::client(config);
    let probe = one(client.sent());
    client.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {
            "tools": {}, "prompts": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}}));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

pub(super) fn client() -> Client {
    client_with(|_| ())
}

#[track_caller]
pub(super) fn one(mut sent: Vec<Value>) -> Value {
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.remove(0)
}

pub(super) fn task(status: &str, more: Value) -> Value {
    let mut task = json!({"taskId": "t", "status": status, "createdAt": "2026-08-01T10:00:00Z",
        "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": null, "pollIntervalMs": 100});
    task.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    task
}

pub(super) fn working() -> Value {
    task("working", json!({}))
}

pub(super) fn completed() -> Value {
    task("completed", json!({"result": {"content": [{"text": "done", "type": "text"}]}}))
}

pub(super) fn requires_input(input_requests: Value) -> Value {
    task("input_required", json!({"inputRequests": input_requests}))
}

pub(super) fn roots() -> Value {
    json!({"method": "roots/list"})
}

pub(super) fn form() -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": "m", "requestedSchema": {"type": "object", "properties": {}}}})
}

/// Feeds the result of a request.
pub(super) fn answer(client: &mut Client, request: &Value, kind: &str, mut result: Value) {
    result["resultType"] = json!(kind);
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

pub(super) fn refuse(client: &mut Client, request: &Value, code: i64) {
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}));
}

/// Makes a call that becomes a task with status `working`.
#[track_caller]
pub(super) fn begun(client: &mut Client) -> CallId {
    let call = client.conn.request(client.now, &CallToolParams::new("slow"), RequestOptions::default());
    let request = one(client.sent());
    answer(client, &request, "task", working());
    let call = call.expect("it may be sent");
    assert!(matches!(client.take_events()[..], [Event::Task { call: became, .. }] if became == call));
    assert_eq!(client.sent(), NOTHING);
    call
}

/// Returns the next poll, which is sent after `time` and not before.
#[track_caller]
pub(super) fn poll_after(client: &mut Client, time: Duration) -> Value {
    client.advance(time - millis(1));
    assert_eq!(client.sent(), NOTHING, "too early");
    assert_eq!(client.conn.poll_timeout(), Some(Deadline { at: client.now + millis(1), wake: Wake::Retry }));
    client.advance(millis(1));
    let poll = one(client.sent());
    assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("t")));
    poll
}

pub(super) fn outcome<'a>(events: &'a [Event<'static>], call: CallId) -> &'a Outcome<'static> {
    match events {
        [.., Event::Response { call: ended, outcome }] if *ended == call => outcome,
        other => panic!("{call:?} has not ended: {other:?}"),
    }
}

/// Checks that the client cancels the task, and that the responses to the cancellation have no effect.
#[track_caller]
pub(super) fn task_cancel(client: &mut Client) {
    let task_cancel = one(client.sent());
    assert_eq!((&task_cancel["method"], &task_cancel["params"]["taskId"]), (&json!("tasks/cancel"), &json!("t")));
    if (client.now.as_nanos() / 1_000_000).is_multiple_of(100) {
        answer(client, &task_cancel, "complete", json!({}));
    } else {
        refuse(client, &task_cancel, -32602);
    }
    assert_eq!(client.take_events(), []);
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

// req: M-TASK-005 M-TASK-008 M-TASK-018 M-TASK-035 M-TASK-037 M-TASK-041 M-TASK-044
#[test]
fn task_calls_end_with_the_task_result() {
    let mut client = client();
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    let meta = &poll["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let extensions = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!((extensions, meta.get("progressToken")), (&json!({"io.modelcontextprotocol/tasks": {}}), None));
    assert_eq!(poll["params"].as_object().map(serde_json::Map::len), Some(2), "{poll}");

    // The latest poll interval of the server applies.
    answer(&mut client, &poll, "complete", task("working", json!({"pollIntervalMs": 300, "statusMessage": "half"})));
    let events = client.take_events();
    let [Event::Task { call: updated_call, task: heard }] = &events[..] else { panic!("{events:?}") };
    let heard: Task = heard.decode().expect("a task");
    assert_eq!((*updated_call, heard.status_message.as_deref()), (call, Some("half")));
    let poll = poll_after(&mut client, millis(300));
    answer(&mut client, &poll, "complete", completed());
    let events = client.take_events();
    let Outcome::Result(result) = outcome(&events, call) else { panic!("{events:?}") };
    assert_eq!(result.get(), r#"{"content":[{"text":"done","type":"text"}]}"#);
    assert_eq!((events.len(), client.conn.usage()), (1, ResourceUsage::default()));
    assert_eq!(client.conn.poll_timeout(), None);
    // A second response to the poll is ignored.
    answer(&mut client, &poll, "complete", completed());
    assert_eq!(client.take_events(), [], "the application knows of no such call");
}

// req: M-TASK-027 M-TASK-056 M-TASK-081
#[test]
fn task_status_maps_to_call_outcome() {
    let error = json!({"code": -32000, "message": "no", "data": [1]});
    let of = |text: &str| Outcome::Result(RawJson::try_from_text(text));
    let table = [
        (completed(), of(r#"{"content":[{"text":"done","type":"text"}]}"#)),
        (
            task("completed", json!({"result": {"content": [], "isError": true}})),
            of(r#"{"content":[],"isError":true}"#),
        ),
        (
            task("failed", json!({"error": error, "statusMessage": "because"})),
            Outcome::Error(
                ErrorObject::new(mcp_proto::wire::ErrorCode(-32000), "no")
                    .with_data(mcp_proto::wire::Json::parse("[1]").expect("JSON")),
            ),
        ),
        (task("cancelled", json!({})), Outcome::Cancelled),
    ];
    for (last, expected) in table {
        // Two examples in the text of the extension have the wrong result type.
        for kind in ["complete", "task"] {
            let mut client = client();
            let call = begun(&mut client);
            let poll = poll_after(&mut client, millis(100));
            answer(&mut client, &poll, kind, last.clone());
            assert_eq!(*outcome(&client.take_events(), call), expected, "{last}");
            assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
        }
    }
    // A task that is already over is polled at once.
    for status in ["completed", "failed", "cancelled", "input_required"] {
        let mut client = client();
        let call = client.conn.request(client.now, &CallToolParams::new("quick"), RequestOptions::default());
        let request = one(client.sent());
        answer(&mut client, &request, "task", task(status, json!({})));
        let poll = one(client.sent());
        answer(&mut client, &poll, "complete", completed());
        assert!(matches!(outcome(&client.take_events(), call.expect("a call")), Outcome::Result(_)), "{status}");
    }
}

pub(super) trait FromText {
    fn try_from_text(text: &str) -> Self;
}

impl FromText for RawJson<'static> {
    fn try_from_text(text: &str) -> Self {
        RawJson::from(&mcp_proto::wire::Json::parse(text).expect("JSON")).into_owned()
    }
}

// req: M-TASK-006 M-TASK-009 M-TASK-077
#[test]
fn unexpected_tasks_are_malformed() {
    let options = RequestOptions::default;
    // This method cannot become a task.
    let mut client = client();
    let call = client.conn.request(client.now, &GetPromptParams::new("p"), options()).expect("it may be sent");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    // The extension is not declared.
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut plain = Harness::client(config);
    let probe = one(plain.sent());
    let capabilities = json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    answer(&mut plain, &probe, "complete", json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}));
    plain.take_events();
    let call = plain.conn.request(plain.now, &CallToolParams::new("t"), options()).expect("it may be sent");
    let request = one(plain.sent());
    answer(&mut plain, &request, "task", working());
    assert_eq!(*outcome(&plain.take_events(), call), Outcome::Malformed);
    // The task has no valid id.
    for broken in [json!({"status": "working"}), json!({"taskId": 5, "status": "working"}), json!({"taskId": "t"})] {
        let call = client.conn.request(client.now, &CallToolParams::new("t"), options()).expect("it may be sent");
        let request = one(client.sent());
        answer(&mut client, &request, "task", broken);
        assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    }
    assert_eq!(client.conn.usage(), ResourceUsage::default());
    // A poll cannot return input requests as its result, and a task needs a status.
    let broken = [
        ("input_required", json!({"inputRequests": {"a": roots()}})),
        ("other", working()),
        ("complete", task("resting", json!({}))),
        ("complete", task("working", json!({"taskId": "other"}))),
        ("complete", task("completed", json!({}))),
        ("complete", task("completed", json!({"result": []}))),
        ("complete", task("failed", json!({}))),
        ("complete", task("failed", json!({"error": "no"}))),
        ("complete", json!({})),
        ("complete", requires_input(json!([]))),
        ("complete", requires_input(json!({"a": {"method": "tools/list"}}))),
    ];
    for (kind, result) in broken {
        let call = begun(&mut client);
        let poll = poll_after(&mut client, millis(100));
        answer(&mut client, &poll, kind, result.clone());
        assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed, "{kind} {result}");
        task_cancel(&mut client);
    }
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    client.feed(&json!({"jsonrpc": "2.0", "id": poll["id"], "result": 5}));
    assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    task_cancel(&mut client);
}

#[test]
fn calls_can_return_the_task_itself() {
    let mut client = client();
    let options = RequestOptions { follow_task: false, ..RequestOptions::default() };
    let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it may be sent");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    let events = client.take_events();
    let Outcome::Result(result) = outcome(&events, call) else { panic!("{events:?}") };
    let created: mcp_proto::schema::tasks_extension::CreateTaskResult = result.decode().expect("a task");
    assert_eq!((created.task_id.as_str(), client.conn.usage()), ("t", ResourceUsage::default()));

    // The task can be followed later by its id.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be sent");
    let poll = one(client.sent());
    assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("t")));
    assert_eq!(poll["params"]["_meta"].get("progressToken"), None);
    answer(&mut client, &poll, "complete", working());
    assert!(matches!(client.take_events()[..], [Event::Task { call: updated_call, .. }] if updated_call == call));
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
    // The server has no such task.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be sent");
    let poll = one(client.sent());
    refuse(&mut client, &poll, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    // A client that only follows a task does not cancel it when its call ends.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be sent");
    let poll = one(client.sent());
    client.conn.cancel(call, None).expect("it has not ended");
    let cancelled = one(client.sent());
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &poll["id"])
    );
    let call = client.conn.follow_task(client.now, "t", RequestOptions::within(millis(250))).expect("it may be sent");
    let poll = one(client.sent());
    answer(&mut client, &poll, "complete", working());
    client.take_events();
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.advance(millis(150));
    assert!(client.take_events().iter().any(|event| matches!(event, Event::Response { call: ended, outcome: Outcome::TimedOut { total: true } } if *ended == call)));
    client.respond(key, &json!({"roots": []}));
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));
    let mut old = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let refused = old.conn.follow_task(old.now, "t", RequestOptions::default());
    assert!(matches!(refused, Err(SendError::NotInRevision { method: Method::ExtGetTask, .. })));
}

#[test]
fn poll_interval_is_clamped() {
    let bounds = |settings: &mut Settings| {
        settings.polling.default = millis(700);
        settings.polling.min = millis(20);
        settings.polling.max = millis(5000);
    };
    let table = [(json!(0), 20), (json!(19), 20), (json!(300), 300), (json!(u64::MAX), 5000), (json!(null), 700)];
    for (interval, pause) in table {
        let mut client = client_with(bounds);
        begun(&mut client);
        let poll = poll_after(&mut client, millis(100));
        answer(&mut client, &poll, "complete", task("working", json!({"pollIntervalMs": interval})));
        poll_after(&mut client, millis(pause));
    }
}

// req: M-TASK-036 M-TASK-039 M-TASK-040
#[test]
fn failed_polls_are_retried_with_backoff() {
    let mut client = client();
    let call = begun(&mut client);
    // Errors with any of these codes increase the delay up to eight seconds.
    let mut pause = 100;
    for (code, next) in [(-32603, 250), (-32000, 500), (429, 1000), (-32603, 2000), (1, 4000), (1, 8000), (1, 8000)] {
        let poll = poll_after(&mut client, millis(pause));
        refuse(&mut client, &poll, code);
        assert_eq!(client.take_events(), []);
        pause = next;
    }
    // A timeout increases the delay, and a response resets it.
    let poll = poll_after(&mut client, millis(pause));
    client.advance(Duration::from_secs(60));
    let cancelled = one(client.sent());
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &poll["id"])
    );
    let poll = poll_after(&mut client, millis(8000));
    answer(&mut client, &poll, "complete", working());
    client.take_events();
    let poll = poll_after(&mut client, millis(100));
    // Some errors are final.
    refuse(&mut client, &poll, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
    for code in [-32600, -32601, -32021, -32022] {
        let call = begun(&mut client);
        let poll = poll_after(&mut client, millis(100));
        refuse(&mut client, &poll, code);
        assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == code));
    }

    // A task past its time to live is no longer polled.
    for silent in [false, true] {
        let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
        let (call, request) = (call.expect("it may be sent"), one(client.sent()));
        answer(&mut client, &request, "task", task("working", json!({"ttlMs": 1000})));
        client.take_events();
        let poll = poll_after(&mut client, millis(100));
        refuse(&mut client, &poll, -32603);
        let poll = poll_after(&mut client, millis(250));
        answer(&mut client, &poll, "complete", task("working", json!({"ttlMs": 700})));
        client.take_events();
        client.advance(millis(400));
        let poll = one(client.sent());
        if silent {
            client.advance(Duration::from_secs(60));
            assert_eq!(*outcome(&client.take_events(), call), Outcome::TimedOut { total: false });
            client.sent();
        } else {
            refuse(&mut client, &poll, -32603);
            assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(_)));
        }
        assert_eq!(client.conn.usage(), ResourceUsage::default());
    }
}

#[test]
fn responses_to_timed_out_polls_are_late() {
    // Once for a call that became the task, and once for a task that is followed by its id.
    for kept in [false, true] {
        let mut client = client();
        let options = RequestOptions { idle_timeout: Some(millis(50)), ..RequestOptions::default() };
        let poll = if kept {
            client.conn.follow_task(client.now, "t", options).expect("it may be sent");
            one(client.sent())
        } else {
            client.conn.request(client.now, &CallToolParams::new("slow"), options).expect("it may be sent");
            let request = one(client.sent());
            answer(&mut client, &request, "task", working());
            client.take_events();
            poll_after(&mut client, millis(100))
        };
        client.advance(millis(50));
        assert_eq!(one(client.sent())["params"]["requestId"], poll["id"]);
        answer(&mut client, &poll, "complete", completed());
        refuse(&mut client, &poll, -32603);
        assert_eq!(
            (client.take_events(), client.conn.stats().late_responses, client.conn.stats().violations),
            (vec![], 2, 0)
        );
        // The next poll counts.
        client.advance(Duration::from_secs(2));
        let poll = one(client.sent());
        answer(&mut client, &poll, "complete", completed());
        assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
        assert_eq!(client.conn.usage(), ResourceUsage::default());
    }
}

// req: M-TASK-053 M-TASK-054 M-TASK-057
#[test]
fn cancelling_a_call_cancels_its_task() {
    // No poll is due, a poll is queued, or it is in flight.
    for step in 0..3 {
        let mut client = client();
        let call = begun(&mut client);
        if step > 0 {
            client.advance(millis(100));
        }
        let poll = if step == 2 { Some(one(client.sent())) } else { None };
        client.conn.cancel(call, Some("no more")).expect("it goes on");
        assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
        task_cancel(&mut client);
        if let Some(poll) = poll {
            answer(&mut client, &poll, "complete", completed());
            assert_eq!(client.take_events(), [], "the application knows of no such call");
        }
        client.advance(Duration::from_secs(600));
        assert_eq!((client.sent(), client.take_events()), (NOTHING.into(), vec![]));
    }
    // The total timeout applies, although the task reports progress.
    let mut client = client();
    let options = RequestOptions { total_timeout: Some(millis(350)), ..RequestOptions::default() };
    let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it may be sent");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    for _ in 0..3 {
        let poll = poll_after(&mut client, millis(100));
        answer(&mut client, &poll, "complete", working());
    }
    client.take_events();
    client.advance(millis(50));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: true } }]);
    task_cancel(&mut client);
    // The task is cancelled, too, if its creation crosses the cancellation of the call.
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("a call");
    let request = one(client.sent());
    client.conn.cancel(call, None).expect("it goes on");
    assert_eq!(one(client.sent())["method"], "notifications/cancelled");
    client.take_events();
    answer(&mut client, &request, "task", working());
    assert_eq!(client.take_events(), [Event::Late(call)]);
    task_cancel(&mut client);
    // A `tasks/cancel` without a response is dropped.
    let call = begun(&mut client);
    client.conn.cancel(call, None).expect("it goes on");
    client.sent();
    client.take_events();
    client.advance(Duration::from_secs(60));
    assert_eq!(
        (client.sent(), client.take_events(), client.conn.usage()),
        (NOTHING.into(), vec![], ResourceUsage::default())
    );
}

#[track_caller]
pub(super) fn input_requests(client: &mut Client) -> Vec<(Method, ReplyKey)> {
    let events = client.take_events();
    let requested = events.iter().filter_map(|event| match event {
        Event::Request { key, method: MethodName::Known(method), .. } => Some((*method, *key)),
        _ => None,
    });
    requested.collect()
}

/// Repeated responses and responses to outdated polls are late, even if they look like a new task.
#[test]
fn late_responses_do_not_end_a_followed_task() {
    let mut client = client();
    let options = RequestOptions::default();
    let call = client.conn.request(client.now, &CallToolParams::new("slow"), options).expect("it may be sent");
    let request = one(client.sent());
    for _ in 0..2 {
        answer(&mut client, &request, "task", working());
        assert_eq!(client.sent(), NOTHING);
    }
    client.take_events();
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    let overtaken = poll_after(&mut client, millis(400));
    client.respond(key, &json!({"roots": []}));
    let update = one(client.sent());
    // Some servers use the result type `task` in responses to polls.
    answer(&mut client, &overtaken, "task", requires_input(json!({"a": roots()})));
    assert_eq!(client.take_events(), [], "the application knows of no such call");
    assert_eq!(client.sent(), NOTHING, "it is still wanted");
    answer(&mut client, &update, "complete", json!({}));
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
}

#[test]
fn task_calls_end_with_the_connection() {
    let mut client = client();
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.conn.close(client.now);
    let events = client.take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Cancelled { key: requested, .. } if *requested == key)));
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Response { call: ended, outcome: Outcome::Closed(_) } if *ended == call)
        )
    );
    assert_eq!(client.sent(), NOTHING, "the task is not cancelled");
    client.conn.respond_error(key, &ErrorObject::internal("closed")).ok();
    assert_eq!(client.conn.usage().kept, 0);
}

/// Polls do not time out while reading is paused, like any other request.
#[test]
fn polls_do_not_time_out_while_reading_is_paused() {
    let mut client = client_with(|settings| {
        settings.limits.outbox_bytes = 2000;
        settings.limits.input_pause = Duration::from_secs(100);
    });
    begun(&mut client);
    poll_after(&mut client, millis(100));
    let large = CallToolParams::new("x".repeat(1500));
    client.conn.request(client.now, &large, RequestOptions::no_timeout()).expect("there is room");
    assert!(!client.conn.wants_input(client.now), "too much waits to be written");
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), []);
    let sent: Vec<_> = client.sent().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(sent, ["tools/call"], "the look is not cancelled");
}
