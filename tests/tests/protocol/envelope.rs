//! Which frames are messages and of which kind, and the response to all others.

use mcp_proto::{
    connection::{Event, Outcome, Violation},
    protocol::{Method, MethodKind, MethodName, ProtocolVersion},
    rpc::CallId,
    wire::{ErrorCode, MalformedKind},
};
use mcp_tests::{
    harness::Harness,
    message::{notification_with, request, request_with, result},
};
use serde_json::{Map, Value, json};

const NOTHING: [Value; 0] = [];

/// The classification of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Request,
    Notification,
    Result,
    Error,
    /// An error that belongs to no request.
    Unattributed,
    /// A malformed response to the call.
    BadAnswer,
    /// Not a message, without a response.
    Silent,
    /// Not a message, with an error without an id.
    RefusedWithoutId,
    /// Not a message, with an error with its id.
    Refused,
}

/// Every combination of members: `m`ethod, `i`d, `r`esult, `e`rror, `p`arams.
const PRESENCE: [(&str, Class); 32] = {
    use Class::{BadAnswer, Error, Notification, Refused, RefusedWithoutId, Request, Result, Silent, Unattributed};
    [
        ("", RefusedWithoutId),
        ("p", RefusedWithoutId),
        ("e", Unattributed),
        ("ep", Unattributed),
        ("r", Silent),
        ("rp", Silent),
        ("re", Silent),
        ("rep", Silent),
        ("i", Refused),
        ("ip", Refused),
        ("ie", Error),
        ("iep", Error),
        ("ir", Result),
        ("irp", Result),
        ("ire", BadAnswer),
        ("irep", BadAnswer),
        ("m", Notification),
        ("mp", Notification),
        ("me", RefusedWithoutId),
        ("mep", RefusedWithoutId),
        ("mr", RefusedWithoutId),
        ("mrp", RefusedWithoutId),
        ("mre", RefusedWithoutId),
        ("mrep", RefusedWithoutId),
        ("mi", Request),
        ("mip", Request),
        ("mie", Refused),
        ("miep", Refused),
        ("mir", Refused),
        ("mirp", Refused),
        ("mire", Refused),
        ("mirep", Refused),
    ]
};

fn message(members: &str, id: u64) -> Value {
    let mut message = Map::from_iter([("jsonrpc".to_owned(), json!("2.0"))]);
    for member in members.chars() {
        let (name, value) = match member {
            'm' => ("method", json!("vendor/x")),
            'i' => ("id", json!(id)),
            'r' => ("result", json!({})),
            'e' => ("error", json!({"code": -1, "message": "no"})),
            _ => ("params", json!({})),
        };
        message.insert(name.to_owned(), value);
    }
    message.into()
}

fn class_of(events: &[Event<'_>], sent: &[Value], call: CallId) -> Class {
    let custom = |method: &MethodName<'_>| *method == MethodName::new("vendor/x");
    let own = |ended: &CallId| *ended == call;
    match (events, sent) {
        ([Event::Request { method, .. }], []) if custom(method) => Class::Request,
        ([Event::Notification { method, .. }], []) if custom(method) => Class::Notification,
        ([Event::Response { call, outcome: Outcome::Result(_) }], []) if own(call) => Class::Result,
        ([Event::Response { call, outcome: Outcome::Error(_) }], []) if own(call) => Class::Error,
        ([Event::Response { call, outcome: Outcome::Malformed }], []) if own(call) => Class::BadAnswer,
        ([Event::PeerError(_)], []) => Class::Unattributed,
        ([Event::Violation(Violation::Malformed(_))], []) => Class::Silent,
        ([Event::Violation(Violation::Malformed(_))], [refusal]) => {
            assert_eq!(refusal["error"]["code"], ErrorCode::INVALID_REQUEST.0, "{refusal}");
            if refusal["id"] == call.as_u64() { Class::Refused } else { Class::RefusedWithoutId }
        }
        _ => panic!("{events:?} {sent:?}"),
    }
}

fn check_presence<E>(ready: impl Fn(ProtocolVersion) -> Harness<E>) {
    for version in ProtocolVersion::LEGACY {
        for (members, expected) in PRESENCE {
            let mut harness = ready(version);
            // The id is in flight in the outbound direction and free in the inbound one.
            let call = harness.call("vendor/call");
            harness.feed(&message(members, call.as_u64()));
            let (events, sent) = (harness.take_events(), harness.sent());
            assert_eq!(class_of(&events, &sent, call), expected, "{members:?} in {version}");
            if expected == Class::RefusedWithoutId {
                check_missing_id(&sent[0], version);
            }
        }
    }
}

/// Up to 2025-06-18 the schema requires an id in every error. Later an unknown id is left out.
#[track_caller]
fn check_missing_id(refusal: &Value, version: ProtocolVersion) {
    let expected = if version < ProtocolVersion::V2025_11_25 { Some(&Value::Null) } else { None };
    assert_eq!(refusal.get("id"), expected, "{refusal} in {version}");
}

// req: BASE-007 BASE-009 BASE-010 BASE-014 BASE-015 BASE-016 BASE-024
#[test]
fn message_kind_follows_from_its_members() {
    check_presence(Harness::ready_server);
    check_presence(Harness::ready_client);
}

// req: BASE-001
#[test]
fn jsonrpc_version_is_required() {
    for version in ProtocolVersion::LEGACY {
        for jsonrpc in [None, Some(json!("1.0")), Some(json!("2")), Some(json!(2.0)), Some(json!(2)), Some(json!(null))]
        {
            let mut server = Harness::ready_server(version);
            let mut request = json!({"id": 7, "method": "tools/list"});
            let mut notification = json!({"method": "vendor/x"});
            let mut response = json!({"id": server.call("vendor/call").as_u64(), "result": {}});
            for message in [&mut request, &mut notification, &mut response] {
                if let Some(jsonrpc) = &jsonrpc {
                    message["jsonrpc"] = jsonrpc.clone();
                }
            }
            server.feed(&request);
            assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Version))]);
            let sent = server.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(7), &json!(-32600)));
            server.feed(&notification);
            assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Version))]);
            server.feed(&response);
            assert!(
                matches!(server.take_events()[..], [Event::Response { outcome: Outcome::Malformed, .. }]),
                "an answer that is none ends the call"
            );
            assert_eq!(server.sent(), NOTHING);
        }
    }
}

// req: BASE-004 BASE-005 BASE-014 BASE-015
#[test]
fn invalid_id_types_are_refused_without_an_id() {
    for version in ProtocolVersion::LEGACY {
        for id in [json!(null), json!(true), json!(1.5), json!([]), json!([1]), json!({}), json!({"id": 1})] {
            let mut server = Harness::ready_server(version);
            server.feed(&request(id.clone(), "tools/list"));
            assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Id))], "{id}");
            let sent = server.sent();
            assert_eq!(sent[0]["error"]["code"], -32600, "{id}");
            check_missing_id(&sent[0], version);
        }
    }
}

// req: BASE-020 BASE-021 BASE-025
#[test]
fn params_must_be_an_object_or_absent() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        for params in [json!([]), json!([1]), json!("x"), json!(1), json!(true)] {
            server.feed(&request_with("q", "vendor/x", params.clone()));
            let sent = server.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!("q"), &json!(-32602)), "{params}");
            server.feed(&notification_with("vendor/x", params.clone()));
            assert_eq!(server.sent(), NOTHING, "a notification is never answered");
            let violation = || Event::Violation(Violation::Malformed(MalformedKind::Params));
            assert_eq!(server.take_events(), [violation(), violation()], "{params}");
        }
        // Some languages write `null` for an absent member.
        server.feed(&notification_with("vendor/x", Value::Null));
        assert_eq!(
            server.take_events(),
            [Event::Notification { method: MethodName::new("vendor/x"), params: None, related_call: None }]
        );
    }
}

#[test]
fn member_names_are_case_sensitive() {
    let twins = [
        r#"{"jsonrpc":"2.0","id":7,"Method":"vendor/x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"METHOD":"vendor/x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"metho\u0064 ":"vendor/x"}"#,
        r#"{"JSONRPC":"2.0","id":7,"method":"vendor/x"}"#,
    ];
    for text in twins {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
        server.feed_text(text);
        assert!(matches!(server.take_events()[..], [Event::Violation(Violation::Malformed(_))]), "{text}");
        assert_eq!(server.sent()[0]["id"], 7, "{text}");
    }
    // Unknown members are ignored, however similar their names are.
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    server.feed_text(r#"{"jsonrpc":"2.0","ID":8,"id":7,"method":"vendor/x","param\u017f":{"a":1},"Params":{"b":2}}"#);
    let events = server.take_events();
    assert!(matches!(&events[..], [Event::Request { params: None, .. }]), "{events:?}");
    // An escaped name or version is the same name or version.
    server.feed_text(r#"{"jsonrpc":"2\u002e0","\u0069d":9,"metho\u0064":"vendor\/x"}"#);
    let events = server.take_events();
    assert!(matches!(&events[..], [Event::Request { method, .. }] if method.as_str() == "vendor/x"), "{events:?}");
}

#[test]
fn duplicate_envelope_members_are_refused() {
    let doubled = [
        r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"vendor/x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"vendor/x"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"vendor/x","method":"vendor/y"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"vendor/x","metho\u0064":"vendor/y"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"vendor/x","params":{},"params":{}}"#,
    ];
    for text in doubled {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
        server.feed_text(text);
        assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Duplicate))], "{text}");
        let sent = server.sent();
        assert_eq!(sent[0]["error"]["code"], -32600);
        assert_eq!(sent[0].get("id"), None, "which of two ids was meant is anybody's guess: {text}");
    }
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    let call = server.call("vendor/call").as_u64();
    server.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{{}},"result":{{}}}}"#));
    assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::Duplicate))]);
    assert_eq!(server.sent(), NOTHING, "answers are not answered");
}

// req: BASE-002 BASE-009 BASE-010
#[test]
fn malformed_responses_end_their_call() {
    let bodies = [
        r#""result":[]"#,
        r#""result":"done""#,
        r#""result":null"#,
        r#""result":7"#,
        r#""result":{},"error":{"code":1,"message":"m"}"#,
        r#""error":null"#,
        r#""error":"no""#,
        r#""error":{}"#,
        r#""error":{"code":1}"#,
        r#""error":{"message":"m"}"#,
        r#""error":{"code":"1","message":"m"}"#,
        r#""error":{"code":1.5,"message":"m"}"#,
        r#""error":{"code":1,"message":null}"#,
    ];
    for version in ProtocolVersion::LEGACY {
        for body in bodies {
            let mut client = Harness::ready_client(version);
            let call = client.call("tools/list");
            client.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{},{body}}}"#, call.as_u64()));
            assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Malformed }], "{body}");
            assert_eq!(client.sent(), NOTHING, "answers are not answered: {body}");
            assert_eq!(client.conn.stats().violations, 1);
            client.call("tools/list");
        }
    }
}

// req: BASE-016
#[test]
fn errors_without_an_id_end_no_call() {
    for version in ProtocolVersion::LEGACY {
        for id in ["", r#","id":null"#] {
            let mut client = Harness::ready_client(version);
            let call = client.call("tools/list");
            client.feed_text(&format!(r#"{{"jsonrpc":"2.0"{id},"error":{{"code":-32700,"message":"what?"}}}}"#));
            let events = client.take_events();
            let [Event::PeerError(error)] = &events[..] else { panic!("{events:?}") };
            assert_eq!((error.code, &*error.message), (ErrorCode::PARSE_ERROR, "what?"));
            client.feed(&result(call.as_u64(), json!({"tools": []})));
            assert!(matches!(client.take_events()[..], [Event::Response { outcome: Outcome::Result(_), .. }]));
        }
    }
}

// req: BASE-013
#[test]
fn error_data_can_be_any_json() {
    for data in [json!(null), json!("text"), json!(1.5), json!([1, [2]]), json!({"supported": ["2025-06-18"]})] {
        let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
        let call = client.call("tools/list");
        let error = json!({"code": -1, "message": "m", "data": data, "more": 1});
        client.feed(&json!({"jsonrpc": "2.0", "id": call.as_u64(), "error": error}));
        let events = client.take_events();
        let [Event::Response { outcome: Outcome::Error(error), .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(error.data.as_ref().map(|data| data.decode().expect("it is JSON")), Some(data));
    }
}

// req: BASE-020
#[test]
fn methods_of_the_wrong_kind_are_refused() {
    for version in ProtocolVersion::LEGACY {
        for method in Method::ALL.iter().map(|method| method.in_era(version.era())) {
            let mut server = Harness::ready_server(version);
            match method.kind() {
                MethodKind::Notification => {
                    server.feed(&request_with(7, method.as_str(), json!({})));
                    let sent = server.sent();
                    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(7), &json!(-32600)), "{method}");
                }
                MethodKind::Request => {
                    server.feed(&notification_with(method.as_str(), json!({})));
                    assert_eq!(server.sent(), NOTHING, "{method}");
                }
            }
            assert_eq!(server.take_events(), [Event::Violation(Violation::WrongKind(method))]);
            server.feed(&request(8, "ping"));
            assert_eq!(server.sent(), [result(8, json!({}))], "it lives on");
        }
    }
}

// req: BASE-014 BASE-015 BASE-023 BASE-024
#[test]
fn malformed_lines_get_an_error_response() {
    let table: [(&[u8], i64); 9] = [
        (b"hello", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}", -32700),
        (b"{'jsonrpc':'2.0','id':1,'method':'ping'}", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
        (b"\"hello\"", -32600),
        (b"1", -32600),
        (b"null", -32600),
        (b"{}", -32600),
    ];
    for version in ProtocolVersion::LEGACY {
        for (line, code) in table {
            let mut server = Harness::ready_server(version);
            server.feed_bytes(line);
            let sent = server.sent();
            assert_eq!(sent[0]["error"]["code"], code, "{}", String::from_utf8_lossy(line));
            check_missing_id(&sent[0], version);
            assert!(matches!(server.take_events()[..], [Event::Violation(Violation::Malformed(_))]));
        }
    }
}
