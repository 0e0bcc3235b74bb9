//! Progress of outbound requests, of inbound requests, and of tasks.

use std::collections::BTreeSet;

use mcp_proto::{
    connection::{Event, Outcome, Progress, RequestOptions, ResourceUsage, SendError, Violation},
    protocol::{Method, MethodKind, ProtocolVersion},
    rpc::CallId,
    schema::{CallToolParams, Meta},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::Harness,
    link::LinkConfig,
    message::{
        cancelled, notification, notification_with, progress, request, request_with, request_with_token, result,
    },
    testbed::Testbed,
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn silent() -> RequestOptions {
    RequestOptions { progress: false, ..RequestOptions::default() }
}

// ---- outbound requests ----

// req: PROG-001 PROG-002 PROG-003
#[test]
fn calls_replace_the_progress_token_of_params() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let raw = Json::parse(r#"{"name":"t","_meta":{"progressToken":"mine","vendor/x":1}}"#).expect("it is JSON");
        let mut meta = Meta::new();
        meta.set("progressToken", "mine").expect("a text");
        let typed = CallToolParams { meta: Some(meta), ..CallToolParams::new("t") };
        let options = RequestOptions::default;
        let calls = [
            client.conn.request_raw(client.now, "tools/call", Some(&RawJson::from(&raw)), options()),
            client.conn.request(client.now, &typed, options()),
            client.conn.request(client.now, &CallToolParams::new("t"), options()),
            client.conn.request_raw(client.now, "vendor/a", None, options()),
        ]
        .map(|call| call.expect("it is ready"));
        let sent = client.sent();
        let mut tokens = BTreeSet::new();
        for (call, message) in calls.iter().zip(&sent) {
            let token = &message["params"]["_meta"]["progressToken"];
            assert_eq!(*token, call.as_u64(), "{message}");
            assert!(tokens.insert(token.to_string()));
            client.feed(&progress(token.clone(), 1));
            assert!(matches!(client.take_events()[..], [Event::Progress { call: of, .. }] if of == *call));
        }
        assert_eq!(sent[0]["params"]["_meta"]["vendor/x"], 1);
        client.call_with("vendor/b", silent());
        assert_eq!(client.conn.stats().violations, 0);
    }
}

// req: PROG-004 PROG-005 PROG-008
#[test]
fn progress_accepts_any_json_number() {
    let table = [
        ("0", 0.0),
        ("1", 1.0),
        ("-3", -3.0),
        ("0.1", 0.1),
        ("1e-3", 0.001),
        ("2.5E+2", 250.0),
        ("99.999999999", 99.999_999_999),
        ("9007199254740993", 9_007_199_254_740_993.0),
        ("1e300", 1e300),
    ];
    fn check<E>(mut harness: Harness<E>, text: &str, number: f64) {
        let call = harness.call("vendor/a");
        for total in [false, true] {
            let more = if total { format!(r#","total":{text},"message":"so far""#) } else { String::new() };
            harness.feed_text(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{text}{more}}}}}"#,
                call.as_u64()
            ));
            let expected =
                Progress { progress: number, total: total.then_some(number), message: total.then(|| "so far".into()) };
            assert_eq!(harness.take_events(), [Event::Progress { call, progress: expected }], "{text}");
        }
    }
    for version in ProtocolVersion::LEGACY {
        for (text, number) in table {
            check(Harness::ready_client(version), text, number);
            check(Harness::ready_server(version), text, number);
        }
    }
}

// req: PROG-010 PROG-012
#[test]
fn invalid_progress_does_not_affect_calls() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let ended = client.call("vendor/a");
        client.feed(&result(ended.as_u64(), json!({})));
        let given_up = client.call("vendor/a");
        client.conn.cancel(given_up, None).expect("it is in flight");
        let unasked = client.call_with("vendor/a", silent());
        let live = client.call("vendor/a");
        client.take_events();
        client.sent();
        let whole =
            [json!({}), json!({"message": "half"}), json!({"total": 2}), json!({"total": 2, "message": "half"})];
        for late in [ended, given_up] {
            for rest in &whole {
                let mut message = progress(late.as_u64(), 1);
                for (name, value) in rest.as_object().expect("members") {
                    message["params"][name] = value.clone();
                }
                client.feed(&message);
                assert_eq!(client.take_events(), [], "it crossed the end: {message}");
            }
        }
        assert_eq!(client.conn.stats().late_responses, 8);
        let unknown = [json!(unasked.as_u64()), json!(live.as_u64() + 1), json!(0), json!("x"), json!("")];
        for token in unknown {
            client.feed(&progress(token, 1));
            assert_eq!(client.take_events(), [Event::Violation(Violation::UnknownProgress)]);
        }
        let token = live.as_u64();
        let malformed = [
            json!({}),
            json!({"progress": 1}),
            json!({"progressToken": token}),
            json!({"progressToken": token, "progress": "1"}),
            json!({"progressToken": token, "progress": null}),
            json!({"progressToken": null, "progress": 1}),
            json!({"progressToken": [token], "progress": 1}),
            json!({"progressToken": 1.5, "progress": 1}),
        ];
        client.feed(&notification("notifications/progress"));
        for params in &malformed {
            client.feed(&notification_with("notifications/progress", params.clone()));
        }
        let bad = Event::Violation(Violation::BadParams(Method::Progress));
        assert_eq!(client.take_events(), vec![bad; malformed.len() + 1]);
        assert_eq!(client.sent(), NOTHING);
        client.feed(&result(token, json!({})));
        assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
    }
}

#[test]
fn unsent_calls_accept_no_progress() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let options = RequestOptions::default();
    let call = client.conn.request_raw(client.now, "vendor/a", None, options).expect("it is ready");
    client.feed(&progress(call.as_u64(), 1));
    assert_eq!(client.take_events(), [Event::Violation(Violation::UnknownProgress)]);
}

// ---- inbound requests ----

// req: PROG-002 PROG-004 PROG-005
#[test]
fn progress_token_is_echoed_byte_for_byte() {
    for version in ProtocolVersion::LEGACY {
        for token in ["0", "7", "-1", "1.0", "18446744073709551616", r#""""#, r#""7""#, r#""\u00e9\n""#, r#""t-1""#] {
            let mut server = Harness::ready_server(version);
            server.feed_text(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":{token}}}}}}}"#
            ));
            let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token}") };
            server.conn.progress(key, 0.5, Some(2.0), Some("half\nway")).expect("it was requested");
            let message = if version == ProtocolVersion::V2024_11_05 { "" } else { r#","message":"half\nway""# };
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":0.5,"total":2{message}}}}}"#
            );
            assert_eq!(server.sent_text(), [expected], "{version}");
        }
    }
}

// req: PROG-001
#[test]
fn every_request_method_supports_progress() {
    for version in ProtocolVersion::LEGACY {
        let is_requested = |method: &Method| {
            method.kind() == MethodKind::Request
                && method.from().is_client()
                && method.versions().contains(version)
                && !matches!(method, Method::Initialize | Method::Ping)
        };
        for method in Method::ALL.iter().copied().filter(is_requested) {
            let mut server = Harness::ready_server(version);
            let params = json!({"level": "info", "_meta": {"progressToken": "t", "vendor/x": null}});
            let key = server.receive_request(&request_with(1, method.as_str(), params));
            server.conn.progress(key, 1.0, None, None).expect("it was requested");
            assert_eq!(server.sent(), [progress("t", 1)], "{method} in {version}");
        }
        let mut server = Harness::ready_server(version);
        server.feed(&request_with_token(1, "ping", "t"));
        assert_eq!(server.sent(), [result(1, json!({}))]);
    }
}

#[test]
fn progress_needs_a_valid_token() {
    let metas =
        [json!({}), json!({"progressToken": null}), json!({"progressToken": 1.5}), json!({"progressToken": {}})];
    let mut params: Vec<_> = metas.into_iter().map(|meta| json!({"_meta": meta})).collect();
    params.extend([json!({}), json!({"progressToken": 1}), json!({"_meta": null}), json!({"_meta": "progressToken"})]);
    for params in params {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
        let key = server.receive_request(&request_with(1, "tools/call", params.clone()));
        server.conn.progress(key, 1.0, None, None).expect("it is as good as sent");
        assert_eq!(server.sent(), NOTHING, "{params}");
        server.respond(key, &json!({}));
        assert_eq!(server.sent().len(), 1);
    }
}

// req: PROG-007
#[test]
fn non_increasing_progress_is_not_sent() {
    fn check<E>(mut harness: Harness<E>) {
        let key = harness.receive_request(&request_with_token(1, "vendor/a", "t"));
        let refused = Err(SendError::ProgressNotGrowing);
        let table = [
            (-2.5, Ok(())),
            (-2.5, refused.clone()),
            (-3.0, refused.clone()),
            (f64::NAN, refused.clone()),
            (f64::INFINITY, refused.clone()),
            (f64::NEG_INFINITY, refused.clone()),
            (0.0, Ok(())),
            (-0.0, refused.clone()),
            (f64::MIN_POSITIVE, Ok(())),
            (0.1, Ok(())),
            (0.1, refused.clone()),
            (1e300, Ok(())),
            (1e299, refused),
        ];
        for (step, expected) in table {
            for total in [Some(1.0), None, Some(f64::NAN)] {
                let before = harness.conn.usage();
                let outcome = harness.conn.progress(key, step, total, None);
                // The total does not matter, and a value that was sent is not sent again.
                let expected = if total == Some(1.0) { &expected } else { &Err(SendError::ProgressNotGrowing) };
                assert_eq!(outcome, *expected, "{step}");
                assert!(outcome.is_ok() || harness.conn.usage() == before, "{step}");
            }
        }
        let sent: Vec<_> = harness.sent().iter().map(|message| message["params"]["progress"].as_f64()).collect();
        assert_eq!(sent, [-2.5, 0.0, f64::MIN_POSITIVE, 0.1, 1e300].map(Some));
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

// req: PROG-009 PROG-011
#[test]
fn progress_is_ordered_before_the_response() {
    for link in [LinkConfig::default(), LinkConfig::one_byte()] {
        let mut testbed = Testbed::ready_over(link);
        let call =
            testbed.client.conn.request_raw(testbed.now, "vendor/a", None, RequestOptions::default()).expect("ready");
        testbed.settle();
        let Some(Event::Request { key, .. }) = testbed.server.take_events().pop() else { panic!("it was requested") };
        for step in 1..=500 {
            testbed.server.conn.progress(key, f64::from(step), Some(500.0), None).expect("it was requested");
            if step % 7 == 0 {
                testbed.run();
            }
        }
        testbed.server.conn.respond_error(key, &ErrorObject::internal("done")).expect("an answer is owed");
        assert_eq!(testbed.server.conn.progress(key, 501.0, None, None), Err(SendError::Answered));
        testbed.settle();
        assert_eq!(testbed.server.conn.progress(key, 502.0, None, None), Err(SendError::Answered));
        testbed.settle();
        let steps: Vec<_> = testbed
            .client
            .take_events()
            .into_iter()
            .map(|event| match event {
                Event::Progress { call: of, progress } if of == call => progress.progress,
                Event::Response { call: of, .. } if of == call => 501.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(steps, (1..=501).map(f64::from).collect::<Vec<_>>());
        testbed.assert_idle();
    }
}

// req: PROG-009 PROG-011
#[test]
fn progress_is_sent_only_for_open_requests() {
    fn check<E>(mut harness: Harness<E>, version: ProtocolVersion) {
        let bare = harness.receive_request(&request(1, "vendor/a"));
        assert_eq!(harness.conn.progress(bare, 1.0, None, None), Ok(()));
        assert_eq!(harness.sent(), NOTHING, "{version}: nothing was asked for");

        let key = harness.receive_request(&request_with_token(2, "vendor/a", "t"));
        harness.conn.progress(key, 1.0, None, None).expect("it was requested");
        harness.conn.respond_error(key, &ErrorObject::internal("done")).expect("an answer is owed");
        // First the response is queued, then it is sent.
        for is_queued in [true, false] {
            assert_eq!(harness.conn.progress(key, 2.0, None, None), Err(SendError::Answered), "{version}");
            let sent = harness.sent();
            assert_eq!(sent.len(), if is_queued { 2 } else { 0 }, "{version}: {sent:?}");
            assert!(!is_queued || sent[0] == progress("t", 1) && sent[1]["id"] == 2, "{version}: {sent:?}");
        }

        let key = harness.receive_request(&request_with_token(3, "vendor/a", "u"));
        harness.feed(&cancelled(3));
        assert_eq!(harness.conn.progress(key, 1.0, None, None), Ok(()));
        assert_eq!(harness.sent(), NOTHING, "{version}: it was cancelled");
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version), version);
        check(Harness::ready_server(version), version);
    }
}

// ---- tasks ----

fn task(status: &str) -> Value {
    json!({"taskId": "T", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null})
}

// req: PROG-007 PROG-009 PROG-014
#[test]
fn task_progress_uses_the_token_of_the_request() {
    fn check<E>(mut harness: Harness<E>, method: &str) {
        let created = serde_json::from_value(json!({"task": task("working")})).expect("a task");
        let key = harness.receive_request(&request_with_token(1, method, "t"));
        harness.conn.progress(key, 1.0, None, None).expect("it was requested");
        let mut reports = harness.conn.respond_task(key, &created).expect("an answer is owed").expect("it has a token");
        assert_eq!(harness.conn.progress(key, 2.0, None, None), Err(SendError::Answered));
        assert_eq!(harness.conn.task_progress(&mut reports, 1.0, None, None), Err(SendError::ProgressNotGrowing));
        harness.conn.task_progress(&mut reports, 2.0, Some(3.0), Some("on its way")).expect("it grows");
        let sent = harness.sent();
        assert_eq!((&sent[0], &sent[1]["result"]["task"]["taskId"]), (&progress("t", 1), &json!("T")));
        assert_eq!((&sent[2]["params"]["progressToken"], &sent[2]["params"]["progress"]), (&json!("t"), &json!(2)));

        // Without a token or a waiting call there is no progress to report.
        let key = harness.receive_request(&request(2, method));
        assert!(harness.conn.respond_task(key, &created).expect("an answer is owed").is_none());
        let key = harness.receive_request(&request_with_token(3, method, "t"));
        harness.feed(&cancelled(3));
        assert!(harness.conn.respond_task(key, &created).expect("it is swallowed").is_none());
        harness.conn.handle_disconnect();
        assert_eq!(harness.conn.task_progress(&mut reports, 3.0, None, None), Err(SendError::Closed));
    }
    check(Harness::ready_server(ProtocolVersion::V2025_11_25), "tools/call");
    check(Harness::ready_client(ProtocolVersion::V2025_11_25), "sampling/createMessage");
}

// req: PROG-016
#[test]
fn task_progress_token_is_valid_until_the_end() {
    type Client = Harness<mcp_proto::connection::ClientRole>;
    type Report = fn(&mut Client, &str);
    fn reports(client: &mut Client, call: CallId) -> bool {
        client.feed(&progress(call.as_u64(), 5));
        matches!(client.take_events()[..], [Event::Progress { call: of, .. }] if of == call)
    }
    fn requested(client: &mut Client, method: &str, answer: Value) {
        let call = client.call(method);
        client.feed(&result(call.as_u64(), answer));
        client.take_events();
    }
    // Every message that contains the status of a task.
    let ways: [(&str, Report); 3] = [
        ("tasks/get", |client, status| requested(client, "tasks/get", task(status))),
        ("tasks/cancel", |client, status| requested(client, "tasks/cancel", task(status))),
        ("notifications/tasks/status", |client, status| {
            client.feed(&notification_with("notifications/tasks/status", task(status)));
            client.take_events();
        }),
    ];
    let start = || {
        let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
        let params = Json::new(&json!({"name": "t", "task": {}})).expect("it is JSON");
        let options = RequestOptions::default();
        let call = client.conn.request_raw(client.now, "tools/call", Some(&RawJson::from(&params)), options);
        let call = call.expect("it was declared");
        client.sent();
        client.feed(&result(call.as_u64(), json!({"task": task("working")})));
        assert_eq!(client.take_events().len(), 1);
        (client, call)
    };
    for (way, tell) in ways {
        for end in ["completed", "failed", "cancelled"] {
            let (mut client, call) = start();
            assert!(reports(&mut client, call));
            for going_on in ["working", "input_required", "vendor-state"] {
                tell(&mut client, going_on);
                assert!(reports(&mut client, call), "{way}: {going_on}");
            }
            tell(&mut client, end);
            assert!(!reports(&mut client, call), "{way}: {end}");
            assert_eq!((client.conn.usage(), client.conn.stats().violations), (ResourceUsage::default(), 0));
        }
    }
    let (mut client, call) = start();
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "T"}});
    requested(&mut client, "tasks/result", json!({"content": [], "_meta": related}));
    assert!(!reports(&mut client, call), "only a task that has ended has a result");
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

#[test]
fn ended_tasks_are_not_followed() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    let params = Json::new(&json!({"name": "t", "task": {}})).expect("it is JSON");
    let options = RequestOptions::default();
    let call = client.conn.request_raw(client.now, "tools/call", Some(&RawJson::from(&params)), options);
    client.sent();
    client.feed(&result(call.expect("declared").as_u64(), json!({"task": task("failed")})));
    assert_eq!(client.take_events().len(), 1);
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}
