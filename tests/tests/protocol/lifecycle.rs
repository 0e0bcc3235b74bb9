//! The messages that are allowed before a session is ready. The handshake itself is in `handshake.rs`.

use mcp_proto::{
    connection::{CloseReason, Connection, Event, RequestOptions, ResourceUsage, SendError, Violation},
    protocol::{Method, MethodName, Phase, ProtocolVersion},
    schema::{ListRootsParams, ListToolsParams, LogMessageParams, LoggingLevel, PingParams},
    wire::Json,
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{cancelled, error, notification, notification_with, progress, request, request_with, result},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];

fn initialize(version: ProtocolVersion) -> Value {
    let client = json!({"name": "c", "version": "1"});
    request_with(
        "initialize",
        "initialize",
        json!({"protocolVersion": version.as_str(), "capabilities": {}, "clientInfo": client}),
    )
}

fn initialize_result(version: ProtocolVersion) -> Value {
    let server = json!({"name": "s", "version": "1"});
    json!({"protocolVersion": version.as_str(), "capabilities": {}, "serverInfo": server})
}

/// Returns all orders of the numbers below `n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let Some(last) = n.checked_sub(1) else { return vec![vec![]] };
    let insert = |order: Vec<usize>| {
        (0..n).map(move |at| order[..at].iter().copied().chain([last]).chain(order[at..].iter().copied()).collect())
    };
    orders(last).into_iter().flat_map(insert).collect()
}

/// Responds to every request to the server, and returns the other events.
fn serve(server: &mut Harness<mcp_proto::connection::ServerRole>) -> Vec<Event<'static>> {
    let (requests, others): (Vec<_>, Vec<_>) =
        server.take_events().into_iter().partition(|event| matches!(event, Event::Request { .. }));
    for event in requests {
        if let Event::Request { key, .. } = event {
            server.respond(key, &json!({}));
        }
    }
    others
}

// req: BASE-002 LIFE-004 LIFE-009 LIFE-012 LIFE-043
#[test]
fn first_client_messages_may_arrive_in_any_order() {
    // The kind of response before and after `initialize`.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Reply {
        Result,
        Refusal,
        Nothing,
    }
    use Reply::{Nothing, Refusal, Result};
    for version in ProtocolVersion::LEGACY {
        let table = [
            (initialize(version), Result, Result),
            (notification("notifications/initialized"), Nothing, Nothing),
            (request("ping", "ping"), Result, Result),
            (request_with("setLevel", "logging/setLevel", json!({"level": "info"})), Refusal, Result),
            (request("list", "tools/list"), Refusal, Result),
        ];
        for order in orders(table.len()) {
            let mut server = Harness::server(full_server());
            let mut ready = 0;
            for at in order.iter().copied() {
                let (message, before, after) = &table[at];
                let reply = if server.conn.version().is_none() { before } else { after };
                server.feed(message);
                ready += serve(&mut server).iter().filter(|event| **event == Event::Ready).count();
                let sent = server.sent();
                match (reply, &sent[..]) {
                    (Nothing, []) => {}
                    (Result, [answer]) => assert!(answer["result"].is_object(), "{order:?}: {answer}"),
                    (Refusal, [answer]) => assert_eq!(answer["error"]["code"], -32600, "{order:?}: {answer}"),
                    _ => panic!("{order:?}: {sent:?}"),
                }
                assert!(sent.iter().all(|answer| answer["id"] == message["id"]), "{order:?}: {sent:?}");
            }
            assert_eq!((ready, server.conn.version()), (1, Some(version)), "{order:?}");
            assert!(server.conn.is_ready(), "{order:?}");
            assert_eq!(server.conn.usage(), ResourceUsage::default(), "{order:?}");
        }
    }
}

// req: LIFE-009 LIFE-042
#[test]
fn client_handles_messages_during_the_handshake() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::client(full_client());
        let id = client.sent()[0]["id"].clone();
        let log = notification_with("notifications/message", json!({"level": "info", "data": "starting"}));
        client.feed(&log);
        client.feed(&notification("vendor/starting"));
        client.feed(&request("p", "ping"));
        client.feed(&request("r", "roots/list"));
        client.feed(&notification("notifications/tools/list_changed"));
        let methods: Vec<_> = client
            .take_events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Notification { method, .. } => Some(method.as_str().to_owned()),
                Event::Violation(Violation::NotReady(method)) => Some(method.as_str().to_uppercase()),
                _ => None,
            })
            .collect();
        let expected = ["notifications/message", "vendor/starting", "ROOTS/LIST", "notifications/tools/list_changed"];
        assert_eq!(methods, expected);
        let sent = client.sent();
        assert_eq!(sent[0], result("p", json!({})));
        assert_eq!((&sent[1]["id"], &sent[1]["error"]["code"]), (&json!("r"), &json!(-32600)));
        client.feed(&result(id, initialize_result(version)));
        assert_eq!(client.take_events(), [Event::Ready], "none of it was taken for the answer");
        assert_eq!(client.sent(), [notification("notifications/initialized")]);
    }
}

/// Whether a side may send its request, its notification, a ping, a log message and a custom message.
type Sends = [Result<(), SendError>; 5];

const ALL: Sends = [Ok(()), Ok(()), Ok(()), Ok(()), Ok(())];

fn try_to_send<E>(conn: &mut Connection<E>, send_request: Method, note: Method) -> Sends {
    let now = mcp_proto::rpc::Timestamp::ZERO;
    let options = RequestOptions::default();
    let log = LogMessageParams::new(LoggingLevel::Info, Json::new("x").expect("a text"));
    [
        conn.request_raw(now, send_request.as_str(), None, options.clone()).map(|_| ()),
        conn.notify_raw(note.as_str(), None),
        conn.request(now, &PingParams::default(), options).map(|_| ()),
        conn.notify(&log),
        conn.notify_raw("vendor/x", None),
    ]
}

// req: LIFE-001 LIFE-007
#[test]
fn client_sends_only_pings_before_ready() {
    for version in ProtocolVersion::LEGACY {
        let (send_request, note) = (Method::ListTools, Method::RootsListChanged);
        let not_ready = || Err(SendError::NotReady);
        let wrong = || Err(SendError::WrongDirection(Method::LogMessage));
        let mut client = Harness::client(full_client());
        let expected = [not_ready(), not_ready(), Ok(()), not_ready(), not_ready()];
        assert_eq!(try_to_send(&mut client.conn, send_request, note), expected);
        let sent = client.sent();
        assert_eq!((&sent[0]["method"], &sent[1]["method"]), (&json!("initialize"), &json!("ping")));
        assert_eq!(sent.len(), 2);

        let mut declared = initialize_result(version);
        declared["capabilities"] = json!({"tools": {}});
        client.feed(&result(sent[0]["id"].clone(), declared));
        // LIFE-006: `initialized` is sent first, although requests were made before it was polled.
        let mut expected = ALL;
        expected[3] = wrong();
        assert_eq!(try_to_send(&mut client.conn, send_request, note), expected);
        assert_eq!(client.sent()[0]["method"], "notifications/initialized");
    }
}

// req: LIFE-008
#[test]
fn server_sends_only_pings_and_logs_before_ready() {
    for version in ProtocolVersion::LEGACY {
        let (send_request, note) = (Method::ListRoots, Method::ToolsListChanged);
        let not_ready = || Err(SendError::NotReady);
        let mut server = Harness::server(full_server());
        let expected = [not_ready(), not_ready(), Ok(()), not_ready(), not_ready()];
        assert_eq!(try_to_send(&mut server.conn, send_request, note), expected);
        assert_eq!(server.conn.phase(), Phase::Opening);

        let mut hello = initialize(version);
        hello["params"]["capabilities"] = json!({"roots": {}});
        server.feed(&hello);
        let expected = [not_ready(), not_ready(), Ok(()), Ok(()), not_ready()];
        assert_eq!(try_to_send(&mut server.conn, send_request, note), expected);
        assert_eq!(server.conn.phase(), Phase::Initializing);

        server.feed(&notification("notifications/initialized"));
        assert_eq!(try_to_send(&mut server.conn, send_request, note), ALL);
        assert_eq!(server.conn.phase(), Phase::Ready);
    }
}

#[test]
fn stray_messages_before_the_handshake_are_harmless() {
    fn check<E>(mut harness: Harness<E>) {
        harness.sent();
        harness.feed(&cancelled(1));
        harness.feed(&progress(99, 1));
        harness.feed(&result(99, json!({})));
        harness.feed(&error(99, 1, "m"));
        harness.feed_text("hello");
        assert!(harness.take_events().iter().all(|event| matches!(event, Event::Violation(_))));
        assert_eq!(harness.conn.phase(), Phase::Opening);
    }
    check(Harness::client(full_client()));
    check(Harness::server(full_server()));
}

// req: BASE-025 LIFE-002 LIFE-003
#[test]
fn malformed_initialize_can_be_repeated() {
    for version in ProtocolVersion::LEGACY {
        let good = initialize(version)["params"].clone();
        let without = |member: &str| {
            let mut params = good.clone();
            params.as_object_mut().expect("an object").remove(member);
            params
        };
        let with = |member: &str, value: Value| {
            let mut params = good.clone();
            params[member] = value;
            params
        };
        let bad = [
            json!({}),
            without("protocolVersion"),
            without("capabilities"),
            without("clientInfo"),
            with("protocolVersion", json!(20_250_618)),
            with("protocolVersion", json!(null)),
            with("capabilities", json!([])),
            with("capabilities", json!(null)),
            with("clientInfo", json!("c")),
            with("clientInfo", json!({"name": "c"})),
            with("clientInfo", json!({"version": "1"})),
        ];
        for params in bad {
            let mut server = Harness::server(full_server());
            server.feed(&request_with(1, "initialize", params.clone()));
            let sent = server.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(1), &json!(-32602)), "{params}");
            assert_eq!(server.take_events(), [Event::Violation(Violation::BadParams(Method::Initialize))]);
            server.feed(&initialize(version));
            assert_eq!(server.sent()[0]["result"]["protocolVersion"], version.as_str());
        }
    }
}

// req: LIFE-003 LIFE-004 LIFE-017
#[test]
fn malformed_initialize_result_closes_the_client() {
    let good = initialize_result(ProtocolVersion::V2025_06_18);
    let with = |member: &str, value: Value| {
        let mut result = good.clone();
        result[member] = value;
        result
    };
    let bad = [
        json!({}),
        json!([]),
        json!(null),
        with("protocolVersion", json!(null)),
        with("protocolVersion", json!(20_250_618)),
        with("capabilities", json!(null)),
        with("capabilities", json!([])),
        with("serverInfo", json!("s")),
        with("serverInfo", json!({"name": "s"})),
        with("serverInfo", json!({"version": "1"})),
    ];
    for answer in bad {
        let mut client = Harness::client(full_client());
        let id = client.sent()[0]["id"].clone();
        client.feed(&result(id, answer.clone()));
        let events = client.take_events();
        assert!(matches!(events[..], [Event::Closed(CloseReason::BadHandshake(_))]), "{answer}: {events:?}");
        assert_eq!(client.sent(), NOTHING, "{answer}");
        assert!(client.conn.is_drained());
    }
    // Versions are compared as a whole: similar ones are different.
    for version in ["2025-06-18 ", "2025-6-18", "2025-06-18T00:00:00Z", ""] {
        let mut client = Harness::client(full_client());
        let id = client.sent()[0]["id"].clone();
        client.feed(&result(id, with("protocolVersion", json!(version))));
        assert_eq!(client.take_events(), [Event::Closed(CloseReason::UnsupportedVersion(version.to_owned()))]);
    }
}

#[test]
fn initialized_is_accepted_once_from_clients() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    server.feed(&notification("notifications/initialized"));
    assert_eq!(server.take_events(), []);
    assert!(server.conn.is_ready());
    for mut client in [Harness::client(full_client()), Harness::ready_client(ProtocolVersion::V2025_11_25)] {
        client.sent();
        client.feed(&notification("notifications/initialized"));
        assert_eq!(client.take_events(), [Event::Violation(Violation::WrongDirection(Method::Initialized))]);
        client.feed(&request_with(1, "initialize", json!({})));
        let code = client.sent()[0]["error"]["code"].clone();
        assert!(code == -32600 || code == -32601, "{code}");
    }
}

// req: LIFE-005
#[test]
fn peer_info_is_readable_after_the_handshake() {
    let mut config = full_server();
    config.instructions = Some("Be kind.".to_owned());
    let mut testbed = mcp_tests::testbed::Testbed::new(full_client(), config, Default::default(), Default::default());
    testbed.settle();
    let server = testbed.client.conn.server().expect("it is ready");
    assert_eq!((&*server.server_info.name, server.instructions.as_deref()), ("server", Some("Be kind.")));
    assert_eq!(testbed.server.conn.client().map(|client| &*client.client_info.name), Some("client"));
    let call = testbed.client.conn.request(testbed.now, &ListToolsParams::default(), RequestOptions::default());
    assert!(
        call.is_ok()
            && testbed.server.conn.request(testbed.now, &ListRootsParams::default(), RequestOptions::default()).is_ok()
    );
    testbed.settle();
    let events = testbed.server.take_events();
    let [Event::Ready, Event::Request { key, method, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*method, MethodName::Known(Method::ListTools));
    let context = testbed.server.conn.context(*key).expect("it is not answered");
    assert_eq!(context.version, ProtocolVersion::LATEST_LEGACY);
    assert_eq!(context.client_info.map(|info| &*info.name), Some("client"));
    assert!(context.client_capabilities.roots.is_some() && context.log_level.is_none());
}
