//! The cost of inbound messages.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, CloseReason, Event, Limits, Outcome, RequestOptions, Violation},
    protocol::{Capability, Method, ProtocolVersion, VersionSet},
    rpc::CallId,
    schema::CallToolResult,
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{progress, result},
};
use serde_json::{Value, json};

use super::{allocated, members};

type Client = Harness<ClientRole>;

/// Returns a client with tasks, connected to a server of 2026-07-28.
fn client() -> Client {
    client_with(|_| ())
}

/// Returns such a client with other limits.
fn client_with(limit: impl FnOnce(&mut Limits)) -> Client {
    let mut config = full_client();
    limit(&mut config.settings.limits);
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    let mut client = Harness::client(config);
    let probe = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": probe["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}}));
    assert_eq!(client.take_events(), [Event::Ready]);
    client
}

fn call(client: &mut Client) -> CallId {
    let params = Json::new(&json!({"name": "t"})).expect("it is JSON");
    let params = RawJson::from(&params);
    let call = client.conn.request_raw(client.now, "tools/call", Some(&params), RequestOptions::default());
    client.sent();
    call.expect("it may be sent")
}

fn task(id: &str, status: &str, more: &Value) -> Value {
    let mut task = json!({"resultType": "task", "taskId": id, "status": status, "ttlMs": null,
        "createdAt": "2026-08-01T10:00:00Z", "lastUpdatedAt": "2026-08-01T10:00:00Z"});
    task.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    task
}

#[test]
fn input_requests_over_the_limit_are_not_parsed() {
    let input_requests = members(40_000, r#"{"method":"roots/list"}"#);
    let mut client = client();
    let (requested, became_task) = (call(&mut client), call(&mut client));
    client.feed(&result(became_task.as_u64(), task("t", "working", &json!({}))));
    client.take_events();
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","requestState":"s","inputRequests":{input_requests}}}}}"#,
        requested.as_u64(),
    );
    let told = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{"taskId":"t","status":"input_required","inputRequests":{input_requests}}}}}"#,
    );
    let taken = allocated(|| client.feed_text(&answer));
    assert_eq!(client.take_events(), [Event::Response { call: requested, outcome: Outcome::Malformed }]);
    assert!(taken < 64 << 10, "{taken} bytes for an answer of {}", answer.len());
    let taken = allocated(|| client.feed_text(&told));
    let events = client.take_events();
    assert_eq!(events[0], Event::Response { call: became_task, outcome: Outcome::Malformed });
    // The notification itself is delivered. It is copied, since another event is queued before it.
    assert!(taken < (64 << 10) + told.len() as u64 * 2, "{taken} bytes for a notification of {}", told.len());
}

#[test]
fn input_request_keys_are_compared_unescaped() {
    let mut client = client();
    let requested = call(&mut client);
    let twice = json!({"method": "roots/list"}).to_string();
    client.feed_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required","inputRequests":{{"a":{twice},"\u0061":{twice}}}}}}}"#,
        requested.as_u64(),
    ));
    assert_eq!(client.take_events(), [Event::Response { call: requested, outcome: Outcome::Malformed }]);

    // A task whose input request changes its spelling at each poll requests it once.
    let follows = call(&mut client);
    client.feed(&result(follows.as_u64(), task("t", "working", &json!({}))));
    client.take_events();
    for name in ["a", "\\u0061", "a", "\\u0061"] {
        client.feed_text(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{{"taskId":"t","status":"input_required","inputRequests":{{"{name}":{twice}}}}}}}"#,
        ));
    }
    let requested = client.take_events().into_iter().filter(|event| matches!(event, Event::Request { .. }));
    assert_eq!(requested.count(), 1);
}

#[test]
fn a_task_id_belongs_to_one_call() {
    let mut client = client();
    let calls: Vec<_> = (0..100).map(|_| call(&mut client)).collect();
    let before = client.conn.stats().violations;
    for call in &calls {
        client.feed(&result(call.as_u64(), task("t", "working", &json!({}))));
    }
    let events = client.take_events();
    assert!(matches!(events[0], Event::Task { call, .. } if call == calls[0]), "{events:?}");
    for (event, call) in events[1..].iter().zip(&calls[1..]) {
        assert_eq!(*event, Event::Response { call: *call, outcome: Outcome::Malformed });
    }
    assert_eq!((events.len(), client.conn.stats().violations - before), (100, 99));
    // A notification about the task is delivered once.
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tasks",
        "params": task("t", "working", &json!({"statusMessage": "x".repeat(100_000)}))});
    let told = told.to_string();
    let taken = allocated(|| client.feed_text(&told));
    assert_eq!(client.take_events().len(), 2);
    assert!(taken < 4 * told.len() as u64, "{taken} bytes for a notification of {}", told.len());
    // The call that follows the task ends with it.
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/tasks",
        "params": task("t", "completed", &json!({"result": {}}))}));
    assert!(
        matches!(client.take_events()[0], Event::Response { call, outcome: Outcome::Result(_) } if call == calls[0])
    );
}

#[test]
fn ids_of_tasks_count_as_bytes_of_calls() {
    const ID: usize = 15 << 10;
    const CALL_BYTES: usize = 64 << 10;
    let mut client = client_with(|limits| (limits.frame_bytes, limits.call_bytes) = (16 << 10, CALL_BYTES));
    let calls: Vec<_> = (0..100).map(|_| call(&mut client)).collect();
    for (number, status) in calls.iter().zip(["working", "input_required"].into_iter().cycle()) {
        let id = format!("{:0>ID$}", number.as_u64());
        client.feed(&result(number.as_u64(), task(&id, status, &json!({}))));
        client.sent();
        assert!(client.conn.usage().call_bytes <= CALL_BYTES, "{:?}", client.conn.usage());
    }
    let malformed = |event: &Event<'_>| matches!(event, Event::Response { outcome: Outcome::Malformed, .. });
    let (refused, kept): (Vec<_>, Vec<_>) = client.take_events().into_iter().partition(malformed);
    // Each id is stored twice.
    let room = CALL_BYTES / (2 * ID);
    assert_eq!((kept.len(), refused.len()), (room, calls.len() - room));
    assert!(kept.iter().all(|event| matches!(event, Event::Task { .. })), "{kept:?}");
}

// req: M-PROG-009
#[test]
fn progress_of_an_answered_round_is_ignored() {
    let mut client = client();
    let call = call(&mut client);
    let send_request = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    client.feed(&result(call.as_u64(), send_request));
    let events = client.take_events();
    let [Event::Request { key, .. }] = &events[..] else { panic!("{events:?}") };
    client.respond(*key, &json!({"roots": []}));
    let second = client.sent_one();
    assert_eq!(second["params"]["_meta"]["progressToken"], second["id"]);
    let deadline = client.conn.poll_timeout().map(|deadline| deadline.at);
    client.advance(Duration::from_secs(30));
    let late = client.conn.stats().late_responses;
    client.feed(&progress(call.as_u64(), 1));
    assert_eq!((client.take_events(), client.conn.stats().late_responses - late), (vec![], 1));
    assert_eq!(client.conn.poll_timeout().map(|deadline| deadline.at), deadline);
    // Progress of the current round extends the deadline.
    client.feed(&progress(second["id"].clone(), 1));
    assert!(matches!(client.take_events()[..], [Event::Progress { call: of, .. }] if of == call));
    assert!(client.conn.poll_timeout().map(|deadline| deadline.at) > deadline);
}

#[test]
fn decode_errors_are_truncated() {
    for character in ["\u{7f}", "x", "\u{200b}", "\\u0001", "\u{1f600}"] {
        let text = character.repeat(1 << 18);
        let initialize = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{{}},"clientInfo":"{text}"}}}}"#
        );
        let mut server = Harness::server(full_server());
        let taken = allocated(|| server.feed_text(&initialize));
        assert_eq!(server.take_events(), [Event::Violation(Violation::BadParams(Method::Initialize))]);
        let sent = server.sent_text();
        assert!(sent[0].len() < 2000 && sent[0].contains("InitializeParams.clientInfo"), "{}", sent[0].len());
        assert!(taken < 64 << 10, "{taken} bytes for {} of {character:?}", text.len());
    }
    // An overlong number is truncated as well.
    let long = "1".repeat(1 << 20);
    for params in [
        format!(r#"{{"protocolVersion":{long}}}"#),
        format!(
            r#"{{"protocolVersion":"2025-06-18","capabilities":{{}},"clientInfo":{{"name":"c","version":{long}}}}}"#
        ),
    ] {
        let mut server = Harness::server(full_server());
        server.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#));
        assert!(server.sent_text()[0].len() < 2000);
    }
}

#[test]
fn undecoded_members_cost_no_error_text() {
    for value in ["\u{200b}".repeat(1 << 18), "\\u200b".repeat(1 << 17)] {
        let text = format!(r#"{{"content":[],"isError":"{value}"}}"#);
        let json = Json::parse(text.clone()).expect("it is JSON");
        let taken = allocated(|| {
            let result: CallToolResult = json.decode().expect("it is kept");
            assert!(result.extra.get("isError").is_some());
        });
        assert!(taken < 4 * text.len() as u64, "{taken} bytes for {}", text.len());
    }
}

#[test]
fn unknown_revisions_are_truncated_in_errors() {
    let long = "\u{7f}".repeat(1 << 20);
    let mut server = Harness::modern_server();
    server.feed(&mcp_tests::message::modern_with(
        1,
        "tools/list",
        json!({}),
        json!({mcp_tests::message::VERSION: long}),
    ));
    let sent = server.sent_text();
    assert!(sent[0].contains("-32022") && sent[0].len() < 2000, "{}", sent[0].len());
}

#[test]
fn close_reasons_are_truncated() {
    let long = "x".repeat(1 << 20);
    let mut client = Harness::client(full_client());
    let id = client.sent_one()["id"].clone();
    client.feed(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": long, "data": long}}));
    let events = client.take_events();
    let [Event::Closed(reason @ CloseReason::Refused(_))] = &events[..] else { panic!("no end") };
    assert!(reason.to_string().len() < 2000, "{}", reason.to_string().len());

    let mut client = Harness::client(full_client());
    let id = client.sent_one()["id"].clone();
    client.feed(&result(
        id,
        json!({"protocolVersion": long, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
    ));
    let events = client.take_events();
    let [Event::Closed(reason @ CloseReason::UnsupportedVersion(_))] = &events[..] else { panic!("no end") };
    assert!(reason.to_string().len() < 2000, "{}", reason.to_string().len());
}

#[test]
fn cancelling_late_tasks_leaves_room_for_calls() {
    let mut client = client();
    let calls: Vec<_> = (0..200).map(|_| call(&mut client)).collect();
    for call in &calls {
        client.conn.cancel(*call, None).expect("it is in flight");
    }
    client.sent();
    client.take_events();
    let late = |id: u64, task_id: u64| result(id, task(&task_id.to_string(), "working", &json!({})));
    // The same response arrives again and again, each time for another task.
    for number in 0..100 {
        client.feed(&late(calls[0].as_u64(), number));
    }
    let sent = client.sent();
    assert_eq!(sent.iter().map(|sent| &sent["method"]).collect::<Vec<_>>(), ["tasks/cancel"]);
    // Responses for different calls: some tasks are cancelled at once, the others when those calls have ended.
    for call in &calls[1..] {
        client.feed(&late(call.as_u64(), call.as_u64()));
    }
    let farewells = client.sent();
    assert_eq!((farewells.len(), client.conn.usage().calls), (15, 16));
    client.feed(&json!({"jsonrpc": "2.0", "id": sent[0]["id"], "result": {"resultType": "complete"}}));
    client.feed(&late(calls[150].as_u64(), 7));
    assert_eq!(client.sent_one()["params"]["taskId"], "7");
    // Cancellations without a response free their slots.
    client.advance(Duration::from_secs(60));
    assert_eq!(client.conn.usage().calls, 0);
}

#[test]
fn closing_calls_with_input_requests_is_linear() {
    let mut taken = Vec::new();
    for count in [250, 1000] {
        let mut client = client();
        let send_request = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
        let calls: Vec<_> = (0..count).map(|_| call(&mut client)).collect();
        for call in &calls {
            client.feed(&result(call.as_u64(), send_request.clone()));
        }
        assert_eq!(client.take_events().len(), count);
        client.conn.cancel(calls[0], None).expect("it is in flight");
        assert_eq!(client.take_events().len(), 2);
        taken.push(allocated(|| client.conn.close(client.now)));
        let ended = client.take_events();
        assert_eq!(ended.iter().filter(|event| matches!(event, Event::Cancelled { .. })).count(), count - 1);
        assert_eq!(ended.iter().filter(|event| matches!(event, Event::Response { .. })).count(), count - 1);
    }
    assert!(taken[1] < 8 * taken[0], "{taken:?} bytes for four times as many");
}

#[test]
fn reports_late_responses_only_for_application_calls() {
    let mut config = full_client();
    config.settings.keepalive =
        Some(mcp_proto::connection::Keepalive { interval: Duration::from_secs(10), max_missed: 100 });
    let mut client = Harness::ready_client_with(config, ProtocolVersion::V2025_11_25);
    let mine = client.call_with("vendor/x", RequestOptions::within(Duration::from_secs(1)));
    client.advance(Duration::from_secs(1));
    client.sent();
    client.take_events();
    client.advance(Duration::from_secs(9));
    let ping = client.sent_one();
    client.advance(Duration::from_secs(10));
    client.take_events();
    let late = client.conn.stats().late_responses;
    for id in [json!(1), ping["id"].clone()] {
        client.feed(&result(id.clone(), json!({})));
        assert_eq!(client.take_events(), [], "{id} was not the application's");
    }
    client.feed(&result(mine.as_u64(), json!({})));
    assert_eq!(client.take_events(), [Event::Late(mine)]);
    assert_eq!(client.conn.stats().late_responses - late, 3);
}
