//! Subscriptions on the side of the client: which notification belongs to which, and what happens when the server ends
//! one.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, CloseReason, Event, Outcome, RequestOptions, ResourceUsage, Violation, Wake},
    protocol::Method,
    rpc::CallId,
    schema::{ListToolsParams, SubscriptionFilter, SubscriptionsListenParams},
};
use mcp_tests::{
    harness::{Harness, full_client_with},
    message::{cancelled, notification_with},
    modern::{answer, modern_only, refuse},
};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const NOTHING: [Value; 0] = [];

fn filter() -> SubscriptionFilter {
    SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() }
}

fn again() -> RequestOptions {
    RequestOptions { resubscribe: true, ..RequestOptions::default() }
}

fn listen(client: &mut Client, options: RequestOptions) -> (CallId, Value) {
    let call = client.conn.request(client.now, &SubscriptionsListenParams::new(filter()), options);
    (call.expect("it is ready"), client.sent_one())
}

fn tagged(request: &Value, method: &str) -> Value {
    let mut params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}});
    if method == "subscriptions/acknowledged" {
        params["notifications"] = json!({"toolsListChanged": true});
    }
    notification_with(&format!("notifications/{method}"), params)
}

/// Returns the name of the notification that is delivered, and its call.
#[track_caller]
fn received(client: &mut Client) -> (String, Option<CallId>) {
    match &client.take_events()[..] {
        [Event::Notification { method, params: Some(params), .. }] => {
            (method.as_str().replace("notifications/", ""), client.conn.subscription(params))
        }
        events => panic!("{events:?}"),
    }
}

#[track_caller]
fn acknowledge(client: &mut Client, call: CallId, request: &Value) {
    client.feed(&tagged(request, "subscriptions/acknowledged"));
    assert_eq!(received(client), ("subscriptions/acknowledged".into(), Some(call)));
}

/// Returns a client with a subscription that is reopened, and the request for it.
fn listening() -> (Client, CallId, Value) {
    let mut client = Client::modern_client();
    let (call, request) = listen(&mut client, again());
    acknowledge(&mut client, call, &request);
    (client, call, request)
}

fn done(request: &Value) -> Value {
    answer(
        request,
        json!({
        "resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}}),
    )
}

// req: M-SUBS-011 M-SUBS-012 M-SUBS-007 M-STDIO-010
#[test]
fn changes_belong_to_the_named_subscription() {
    let mut client = Client::modern_client();
    let (first, one) = listen(&mut client, RequestOptions::default());
    let (second, two) = listen(&mut client, RequestOptions::default());
    // Acknowledgements may come in any order, with other messages between them.
    acknowledge(&mut client, second, &two);
    client.feed(&tagged(&two, "tools/list_changed"));
    assert_eq!(received(&mut client), ("tools/list_changed".into(), Some(second)));
    acknowledge(&mut client, first, &one);
    client.feed(&tagged(&one, "tools/list_changed"));
    assert_eq!(received(&mut client), ("tools/list_changed".into(), Some(first)));
    assert_eq!(client.conn.stats().violations, 0);
}

// req: M-SUBS-033
#[test]
fn unacknowledged_changes_are_violations() {
    let mut client = Client::modern_client();
    let (call, request) = listen(&mut client, again());
    client.feed(&tagged(&request, "tools/list_changed"));
    let violation = Violation::Unacknowledged(Method::ToolsListChanged);
    assert_eq!(client.take_events(), [Event::Violation(violation)]);
    acknowledge(&mut client, call, &request);
    client.feed(&tagged(&request, "tools/list_changed"));
    assert_eq!(received(&mut client).1, Some(call));
}

// req: M-SUBS-030
#[test]
fn only_the_acknowledgement_can_time_out() {
    let mut client = Client::modern_client();
    let (call, request) = listen(&mut client, again());
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: false } }]);
    assert_eq!(client.sent_one()["params"]["requestId"], request["id"]);

    let (mut client, _, _) = listening();
    client.advance(Duration::from_secs(1_000_000));
    assert_eq!((client.take_events(), client.sent()), (vec![], vec![]));
}

type End = fn(&mut Client, &Value);

const ENDS: [(&str, End); 4] = [
    ("result", |client, request| client.feed(&done(request))),
    ("cancelled", |client, request| client.feed(&cancelled(request["id"].clone()))),
    ("result, cancelled", |client, request| {
        client.feed(&done(request));
        client.feed(&cancelled(request["id"].clone()));
    }),
    ("cancelled, result", |client, request| {
        client.feed(&cancelled(request["id"].clone()));
        client.feed(&done(request));
    }),
];

// req: M-SUBS-022 M-SUBS-018 M-CANC-012
#[test]
fn subscriptions_end_exactly_once() {
    for (way, end) in ENDS {
        let mut client = Client::modern_client();
        let (call, request) = listen(&mut client, RequestOptions::default());
        acknowledge(&mut client, call, &request);
        end(&mut client, &request);
        let events = client.take_events();
        let ended =
            events.iter().filter(|event| matches!(event, Event::Response { call: ended, .. } if *ended == call));
        assert_eq!(ended.count(), 1, "{way}: {events:?}");
        assert_eq!((client.conn.stats().violations, client.sent()), (0, vec![]), "{way}");
        assert_eq!(client.conn.usage(), ResourceUsage::default(), "{way}");
    }
}

// req: M-SUBS-019 M-SUBS-022
#[test]
fn ended_subscriptions_are_reopened_after_a_delay() {
    for (way, end) in ENDS {
        let (mut client, call, first) = listening();
        end(&mut client, &first);
        assert_eq!(client.take_events(), [], "{way}");
        assert_eq!(client.conn.stats().violations, 0, "{way}");
        let deadline = client.conn.poll_timeout().expect("it is opened again");
        assert_eq!((deadline.at, deadline.wake), (client.now + Duration::from_millis(250), Wake::Retry), "{way}");
        assert_eq!(client.sent(), NOTHING, "{way}");
        client.advance(Duration::from_millis(250));
        let second = client.sent_one();
        assert_ne!(second["id"], first["id"]);
        assert_eq!(second["params"]["notifications"], first["params"]["notifications"]);
        // A late message of the first subscription is not delivered to the second.
        client.feed(&tagged(&first, "tools/list_changed"));
        assert_eq!(client.take_events(), [], "{way}");
        acknowledge(&mut client, call, &second);
        client.feed(&tagged(&second, "tools/list_changed"));
        assert_eq!(received(&mut client).1, Some(call), "{way}");
        client.conn.cancel(call, None).expect("it is in force");
        assert_eq!(client.sent(), [cancelled(second["id"].clone())], "{way}");
    }
}

#[test]
fn resubscription_attempts_are_limited_and_reset() {
    let (mut client, call, mut request) = listening();
    for pause in [250, 500, 1000, 2000, 4000, 8000, 8000, 8000].map(Duration::from_millis) {
        client.feed(&done(&request));
        client.advance(pause - Duration::from_nanos(1));
        assert_eq!(client.sent(), NOTHING, "{pause:?}");
        client.advance(Duration::from_nanos(1));
        request = client.sent_one();
        acknowledge(&mut client, call, &request);
    }
    let mut patient = client;
    // The subscription has lasted, so the number of attempts is reset.
    let mut client = {
        let (mut client, call, first) = listening();
        client.feed(&done(&first));
        client.advance(Duration::from_millis(250));
        let second = client.sent_one();
        acknowledge(&mut client, call, &second);
        client.advance(Duration::from_secs(8));
        client.feed(&done(&second));
        client
    };
    assert_eq!(client.conn.poll_timeout().map(|due| due.at), Some(client.now + Duration::from_millis(250)));
    client.advance(Duration::from_millis(250));
    client.sent_one();
    // The subscription has not lasted, so the call ends.
    patient.feed(&done(&request));
    let events = patient.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call),
        "{events:?}"
    );
    assert_eq!((patient.sent(), patient.conn.usage()), (vec![], ResourceUsage::default()));
}

// req: M-SUBS-032
#[test]
fn failed_resubscription_ends_the_call() {
    for code in [-32601, -32603] {
        let (mut client, call, first) = listening();
        client.feed(&done(&first));
        client.advance(Duration::from_millis(250));
        let second = client.sent_one();
        client.feed(&refuse(&second, code, json!(null)));
        let events = client.take_events();
        assert!(
            matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Error(error) }]
                if *ended == call && error.code.0 == code),
            "{events:?}"
        );
    }
    // The wait for the next acknowledgement is limited.
    let (mut client, call, first) = listening();
    client.feed(&done(&first));
    client.advance(Duration::from_millis(250));
    client.sent_one();
    client.advance(Duration::from_secs(60));
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::TimedOut { total: false } }]);
}

#[test]
fn pending_resubscriptions_can_be_cancelled() {
    let (mut client, call, first) = listening();
    client.feed(&done(&first));
    client.conn.cancel(call, None).expect("it is in force");
    assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Cancelled }]);
    client.advance(Duration::from_secs(60));
    assert_eq!((client.sent(), client.conn.usage()), (vec![], ResourceUsage::default()));

    let (mut client, call, first) = listening();
    client.feed(&done(&first));
    client.conn.handle_eof(client.now);
    let outcome = Outcome::Closed(CloseReason::Eof);
    assert_eq!(client.take_events(), [Event::Response { call, outcome }, Event::Closed(CloseReason::Eof)]);
}

fn is_requested(client: &mut Client) -> bool {
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it is ready");
    let sent = client.sent();
    if let Some(request) = sent.first() {
        let list = json!({"resultType": "complete", "tools": [], "ttlMs": 3_600_000, "cacheScope": "private"});
        client.feed(&answer(request, list));
    }
    client.take_events();
    !sent.is_empty()
}

// req: M-CACHE-019 M-SUBS-020
#[test]
fn lost_subscription_invalidates_the_cache() {
    let (mut client, call, first) = listening();
    assert_eq!((is_requested(&mut client), is_requested(&mut client)), (true, false));
    client.feed(&done(&first));
    assert_eq!(
        (is_requested(&mut client), is_requested(&mut client)),
        (true, false),
        "no server reports changes any more"
    );
    client.advance(Duration::from_millis(250));
    let second = client.sent_one();
    assert!(!is_requested(&mut client));
    acknowledge(&mut client, call, &second);
    assert_eq!((is_requested(&mut client), is_requested(&mut client)), (true, false), "it may have changed in between");
    // A notification before the acknowledgement still invalidates the cache.
    let (_, early) = listen(&mut client, RequestOptions::default());
    client.feed(&tagged(&early, "tools/list_changed"));
    assert!(is_requested(&mut client));
    client.conn.cancel(call, None).expect("it is in force");
    client.sent();
    assert!(is_requested(&mut client));
}

// req: M-SUBS-027
#[test]
fn subscriptions_have_no_progress_token() {
    let mut client = Client::modern_client_with(full_client_with(modern_only()));
    let (_, request) = listen(&mut client, RequestOptions::default());
    assert_eq!(request["params"]["_meta"].get("progressToken"), None);
    client.feed(&notification_with("notifications/progress", json!({"progressToken": request["id"], "progress": 1})));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownProgress)]));
}

// req: M-CANC-007
#[test]
fn server_can_cancel_only_subscriptions() {
    let mut client = Client::modern_client();
    let call = client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default());
    let (call, request) = (call.expect("it is ready"), client.sent_one());
    client.feed(&cancelled(request["id"].clone()));
    let violation = Violation::WrongDirection(Method::Cancelled);
    assert_eq!(client.take_events(), [Event::Violation(violation)]);
    // A cancellation without a known id is ignored.
    for nothing in [json!(99), json!("x"), json!({})] {
        client.feed(&notification_with("notifications/cancelled", json!({"requestId": nothing})));
        assert_eq!(client.take_events(), [], "{nothing}");
    }
    client.feed(&answer(&request, json!({"resultType": "complete", "tools": []})));
    assert!(matches!(client.take_events()[..], [Event::Response { call: ended, .. }] if ended == call));
}
