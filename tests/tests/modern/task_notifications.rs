//! Notifications about tasks on a subscription, and the calls that became these tasks.

use mcp_proto::{
    connection::{Event, Outcome, RequestOptions, Violation},
    wire::RawJson,
};
use serde_json::{Value, json};

use super::task_polling::{
    Client, FromText as _, NOTHING, answer, begun, client, client_with, completed, input_requests, millis, one,
    poll_after, refuse, requires_input, roots, task, working,
};

/// Opens and acknowledges a subscription to the task.
fn listening(client: &mut Client) -> Value {
    let params = json!({"notifications": {"taskIds": ["t"]}});
    let params = RawJson::try_from_text(&params.to_string());
    client
        .conn
        .request_raw(client.now, "subscriptions/listen", Some(&params), RequestOptions::default())
        .expect("it may");
    let id = one(client.sent())["id"].clone();
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": {"taskIds": ["t"]}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    client.take_events();
    id
}

fn status_notification(id: &Value, mut task: Value) -> Value {
    task["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task})
}

// req: M-TASK-067
#[test]
fn task_notifications_count_as_polls() {
    let mut client = client();
    let subscription = listening(&mut client);
    let call = begun(&mut client);
    // The notification delays the next poll.
    client.advance(millis(99));
    client.feed(&status_notification(&subscription, working()));
    let events = client.take_events();
    assert!(
        matches!(events[..], [Event::Task { call: updated_call, .. }, Event::Notification { .. }] if updated_call == call)
    );
    // The notification contains an input request, whose response is sent at once.
    client.advance(millis(99));
    client.feed(&status_notification(&subscription, requires_input(json!({"a": roots()}))));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.respond(key, &json!({"roots": []}));
    let update = one(client.sent());
    answer(&mut client, &update, "complete", json!({}));
    let poll = poll_after(&mut client, millis(100));
    // The task ends while a poll is in flight.
    client.feed(&status_notification(&subscription, task("completed", json!({"taskId": "other", "result": {}}))));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]), "of another task");
    client.feed(&status_notification(&subscription, completed()));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }, Event::Notification { .. }] if *ended == call)
    );
    answer(&mut client, &poll, "complete", completed());
    assert_eq!(client.take_events(), [], "the application knows of no such call");
    // A notification of an unknown subscription is ignored.
    let call = begun(&mut client);
    client.feed(&status_notification(&json!(77), completed()));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownSubscription(_))]));
    // Two calls may follow one task.
    let again = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be sent");
    client.feed(&status_notification(&subscription, completed()));
    let events = client.take_events();
    let ended: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Response { call, .. } = event { Some(*call) } else { None })
        .collect();
    assert_eq!(ended, [call, again]);
    assert_eq!(client.sent(), NOTHING, "no call waits for the look any more");
}

/// Responses wait while the server returns errors, and then they exceed the message limit.
#[test]
fn oversized_update_ends_the_call_on_notification() {
    let mut client = client_with(|settings| settings.limits.frame_bytes = 2000);
    let subscription = listening(&mut client);
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b": roots()})));
    let [(_, first), (_, second)] = input_requests(&mut client)[..] else { panic!("two input requests") };
    let poll = poll_after(&mut client, millis(400));
    refuse(&mut client, &poll, -32603);
    let long = json!({"roots": [{"uri": format!("file:///{}", "x".repeat(1000))}]});
    client.respond(first, &long);
    client.respond(second, &long);
    assert_eq!(client.sent(), NOTHING, "it is left in peace");
    client.feed(&status_notification(&subscription, requires_input(json!({"a": roots(), "b": roots()}))));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Error(_) }, Event::Notification { .. }] if *ended == call),
        "{events:?}"
    );
    assert_eq!(one(client.sent())["method"], "tasks/cancel");
}
