//! From bytes to messages: streams with cuts anywhere, and bytes between the lines.

use mcp_proto::{
    codec::{Frame, LineDecoder},
    connection::{Client, ClientRole, Connection, Event, Outcome, Server, ServerRole, Violation},
    protocol::{MethodName, ProtocolVersion},
    rpc::Timestamp,
    wire::MalformedKind,
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    message::{
        cancelled, notification, notification_with, progress, request, request_with, request_with_token, result,
    },
};
use serde_json::{Value, json};

const LIMIT: usize = 4096;

/// Returns the messages of a peer in a session, with UTF-8 characters of every length.
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

/// Feeds chunks after the handshake. Returns the events and the output.
fn replay<E>(mut harness: Harness<E>, chunks: &[&[u8]]) -> Seen {
    let mut lines = LineDecoder::new(LIMIT);
    for chunk in chunks {
        harness.feed_stream(&mut lines, chunk);
    }
    lines.end();
    harness.feed_stream(&mut lines, b"");
    (harness.take_events(), harness.sent_text())
}

fn server(chunks: &[&[u8]]) -> Seen {
    replay(Harness::ready_server(ProtocolVersion::V2025_11_25), chunks)
}

fn client(chunks: &[&[u8]]) -> Seen {
    replay(Harness::ready_client(ProtocolVersion::V2025_11_25), chunks)
}

// req: BASE-027 STDIO-004 STDIO-006 STDIO-017
#[test]
fn framing_ignores_cuts_and_blank_lines() {
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
fn messages_must_be_utf8() {
    let text = "a é € 😀";
    let good = request_with("é", "vendor/é", json!({"text": text})).to_string() + "\n";
    // The same text in Latin-1 and in UTF-16.
    let bad = [
        good.replace('é', "E").replace("€ 😀", "").into_bytes(),
        good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
    ];
    for version in [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
        for bad in &bad {
            let bad: Vec<_> = bad.iter().map(|byte| if *byte == b'E' { 0xe9 } else { *byte }).collect();
            let mut harness = Harness::ready_server(version);
            let mut lines = LineDecoder::new(LIMIT);
            harness.feed_stream(&mut lines, &bad);
            harness.feed_stream(&mut lines, b"\n");
            let events = harness.take_events();
            let is_refused = |event: &Event<'_>| matches!(event, Event::Violation(Violation::Malformed(_)));
            assert!(!events.is_empty() && events.iter().all(is_refused), "{version}: {events:?}");
        }
        let mut harness = Harness::ready_server(version);
        harness.feed_stream(&mut LineDecoder::new(LIMIT), good.as_bytes());
        let Some(Event::Request { key, params, .. }) = harness.take_events().pop() else { panic!("a request") };
        assert!(params.is_some_and(|params| params.get().contains(text)));
        harness.respond(key, &json!({"text": text}));
        let said = harness.sent_text();
        assert!(said[0].contains(text) && said[0].contains("\"é\""), "{version}: {said:?}");
    }
}

// req: BASE-023 BASE-027 STDIO-017
#[test]
fn a_bad_line_does_not_affect_other_lines() {
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
fn streams_can_end_at_any_byte() {
    let lines = transcript();
    let stream = lines.join("\n");
    let (whole, _) = server(&[stream.as_bytes()]);
    for end in 0..=stream.len() {
        let head = &stream.as_bytes()[..end];
        let (mut seen, _) = server(&[head]);
        // Bytes without a line feed at the end are a message if they are complete. Otherwise the stream was truncated.
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
fn only_line_feeds_end_a_line() {
    let mut harness = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let mut lines = LineDecoder::new(LIMIT);
    // Carriage returns between tokens are white space.
    let (a, b) = (request(1, "ping").to_string(), request(2, "ping").to_string().replace(',', ",\r"));
    harness.feed_stream(&mut lines, format!("{a}\r\r\n\r{b}\r\n").as_bytes());
    assert_eq!(harness.sent(), [result(1, json!({})), result(2, json!({}))]);
    // Two messages on one line are invalid.
    harness.feed_stream(&mut lines, format!("{a}{a}\n").as_bytes());
    harness.feed_stream(&mut lines, format!("{a}\r{a}\n").as_bytes());
    assert!(harness.sent().iter().all(|refusal| refusal["error"]["code"] == -32700));
    assert_eq!(harness.take_events().len(), 2);
}

/// Delivers every message of one side to the other, as a transport with message boundaries does.
fn carry<A, B>(from: &mut Connection<A>, to: &mut Connection<B>) -> Vec<Event<'static>> {
    let mut events = Vec::new();
    let mut message = Vec::new();
    while from.poll_transmit(&mut message).is_some() {
        let value: Value = serde_json::from_slice(&message).expect("output is JSON");
        // Such a transport may change the white space.
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
fn sessions_work_over_message_transports() {
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
