//! What a server tells of tasks on a subscription, and the calls that became these tasks.

use mcp_proto::{
    connection::{Event, Outcome, RequestOptions, Violation},
    wire::RawJson,
};
use serde_json::{Value, json};

use super::task_polling::{
    Client, FromText as _, NOTHING, answer, asks, begun, client, client_with, completed, look_after, millis, one,
    questions, refuse, roots, task, working,
};

/// A subscription to the task, which the server has acknowledged.
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

fn told(id: &Value, mut task: Value) -> Value {
    task["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task})
}

// req: M-TASK-067
#[test]
fn what_the_server_tells_of_a_task_counts_like_a_look() {
    let mut client = client();
    let subscription = listening(&mut client);
    let call = begun(&mut client);
    // The next look is put off.
    client.advance(millis(99));
    client.feed(&told(&subscription, working()));
    let events = client.take_events();
    assert!(matches!(events[..], [Event::Task { call: heard_of, .. }, Event::Notification { .. }] if heard_of == call));
    // It asks, and has its answers at once.
    client.advance(millis(99));
    client.feed(&told(&subscription, asks(json!({"a": roots()}))));
    let [(_, key)] = questions(&mut client)[..] else { panic!("a question") };
    client.answer(key, &json!({"roots": []}));
    let update = one(client.sent());
    answer(&mut client, &update, "complete", json!({}));
    let look = look_after(&mut client, millis(100));
    // It is over while a look is under way.
    client.feed(&told(&subscription, task("completed", json!({"taskId": "other", "result": {}}))));
    assert!(matches!(client.take_events()[..], [Event::Notification { .. }]), "of another task");
    client.feed(&told(&subscription, completed()));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }, Event::Notification { .. }] if *ended == call)
    );
    answer(&mut client, &look, "complete", completed());
    assert_eq!(client.take_events(), [], "the application knows of no such call");
    // What comes of no subscription is none of its business.
    let call = begun(&mut client);
    client.feed(&told(&json!(77), completed()));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownSubscription(_))]));
    // Two calls may have become one task.
    let again = client.conn.follow_task(client.now, "t", RequestOptions::default()).expect("it may be asked");
    client.feed(&told(&subscription, completed()));
    let events = client.take_events();
    let ended: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::Response { call, .. } = event { Some(*call) } else { None })
        .collect();
    assert_eq!(ended, [call, again]);
    assert_eq!(client.sent(), NOTHING, "no call waits for the look any more");
}

/// Answers wait for a server that is in trouble, and then there are more of them than fit into one message.
#[test]
fn a_call_that_ends_while_its_server_tells_of_the_task_ends_with_that() {
    let mut client = client_with(|settings| settings.limits.frame_bytes = 2000);
    let subscription = listening(&mut client);
    let call = begun(&mut client);
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots(), "b": roots()})));
    let [(_, first), (_, second)] = questions(&mut client)[..] else { panic!("two questions") };
    let look = look_after(&mut client, millis(400));
    refuse(&mut client, &look, -32603);
    let long = json!({"roots": [{"uri": format!("file:///{}", "x".repeat(1000))}]});
    client.answer(first, &long);
    client.answer(second, &long);
    assert_eq!(client.sent(), NOTHING, "it is left in peace");
    client.feed(&told(&subscription, asks(json!({"a": roots(), "b": roots()}))));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Error(_) }, Event::Notification { .. }] if *ended == call),
        "{events:?}"
    );
    assert_eq!(one(client.sent())["method"], "tasks/cancel");
}
