//! Request ids: inbound ids are echoed as they were spelled, outbound ids are never reused.

use std::time::Duration;

use mcp_proto::{
    connection::{CancelCause, Event, Outcome, RequestOptions, Violation},
    protocol::ProtocolVersion,
    wire::{ErrorObject, RequestId},
};
use mcp_tests::{
    harness::{Harness, full_client},
    message::{cancelled, error, request, request_with_token, result},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// Ids as peers spell them, as JSON tokens.
const SPELLINGS: [&str; 24] = [
    "0",
    "-0",
    "-1",
    "7",
    "7.0",
    "7e0",
    "70e-1",
    "1E+2",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "340282366920938463463374607431768211456",
    r#""""#,
    r#"" ""#,
    r#""7""#,
    r#""007""#,
    r#""-7""#,
    r#""null""#,
    r#""é\u0000\n\"\\\/""#,
    r#""\u00e9\uD83D\uDE00""#,
    r#""\ud800""#,
    r#""0195f2c1-6a6e-7b3e-9f41-5f1f1c1d2e3f""#,
    r#""id with spaces, {braces} and \"quotes\"""#,
];

/// Sends requests with an id that lead to each kind of response, and looks for the id in each.
fn check_echo(version: ProtocolVersion, token: &str) {
    let mut server = Harness::ready_server(version);
    let head = format!(r#"{{"jsonrpc":"2.0","id":{token},"#);
    let send_request = |method: &str| format!(r#"{head}"method":"{method}"}}"#);
    let answer_starts = |server: &mut Harness<_>, rest: &str| {
        let sent = server.sent_text();
        assert!(matches!(&sent[..], [text] if text.starts_with(&format!("{head}{rest}"))), "{token}: {sent:?}");
    };

    server.feed_text(&send_request("ping"));
    answer_starts(&mut server, r#""result":{}}"#);
    server.feed_text(&send_request("notifications/initialized"));
    answer_starts(&mut server, r#""error":{"code":-32600"#);
    server.feed_text(&send_request("roots/list"));
    answer_starts(&mut server, r#""error":{"code":-32601"#);
    server.take_events();

    server.feed_text(&send_request("tools/list"));
    let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token} is a good id") };
    server.respond(key, &json!({"tools": []}));
    answer_starts(&mut server, r#""result":{"tools":[]}}"#);

    server.feed_text(&send_request("tools/list"));
    let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token} is free again") };
    server.conn.respond_error(key, &ErrorObject::internal("no")).expect("an answer is owed");
    answer_starts(&mut server, r#""error":{"code":-32603"#);
}

// req: BASE-003 BASE-008 BASE-014 BASE-015
#[test]
fn response_ids_match_byte_for_byte() {
    for version in ProtocolVersion::LEGACY {
        for token in SPELLINGS {
            check_echo(version, token);
        }
    }
}

/// Returns any token that is a valid id.
fn token() -> impl Strategy<Value = String> {
    let digits = || vec(0..10u8, 1..400).prop_map(|digits| digits.iter().map(ToString::to_string).collect::<String>());
    let integer = (any::<bool>(), digits()).prop_map(|(negative, digits)| {
        let digits = digits.trim_start_matches('0');
        format!("{}{}", if negative { "-" } else { "" }, if digits.is_empty() { "0" } else { digits })
    });
    let spelled = (any::<i32>(), 0..20usize, 0..20u8)
        .prop_map(|(number, zeros, exponent)| format!("{number}.{}e{exponent}", "0".repeat(zeros + 1)));
    let text = any::<String>()
        .prop_filter("short enough", |text| text.len() < 150)
        .prop_map(|text| serde_json::to_string(&text).expect("text is JSON"));
    let escaped = vec(any::<u16>(), 0..100)
        .prop_map(|units| format!("\"{}\"", units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>()));
    prop_oneof![integer, spelled, text, escaped]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // req: BASE-008
    #[test]
    fn any_id_is_echoed_unchanged(token in token()) {
        check_echo(ProtocolVersion::V2025_11_25, &token);
    }
}

// req: BASE-008
#[test]
fn number_and_string_ids_are_distinct() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        let number = server.receive_request(&request(42, "tools/list"));
        let text = server.receive_request(&request("42", "prompts/list"));
        server.respond(text, &json!({"prompts": []}));
        server.respond(number, &json!({"tools": []}));
        let expected = [result("42", json!({"prompts": []})), result(42, json!({"tools": []}))];
        assert_eq!(server.sent(), expected);
    }
}

#[test]
fn zero_negative_and_empty_ids_are_valid() {
    for id in [json!(0), json!(-1), json!(""), json!("0"), json!(5)] {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
        let request = request_with_token(id.clone(), "tools/list", id.clone());
        let key = server.receive_request(&request);
        server.conn.progress(key, 1.0, None, None).expect("it was requested");
        assert_eq!(server.sent()[0]["params"]["progressToken"], id);
        server.feed(&cancelled(id.clone()));
        assert_eq!(server.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }], "{id}");
        server.respond(key, &json!({}));
        let again = server.receive_request(&request);
        server.respond(again, &json!({}));
        assert_eq!(server.sent(), [result(id, json!({}))]);
    }
}

// req: BASE-008
#[test]
fn duplicate_ids_are_found_in_every_spelling() {
    // id in flight, id of the new request, whether they are the same
    let table = [
        ("5", "5", true),
        ("5", "5.0", true),
        ("100", "1e2", true),
        ("0", "-0", true),
        (r#""a""#, r#""\u0061""#, true),
        ("5", r#""5""#, false),
        ("5", "-5", false),
        (r#""a""#, r#""A""#, false),
        (r#""é""#, r#""e\u0301""#, false),
    ];
    for (first, second, same) in table {
        let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
        let send_request = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        server.feed_text(&send_request(first));
        let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{first}") };
        server.feed_text(&send_request(second));
        let events = server.take_events();
        if same {
            assert!(matches!(events[..], [Event::Violation(Violation::DuplicateId(_))]), "{second}: {events:?}");
            let sent = server.sent_text();
            let refusal = format!(r#"{{"jsonrpc":"2.0","id":{second},"error":{{"code":-32600,"#);
            assert!(sent[0].starts_with(&refusal), "{sent:?}");
        } else {
            assert!(matches!(events[..], [Event::Request { .. }]), "{second}: {events:?}");
        }
        server.respond(key, &json!({"tools": []}));
        let first_answer = format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{"tools":[]}}}}"#);
        assert_eq!(server.sent_text(), [first_answer], "the first one is not touched");
        server.feed_text(&send_request(first));
        assert!(matches!(server.take_events()[..], [Event::Request { .. }]), "the id is free again");
    }
}

// req: BASE-003 BASE-006
#[test]
fn outbound_ids_only_increase() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let options = RequestOptions::within(Duration::from_secs(1));
        let mut last = 0;
        for round in 0..5 {
            let call = client.conn.request_raw(client.now, "tools/list", None, options.clone()).expect("it is ready");
            let sent = client.sent();
            let id = sent[0]["id"].as_u64().expect("an integer");
            assert!(id > last, "{id} behind {last}");
            assert_eq!(id, call.as_u64());
            last = id;
            match round {
                0 => client.feed(&result(id, json!({}))),
                1 => client.feed(&error(id, 1, "m")),
                2 => client.advance(Duration::from_secs(1)),
                3 => client.conn.cancel(call, None).expect("it is in flight"),
                _ => {}
            }
            client.take_events();
            client.sent();
            if round == 4 {
                // A request that was never sent has used its id, too.
                let call =
                    client.conn.request_raw(client.now, "tools/list", None, options.clone()).expect("it is ready");
                client.conn.cancel(call, None).expect("it is in flight");
                assert_eq!(client.sent(), [Value::Null; 0]);
                assert!(client.call("tools/list").as_u64() > call.as_u64());
            }
        }
    }
}

/// How a response with a certain spelling of its id is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Exact,
    Lenient,
    Unknown,
}

#[test]
fn responses_match_numeric_and_decimal_string_ids() {
    use Match::{Exact, Lenient, Unknown};
    // N is the number of the call.
    let table = [
        ("N", Exact),
        ("N.0", Exact),
        ("Ne0", Exact),
        (r#""N""#, Lenient),
        (r#""0N""#, Unknown),
        (r#""N.0""#, Unknown),
        (r#"" N""#, Unknown),
        (r#""+N""#, Unknown),
        (r#""-N""#, Unknown),
        ("-N", Unknown),
        ("N00", Unknown),
        (r#""""#, Unknown),
    ];
    for (pattern, expected) in table {
        let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
        let call = client.call("tools/list");
        let id = pattern.replace('N', &call.as_u64().to_string());
        client.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let events = client.take_events();
        let found = match &events[..] {
            [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call => {
                if client.conn.stats().coerced_ids == 0 { Exact } else { Lenient }
            }
            [Event::Violation(Violation::UnknownResponse(_))] => Unknown,
            _ => panic!("{id}: {events:?}"),
        };
        assert_eq!(found, expected, "{id}");
        assert_eq!(client.conn.stats().coerced_ids, u64::from(expected == Lenient), "{id}");
        assert_eq!(client.conn.usage().calls, usize::from(expected == Unknown));
    }
}

#[test]
fn handshake_and_cancellation_coerce_ids() {
    let mut client = Harness::client(full_client());
    let id = client.sent()[0]["id"].to_string();
    let server =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    client.feed(&result(id, server));
    assert_eq!(client.take_events(), [Event::Ready]);
    assert_eq!(client.conn.stats().coerced_ids, 1);

    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    for (id, meant) in [(json!(7), json!("7")), (json!("7"), json!(7))] {
        let key = server.receive_request(&request(id, "tools/list"));
        server.feed(&cancelled(meant));
        assert_eq!(server.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }]);
    }
    // When both are in flight, each is found by its own type.
    let number = server.receive_request(&request(7, "tools/list"));
    server.receive_request(&request("7", "tools/list"));
    server.feed(&cancelled(7));
    assert_eq!(server.take_events(), [Event::Cancelled { key: number, cause: CancelCause::Peer(None) }]);
}

#[test]
fn late_responses_match_string_ids() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_06_18);
    let call = client.call("tools/list");
    client.conn.cancel(call, None).expect("it is in flight");
    client.take_events();
    for id in [json!(call.as_u64()), json!(call.as_u64().to_string())] {
        client.feed(&result(id.clone(), json!({})));
        assert_eq!(client.take_events(), [Event::Late(call)], "{id}");
    }
    assert_eq!((client.conn.stats().late_responses, client.conn.stats().violations), (2, 0));
}

#[test]
fn overlong_ids_are_refused() {
    let longest = "x".repeat(RequestId::MAX_LEN - 2);
    let mut server = Harness::ready_server(ProtocolVersion::V2025_11_25);
    server.feed(&request(&*longest, "ping"));
    assert_eq!(server.sent(), [result(&*longest, json!({}))]);
    for id in [format!("\"{longest}x\""), format!("1{}", "0".repeat(RequestId::MAX_LEN)), "1e99999999999".to_owned()] {
        server.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let sent = server.sent();
        assert_eq!((sent[0].get("id"), &sent[0]["error"]["code"]), (None, &json!(-32600)));
    }
}
