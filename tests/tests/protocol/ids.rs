//! Request ids: the peer's come back as they were spelled, ours never come twice.

use std::time::Duration;

use mcp_proto::{
    connection::{CancelCause, Event, Outcome, RequestOptions, Violation},
    protocol::ProtocolVersion,
    wire::{ErrorObject, RequestId},
};
use mcp_tests::{
    message::{cancelled, error, request, request_with_token, result},
    solo::{Solo, full_client},
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

/// Asks with an id in every way that there is to answer, and looks for the id in each answer.
fn check_echo(version: ProtocolVersion, token: &str) {
    let mut server = Solo::ready_server(version);
    let head = format!(r#"{{"jsonrpc":"2.0","id":{token},"#);
    let ask = |method: &str| format!(r#"{head}"method":"{method}"}}"#);
    let answer_starts = |server: &mut Solo<_>, rest: &str| {
        let sent = server.sent_text();
        assert!(matches!(&sent[..], [text] if text.starts_with(&format!("{head}{rest}"))), "{token}: {sent:?}");
    };

    server.feed_text(&ask("ping"));
    answer_starts(&mut server, r#""result":{}}"#);
    server.feed_text(&ask("notifications/initialized"));
    answer_starts(&mut server, r#""error":{"code":-32600"#);
    server.feed_text(&ask("roots/list"));
    answer_starts(&mut server, r#""error":{"code":-32601"#);
    server.take_events();

    server.feed_text(&ask("tools/list"));
    let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token} is a good id") };
    server.answer(key, &json!({"tools": []}));
    answer_starts(&mut server, r#""result":{"tools":[]}}"#);

    server.feed_text(&ask("tools/list"));
    let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{token} is free again") };
    server.conn.respond_error(key, &ErrorObject::internal("no")).expect("an answer is owed");
    answer_starts(&mut server, r#""error":{"code":-32603"#);
}

// req: BASE-003 BASE-008 BASE-014 BASE-015
#[test]
fn an_answer_carries_the_id_of_its_request_byte_for_byte() {
    for version in ProtocolVersion::LEGACY {
        for token in SPELLINGS {
            check_echo(version, token);
        }
    }
}

/// Any token that is a legal id.
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
    fn any_id_comes_back_as_it_was(token in token()) {
        check_echo(ProtocolVersion::V2025_11_25, &token);
    }
}

// req: BASE-008
#[test]
fn a_number_and_a_text_that_look_alike_are_two_requests() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Solo::ready_server(version);
        let number = server.ask(&request(42, "tools/list"));
        let text = server.ask(&request("42", "prompts/list"));
        server.answer(text, &json!({"prompts": []}));
        server.answer(number, &json!({"tools": []}));
        let expected = [result("42", json!({"prompts": []})), result(42, json!({"tools": []}))];
        assert_eq!(server.sent(), expected);
    }
}

#[test]
fn ids_that_look_like_nothing_are_ids_like_any_other() {
    for id in [json!(0), json!(-1), json!(""), json!("0"), json!(5)] {
        let mut server = Solo::ready_server(ProtocolVersion::V2025_11_25);
        let request = request_with_token(id.clone(), "tools/list", id.clone());
        let key = server.ask(&request);
        server.conn.progress(key, 1.0, None, None).expect("it was asked for");
        assert_eq!(server.sent()[0]["params"]["progressToken"], id);
        server.feed(&cancelled(id.clone()));
        assert_eq!(server.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }], "{id}");
        server.answer(key, &json!({}));
        let again = server.ask(&request);
        server.answer(again, &json!({}));
        assert_eq!(server.sent(), [result(id, json!({}))]);
    }
}

// req: BASE-008
#[test]
fn an_id_in_flight_is_taken_in_every_spelling() {
    // id in flight, id that comes, whether they are the same
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
        let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
        let ask = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        server.feed_text(&ask(first));
        let [Event::Request { key, .. }] = server.take_events()[..] else { panic!("{first}") };
        server.feed_text(&ask(second));
        let events = server.take_events();
        if same {
            assert!(matches!(events[..], [Event::Violation(Violation::DuplicateId(_))]), "{second}: {events:?}");
            let sent = server.sent_text();
            let refusal = format!(r#"{{"jsonrpc":"2.0","id":{second},"error":{{"code":-32600,"#);
            assert!(sent[0].starts_with(&refusal), "{sent:?}");
        } else {
            assert!(matches!(events[..], [Event::Request { .. }]), "{second}: {events:?}");
        }
        server.answer(key, &json!({"tools": []}));
        let first_answer = format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{"tools":[]}}}}"#);
        assert_eq!(server.sent_text(), [first_answer], "the first one is not touched");
        server.feed_text(&ask(first));
        assert!(matches!(server.take_events()[..], [Event::Request { .. }]), "the id is free again");
    }
}

// req: BASE-003 BASE-006
#[test]
fn our_ids_are_numbers_that_only_grow_however_calls_end() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Solo::ready_client(version);
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
                // One that never left has used up its id, too.
                let call =
                    client.conn.request_raw(client.now, "tools/list", None, options.clone()).expect("it is ready");
                client.conn.cancel(call, None).expect("it is in flight");
                assert_eq!(client.sent(), [Value::Null; 0]);
                assert!(client.call("tools/list").as_u64() > call.as_u64());
            }
        }
    }
}

/// How an answer is taken whose id is spelled in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Exact,
    Lenient,
    Unknown,
}

#[test]
fn an_answer_finds_its_call_by_number_or_by_the_plain_text_of_it() {
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
        let mut client = Solo::ready_client(ProtocolVersion::V2025_06_18);
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
fn the_handshake_and_cancellations_are_as_lenient_as_answers() {
    let mut client = Solo::client(full_client());
    let id = client.sent()[0]["id"].to_string();
    let server =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    client.feed(&result(id, server));
    assert_eq!(client.take_events(), [Event::Ready]);
    assert_eq!(client.conn.stats().coerced_ids, 1);

    let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
    for (id, meant) in [(json!(7), json!("7")), (json!("7"), json!(7))] {
        let key = server.ask(&request(id, "tools/list"));
        server.feed(&cancelled(meant));
        assert_eq!(server.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }]);
    }
    // When both are in flight, each is meant by its own spelling.
    let number = server.ask(&request(7, "tools/list"));
    server.ask(&request("7", "tools/list"));
    server.feed(&cancelled(7));
    assert_eq!(server.take_events(), [Event::Cancelled { key: number, cause: CancelCause::Peer(None) }]);
}

#[test]
fn a_late_answer_is_late_in_either_spelling() {
    let mut client = Solo::ready_client(ProtocolVersion::V2025_06_18);
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
fn an_id_over_the_limit_is_no_id() {
    let longest = "x".repeat(RequestId::MAX_LEN - 2);
    let mut server = Solo::ready_server(ProtocolVersion::V2025_11_25);
    server.feed(&request(&*longest, "ping"));
    assert_eq!(server.sent(), [result(&*longest, json!({}))]);
    for id in [format!("\"{longest}x\""), format!("1{}", "0".repeat(RequestId::MAX_LEN)), "1e99999999999".to_owned()] {
        server.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let sent = server.sent();
        assert_eq!((sent[0].get("id"), &sent[0]["error"]["code"]), (None, &json!(-32600)));
    }
}
