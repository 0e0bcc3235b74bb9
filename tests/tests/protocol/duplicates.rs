//! Duplicate members: refused where the protocol reads them. Elsewhere every reader uses the last one.

use std::collections::BTreeMap;

use mcp_proto::{
    connection::{Event, Outcome, RequestOptions, Violation},
    protocol::ProtocolVersion,
    schema::{Extra, Map, Meta},
    wire::{Json, JsonObject, MalformedKind, Message, RawJson},
};
use mcp_tests::harness::Harness;
use serde::Deserialize;
use serde_json::{Value, json};

/// Returns the member `s` of an object, or `None` if the reader refuses the object.
type Reader = fn(&RawJson<'_>) -> Option<String>;

#[derive(Deserialize)]
struct Typed {
    s: String,
}

/// Every reader of arguments.
const READERS: &[(&str, Reader)] = &[
    ("member", |raw| raw.member("s")?.decode().ok()),
    ("members", |raw| {
        let members = raw.members().filter(|(name, _)| name == "s");
        members.last()?.1.decode().ok()
    }),
    ("all_members", |raw| {
        let mut last = None;
        raw.all_members(|name, value| {
            last = if name == "s" { serde_json::from_str(value).ok() } else { last.take() };
            true
        });
        last
    }),
    ("a map made of members", |raw| {
        let map: BTreeMap<_, _> = raw.members().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        map.get("s")?.decode().ok()
    }),
    ("only", |raw| raw.only(["s", "x", "y", "z", "long"])?[0].as_ref()?.decode().ok()),
    ("Value", |raw| raw.decode::<Value>().ok()?["s"].as_str().map(str::to_owned)),
    ("Value of serde_json", |raw| serde_json::from_str::<Value>(raw.get()).ok()?["s"].as_str().map(str::to_owned)),
    ("BTreeMap", |raw| raw.decode::<BTreeMap<String, Value>>().ok()?["s"].as_str().map(str::to_owned)),
    ("Map", |raw| raw.decode::<Map<Json>>().ok()?.get("s")?.decode().ok()),
    ("Extra", |raw| raw.decode::<Extra>().ok()?.decode("s")),
    ("Extra, kept", |raw| raw.decode::<Extra>().ok()?.get("s")?.decode().ok()),
    ("Meta", |raw| raw.decode::<Meta>().ok()?.get("s")?.decode().ok()),
    ("Json", |raw| RawJson::from(&Json::from(raw.clone())).member("s")?.decode().ok()),
    ("JsonObject", |raw| raw.decode::<JsonObject>().ok()?.decode::<Value>().ok()?["s"].as_str().map(str::to_owned)),
    ("a type of the user", |raw| raw.decode::<Typed>().ok().map(|typed| typed.s)),
];

#[test]
fn readers_use_the_last_duplicate_or_refuse() {
    let long = format!(r#"{{"s":"us","long":"{}","x":1,"y":2,"z":3,"s":"eu"}}"#, "l".repeat(70_000));
    let table = [
        (r#"{"s":"eu"}"#, true),
        (r#"{"s":"us","s":"eu"}"#, false),
        (r#"{"s":"us","x":[{"s":"no"}],"s":"eu"}"#, false),
        (r#"{"s":1,"s":null,"s":"eu"}"#, false),
        (r#"{"s":"us","\u0073":"eu"}"#, false),
        (r#"{"\u0073":"us","s":"eu"}"#, false),
        (r#"{ "s" : "us" , "x":1,"y":2,"z":3, "s" : "e\u0075" }"#, false),
        (&long, false),
    ];
    for (arguments, sole) in table {
        // Inside of a message, whose member offsets are known, and alone.
        let frames = [
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{arguments}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"arguments":{arguments}}}}}"#),
        ];
        for (frame, inner) in frames.iter().zip([false, true]) {
            let Ok(Message::Request { params: Some(params), .. }) = Message::parse(frame, 99) else {
                panic!("{frame}")
            };
            let raw = if inner { params.member("arguments").expect("it is there").into_owned() } else { params };
            for (name, reader) in READERS {
                let seen = reader(&raw);
                let may_refuse = !sole && ["only", "a type of the user"].contains(name);
                assert!(
                    seen.as_deref() == Some("eu") || may_refuse && seen.is_none(),
                    "{name}: {seen:?} of {arguments:.99}"
                );
            }
        }
    }
}

/// A name with half of a surrogate pair matches no name that a caller can look up.
#[test]
fn names_with_lone_surrogates_match_nothing() {
    let raw = Json::parse(r#"{"\ud800":1,"\udc00":2,"":3,"\ud800s":"us"}"#).expect("JSON");
    let raw = RawJson::from(&raw);
    assert_eq!(raw.member("").map(|value| value.get().to_owned()).as_deref(), Some("3"));
    assert!(raw.member("\u{fffd}").is_none() && raw.member("s").is_none() && raw.member("\u{fffd}s").is_none());
    let names: Vec<_> = raw.members().map(|(name, _)| name.into_owned()).collect();
    assert_eq!(names, ["\u{fffd}", "\u{fffd}", "", "\u{fffd}s"]);
}

/// A value of the application may be nested deeper than a message.
#[test]
fn members_of_deeply_nested_values_are_found() {
    for depth in [1, 126, 127, 128, 129, 1000] {
        let text = format!(r#"{{"a":{}{},"b":1}}"#, "[".repeat(depth), "]".repeat(depth));
        let json = Json::parse(text).expect("JSON");
        let raw = RawJson::from(&json);
        assert_eq!(
            (raw.members().count(), raw.decode::<Map<Json>>().map(|map| map.len()).ok()),
            (2, Some(2)),
            "{depth}"
        );
        let mut count = 0;
        assert!(raw.all_members(|_, _| {
            count += 1;
            true
        }));
        assert_eq!((count, raw.member("b").map(|value| value.get().to_owned()).as_deref()), (2, Some("1")), "{depth}");
    }
}

fn line(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\n"].concat()
}

#[test]
fn duplicate_params_are_refused() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        for params in [
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","arguments":{},"arguments":{"x":1}}"#,
            r#"{"name":"a","_meta":1,"_meta":{"b":2}}"#,
            r#"{"name":"a","_meta":{"progressToken":1,"progressToken":2}}"#,
        ] {
            server.feed_bytes(&line(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)));
            assert_eq!(
                server.take_events(),
                [Event::Violation(Violation::Malformed(MalformedKind::DuplicateParam))],
                "{params}"
            );
            let sent = server.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"], sent.len()), (&json!(7), &json!(-32602), 1));
        }
        server.feed_bytes(&line(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}"#,
        ));
        assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::DuplicateParam))]);
        // The tool checks its own arguments.
        server.feed_bytes(&line(
            r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}"#,
        ));
        assert!(matches!(server.take_events()[..], [Event::Request { .. }]));
        // A result with duplicate members is malformed.
        let id = server.call("roots/list");
        server.feed_bytes(&line(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"_meta":{{}},"roots":[],"_meta":{{}}}}}}"#,
            id.as_u64()
        )));
        let events = server.take_events();
        assert!(
            matches!(&events[..], [.., Event::Response { outcome: Outcome::Malformed, .. }]),
            "{version}: {events:?}"
        );
    }
}

#[test]
fn params_with_duplicate_members_are_not_sent() {
    let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
    for (params, is_sent) in [
        (r#"{"name":"a","name":"b"}"#, false),
        (r#"{"name":"a","n\u0061me":"b"}"#, false),
        (r#"{"_meta":{"traceparent":"a","traceparent":"b"}}"#, false),
        (r#"{"name":"a","arguments":{"name":1,"name":2}}"#, true),
        (r#"{"own":1,"own":2}"#, true),
    ] {
        let json = Json::parse(params).expect("it is JSON");
        let requested =
            client.conn.request_raw(client.now, "tools/call", Some(&RawJson::from(&json)), RequestOptions::default());
        assert_eq!(requested.is_ok(), is_sent, "{params}");
        assert_eq!(client.sent_text().len(), usize::from(is_sent), "{params}");
    }
}
