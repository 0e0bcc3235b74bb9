use std::time::Duration;

use super::*;

fn seen(inbox: &Inbox) -> Vec<Seen> {
    let take = |message| match message {
        Message::Seen { sighting, .. } => sighting.what,
        other => panic!("{other:?}"),
    };
    inbox.take(Duration::ZERO).into_iter().map(take).collect()
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn rules(seen: &[Seen]) -> Vec<(u64, Option<&'static str>)> {
    let rules = |seen: &Seen| match seen {
        Seen::Broken { number, findings } => findings.iter().map(|it| (*number, it.rule)).collect(),
        _ => Vec::new(),
    };
    seen.iter().flat_map(rules).collect()
}

#[test]
fn messages_are_seen_at_once_and_judged_after_the_handshake() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
    let mut client = Lines::new(observer.clone(), Origin::Client);
    let mut server = Lines::new(observer, Origin::Server);
    server.feed(b"noise\n");
    client.feed(format!("{INITIALIZE}\n").as_bytes());
    let first = seen(&inbox);
    assert!(matches!(&first[..], [Seen::Message(_), Seen::Message(_)]), "{first:?}");
    server.feed(format!("{RESULT}\n").as_bytes());
    let second = seen(&inbox);
    assert_eq!(rules(&second), [(0, Some("STDIO-007"))]);
    client.feed(format!("{READY}\n").as_bytes());
    server.feed(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n[1]\n");
    assert_eq!(rules(&seen(&inbox)), [(4, Some("BASE-008")), (5, Some("BATCH-012"))]);
}

#[test]
fn rules_of_standard_streams_do_not_hold_over_http() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
    observer.message(Origin::Client, INITIALIZE.as_bytes(), FrameEnd::Complete);
    let mut body = Body::of("application/json; charset=utf-8", true);
    body.feed(&observer, &RESULT.as_bytes()[..40]);
    body.feed(&observer, &RESULT.as_bytes()[40..]);
    body.end(&observer);
    let mut events = Body::of("Text/Event-Stream", true);
    events.feed(&observer, b"id: 1\ndata:\n\ndata: noi");
    events.feed(&observer, b"se\n\n");
    assert_eq!(rules(&seen(&inbox)), [(2, None)]);
}

#[test]
fn sessions_over_http_begin_again() {
    for is_http in [true, false] {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, is_http);
        let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
        for _ in 0..2 {
            for (from, text) in [
                (Origin::Client, INITIALIZE),
                (Origin::Server, RESULT),
                (Origin::Client, READY),
                (Origin::Client, list),
            ] {
                let exchange = if is_http { observer.of_exchange(text.as_bytes()) } else { observer.clone() };
                exchange.message(from, text.as_bytes(), FrameEnd::Complete);
            }
        }
        assert_eq!(rules(&seen(&inbox)).is_empty(), is_http);
    }
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}"#;
const CALLED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;

/// Opens a session, sees these messages of the client and of the server, and returns the broken rules.
fn judged(is_http: bool, messages: &[(Origin, &str)]) -> Vec<(u64, Option<&'static str>)> {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, is_http);
    let opening = [(Origin::Client, INITIALIZE), (Origin::Server, RESULT)];
    for (from, text) in opening.iter().chain(messages) {
        observer.message(*from, text.as_bytes(), FrameEnd::Complete);
    }
    rules(&seen(&inbox))
}

#[test]
fn exchanges_have_no_order_among_each_other() {
    // Each of them has a thread, and is seen before it is sent.
    let messages = [
        (Origin::Client, CANCELLED),
        (Origin::Client, CALL),
        (Origin::Client, READY),
        (Origin::Server, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#),
    ];
    assert_eq!(judged(true, &messages), [(5, Some("BASE-008"))]);
    assert_eq!(judged(false, &messages), [(2, Some("CANC-004")), (5, Some("BASE-008"))]);
}

#[test]
fn refused_messages_may_be_sent_again() {
    for is_refused in [true, false] {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
        let post = |text: &str| {
            let exchange = observer.of_exchange(text.as_bytes());
            let number = exchange.message(Origin::Client, text.as_bytes(), FrameEnd::Complete);
            if is_refused {
                exchange.refused(number);
            }
            exchange.message(Origin::Client, text.as_bytes(), FrameEnd::Complete);
        };
        post(INITIALIZE);
        observer.message(Origin::Server, RESULT.as_bytes(), FrameEnd::Complete);
        post(READY);
        post(CALL);
        observer.message(Origin::Server, CALLED.as_bytes(), FrameEnd::Complete);
        let rules = rules(&seen(&inbox));
        let of_ids: Vec<_> = rules.iter().filter(|(_, rule)| rule.is_some()).map(|(number, _)| *number).collect();
        assert_eq!((rules.is_empty(), of_ids), if is_refused { (true, vec![]) } else { (false, vec![1, 6]) });
    }
}

#[test]
fn late_messages_belong_to_the_session_before() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
    let post = |text: &str| {
        let exchange = observer.of_exchange(text.as_bytes());
        exchange.message(Origin::Client, text.as_bytes(), FrameEnd::Complete);
        exchange
    };
    let answer =
        |exchange: &Observer, text: &str| exchange.message(Origin::Server, text.as_bytes(), FrameEnd::Complete);
    answer(&post(INITIALIZE), RESULT);
    post(READY);
    let late = post(CALL);
    answer(&post(INITIALIZE), RESULT);
    post(READY);
    answer(&late, CALLED);
    assert_eq!(rules(&seen(&inbox)), []);
    answer(&observer.of_exchange(b""), CALLED);
    assert_eq!(rules(&seen(&inbox)), [(8, Some("BASE-008"))]);
}

#[test]
fn servers_that_never_shake_hands_are_judged_too() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
    let mut server = Lines::new(observer, Origin::Server);
    for _ in 0..MAX_WAITING {
        server.feed(b"noise\n");
    }
    assert_eq!(rules(&seen(&inbox)).len(), MAX_WAITING);
}

#[test]
fn long_messages_are_judged() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
    let long = "x".repeat(5 << 20);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"a","arguments":{{"x":"{long}"}}}}}}"#
    );
    let result = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#;
    for (from, text) in [
        (Origin::Client, INITIALIZE),
        (Origin::Server, RESULT),
        (Origin::Client, READY),
        (Origin::Client, &call),
        (Origin::Server, result),
    ] {
        observer.message(from, text.as_bytes(), FrameEnd::Complete);
    }
    let seen = rules(&seen(&inbox));
    assert!(seen.is_empty(), "{seen:?}");
}

#[test]
fn programs_that_are_started_again_begin_again() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, false);
    let (first, second) = (observer.of_program(), observer.of_program());
    let discover = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{}}}"#;
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    first.message(Origin::Client, discover.as_bytes(), FrameEnd::Complete);
    for (from, text) in [(Origin::Client, INITIALIZE), (Origin::Server, RESULT), (Origin::Client, READY)] {
        second.message(from, text.as_bytes(), FrameEnd::Complete);
    }
    // What the first one writes late is its own.
    first.message(Origin::Server, refused.as_bytes(), FrameEnd::Complete);
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let tools = r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#;
    for (from, text) in [(Origin::Client, list), (Origin::Server, tools)] {
        second.message(from, text.as_bytes(), FrameEnd::Complete);
    }
    let seen = seen(&inbox);
    let numbers = seen.iter().filter_map(|seen| match seen {
        Seen::Message(observed) => Some(observed.number),
        _ => None,
    });
    assert!(numbers.eq(0..7), "{seen:?}");
    assert_eq!(rules(&seen), []);
}

#[test]
fn bodies_that_are_too_long_are_told() {
    let inbox = Arc::new(Inbox::default());
    let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
    let mut reader = Body::of("application/json", true);
    for _ in 0..=MAX_MESSAGE >> 20 {
        reader.feed(&observer, &vec![b' '; 1 << 20]);
    }
    reader.end(&observer);
    assert_eq!(seen(&inbox), [Seen::Event("a body of more than 16 MiB".into())]);
}

#[test]
fn bodies_of_errors_need_not_be_messages() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    let anonymous = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Unauthorized"}}"#;
    for (body, is_answer, expected, has_id) in [
        (r#"{"detail":"Method Not Allowed"}"#, false, 0, false),
        (r#"{"error":"invalid_token"}"#, false, 0, false),
        ("[1]", false, 0, false),
        (error, false, 1, true),
        (anonymous, false, 1, false),
        (r#"{"detail":"no message"}"#, true, 1, false),
    ] {
        let inbox = Arc::new(Inbox::default());
        let observer = Observer::new(inbox.clone(), Clock::start(), 1, true);
        let mut reader = Body::of("application/json", is_answer);
        reader.feed(&observer, body.as_bytes());
        assert_eq!(reader.end(&observer), has_id, "{body}");
        assert_eq!(seen(&inbox).len(), expected, "{body}");
    }
}
