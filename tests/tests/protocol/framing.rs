//! From bytes to messages: wherever a stream is cut, and whatever stands between its lines.

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Client, ClientRole, Connection, Event, Outcome, Server, ServerRole, Violation},
    protocol::{MethodName, ProtocolVersion},
    rpc::Timestamp,
    wire::MalformedKind,
};
use mcp_tests::{
    message::{
        cancelled, notification, notification_with, progress, request, request_with, request_with_token, result,
    },
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

const LIMIT: usize = 4096;

/// What a peer says in the course of a session. Every character length of UTF-8 is in it.
fn transcript() -> Vec<String> {
    let text = "a é € 😀 \u{2028} \u{85} \u{feff} \\ \"";
    [
        request(1, "ping"),
        request_with_token("zwei €", "vendor/😀", text),
        notification_with("vendor/é", json!({"text": text, text: [text, {"😀": "\r\n"}]})),
        notification("vendor/b"),
        cancelled("zwei €"),
        request_with(3, "vendor/c", json!({"a": [1, 2.5, null, true]})),
        progress(99, 0.5),
        result(99, json!({})),
        request(4, "notifications/initialized"),
    ]
    .iter()
    .map(Value::to_string)
    .collect()
}

type Seen = (Vec<Event<'static>>, Vec<String>);

/// Feeds chunks to an end behind its handshake; what it makes of them and says to them.
fn replay<E>(mut solo: Solo<E>, chunks: &[&[u8]]) -> Seen {
    let mut lines = LineDecoder::new(LIMIT);
    for chunk in chunks {
        solo.feed_stream(&mut lines, chunk);
    }
    lines.end();
    solo.feed_stream(&mut lines, b"");
    (solo.take_events(), solo.sent_text())
}

fn server(chunks: &[&[u8]]) -> Seen {
    replay(Solo::ready_server(ProtocolVersion::V2025_11_25), chunks)
}

fn client(chunks: &[&[u8]]) -> Seen {
    replay(Solo::ready_client(ProtocolVersion::V2025_11_25), chunks)
}

// req: BASE-027 STDIO-004 STDIO-006 STDIO-017
#[test]
fn a_stream_may_be_cut_anywhere_and_hold_all_that_is_no_message() {
    let lines = transcript();
    let plain = lines.join("\n") + "\n";
    let expected = [server(&[plain.as_bytes()]), client(&[plain.as_bytes()])];
    assert_eq!(expected[0].0.len(), 8, "{:?}", expected[0].0);
    for (bom, line_end, between) in [
        ("", "\n", ""),
        ("", "\r\n", ""),
        ("\u{feff}", "\n", ""),
        ("\u{feff}", "\r\n", "\r\n"),
        ("", "\n", "\n\n \t\r\n"),
        ("\u{feff}", "\n", " \n"),
        ("", " \t \n", ""),
        ("", "\n", "   "),
    ] {
        let stream: String = lines.iter().map(|line| format!("{between}{line}{line_end}")).collect();
        let stream = format!("{bom}{stream}").into_bytes();
        let check = |chunks: &[&[u8]], context: &str| {
            assert_eq!(server(chunks), expected[0], "{bom:?} {line_end:?} {between:?}, {context}");
            assert_eq!(client(chunks), expected[1], "{bom:?} {line_end:?} {between:?}, {context}");
        };
        for cut in 0..=stream.len() {
            let (head, tail) = stream.split_at(cut);
            check(&[head, tail], &format!("cut at {cut}"));
        }
        for size in [1, 2, 3, 5, 64] {
            check(&stream.chunks(size).collect::<Vec<_>>(), &format!("chunks of {size}"));
        }
    }
}

// req: BASE-027
#[test]
fn messages_are_utf8_in_each_revision() {
    let text = "a é € 😀";
    let good = request_with("é", "vendor/é", json!({"text": text})).to_string() + "\n";
    // The same text as Latin-1 and as UTF-16 would have it.
    let bad = [
        good.replace('é', "E").replace("€ 😀", "").into_bytes(),
        good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    ];
    for version in [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        for bad in &bad {
            let bad: Vec<_> = bad.iter().map(|byte| if *byte == b'E' { 0xe9 } else { *byte }).collect();
            let mut solo = Solo::ready_server(version);
            let mut lines = LineDecoder::new(LIMIT);
            solo.feed_stream(&mut lines, &bad);
            solo.feed_stream(&mut lines, b"\n");
            let events = solo.take_events();
            let is_refused = |event: &Event<'_>| matches!(event, Event::Violation(Violation::Malformed(_)));
            assert!(!events.is_empty() && events.iter().all(is_refused), "{version}: {events:?}");
        }
        let mut solo = Solo::ready_server(version);
        solo.feed_stream(&mut LineDecoder::new(LIMIT), good.as_bytes());
        let Some(Event::Request { key, params, .. }) = solo.take_events().pop() else { panic!("a request") };
        assert!(params.is_some_and(|params| params.get().contains(text)));
        solo.answer(key, &json!({"text": text}));
        let said = solo.sent_text();
        assert!(said[0].contains(text) && said[0].contains("\"é\""), "{version}: {said:?}");
    }
}

// req: BASE-023 BASE-027 STDIO-017
#[test]
fn a_bad_line_costs_one_error_and_none_of_its_neighbours() {
    let bad: [&[u8]; 6] = [b"\xff", b"{\"a\":\"\xe2\x82\"}", b"\xed\xa0\x80", b"hello", b"{\"jsonrpc\":", b"\x00"];
    let lines = transcript();
    let good = lines.join("\n") + "\n";
    let (events, sent) = server(&[good.as_bytes()]);
    let (client_events, client_sent) = client(&[good.as_bytes()]);
    for bad in bad {
        for at in 0..=lines.len() {
            let stream: Vec<u8> = (lines[..at].iter().map(String::as_bytes))
                .chain([bad])
                .chain(lines[at..].iter().map(String::as_bytes))
                .flat_map(|line| [line, b"\n"].concat())
                .collect();
            let chunks: Vec<_> = stream.chunks(7).collect();
            let (mut seen, mut said) = server(&chunks);
            let is_error =
                |event: &Event<'_>| matches!(event, Event::Violation(Violation::Malformed(MalformedKind::Syntax(_))));
            assert_eq!(seen.iter().filter(|event| is_error(event)).count(), 1);
            seen.retain(|event| !is_error(event));
            let refusals = said.iter().filter(|line| line.contains("-32700")).count();
            said.retain(|line| !line.contains("-32700"));
            assert_eq!((refusals, &seen, &said), (1, &events, &sent), "{bad:?} before line {at}");

            let (mut seen, said) = client(&chunks);
            let is_noise = |event: &Event<'_>| matches!(event, Event::Violation(Violation::Noise(_)));
            assert_eq!(seen.iter().filter(|event| is_noise(event)).count(), 1);
            seen.retain(|event| !is_noise(event));
            assert_eq!((&seen, &said), (&client_events, &client_sent), "{bad:?} before line {at}");
        }
    }
}

#[test]
fn a_stream_may_end_anywhere() {
    let lines = transcript();
    let stream = lines.join("\n");
    let (whole, _) = server(&[stream.as_bytes()]);
    for end in 0..=stream.len() {
        let head = &stream.as_bytes()[..end];
        let (mut seen, _) = server(&[head]);
        // What has no line feed behind it is a message if it is whole, and else the peer has died over it.
        let last = head.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_cut = !last.is_empty() && !lines.iter().any(|line| line.as_bytes() == last);
        assert_eq!(seen.last() == Some(&Event::Violation(Violation::Truncated)), is_cut, "ends at {end}");
        if is_cut {
            seen.pop();
        }
        assert_eq!(seen[..], whole[..seen.len()], "ends at {end}");
    }
    let (_, sent) = server(&[b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi"]);
    assert_eq!(sent, [""; 0], "half a message is not answered");
}

#[test]
fn only_a_line_feed_ends_a_line() {
    let mut solo = Solo::ready_server(ProtocolVersion::V2025_06_18);
    let mut lines = LineDecoder::new(LIMIT);
    // Carriage returns between tokens are white space like any other.
    let (a, b) = (request(1, "ping").to_string(), request(2, "ping").to_string().replace(',', ",\r"));
    solo.feed_stream(&mut lines, format!("{a}\r\r\n\r{b}\r\n").as_bytes());
    assert_eq!(solo.sent(), [result(1, json!({})), result(2, json!({}))]);
    // Two messages on one line are none.
    solo.feed_stream(&mut lines, format!("{a}{a}\n").as_bytes());
    solo.feed_stream(&mut lines, format!("{a}\r{a}\n").as_bytes());
    assert!(solo.sent().iter().all(|refusal| refusal["error"]["code"] == -32700));
    assert_eq!(solo.take_events().len(), 2);
}

/// Hands every message of one end to the other, as a transport does that knows where messages end.
fn carry<A, B>(from: &mut Connection<A>, to: &mut Connection<B>) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    let mut message = Vec::new();
    while from.poll_transmit(&mut message).is_some() {
        let value: Value = serde_json::from_slice(&message).expect("output is JSON");
        // It may spell the JSON as it likes: this is none of the core's business.
        let spelled = serde_json::to_string_pretty(&value).expect("it is JSON");
        events.extend(to.handle_frame(Timestamp::ZERO, Frame::new(spelled.as_bytes())).map(Event::into_owned));
        message.clear();
    }
    while let Some(event) = to.poll_event() {
        events.push(event);
    }
    events
}

// req: BASE-002 TRANS-001 TRANS-002
#[test]
fn a_session_runs_over_a_transport_that_has_no_lines() {
    for version in ProtocolVersion::LEGACY {
        let mut config = full_client();
        config.settings.versions = mcp_proto::protocol::VersionSet::only(version);
        let mut client: Connection<ClientRole> = Client::new(config, Timestamp::ZERO);
        let mut server: Connection<ServerRole> = Server::new(full_server(), Timestamp::ZERO);
        assert_eq!(carry(&mut client, &mut server), []);
        assert_eq!(carry(&mut server, &mut client), [Event::Ready]);
        assert_eq!(carry(&mut client, &mut server), [Event::Ready]);
        let call = client.request_raw(Timestamp::ZERO, "vendor/a", None, Default::default()).expect("it is ready");
        let events = carry(&mut client, &mut server);
        let [Event::Request { key, method, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(*method, MethodName::new("vendor/a"));
        server.respond_error(*key, &mcp_proto::wire::ErrorObject::internal("no")).expect("an answer is owed");
        let events = carry(&mut server, &mut client);
        assert!(
            matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Error(_) }] if *ended == call),
            "{events:?}"
        );
        client.close(Timestamp::ZERO);
        server.handle_eof(Timestamp::ZERO);
        assert!(matches!(carry(&mut client, &mut server)[..], [Event::Closed(_)]));
        assert!(matches!(carry(&mut server, &mut client)[..], [Event::Closed(_)]));
        assert!(client.is_drained() && server.is_drained());
    }
}
