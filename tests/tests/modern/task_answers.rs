//! What the task of a call asks, and the answers: when they leave, and what is kept of them.

use std::time::Duration;

use mcp_proto::{
    connection::{Outcome, RequestOptions, ResourceUsage},
    schema::CallToolParams,
};
use serde_json::{Value, json};

use super::task_polling::{
    answer, asks, begun, client, completed, look_after, millis, one, outcome, questions, refuse, roots, task,
};

const NOTHING: [Value; 0] = [];

#[test]
fn what_is_kept_of_a_task_and_its_questions_is_told() {
    let asked = |names: [&str; 2]| {
        let mut client = client();
        let call = begun(&mut client);
        assert_eq!(client.conn.usage().call_bytes, 2 * "t".len(), "the id of the task, and what it is found by");
        let look = look_after(&mut client, millis(100));
        answer(&mut client, &look, "complete", asks(names.iter().map(|name| ((*name).to_owned(), roots())).collect()));
        let [(_, first), (_, second)] = questions(&mut client)[..] else { panic!("two questions") };
        (client, call, [first, second])
    };
    let least = asked(["a", "b"]).0.conn.usage().call_bytes;
    let (mut client, call, [first, second]) = asked(["first", "second"]);
    let open = client.conn.usage().call_bytes;
    assert_eq!(open - least, "first".len() + "second".len() - 2);
    client.answer(first, &json!({"roots": []}));
    assert_eq!(client.conn.usage().call_bytes - open, r#"{"roots":[]}"#.len());
    client.answer(second, &json!({"roots": []}));
    let update = one(client.sent());
    answer(&mut client, &update, "complete", json!({}));
    assert_eq!(client.conn.usage().call_bytes, open, "what has arrived is not kept");
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", completed());
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Result(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn answers_go_with_the_next_request_where_the_server_is_in_trouble_and_instead_of_one_that_has_not_left() {
    let mut client = client();
    begun(&mut client);
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots(), "b": roots()})));
    let [(_, first), (_, second)] = questions(&mut client)[..] else { panic!("two questions") };
    client.answer(first, &json!({"roots": []}));
    let look = look_after(&mut client, millis(400));
    refuse(&mut client, &look, -32603);
    client.answer(second, &json!({"roots": []}));
    assert_eq!(client.sent(), NOTHING, "it is left in peace");
    client.advance(Duration::from_secs(1));
    let update = one(client.sent());
    assert_eq!(update["method"], "tasks/update");
    answer(&mut client, &update, "complete", json!({}));

    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"c": roots()})));
    let [(_, third)] = questions(&mut client)[..] else { panic!("a question") };
    client.now = client.now + millis(400);
    client.conn.handle_timeout(client.now);
    assert_eq!(client.conn.usage().outbox_frames, 1, "the next look");
    client.answer(third, &json!({"roots": []}));
    assert_eq!(one(client.sent())["method"], "tasks/update");
}

#[test]
fn what_a_server_says_first_of_how_long_it_keeps_a_task_counts() {
    let mut client = client();
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    let (call, request) = (call.expect("it may be asked"), one(client.sent()));
    answer(&mut client, &request, "task", task("working", json!({"ttlMs": 300})));
    client.take_events();
    let look = look_after(&mut client, millis(100));
    refuse(&mut client, &look, -32603);
    client.advance(millis(250));
    let look = one(client.sent());
    refuse(&mut client, &look, -32603);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(_)));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn answers_that_do_not_arrive_are_sent_again() {
    let mut client = client();
    let call = begun(&mut client);
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"a": roots()})));
    let [(_, key)] = questions(&mut client)[..] else { panic!("one question") };
    client.answer(key, &json!({"roots": []}));
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
    let look = look_after(&mut client, millis(100));
    answer(&mut client, &look, "complete", asks(json!({"b": roots()})));
    let [(_, key)] = questions(&mut client)[..] else { panic!("one question") };
    // What the server does not want, or does not know any more, ends the call.
    client.answer(key, &json!({"roots": []}));
    let update = one(client.sent());
    refuse(&mut client, &update, -32602);
    assert!(matches!(outcome(&client.take_events(), call), Outcome::Error(error) if error.code.0 == -32602));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}
