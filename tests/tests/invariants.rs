//! The invariants of the core as properties of random conversations, in each era and with both eras on one connection.
//!
//! Law 1 (no I/O, no clock, no randomness in the core) concerns what is linked: see `layers.rs` and `no_std.rs`.

mod invariants_support;

use std::{collections::BTreeSet, time::Duration};

use mcp_proto::{
    codec::LineDecoder,
    connection::{ClientRole, Event, RequestOptions, ResourceUsage, SendError, ServerRole},
    protocol::{Era, ProtocolVersion, VersionSet},
};
use mcp_tests::{
    harness::Harness,
    harness::full_client_with,
    message::{CAPABILITIES, VERSION, listen, modern, modern_with},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use invariants_support::{
    Conversation, ResponseChoice, Step, eras,
    lines::line,
    link, op,
    small_limits::{LimitedSide, limit_steps},
    who,
};

/// Checks the output of a client: ids are unique. In a session each request has at most one response. Without one there
/// are only requests with complete metadata, and cancellations.
fn check_client(conversation: &Conversation) {
    let parse = |line: &String| serde_json::from_str::<Value>(line).expect("lines are JSON");
    let is_modern = conversation.testbed.client.conn.version().is_some_and(|version| version.era() == Era::Modern);
    let requested: Vec<Value> =
        conversation.testbed.server.log.iter().map(parse).filter(|it| it["method"].is_string()).collect();
    let (mut ids, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for message in conversation.testbed.client.log.iter().map(parse) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        match (message["method"].as_str(), message.get("id")) {
            (Some(_), Some(id)) => {
                assert!(ids.insert(id.as_u64().expect("ids are integers")), "an id was used twice: {message}");
                let meta = &message["params"]["_meta"];
                assert_eq!(meta.get(VERSION).is_some(), is_modern, "{message}");
                assert_eq!(meta[CAPABILITIES].is_object(), is_modern, "{message}");
            }
            (Some(method), None) => {
                let is_core = method.starts_with("notifications/");
                assert!(!is_modern || !is_core || method == "notifications/cancelled", "{message}");
            }
            (None, id) => {
                assert!(!is_modern, "an answer of a client that is asked nothing: {message}");
                let id = id.expect("a client knows what it answers");
                assert!(
                    requested.iter().any(|requested| requested.get("id") == Some(id)),
                    "an answer to nothing: {message}"
                );
                assert!(answered.insert(id.to_string()), "a second answer: {message}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Law 3: every accepted request ends exactly once, and every inbound request gets at most one response and none
    /// after its cancellation. The output of the server is checked as it is sent.
    // req: BASE-006 BASE-007 BASE-029 PROG-011 CANC-012 LIFE-042
    // req: M-BASE-001 M-BASE-003 M-BASE-004 M-BASE-005 M-BASE-021 M-BASE-022 M-BASE-024 M-BASE-046 M-BASE-053
    // req: M-STDIO-014 M-STDIO-009 M-PROG-010 M-SUBS-006 M-SUBS-015
    #[test]
    fn every_request_ends_exactly_once(eras in eras(), config in link(), ops in vec(op(), 0..120)) {
        let mut conversation = Conversation::new(eras, config);
        for op in &ops {
            conversation.step(op);
        }
        conversation.finish();
        for record in [&conversation.client, &conversation.server] {
            for call in &record.calls {
                prop_assert_eq!(record.ended.get(call), Some(&1), "call {:?}", call);
            }
        }
        prop_assert_eq!(conversation.monitor.open(), Vec::<Value>::new(), "requests without an answer");
        check_client(&conversation);
        conversation.testbed.assert_idle();
    }

    /// Law 3 when one side closes early: calls end, and so does the connection.
    // req: LIFE-041
    #[test]
    fn closing_either_side_ends_every_call(
        eras in eras(), config in link(), ops in vec(op(), 0..60), who in who(), more in vec(op(), 0..30)
    ) {
        let mut conversation = Conversation::new(eras, config);
        for op in ops.iter().chain([&Step::Close(who)]).chain(&more) {
            conversation.step(op);
        }
        conversation.finish();
        conversation.testbed.advance(Duration::from_secs(60));
        conversation.collect();
        for record in [&conversation.client, &conversation.server] {
            for call in &record.calls {
                prop_assert_eq!(record.ended.get(call), Some(&1), "call {:?}", call);
            }
        }
        prop_assert!(conversation.testbed.client.conn.is_drained() && conversation.testbed.server.conn.is_drained());
        conversation.finish();
        conversation.testbed.assert_idle();
    }

    /// Law 5: over any lossless link two peers become idle. Then no output is pending and every request has its
    /// response.
    #[test]
    fn peers_become_idle_without_timers(eras in eras(), config in link(), ops in vec(op(), 0..80)) {
        let mut conversation = Conversation::new(eras, config);
        for op in ops.iter().filter(|op| !matches!(op, Step::Wait(_) | Step::Stall(..) | Step::Respond(_, _, ResponseChoice::Putting))) {
            conversation.step(op);
        }
        // The clock advances only as the link needs it.
        conversation.come_to_rest();
        let mut out = Vec::new();
        prop_assert_eq!(conversation.testbed.client.conn.poll_transmit(&mut out), None);
        prop_assert_eq!(conversation.testbed.server.conn.poll_transmit(&mut out), None);
        for usage in [conversation.testbed.client.conn.usage(), conversation.testbed.server.conn.usage()] {
            prop_assert_eq!((usage.outbox_bytes, usage.changes), (0, 0));
        }
        prop_assert_eq!(conversation.unanswered(), Vec::new());
    }

    /// Law 5 with a small outbox: a caller that gets `Busy` has output to poll, and afterwards the outbox has capacity.
    #[test]
    fn busy_implies_pending_output(is_modern in any::<bool>(), steps in vec(limit_steps(), 0..150)) {
        let mut limited = LimitedSide::new(is_modern);
        for step in &steps {
            limited.step(step);
        }
        limited.finish();
    }

    /// Law 5 where each side has so little capacity that it pauses reading: the deadline of the pause ends any wait,
    /// and each call ends once.
    #[test]
    fn peers_that_pause_reading_become_idle(
        config in link(), (up, down) in (1usize..40, 1usize..40), room in 300usize..2000, requests in 1usize..40
    ) {
        let mut testbed = mcp_tests::testbed::Testbed::ready_with(config, |limits| {
            (limits.outbox_bytes, limits.requests) = (room, requests);
        });
        (testbed.client.high_water, testbed.server.high_water) = (1, 1);
        let ends = run_with_pauses(&mut testbed, up, down);
        prop_assert_eq!(ends, (up, down));
        testbed.assert_idle();
    }

    /// Law 2: the same inputs give the same outputs, byte for byte.
    #[test]
    fn outputs_are_deterministic(eras in eras(), config in link(), ops in vec(op(), 0..80)) {
        let run = || {
            let mut conversation = Conversation::new(eras, config);
            for op in &ops {
                conversation.step(op);
            }
            (conversation.testbed.client.log, conversation.testbed.server.log)
        };
        prop_assert_eq!(run(), run());
    }
}

/// Sends `up` requests from the client and `down` from the server, each as soon as it fits. Both sides respond at once.
/// Returns the number of ended calls of each side.
fn run_with_pauses(testbed: &mut mcp_tests::testbed::Testbed, up: usize, down: usize) -> (usize, usize) {
    let (mut requested, mut ended) = ((0, 0), (0, 0));
    let options = RequestOptions::no_timeout;
    for _ in 0..100_000 {
        let now = testbed.now;
        while requested.0 < up && testbed.client.conn.request_raw(now, "tools/call", None, options()).is_ok() {
            requested.0 += 1;
        }
        while requested.1 < down && testbed.server.conn.request_raw(now, "roots/list", None, options()).is_ok() {
            requested.1 += 1;
        }
        testbed.settle();
        ended.0 += settle_events(&mut testbed.client);
        ended.1 += settle_events(&mut testbed.server);
        testbed.settle();
        if ended == (up, down) {
            break;
        }
        let due = [testbed.client.conn.poll_timeout(), testbed.server.conn.poll_timeout()];
        if let Some(due) = due.into_iter().flatten().map(|deadline| deadline.at).min() {
            testbed.advance(due.saturating_since(testbed.now));
        }
    }
    ended.0 += settle_events(&mut testbed.client);
    ended.1 += settle_events(&mut testbed.server);
    testbed.settle();
    ended
}

/// Responds to requests as far as responses fit, and returns the number of ended calls.
fn settle_events<E>(end: &mut mcp_tests::testbed::Peer<E>) -> usize {
    let mut ended = 0;
    let result = mcp_proto::wire::Json::parse("{}").expect("JSON");
    for event in end.take_events() {
        match event {
            Event::Response { .. } => ended += 1,
            Event::Request { key, .. } => {
                match end.conn.respond_raw(key, &(&result).into()) {
                    // It is retried when there is capacity.
                    Err(SendError::Busy) => end.events.push(event),
                    answered => assert_eq!(answered, Ok(())),
                }
            }
            _ => {}
        }
    }
    ended
}

/// Two peers that write more than the links hold wait for each other to read. Only the deadline of the pause ends that.
#[test]
fn mutual_read_pause_ends_at_its_deadline() {
    let config = mcp_tests::link::LinkConfig::one_byte();
    let mut testbed = mcp_tests::testbed::Testbed::ready_with(config, |limits| {
        (limits.outbox_bytes, limits.requests) = (2000, 40);
    });
    (testbed.client.high_water, testbed.server.high_water) = (1, 1);
    let start = testbed.now;
    assert_eq!(run_with_pauses(&mut testbed, 30, 30), (30, 30));
    assert!(testbed.client.pauses + testbed.server.pauses > 0, "reading was never paused");
    let took = testbed.now.saturating_since(start);
    assert!(took >= Duration::from_secs(30), "no deadline was needed: {took:?}");
    testbed.assert_idle();
}

/// The random plays contain input requests and list changes, and often both eras on one connection.
#[test]
fn generated_plays_mix_the_eras() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};

    let mut runner = TestRunner::deterministic();
    let (mut input_requests, mut news, mut mixed) = (0, 0, 0);
    for _ in 0..100 {
        let plan = (eras(), link(), vec(op(), 0..120)).new_tree(&mut runner).expect("a plan").current();
        let mut conversation = Conversation::new(plan.0, plan.1);
        plan.2.iter().for_each(|op| conversation.step(op));
        conversation.finish();
        input_requests += conversation.monitor.input_requests;
        news += conversation.monitor.subscription_messages;
        mixed += usize::from(conversation.monitor.results.iter().all(|results| *results > 0));
    }
    assert!(input_requests > 20 && news > 100 && mixed > 25, "{input_requests} {news} {mixed}");
}

/// The random plays find a full outbox often enough.
#[test]
fn generated_plays_exhaust_capacity() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};

    let mut runner = TestRunner::deterministic();
    let mut busy = [0; 2];
    for plan in 0..40 {
        let steps = vec(limit_steps(), 150).new_tree(&mut runner).expect("a plan").current();
        let mut limited = LimitedSide::new(plan % 2 == 0);
        steps.iter().for_each(|step| limited.step(step));
        busy[plan % 2] += limited.busy;
        limited.finish();
    }
    assert!(busy.iter().all(|busy| *busy > 20), "{busy:?}");
}

type Seen = (Vec<Event<'static>>, Vec<String>);

fn replay<E>(mut harness: Harness<E>, chunks: &[&[u8]]) -> (Seen, ResourceUsage) {
    let mut lines = LineDecoder::new(2000);
    for chunk in chunks {
        harness.feed_stream(&mut lines, chunk);
    }
    lines.end();
    harness.feed_stream(&mut lines, b"");
    let events = harness.take_events();
    ((events, harness.sent_text()), harness.conn.usage())
}

/// Returns a server with a session of this revision, without a session, or for both eras.
fn some_server(kind: usize, version: ProtocolVersion) -> Harness<ServerRole> {
    match kind % 4 {
        0 => Harness::ready_server(version),
        1 => Harness::modern_server(),
        2 => Harness::with_versions(VersionSet::ALL),
        _ => {
            let mut config = mcp_tests::harness::full_server();
            config.settings.versions = VersionSet::ALL;
            Harness::ready_server_with(config, version)
        }
    }
}

/// Returns a client with requests in flight: in a session of this revision, without a session, or before the era is
/// known.
fn some_client(kind: usize, version: ProtocolVersion) -> Harness<ClientRole> {
    let mut client = match kind % 3 {
        0 => Harness::ready_client(version),
        1 => Harness::modern_client(),
        _ => return Harness::client(full_client_with(VersionSet::ALL)),
    };
    let params = mcp_proto::wire::Json::parse(r#"{"name":"t","notifications":{}}"#).expect("JSON");
    for method in ["tools/call", "subscriptions/listen", "tools/call"] {
        let _ = client.conn.request_raw(client.now, method, Some(&(&params).into()), RequestOptions::default());
    }
    client.sent();
    client
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Laws 2 and 4: the events and responses do not depend on the cuts of a stream, and no input causes a panic.
    // req: STDIO-017
    #[test]
    fn events_do_not_depend_on_chunk_boundaries(
        lines in vec(line(), 0..30),
        cuts in vec(any::<prop::sample::Index>(), 0..20),
        version in prop::sample::select(ProtocolVersion::LEGACY.to_vec()),
        kind in 0usize..12,
    ) {
        let stream = lines.join(&b'\n');
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();

        let server = |chunks: &[&[u8]]| replay(some_server(kind, version), chunks);
        let whole = server(&[&stream]);
        prop_assert_eq!(&server(&pieces), &whole);
        prop_assert_eq!(&server(&bytes), &whole);
        let client = |chunks: &[&[u8]]| replay(some_client(kind, version), chunks);
        let whole = client(&[&stream]);
        prop_assert_eq!(&client(&pieces), &whole);
        prop_assert_eq!(&client(&bytes), &whole);
    }
}

/// Law 4: memory stays below the sum of the limits, for any input and for peers that do not read.
#[test]
fn message_flood_stays_within_limits() {
    flood(50, usize::MAX);
    flood(usize::MAX, 4000);
}

fn flood(requests: usize, request_bytes: usize) {
    let mut config = mcp_tests::harness::full_server();
    config.settings.versions = VersionSet::ALL;
    let limits = &mut config.settings.limits;
    (limits.requests, limits.request_bytes, limits.subscriptions) = (requests, request_bytes, 5);
    (limits.outbox_bytes, limits.control_bytes) = (10_000, 5_000);
    let limits = limits.clone();
    let mut harness = Harness::ready_server_with(config, ProtocolVersion::LATEST_LEGACY);
    let mut ended = false;
    for n in 0..200_000u64 {
        let message = match n % 8 {
            0 => json!({"jsonrpc": "2.0", "id": n, "method": "tools/list"}),
            1 => json!({"jsonrpc": "2.0", "id": n, "method": "ping"}),
            2 => json!({"jsonrpc": "2.0", "id": n, "method": "nothing/like/it", "params": {"pad": "x".repeat(100)}}),
            3 => json!({"id": n, "method": 5}),
            4 => modern(n, "tools/call", json!({"name": "t", "pad": "x".repeat(100)})),
            5 => listen(n, json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]})),
            6 => modern(n, "server/discover", json!({})),
            _ => modern_with(n, "tools/list", json!({}), json!({VERSION: "2031-01-01"})),
        };
        harness.feed(&message);
        // Notifications are sent as far as they fit.
        let _ = harness.conn.notify(&mcp_proto::schema::ResourceUpdatedParams::new("a:b"));
        let usage = harness.conn.usage();
        assert!(usage.requests <= limits.requests && usage.request_bytes <= limits.request_bytes, "{usage:?}");
        assert!(usage.outbox_bytes <= limits.outbox_bytes + limits.control_bytes + 1000, "{usage:?}");
        assert!(usage.subscriptions <= limits.subscriptions, "{usage:?}");
        assert!(usage.events == 0);
        ended |= harness.take_events().iter().any(|event| matches!(event, Event::Closed(_)));
    }
    assert!(ended, "a peer that never reads its refusals is left in the end");
}

/// Law 4 for a client of 2026-07-28 whose server sends many input requests.
#[test]
fn input_request_flood_stays_within_limits() {
    let mut config = mcp_tests::harness::full_client();
    let limits = &mut config.settings.limits;
    (limits.requests, limits.request_bytes, limits.input_requests, limits.calls) = (40, 4000, 10, 20);
    let limits = limits.clone();
    let mut client = Harness::modern_client_with(config);
    let params = mcp_proto::wire::Json::parse(r#"{"name":"t"}"#).expect("JSON");
    let mut requested = 0;
    for n in 0..5_000u64 {
        let call =
            client.conn.request_raw(client.now, "tools/call", Some(&(&params).into()), RequestOptions::default());
        for request in client.sent() {
            let count = n % 12;
            let input_requests: serde_json::Map<String, Value> =
                (0..count).map(|name| (name.to_string(), json!({"method": "roots/list"}))).collect();
            let result = json!({"resultType": "input_required", "inputRequests": input_requests, "requestState": "s"});
            client.feed(&mcp_tests::message::result(request["id"].clone(), result));
        }
        let usage = client.conn.usage();
        assert!(usage.requests <= limits.requests && usage.calls <= limits.calls, "{usage:?}");
        assert!(usage.events <= limits.requests + limits.calls, "{usage:?}");
        requested += client.take_events().iter().filter(|event| matches!(event, Event::Request { .. })).count();
        if n % 7 == 0 {
            let _ = call.map(|call| client.conn.cancel(call, None));
        }
    }
    assert!(requested >= limits.requests / 2, "{requested}");
}
