//! Requests of 2026-07-28 that get input requests or are deferred: the messages on the wire, and their times.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, Event, Outcome, RequestOptions, ResourceUsage, SendError, Wake},
    rpc::{CallId, ReplyKey},
    schema::CallToolParams,
    wire::Json,
};
use mcp_tests::{
    harness::{Harness, full_client_with},
    modern::{answer, modern_only},
};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const NOTHING: [Value; 0] = [];

fn call(client: &mut Client) -> (CallId, Value) {
    let call = client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default());
    (call.expect("it is ready"), client.sent_one())
}

fn input_request() -> Value {
    json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}})
}

/// Returns a call with an open input request.
#[track_caller]
fn requested(client: &mut Client) -> (CallId, Value, ReplyKey) {
    let (call, request) = call(client);
    client.feed(&answer(&request, input_request()));
    let events = client.take_events();
    let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
    (call, request, key)
}

fn respond(client: &mut Client, key: ReplyKey) {
    client.conn.respond_raw(key, &(&Json::parse("{\"roots\":[]}").expect("JSON")).into()).expect("it is owed");
}

// req: M-CANC-003 M-MRTR-039
#[test]
fn ended_rounds_send_no_cancellation() {
    type Act = fn(&mut Client, CallId);
    let ways: [(&str, Act); 2] = [
        ("cancelled", |client, call| client.conn.cancel(call, None).expect("it is in flight")),
        ("timed out", |client, _| client.advance(Duration::from_secs(1800))),
    ];
    for (way, act) in ways {
        let mut client = Client::modern_client();
        let (call, _, key) = requested(&mut client);
        act(&mut client, call);
        client.take_events();
        assert_eq!(client.sent(), NOTHING, "{way}: the server has answered, and works on nothing");
        respond(&mut client, key);
        assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()), "{way}");
    }
}

// req: M-MRTR-019
#[test]
fn second_responses_are_violations() {
    for second in
        [input_request(), json!({"content": []}), json!({"resultType": "input_required", "requestState": "s"})]
    {
        let mut client = Client::modern_client();
        let (call, request, key) = requested(&mut client);
        client.feed(&answer(&request, second.clone()));
        let events = client.take_events();
        assert!(matches!(events[..], [Event::Violation(_)]), "{second}: {events:?}");
        assert_eq!(client.sent(), NOTHING);
        respond(&mut client, key);
        let again = client.sent_one();
        client.feed(&answer(&again, json!({"content": []})));
        let events = client.take_events();
        assert!(
            matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call),
            "{second}: {events:?}"
        );
    }
}

fn put_off(request: &Value) -> Value {
    answer(request, json!({"resultType": "input_required", "requestState": "more"}))
}

// req: M-MRTR-020
#[test]
fn deferred_calls_retry_with_backoff() {
    let mut client = Client::modern_client();
    let (call, first) = call(&mut client);
    client.feed(&put_off(&first));
    let mut request = client.sent_one();
    for pause in [250, 500, 1000, 2000, 4000, 8000, 8000].map(Duration::from_millis) {
        client.feed(&put_off(&request));
        let deadline = client.conn.poll_timeout().expect("it is to be sent again");
        assert_eq!((deadline.at, deadline.wake), (client.now + pause, Wake::Retry));
        client.advance(pause - Duration::from_nanos(1));
        assert_eq!(client.sent(), NOTHING, "{pause:?}");
        client.advance(Duration::from_nanos(1));
        request = client.sent_one();
        assert_eq!(request["params"]["requestState"], "more");
    }
    // An input request resets the delay.
    client.feed(&answer(&request, input_request()));
    let [Event::Request { key, .. }] = client.take_events()[..] else { panic!("an input request") };
    respond(&mut client, key);
    let request = client.sent_one();
    client.feed(&put_off(&request));
    let request = client.sent_one();
    client.feed(&answer(&request, json!({"content": []})));
    assert!(matches!(client.take_events()[..], [Event::Response { call: ended, .. }] if ended == call));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn deferred_calls_can_end_before_the_retry() {
    type Act = fn(&mut Client, CallId);
    let ways: [(&str, Act); 3] = [
        ("cancelled", |client, call| client.conn.cancel(call, None).expect("it is in flight")),
        ("closed", |client, _| client.conn.close(client.now)),
        ("timed out", |client, _| {
            // The delay is longer than the remaining time.
            client.advance(Duration::from_millis(100));
        }),
    ];
    for (way, act) in ways {
        let mut client = Client::modern_client();
        let options = RequestOptions { total_timeout: Some(Duration::from_millis(100)), ..RequestOptions::default() };
        let call = client.conn.request(client.now, &CallToolParams::new("t"), options).expect("it is ready");
        let first = client.sent_one();
        client.feed(&put_off(&first));
        let second = client.sent_one();
        client.feed(&put_off(&second));
        act(&mut client, call);
        let events = client.take_events();
        assert!(
            matches!(events.first(), Some(Event::Response { call: ended, .. }) if *ended == call),
            "{way}: {events:?}"
        );
        client.advance(Duration::from_secs(60));
        assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()), "{way}");
    }
}

// req: M-MRTR-018
#[test]
fn rounds_are_bounded() {
    let mut client = Client::modern_client();
    let (_, mut request) = call(&mut client);
    for _ in 0..16 {
        client.feed(&put_off(&request));
        client.advance(Duration::from_secs(8));
        request = client.sent_one();
    }
    client.feed(&put_off(&request));
    assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Malformed, .. }]));
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));
}

// req: M-MRTR-022
#[test]
fn request_state_must_be_a_string() {
    for state in [json!(5), json!({}), json!(null)] {
        let mut client = Client::modern_client();
        let (_, request) = call(&mut client);
        client.feed(&answer(&request, json!({"resultType": "input_required", "requestState": state})));
        assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Malformed, .. }]), "{state}");
    }
    let mut client = Client::modern_client();
    let (_, request) = call(&mut client);
    // The state is returned verbatim, with its escapes.
    let state = r#""\u0041 \/ \ud83d\ude00 {\"a\":1}""#;
    let id = &request["id"];
    client.feed_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","requestState":{state}}}}}"#
    ));
    let again = client.sent_text().pop().expect("it goes again");
    assert!(again.contains(&format!("\"requestState\":{state}")), "{again}");
}

// req: M-MRTR-028
#[test]
fn round_state_is_not_shared_between_calls() {
    let mut client = Client::modern_client();
    let (_, one, key) = requested(&mut client);
    let (_, two) = call(&mut client);
    client.feed(&put_off(&two));
    let two = client.sent_one();
    assert_eq!((&two["params"]["requestState"], two["params"].get("inputResponses")), (&json!("more"), None));
    respond(&mut client, key);
    let again = client.sent_one();
    assert_ne!(again["id"], one["id"]);
    assert_eq!((again["params"].get("requestState"), again["params"]["inputResponses"].is_object()), (None, true));
    let (_, three) = call(&mut client);
    assert_eq!((three["params"].get("requestState"), three["params"].get("inputResponses")), (None, None));
}

#[test]
fn retained_call_bytes_are_bounded() {
    let mut config = full_client_with(modern_only());
    config.settings.limits.call_bytes = 1000;
    let mut client = Client::modern_client_with(config);
    let params = CallToolParams::new("x".repeat(600));
    let send_request = |client: &mut Client| client.conn.request(client.now, &params, RequestOptions::default());
    let first = send_request(&mut client).expect("there is room");
    send_request(&mut client).expect("there is room");
    assert_eq!(send_request(&mut client), Err(SendError::Busy));
    client.conn.cancel(first, None).expect("it is in flight");
    assert!(send_request(&mut client).is_ok());
    client.sent();

    // The state of the server counts, too.
    let mut config = full_client_with(modern_only());
    config.settings.limits.call_bytes = 1000;
    let mut client = Client::modern_client_with(config);
    let (_, request) = call(&mut client);
    let state = "s".repeat(2000);
    client.feed(&answer(&request, json!({"resultType": "input_required", "requestState": state})));
    assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Malformed, .. }]));
    // The input responses of the application count, too.
    let (ended, _, key) = requested(&mut client);
    let long = format!("{{\"roots\":[],\"x\":\"{}\"}}", "s".repeat(2000));
    client.conn.respond_raw(key, &(&Json::parse(long).expect("JSON")).into()).expect("it is owed");
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call, outcome: Outcome::Error(_) }] if *call == ended),
        "{events:?}"
    );
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));
}
