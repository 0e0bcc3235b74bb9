//! Log messages, and the level below which they are not sent.

use mcp_proto::{
    connection::{Event, ResourceUsage, SendError, Violation},
    protocol::{Method, ProtocolVersion},
    schema::{LogMessageParams, LoggingLevel, ServerCapabilities},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, error, notification_with, request, request_with, result},
};
use serde_json::{Value, json};

type Server = Harness<mcp_proto::connection::ServerRole>;

const NOTHING: [Value; 0] = [];
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn log(level: LoggingLevel) -> LogMessageParams {
    LogMessageParams::new(level, Json::new("x").expect("a text"))
}

fn set_level(id: u64, level: &str) -> Value {
    request_with(id, "logging/setLevel", json!({"level": level}))
}

/// Logs at every level, typed and by name, and returns the levels that are sent.
fn logged(server: &mut Server) -> Vec<String> {
    for level in LoggingLevel::ALL {
        let raw = Json::new(&json!({"level": level.as_str(), "data": "x"})).expect("it is JSON");
        server.conn.notify(&log(level)).expect("it is ready");
        server.conn.notify_raw("notifications/message", Some(&RawJson::from(&raw))).expect("it is ready");
    }
    let sent = server.sent();
    let levels: Vec<_> = sent.iter().map(|message| message["params"]["level"].as_str().unwrap_or("")).collect();
    let (typed, named): (Vec<_>, Vec<_>) =
        (levels.iter().step_by(2).collect(), levels.iter().skip(1).step_by(2).collect());
    assert_eq!(typed, named, "both ways are the same");
    typed.into_iter().map(ToString::to_string).collect()
}

// req: LOG-002 LOG-003 LOG-004 LOG-005
#[test]
fn log_messages_below_the_level_are_dropped() {
    assert_eq!(LoggingLevel::ALL.map(LoggingLevel::as_str), LEVELS);
    assert!(LoggingLevel::ALL.is_sorted());
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        assert_eq!(logged(&mut server), LEVELS, "the client has set no level yet");
        for (rank, level) in LEVELS.iter().enumerate().rev().chain(LEVELS.iter().enumerate()) {
            let key = server.receive_request(&set_level(1, level));
            let before = server.conn.log_level();
            server.conn.notify(&log(LoggingLevel::Emergency)).expect("it is ready");
            server.sent();
            assert_eq!(server.conn.log_level(), before, "it counts when it has been answered");
            server.respond(key, &json!({}));
            assert_eq!(server.sent(), [result(1, json!({}))]);
            assert_eq!(logged(&mut server), LEVELS[rank..], "{level}");
            assert_eq!(server.conn.log_level(), Some(LoggingLevel::ALL[rank]));
        }
    }
}

// req: LOG-006
#[test]
fn log_messages_carry_any_json_data() {
    for version in ProtocolVersion::LEGACY {
        for data in [json!("text"), json!(1.5), json!(null), json!([1, {"a": 2}]), json!({"error": "e"})] {
            let mut server = Harness::ready_server(version);
            let params = LogMessageParams {
                logger: Some("db".to_owned()),
                ..LogMessageParams::new(LoggingLevel::Alert, Json::new(&data).expect("it is JSON"))
            };
            server.conn.notify(&params).expect("it is ready");
            let expected = json!({"level": "alert", "logger": "db", "data": data});
            let message = notification_with("notifications/message", expected);
            assert_eq!(server.sent(), std::slice::from_ref(&message));
            // A client receives log messages without setting a level.
            let mut client = Harness::ready_client(version);
            client.feed(&message);
            let events = client.take_events();
            let [Event::Notification { params: Some(params), .. }] = &events[..] else { panic!("{events:?}") };
            assert_eq!(params.decode::<LogMessageParams>().expect("its own params").logger.as_deref(), Some("db"));
        }
    }
}

// req: BASE-025 LOG-002 LOG-007
#[test]
fn invalid_log_levels_are_refused() {
    let bad = [
        json!({}),
        json!({"level": "verbose"}),
        json!({"level": "Debug"}),
        json!({"level": "warn"}),
        json!({"level": ""}),
        json!({"level": 3}),
        json!({"level": null}),
        json!({"level": ["debug"]}),
    ];
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        server.feed(&request(1, "logging/setLevel"));
        for params in &bad {
            server.feed(&request_with(1, "logging/setLevel", params.clone()));
        }
        let sent = server.sent();
        assert_eq!(sent.len(), bad.len() + 1);
        for refusal in sent {
            assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&json!(1), &json!(-32602)));
        }
        let violation = Event::Violation(Violation::BadParams(Method::SetLevel));
        assert_eq!(server.take_events(), vec![violation; bad.len() + 1]);
        assert_eq!((server.conn.log_level(), server.conn.usage()), (None, ResourceUsage::default()));
    }
}

// req: LOG-008
#[test]
fn refused_log_levels_do_not_apply() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let key = server.receive_request(&set_level(1, "alert"));
    server.conn.respond_error(key, &ErrorObject::internal("read-only")).expect("an answer is owed");
    assert_eq!(server.sent(), [error(1, -32603, "read-only")]);
    assert_eq!(server.conn.log_level(), None);
    let key = server.receive_request(&set_level(2, "alert"));
    server.feed(&cancelled(2));
    server.respond(key, &json!({}));
    server.take_events();
    assert_eq!((server.conn.log_level(), server.sent()), (None, vec![]));
    // Of two requests in flight, the one whose response is sent last counts.
    let (first, second) =
        (server.receive_request(&set_level(3, "alert")), server.receive_request(&set_level(4, "info")));
    server.respond(second, &json!({}));
    server.respond(first, &json!({}));
    assert_eq!(server.conn.log_level(), Some(LoggingLevel::Alert));
}

#[test]
fn log_level_affects_only_log_messages() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    let key = server.receive_request(&set_level(1, "emergency"));
    server.respond(key, &json!({}));
    server.sent();
    let params = json!({"level": "debug", "uri": "file:///a"});
    let raw = Json::new(&params).expect("it is JSON");
    for method in ["vendor/reading", "notifications/resources/updated"] {
        server.conn.notify_raw(method, Some(&RawJson::from(&raw))).expect("it is ready");
        assert_eq!(server.sent(), [notification_with(method, params.clone())]);
    }
    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    client.conn.notify_raw("vendor/reading", Some(&RawJson::from(&raw))).expect("it is ready");
    assert_eq!(client.sent(), [notification_with("vendor/reading", params)]);
}

#[test]
fn logs_are_sent_before_their_response() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let key = server.receive_request(&set_level(1, "warning"));
        server.respond(key, &json!({}));
        let key = server.receive_request(&request(2, "tools/call"));
        server.sent();
        server.conn.log(key, &log(LoggingLevel::Info)).expect("not wanted");
        server.conn.log(key, &log(LoggingLevel::Error)).expect("it is in progress");
        server.respond(key, &json!({}));
        assert_eq!(server.conn.log(key, &log(LoggingLevel::Error)), Err(SendError::Answered));
        let message = notification_with("notifications/message", json!({"level": "error", "data": "x"}));
        assert_eq!(server.sent(), [message, result(2, json!({}))]);

        let key = server.receive_request(&request(3, "tools/call"));
        server.conn.log(key, &log(LoggingLevel::Error)).expect("it is in progress");
        server.feed(&cancelled(3));
        server.conn.log(key, &log(LoggingLevel::Error)).expect("it is swallowed");
        server.respond(key, &json!({}));
        assert_eq!(server.sent(), NOTHING);
        server.take_events();
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
    let mut config = full_server();
    config.capabilities = ServerCapabilities::default();
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let key = server.receive_request(&request(1, "vendor/a"));
    assert!(matches!(server.conn.log(key, &log(LoggingLevel::Error)), Err(SendError::Undeclared(_))));
    assert_eq!(server.sent(), NOTHING);
}
