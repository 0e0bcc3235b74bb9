//! Calls that become tasks of the extension: a client looks at each task until it is over.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, Deadline, Event, Outcome, RequestOptions, ResourceUsage, SendError, Settings, Wake},
    protocol::{Capability, Method, MethodName, ProtocolVersion, VersionSet},
    rpc::{CallId, ReplyKey},
    schema::{CallToolParams, GetPromptParams, tasks_extension::Task},
    wire::{ErrorObject, RawJson},
};
use mcp_tests::solo::{Solo, full_client};
use serde_json::{Value, json};

pub(super) type Client = Solo<ClientRole>;

pub(super) const NOTHING: [Value; 0] = [];

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A client with everything declared, of a server with everything.
pub(super) fn client_with(settings: impl FnOnce(&mut Settings)) -> Client {
    let mut config = full_client();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    settings(&mut config.settings);
    let mut client = Solo::client(config);
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

pub(super) fn asks(questions: Value) -> Value {
    task("input_required", json!({"inputRequests": questions}))
}

pub(super) fn roots() -> Value {
    json!({"method": "roots/list"})
}

pub(super) fn form() -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": "m", "requestedSchema": {"type": "object", "properties": {}}}})
}

/// Answers a request with a result.
pub(super) fn answer(client: &mut Client, request: &Value, kind: &str, mut result: Value) {
    result["resultType"] = json!(kind);
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

pub(super) fn refuse(client: &mut Client, request: &Value, code: i64) {
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}}));
}

/// A call that has become a task which is worked on.
#[track_caller]
pub(super) fn begun(client: &mut Client) -> CallId {
    let call = client.conn.request(client.now, &CallToolParams::new("slow"), RequestOptions::default());
    let request = one(client.sent());
    answer(client, &request, "task", working());
    let call = call.expect("it may be asked");
    assert!(matches!(client.take_events()[..], [Event::Task { call: became, .. }] if became == call));
    assert_eq!(client.sent(), NOTHING);
    call
}

/// The next look at the task, which comes after this time and not before.
#[track_caller]
pub(super) fn look_after(client: &mut Client, time: Duration) -> Value {
    client.advance(time - millis(1));
    assert_eq!(client.sent(), NOTHING, "too early");
    assert_eq!(client.conn.poll_timeout(), Some(Deadline { at: client.now + millis(1), wake: Wake::Retry }));
    client.advance(millis(1));
    let look = one(client.sent());
    assert_eq!((&look["method"], &look["params"]["taskId"]), (&json!("tasks/get"), &json!("t")));
    look
}

pub(super) fn outcome<'a>(events: &'a [Event<'static>], call: CallId) -> &'a Outcome<'static> {
    match events {
        [.., Event::Response { call: ended, outcome }] if *ended == call => outcome,
        other => panic!("{call:?} has not ended: {other:?}"),
    }
}

/// The tasks that the server was told not to go on with. Whatever it says to that, nothing comes of it.
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
fn a_call_that_becomes_a_task_ends_with_what_the_task_comes_to() {
    let mut client = client();
    let call = begun(&mut client);
    let look = look_after(&mut client, millis(100));
    let meta = &look["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    let extensions = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!((extensions, meta.get("progressToken")), (&json!({"io.modelcontextprotocol/tasks": {}}), None));
    assert_eq!(look["params"].as_object().map(serde_json::Map::len), Some(2), "{look}");

    // The latest word of the server on how often to look is what counts.
    answer(&mut client, &look, "complete", task("working", json!({"pollIntervalMs": 300, "statusMessage": "half"})));
    let events = client.take_events();
    let [Event::Task { call: heard_of, task: heard }] = &events[..] else { panic!("{events:?}") };
    let heard: Task = heard.decode().expect("a task");
    assert_eq!((*heard_of, heard.status_message.as_deref()), (call, Some("half")));
    let look = look_after(&mut client, millis(300));
    answer(&mut client, &look, "complete", completed());
    let events = client.take_events();
    let Outcome::Result(result) = outcome(&events, call) else { panic!("{events:?}") };
    assert_eq!(result.get(), r#"{"content":[{"text":"done","type":"text"}]}"#);
    assert_eq!((events.len(), client.conn.usage()), (1, ResourceUsage::default()));
    assert_eq!(client.conn.poll_timeout(), None);
    // What it was answered with before is over.
    answer(&mut client, &look, "complete", completed());
    assert_eq!(client.take_events(), [], "the application knows of no such call");
}

// req: M-TASK-027 M-TASK-056 M-TASK-081
#[test]
fn a_task_can_come_to_an_end_in_every_way() {
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
        // In two examples of its text the extension gives a task the wrong type.
        for kind in ["complete", "task"] {
            let mut client = client();
            let call = begun(&mut client);
            let look = look_after(&mut client, millis(100));
            answer(&mut client, &look, kind, last.clone());
            assert_eq!(*outcome(&client.take_events(), call), expected, "{last}");
            assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
        }
    }
    // One that is over before it was looked at is looked at at once.
    for status in ["completed", "failed", "cancelled", "input_required"] {
        let mut client = client();
        let call = client.conn.request(client.now, &CallToolParams::new("quick"), RequestOptions::default());
        let request = one(client.sent());
        answer(&mut client, &request, "task", task(status, json!({})));
        let look = one(client.sent());
        answer(&mut client, &look, "complete", completed());
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
fn a_task_where_there_can_be_none_is_no_answer() {
    let options = RequestOptions::default;
    // Not this method.
    let mut client = client();
    let call = client.conn.request(client.now, &GetPromptParams::new("p"), options()).expect("it may be asked");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    // Not undeclared.
    let mut config = full_client();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut plain = Solo::client(config);
    let probe = one(plain.sent());
    let capabilities = json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    answer(&mut plain, &probe, "complete", json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}));
    plain.take_events();
    let call = plain.conn.request(plain.now, &CallToolParams::new("t"), options()).expect("it may be asked");
    let request = one(plain.sent());
    answer(&mut plain, &request, "task", working());
    assert_eq!(*outcome(&plain.take_events(), call), Outcome::Malformed);
    // Not without an id.
    for broken in [json!({"status": "working"}), json!({"taskId": 5, "status": "working"}), json!({"taskId": "t"})] {
        let call = client.conn.request(client.now, &CallToolParams::new("t"), options()).expect("it may be asked");
        let request = one(client.sent());
        answer(&mut client, &request, "task", broken);
        assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    }
    assert_eq!(client.conn.usage(), ResourceUsage::default());
    // What a task is looked at with is not answered with questions, and a task has a status.
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
        ("complete", asks(json!([]))),
        ("complete", asks(json!({"a": {"method": "tools/list"}}))),
    ];
    for (kind, result) in broken {
        let call = begun(&mut client);
        let look = look_after(&mut client, millis(100));
        answer(&mut client, &look, kind, result.clone());
        assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed, "{kind} {result}");
        task_cancel(&mut client);
    }
    let call = begun(&mut client);
    let look = look_after(&mut client, millis(100));
    client.feed(&json!({"jsonrpc": "2.0", "id": look["id"], "result": 5}));
    assert_eq!(*outcome(&client.take_events(), call), Outcome::Malformed);
    task_cancel(&mut client);
}

#[test]
fn a_call_can_end_with_the_task_itself() {
    let mut client = client();
    let options = RequestOptions { follow_task: false, ..RequestOptions::default() };
    let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it may be asked");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    let events = client.take_events();
    let Outcome::Result(result) = outcome(&events, call) else { panic!("{events:?}") };
    let created: mcp_proto::schema::tasks_extension::CreateTaskResult = result.decode().expect("a task");
    assert_eq!((created.task_id.as_str(), client.conn.usage()), ("t", ResourceUsage::default()));

    // It can be followed later, by its id.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be asked");
    let look = one(client.sent());
    assert_eq!((&look["method"], &look["params"]["taskId"]), (&json!("tasks/get"), &json!("t")));
    assert_eq!(look["params"]["_meta"].get("progressToken"), None);
    answer(&mut client, &look, "complete", working());
    assert!(matches!(client.take_events()[..], [Event::Task { call: heard_of, .. }] if heard_of == call));
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
    // One that the server does not know.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be asked");
    let look = one(client.sent());
    refuse(&mut client, &look, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    // A client that follows it no longer, or cannot answer what it asks, does not end it.
    let call = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be asked");
    let look = one(client.sent());
    client.conn.cancel(call, None).expect("it has not ended");
    let cancelled = one(client.sent());
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &look["id"])
    );
    let call = client.conn.follow_task(client.now, "t", RequestOptions::within(millis(250))).expect("it may be asked");
    let look = one(client.sent());
    answer(&mut client, &look, "complete", working());
    client.take_events();
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots()})));
    let [(_, key)] = questions(&mut client)[..] else { panic!("a question") };
    client.advance(millis(150));
    assert!(client.take_events().iter().any(|event| matches!(event, Event::Response { call: ended, outcome: Outcome::TimedOut { total: true } } if *ended == call)));
    client.answer(key, &json!({"roots": []}));
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));
    let mut old = Solo::ready_client(ProtocolVersion::V2025_11_25);
    let refused = old.conn.follow_task(old.now, "t", RequestOptions::default());
    assert!(matches!(refused, Err(SendError::NotInRevision { method: Method::ExtGetTask, .. })));
}

#[test]
fn a_task_is_looked_at_as_often_as_its_server_wants_within_bounds() {
    let bounds = |settings: &mut Settings| {
        settings.polling.default = millis(700);
        settings.polling.min = millis(20);
        settings.polling.max = millis(5000);
    };
    let table = [(json!(0), 20), (json!(19), 20), (json!(300), 300), (json!(u64::MAX), 5000), (json!(null), 700)];
    for (interval, pause) in table {
        let mut client = client_with(bounds);
        begun(&mut client);
        let look = look_after(&mut client, millis(100));
        answer(&mut client, &look, "complete", task("working", json!({"pollIntervalMs": interval})));
        look_after(&mut client, millis(pause));
    }
}

// req: M-TASK-036 M-TASK-039 M-TASK-040
#[test]
fn a_look_that_fails_is_not_the_end_of_the_task() {
    let mut client = client();
    let call = begun(&mut client);
    // Refused, with whatever code, the pauses become longer: half a second, one, two, four, eight, and no longer.
    let mut pause = 100;
    for (code, next) in [(-32603, 250), (-32000, 500), (429, 1000), (-32603, 2000), (1, 4000), (1, 8000), (1, 8000)] {
        let look = look_after(&mut client, millis(pause));
        refuse(&mut client, &look, code);
        assert_eq!(client.take_events(), []);
        pause = next;
    }
    // Silence, too; and a word of it makes everything good.
    let look = look_after(&mut client, millis(pause));
    client.advance(Duration::from_secs(60));
    let cancelled = one(client.sent());
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &look["id"])
    );
    let look = look_after(&mut client, millis(8000));
    answer(&mut client, &look, "complete", working());
    client.take_events();
    let look = look_after(&mut client, millis(100));
    // But some refusals are final.
    refuse(&mut client, &look, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
    for code in [-32600, -32601, -32021, -32022] {
        let call = begun(&mut client);
        let look = look_after(&mut client, millis(100));
        refuse(&mut client, &look, code);
        assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == code));
    }

    // And what the server need not keep any more is not asked for for ever.
    for silent in [false, true] {
        let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
        let (call, request) = (call.expect("it may be asked"), one(client.sent()));
        answer(&mut client, &request, "task", task("working", json!({"ttlMs": 1000})));
        client.take_events();
        let look = look_after(&mut client, millis(100));
        refuse(&mut client, &look, -32603);
        let look = look_after(&mut client, millis(250));
        answer(&mut client, &look, "complete", task("working", json!({"ttlMs": 700})));
        client.take_events();
        client.advance(millis(400));
        let look = one(client.sent());
        if silent {
            client.advance(Duration::from_secs(60));
            assert_eq!(*outcome(&client.take_events(), call), Outcome::TimedOut { total: false });
            client.sent();
        } else {
            refuse(&mut client, &look, -32603);
            assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(_)));
        }
        assert_eq!(client.conn.usage(), ResourceUsage::default());
    }
}

#[test]
fn what_comes_of_a_look_that_was_given_up_is_late() {
    // Of a call that has become the task, and of a task whose id was kept.
    for kept in [false, true] {
        let mut client = client();
        let options = RequestOptions { idle_timeout: Some(millis(50)), ..RequestOptions::default() };
        let look = if kept {
            client.conn.follow_task(client.now, "t", options).expect("it may be asked");
            one(client.sent())
        } else {
            client.conn.request(client.now, &CallToolParams::new("slow"), options).expect("it may be asked");
            let request = one(client.sent());
            answer(&mut client, &request, "task", working());
            client.take_events();
            look_after(&mut client, millis(100))
        };
        client.advance(millis(50));
        assert_eq!(one(client.sent())["params"]["requestId"], look["id"]);
        answer(&mut client, &look, "complete", completed());
        refuse(&mut client, &look, -32603);
        assert_eq!(
            (client.take_events(), client.conn.stats().late_responses, client.conn.stats().violations),
            (vec![], 2, 0)
        );
        // The next one is what counts.
        client.advance(Duration::from_secs(2));
        let look = one(client.sent());
        answer(&mut client, &look, "complete", completed());
        assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
        assert_eq!(client.conn.usage(), ResourceUsage::default());
    }
}

// req: M-TASK-053 M-TASK-054 M-TASK-057
#[test]
fn whoever_gives_up_on_a_call_gives_up_on_its_task() {
    // The task is at rest, a look is queued, or it is under way.
    for step in 0..3 {
        let mut client = client();
        let call = begun(&mut client);
        if step > 0 {
            client.advance(millis(100));
        }
        let look = if step == 2 { Some(one(client.sent())) } else { None };
        client.conn.cancel(call, Some("no more")).expect("it goes on");
        assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
        task_cancel(&mut client);
        if let Some(look) = look {
            answer(&mut client, &look, "complete", completed());
            assert_eq!(client.take_events(), [], "the application knows of no such call");
        }
        client.advance(Duration::from_secs(600));
        assert_eq!((client.sent(), client.take_events()), (NOTHING.into(), vec![]));
    }
    // So it is when its time is up, however lively the task is.
    let mut client = client();
    let options = RequestOptions { total_timeout: Some(millis(350)), ..RequestOptions::default() };
    let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it may be asked");
    let request = one(client.sent());
    answer(&mut client, &request, "task", working());
    for _ in 0..3 {
        let look = look_after(&mut client, millis(100));
        answer(&mut client, &look, "complete", working());
    }
    client.take_events();
    client.advance(millis(50));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: true } }]);
    task_cancel(&mut client);
    // And where the task has crossed the cancellation of its call.
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("a call");
    let request = one(client.sent());
    client.conn.cancel(call, None).expect("it goes on");
    assert_eq!(one(client.sent())["method"], "notifications/cancelled");
    client.take_events();
    answer(&mut client, &request, "task", working());
    assert_eq!(client.take_events(), [Event::Late(call)]);
    task_cancel(&mut client);
    // A `tasks/cancel` without a response is forgotten.
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
pub(super) fn questions(client: &mut Client) -> Vec<(Method, ReplyKey)> {
    let events = client.take_events();
    let asked = events.iter().filter_map(|event| match event {
        Event::Request { key, method: MethodName::Known(method), .. } => Some((*method, *key)),
        _ => None,
    });
    asked.collect()
}

/// Answers that come twice, or to a look that was overtaken, are late and no more, even if they look like a new task.
#[test]
fn what_is_late_does_not_end_a_task_that_is_pursued() {
    let mut client = client();
    let options = RequestOptions::default();
    let call = client.conn.request(client.now, &CallToolParams::new("slow"), options).expect("it may be asked");
    let request = one(client.sent());
    for _ in 0..2 {
        answer(&mut client, &request, "task", working());
        assert_eq!(client.sent(), NOTHING);
    }
    client.take_events();
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots()})));
    let [(_, key)] = questions(&mut client)[..] else { panic!("a question") };
    let overtaken = look_after(&mut client, millis(400));
    client.answer(key, &json!({"roots": []}));
    let update = one(client.sent());
    // Some servers call a task by this name when they are asked for it.
    answer(&mut client, &overtaken, "task", asks(json!({"a": roots()})));
    assert_eq!(client.take_events(), [], "the application knows of no such call");
    assert_eq!(client.sent(), NOTHING, "it is still wanted");
    answer(&mut client, &update, "complete", json!({}));
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
}

#[test]
fn calls_that_became_tasks_end_with_the_connection() {
    let mut client = client();
    let call = begun(&mut client);
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots()})));
    let [(_, key)] = questions(&mut client)[..] else { panic!("a question") };
    client.conn.close(client.now);
    let events = client.take_events();
    assert!(events.iter().any(|event| matches!(event, Event::Cancelled { key: asked, .. } if *asked == key)));
    assert!(
        events.iter().any(
            |event| matches!(event, Event::Response { call: ended, outcome: Outcome::Closed(_) } if *ended == call)
        )
    );
    assert_eq!(client.sent(), NOTHING, "the task is not cancelled");
    client.conn.respond_error(key, &ErrorObject::internal("closed")).ok();
    assert_eq!(client.conn.usage().kept, 0);
}

/// What is not read is not silent, for a look at a task as for any other request.
#[test]
fn a_look_does_not_time_out_while_reading_is_paused() {
    let mut client = client_with(|settings| {
        settings.limits.outbox_bytes = 2000;
        settings.limits.input_pause = Duration::from_secs(100);
    });
    begun(&mut client);
    look_after(&mut client, millis(100));
    let large = CallToolParams::new("x".repeat(1500));
    client.conn.request(client.now, &large, RequestOptions::no_timeout()).expect("there is room");
    assert!(!client.conn.wants_input(client.now), "too much waits to be written");
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), []);
    let sent: Vec<_> = client.sent().iter().map(|message| message["method"].clone()).collect();
    assert_eq!(sent, ["tools/call"], "the look is not cancelled");
}
