//! Frames that are too long or nested too deeply, inbound and outbound.

use mcp_proto::{
    codec::LineDecoder,
    connection::{Event, Outcome, RequestOptions, SendError, Violation},
    protocol::ProtocolVersion,
    schema::{CallToolParams, LogMessageParams, LoggingLevel},
    wire::{ErrorObject, Json, MalformedKind},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{request, request_with_token, result},
};
use serde_json::{Value, json};

const LIMIT: usize = 400;
const NOTHING: [Value; 0] = [];

/// Returns a line of `length` bytes that begins with `head`.
fn stretched(head: &str, length: usize) -> String {
    let tail = r#"","more":1}}"#;
    assert!(head.len() + tail.len() <= length);
    format!("{head}{}{tail}", "x".repeat(length - head.len() - tail.len()))
}

fn small_server() -> Harness<mcp_proto::connection::ServerRole> {
    let mut config = full_server();
    config.settings.limits.frame_bytes = LIMIT;
    Harness::ready_server_with(config, ProtocolVersion::V2025_06_18)
}

fn small_client() -> Harness<mcp_proto::connection::ClientRole> {
    let mut config = full_client();
    config.settings.limits.frame_bytes = 1000;
    Harness::ready_client_with(config, ProtocolVersion::V2025_06_18)
}

/// Feeds a line through a decoder with the limit. Returns the events and the output.
fn feed<E>(harness: &mut Harness<E>, line: &str) -> (Vec<Event<'static>>, Vec<Value>) {
    let mut lines = LineDecoder::new(LIMIT);
    harness.feed_stream(&mut lines, line.as_bytes());
    harness.feed_stream(&mut lines, b"\n");
    (harness.take_events(), harness.sent())
}

#[test]
fn oversized_requests_are_refused_by_id() {
    let send_request = |id: &str| format!(r#"{{"jsonrpc":"2.0",{id}"method":"tools/list","params":{{"pad":""#);
    for (id, length, expected) in [
        (r#""id":7,"#, LIMIT, None),
        (r#""id":7,"#, LIMIT + 1, Some(json!(7))),
        (r#""id":"seven","#, 100 * LIMIT, Some(json!("seven"))),
    ] {
        let mut server = small_server();
        let (events, sent) = feed(&mut server, &stretched(&send_request(id), length));
        match expected {
            None => assert!(matches!(events[..], [Event::Request { .. }]), "{events:?}"),
            Some(id) => {
                assert_eq!(events, [Event::Violation(Violation::Oversized)]);
                assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&id, &json!(-32600)));
            }
        }
        let (_, sent) = feed(&mut server, r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#);
        assert_eq!(sent, [result(8, json!({}))], "it lives on");
    }
}

// req: BASE-020
#[test]
fn oversized_frames_without_an_id_are_not_answered() {
    let heads = [
        r#"{"jsonrpc":"2.0","method":"vendor/x","params":{"pad":""#,
        r#"{"jsonrpc":"2.0","params":{"pad":""#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"vendor/x","params":{"pad":""#,
        r#"{"pad":{"pad":""#,
        "hello ",
        "",
    ];
    for head in heads {
        let mut server = small_server();
        let (events, sent) = feed(&mut server, &stretched(head, 3 * LIMIT));
        assert_eq!(events, [Event::Violation(Violation::Oversized)], "{head}");
        assert_eq!(sent, NOTHING, "{head}");
    }
}

#[test]
fn frame_limit_applies_without_a_line_decoder() {
    let head = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"pad":""#;
    let mut server = small_server();
    server.feed_text(&stretched(head, LIMIT));
    assert!(matches!(server.take_events()[..], [Event::Request { .. }]));
    let mut server = small_server();
    server.feed_text(&stretched(head, LIMIT + 1));
    assert_eq!(server.take_events(), [Event::Violation(Violation::Oversized)]);
    assert_eq!(server.sent()[0]["error"]["code"], -32600);
}

#[test]
fn oversized_responses_end_their_call() {
    let bodies = [
        r#""result":{"pad":""#,
        r#""error":{"code":1,"message":""#,
        r#""result":{},"more":{"pad":""#,
        r#""error":{"code":1,"message":"m"},"more":{"pad":""#,
    ];
    for body in bodies {
        let mut client = small_client();
        let call = client.call("tools/list");
        let (events, sent) =
            feed(&mut client, &stretched(&format!(r#"{{"jsonrpc":"2.0","id":{},{body}"#, call.as_u64()), 2 * LIMIT));
        assert_eq!(events, [Event::Response { call, outcome: Outcome::Malformed }], "{body}");
        assert_eq!(sent, NOTHING, "answers are not answered");
        assert_eq!(client.conn.usage().calls, 0);
    }
}

#[test]
fn each_oversized_frame_is_reported_once() {
    let long = stretched(r#"{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":{"pad":""#, 5 * LIMIT);
    let stream = format!("{long}\n{long}\r\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}\n{long}");
    for chunk in [1, 7, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 2, stream.len()] {
        let mut server = small_server();
        let mut lines = LineDecoder::new(LIMIT);
        for piece in stream.as_bytes().chunks(chunk) {
            server.feed_stream(&mut lines, piece);
            assert!(lines.buffered() <= LIMIT + chunk, "chunks of {chunk}");
        }
        lines.end();
        server.feed_stream(&mut lines, b"");
        assert_eq!(server.take_events(), vec![Event::Violation(Violation::Oversized); 3], "chunks of {chunk}");
        let ids: Vec<_> = server.sent().iter().map(|message| message["id"].clone()).collect();
        assert_eq!(ids, [1, 1, 2, 1], "chunks of {chunk}");
    }
}

#[test]
fn oversized_output_is_refused_without_side_effects() {
    let pad = "x".repeat(LIMIT);
    let big = Json::new(&json!({"pad": pad})).expect("it is JSON");
    let mut server = small_server();
    let key = server.receive_request(&request_with_token(1, "tools/list", 1));
    let before = server.conn.usage();
    let raw = (&big).into();
    let call = server.conn.request_raw(server.now, "vendor/x", Some(&raw), RequestOptions::default());
    assert_eq!(call, Err(SendError::TooLarge));
    assert_eq!(server.conn.notify_raw("vendor/x", Some(&raw)), Err(SendError::TooLarge));
    assert_eq!(server.conn.notify(&LogMessageParams::new(LoggingLevel::Error, big.clone())), Err(SendError::TooLarge));
    assert_eq!(server.conn.respond_raw(key, &raw), Err(SendError::TooLarge));
    assert_eq!(server.conn.respond_error(key, &ErrorObject::internal(pad.clone())), Err(SendError::TooLarge));
    assert_eq!(server.conn.progress(key, 1.0, None, Some(&pad)), Err(SendError::TooLarge));
    assert_eq!(server.conn.usage(), before);
    assert_eq!(server.sent(), NOTHING);
    server.conn.progress(key, 1.0, None, None).expect("the report that failed does not count");
    server.respond(key, &json!({}));
    assert_eq!(server.sent().len(), 2);
    server.call("vendor/x");

    let mut client = small_client();
    let params = CallToolParams::new("x".repeat(1000));
    assert_eq!(client.conn.request(client.now, &params, RequestOptions::default()), Err(SendError::TooLarge));
    client.conn.request(client.now, &CallToolParams::new("x"), RequestOptions::default()).expect("it is short enough");
}

/// Returns `depth` nested brackets, objects and arrays in turn.
fn nested(depth: usize) -> String {
    let open: String = (0..depth).map(|level| if level % 2 == 0 { r#"{"a":"# } else { "[" }).collect();
    let close: String = (0..depth).rev().map(|level| if level % 2 == 0 { "}" } else { "]" }).collect();
    format!("{open}0{close}")
}

#[test]
fn nesting_limit_is_exact() {
    for limit in [0, 1, 2, 3, 64, 128, 1000] {
        let allowed = limit.min(128);
        for depth in (1..200).chain([1000, 100_000]) {
            let mut config = full_server();
            config.settings.limits.json_depth = limit;
            // The handshake is nested itself, so the frame comes before it.
            let mut server = Harness::server(config);
            // The message itself is the first level.
            let params = if depth == 1 { "null".to_owned() } else { nested(depth - 1) };
            server.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":{params}}}"#));
            let events = server.take_events();
            let too_deep = events == [Event::Violation(Violation::Malformed(MalformedKind::TooDeep))];
            assert_eq!(too_deep, depth > allowed as usize, "{depth} brackets with a limit of {limit}: {events:?}");
            if too_deep {
                assert_eq!(server.sent()[0]["error"]["code"], -32600);
            }
        }
    }
}

#[test]
fn deeply_nested_responses_end_their_call() {
    for body in [format!(r#""result":{}"#, nested(100_000)), format!(r#""error":{{"data":{}}}"#, nested(100_000))] {
        let mut client = Harness::ready_client(ProtocolVersion::V2025_11_25);
        let call = client.call("tools/list");
        client.feed_text(&format!(r#"{{"jsonrpc":"2.0","id":{},{body}}}"#, call.as_u64()));
        assert_eq!(client.take_events(), [Event::Response { call, outcome: Outcome::Malformed }]);
        assert_eq!(client.sent(), NOTHING, "answers are not answered");
    }
}

#[test]
fn endless_nesting_is_refused() {
    for bracket in ["[", r#"{"a":"#, r#"[{"a":"#] {
        for head in ["", r#"{"jsonrpc":"2.0","id":1,"method":"vendor/x","params":"#] {
            for version in ProtocolVersion::LEGACY {
                let text = head.to_owned() + &bracket.repeat(100_000);
                let mut server = Harness::ready_server(version);
                server.feed_text(&text);
                assert_eq!(server.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::TooDeep))]);
                let mut client = Harness::ready_client(version);
                client.feed_text(&text);
                assert_eq!(client.take_events(), [Event::Violation(Violation::Malformed(MalformedKind::TooDeep))]);
                server.feed(&request(2, "ping"));
                assert_eq!(server.sent().last(), Some(&result(2, json!({}))));
            }
        }
    }
}
