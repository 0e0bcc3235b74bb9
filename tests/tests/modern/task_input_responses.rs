//! Input requests of the task of a call, and their responses: when they are sent, and what is retained.

use std::time::Duration;

use mcp_proto::{
    connection::{Outcome, RequestOptions, ResourceUsage},
    schema::CallToolParams,
};
use serde_json::{Value, json};

use super::task_polling::{
    answer, begun, client, completed, input_requests, millis, one, outcome, poll_after, refuse, requires_input, roots,
    task,
};

const NOTHING: [Value; 0] = [];

#[test]
fn usage_counts_task_ids_and_responses() {
    let requested = |names: [&str; 2]| {
        let mut client = client();
        let call = begun(&mut client);
        assert_eq!(client.conn.usage().call_bytes, 2 * "t".len(), "the id of the task, and what it is found by");
        let poll = poll_after(&mut client, millis(100));
        answer(
            &mut client,
            &poll,
            "complete",
            requires_input(names.iter().map(|name| ((*name).to_owned(), roots())).collect()),
        );
        let [(_, first), (_, second)] = input_requests(&mut client)[..] else { panic!("two input requests") };
        (client, call, [first, second])
    };
    let least = requested(["a", "b"]).0.conn.usage().call_bytes;
    let (mut client, call, [first, second]) = requested(["first", "second"]);
    let open = client.conn.usage().call_bytes;
    assert_eq!(open - least, "first".len() + "second".len() - 2);
    client.respond(first, &json!({"roots": []}));
    assert_eq!(client.conn.usage().call_bytes - open, r#"{"roots":[]}"#.len());
    client.respond(second, &json!({"roots": []}));
    let update = one(client.sent());
    answer(&mut client, &update, "complete", json!({}));
    assert_eq!(client.conn.usage().call_bytes, open, "what has arrived is not kept");
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn input_responses_replace_pending_polls() {
    let mut client = client();
    begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots(), "b": roots()})));
    let [(_, first), (_, second)] = input_requests(&mut client)[..] else { panic!("two input requests") };
    client.respond(first, &json!({"roots": []}));
    let poll = poll_after(&mut client, millis(400));
    refuse(&mut client, &poll, -32603);
    client.respond(second, &json!({"roots": []}));
    assert_eq!(client.sent(), NOTHING, "it is left in peace");
    client.advance(Duration::from_secs(1));
    let update = one(client.sent());
    assert_eq!(update["method"], "tasks/update");
    answer(&mut client, &update, "complete", json!({}));

    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"c": roots()})));
    let [(_, third)] = input_requests(&mut client)[..] else { panic!("an input request") };
    client.now = client.now + millis(400);
    client.conn.handle_timeout(client.now);
    assert_eq!(client.conn.usage().outbox_frames, 1, "the next look");
    client.respond(third, &json!({"roots": []}));
    assert_eq!(one(client.sent())["method"], "tasks/update");
}

#[test]
fn initial_task_ttl_limits_retries() {
    let mut client = client();
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    let (call, request) = (call.expect("it may be sent"), one(client.sent()));
    answer(&mut client, &request, "task", task("working", json!({"ttlMs": 300})));
    client.take_events();
    let poll = poll_after(&mut client, millis(100));
    refuse(&mut client, &poll, -32603);
    client.advance(millis(250));
    let poll = one(client.sent());
    refuse(&mut client, &poll, -32603);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn failed_task_updates_are_resent() {
    let mut client = client();
    let call = begun(&mut client);
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"a": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("one input request") };
    client.respond(key, &json!({"roots": []}));
    let update = one(client.sent());
    refuse(&mut client, &update, -32603);
    client.advance(millis(250));
    let again = one(client.sent());
    assert_eq!(again["params"], update["params"]);
    client.advance(Duration::from_secs(60));
    assert_eq!(one(client.sent())["method"], "notifications/cancelled");
    client.advance(millis(500));
    let again = one(client.sent());
    assert_eq!(again["params"], update["params"]);
    answer(&mut client, &again, "complete", json!({}));
    let poll = poll_after(&mut client, millis(100));
    answer(&mut client, &poll, "complete", requires_input(json!({"b": roots()})));
    let [(_, key)] = input_requests(&mut client)[..] else { panic!("one input request") };
    // The call ends if the server refuses the responses or has no such task.
    client.respond(key, &json!({"roots": []}));
    let update = one(client.sent());
    refuse(&mut client, &update, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}
