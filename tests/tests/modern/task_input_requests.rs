//! Input requests of tasks of the extension: each is delivered once and answered once.

use mcp_proto::{
    connection::{Event, Outcome, RequestOptions, ResourceUsage, Violation},
    protocol::{Capability, Method, ProtocolVersion, VersionSet},
    schema::CallToolParams,
    wire::ErrorObject,
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::progress,
};
use serde_json::json;

use super::task_polling::{
    NOTHING, answer, begun, client, completed, form, input_requests, millis, one, outcome, poll_after, requires_input,
    roots, task, task_cancel, working,
};

// req: M-TASK-042 M-TASK-046 M-TASK-049 M-TASK-050 M-TASK-051
#[test]
fn task_input_requests_are_handled_once() {
    let mut client = client();
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b\n": form()})));
    let requested = input_requests(&mut client);
    let [(Method::ListRoots, first), (Method::Elicit, second)] = requested[..] else { panic!("{requested:?}") };
    // Polls are less frequent while the user thinks, and repeat the open input requests.
    let poll = poll_after(&mut client, millis(400));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b\n": form()})));
    assert_eq!(input_requests(&mut client), []);
    client.respond(first, &json!({"roots": []}));
    assert_eq!(client.sent(), NOTHING, "they came together and are answered together");
    // Another input request arrives while a poll is in flight, which does not delay the responses.
    let poll = poll_after(&mut client, millis(400));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b\n": form(), "c": roots()})));
    let requested = input_requests(&mut client);
    let [(Method::ListRoots, third)] = requested[..] else { panic!("{requested:?}") };
    let poll = poll_after(&mut client, millis(400));
    client.respond(second, &json!({"action": "decline"}));
    let update = one(client.sent());
    assert_eq!(update["method"], "tasks/update");
    assert_eq!(
        (&update["params"]["taskId"], &update["params"]["inputResponses"]),
        (&json!("t"), &json!({"a": {"roots": []}, "b\n": {"action": "decline"}}))
    );
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b\n": form(), "c": roots()})));
    assert_eq!(client.take_events(), [], "of the look that was given up");
    // A response waits for the update in flight.
    client.respond(third, &json!({"roots": [{"uri": "file:///a"}]}));
    assert_eq!(client.sent(), NOTHING);
    answer(&mut client, &update, "complete", json!({}));
    let update = one(client.sent());
    assert_eq!(update["params"]["inputResponses"], json!({"c": {"roots": [{"uri": "file:///a"}]}}));
    answer(&mut client, &update, "complete", json!({}));
    // The status may be outdated: no input request is delivered or answered twice.
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"b\n": form(), "c": roots()})));
    assert_eq!(input_requests(&mut client), []);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
    assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
}

// req: M-TASK-051 M-TASK-052
#[test]
fn unanswerable_input_requests_cancel_the_task() {
    let mut config = full_client();
    config.capabilities =
        [Capability::Roots, Capability::ElicitationForm, Capability::TasksExtension].into_iter().collect();
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    config.settings.limits.input_requests = 2;
    config.settings.limits.task_input_requests = 3;
    let mut client = Harness::client(config);
    let probe = one(client.sent());
    let capabilities = json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    answer(&mut client, &probe, "complete", json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}));
    client.take_events();

    // The client lacks these capabilities, so no input request is delivered.
    let page = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a/", "elicitationId": "e"}});
    let sample = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    let many = json!({"a": roots(), "b": roots(), "c": roots()});
    for bad in [json!({"a": roots(), "b": sample}), json!({"a": roots(), "b": page}), many] {
        let call = begun(&mut client);
        let poll = poll_after(&mut client, millis(100));
        answer(&mut client, &poll, "complete", requires_input(bad.clone()));
        assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Malformed }], "{bad}");
        task_cancel(&mut client);
    }
    // The user or the application refuses.
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b": form()})));
    let [(_, first), (_, second)] = input_requests(&mut client)[..] else { panic!("two input requests") };
    client.conn.respond_error(first, &ErrorObject::internal("no roots")).expect("it is owed");
    let events = client.take_events();
    assert!(matches!(events[0], Event::Cancelled { key, .. } if key == second), "{events:?}");
    assert_eq!(*outcome(&events, call), Outcome::Error(ErrorObject::internal("no roots")));
    client.conn.respond_error(second, &ErrorObject::internal("too late")).expect("it is swallowed");
    task_cancel(&mut client);
    // The number of input requests of a task is limited.
    let call = begun(&mut client);
    let mut last = Vec::new();
    for round in 0..4 {
        let poll = poll_after(&mut client, millis(100));
        let names = json!({format!("q{round}"): roots()});
        answer(&mut client, &poll, "complete", requires_input(names));
        last = client.take_events();
        let key = last.iter().find_map(|event| if let Event::Request { key, .. } = event { Some(*key) } else { None });
        let Some(key) = key else { break };
        client.respond(key, &json!({"roots": []}));
        let update = one(client.sent());
        answer(&mut client, &update, "complete", json!({}));
    }
    assert_eq!(*outcome(&last, call), Outcome::Malformed);
    task_cancel(&mut client);
}

#[test]
fn withdrawn_task_input_requests_are_cancelled() {
    let mut client = client();
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b": form()})));
    let [(_, first), (_, second)] = input_requests(&mut client)[..] else { panic!("two input requests") };
    let poll = poll_after(&mut client, millis(400));
    answer(&mut client, &poll, "complete", requires_input(json!({"b": form()})));
    let events = client.take_events();
    assert!(matches!(events[..], [Event::Cancelled { key, .. }, Event::Task { .. }] if key == first), "{events:?}");
    client.conn.respond_error(first, &ErrorObject::internal("late")).expect("it is swallowed");
    let poll = poll_after(&mut client, millis(400));
    answer(&mut client, &poll, "complete", working());
    assert!(matches!(client.take_events()[..], [Event::Cancelled { key, .. }, Event::Task { .. }] if key == second));
    client.respond(second, &json!({"action": "cancel"}));
    assert_eq!(client.sent(), NOTHING);
    let poll = poll_after(&mut client, millis(100));
    // A task that has ended withdraws its input requests.
    answer(&mut client, &poll, "complete", requires_input(json!({"c": roots()})));
    let [(_, third)] = input_requests(&mut client)[..] else { panic!("an input request") };
    let poll = poll_after(&mut client, millis(400));
    answer(&mut client, &poll, "complete", task("cancelled", json!({})));
    let events = client.take_events();
    assert!(matches!(events[0], Event::Cancelled { key, .. } if key == third));
    assert_eq!(*outcome(&events, call), Outcome::Cancelled);
    client.respond(third, &json!({"roots": []}));
    assert_eq!((client.sent(), client.conn.usage()), (NOTHING.into(), ResourceUsage::default()));
}

// req: M-TASK-021 M-TASK-022
#[test]
fn input_requests_can_precede_the_task() {
    let mut client = client();
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).expect("a call");
    let request = one(client.sent());
    answer(&mut client, &request, "input_required", json!({"inputRequests": {"a": roots()}, "requestState": "s"}));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.respond(key, &json!({"roots": []}));
    let request = one(client.sent());
    assert_eq!(request["params"]["requestState"], "s");
    answer(&mut client, &request, "task", working());
    assert!(matches!(client.take_events()[..], [Event::Task { call: became, .. }] if became == call));
    // Keys of rounds and keys of the task are independent.
    let poll = poll_after(&mut client, millis(100));
    assert_eq!((poll["params"].get("requestState"), poll["params"].get("inputResponses")), (None, None));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.respond(key, &json!({"roots": []}));
    let update = one(client.sent());
    assert_eq!(update["params"].get("requestState"), None);
    client.feed(&progress(update["id"].clone(), 1));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownProgress)]), "tasks have none");
    let late = client.conn.stats().late_responses;
    client.feed(&progress(call.as_u64(), 1));
    assert_eq!(
        (client.take_events(), client.conn.stats().late_responses - late),
        (vec![], 1),
        "the token of a round is over"
    );
    answer(&mut client, &update, "complete", json!({}));
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
}
