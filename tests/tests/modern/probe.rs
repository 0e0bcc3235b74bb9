//! How a client finds out the era of its server: every response to the probe, no response, and a server that exits. The
//! table is that of the specification's pages on versioning and on stdio.

use std::time::Duration;

use mcp_proto::{
    connection::{ClientRole, CloseReason, Event, Opening, Violation},
    protocol::{Era, Method, ProtocolVersion, VersionSet},
    wire::ErrorObject,
};
use mcp_tests::{
    harness::{Harness, full_client_with, full_server},
    link::LinkConfig,
    modern::{discovered, modern_only, refuse},
    testbed::Testbed,
};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const NOTHING: [Value; 0] = [];

const MODERN: Option<ProtocolVersion> = Some(ProtocolVersion::V2026_07_28);

/// Returns a client that has sent its first message, and that message.
fn opened(versions: VersionSet) -> (Client, Value) {
    begun(versions, Opening::unknown())
}

fn begun(versions: VersionSet, opening: Opening) -> (Client, Value) {
    let mut client = Client::with_opening(full_client_with(versions), opening);
    let first = client.sent_one();
    (client, first)
}

/// The next step of a client.
#[derive(Clone, Debug, PartialEq)]
enum Next {
    /// Uses 2026-07-28.
    Modern,
    /// Sends `initialize` with this revision.
    Initialize(&'static str),
    /// Sends the probe again.
    Asks,
    /// Closes with this reason.
    Leaves(&'static str),
    /// Waits.
    Waits,
}

use Next::{Asks, Initialize, Leaves, Modern, Waits};

const NEWEST: Next = Initialize("2025-11-25");

fn next(client: &mut Client) -> Next {
    let sent = client.sent();
    assert!(sent.len() <= 1, "{sent:?}");
    if let Some(message) = sent.first() {
        return match message["method"].as_str() {
            Some("initialize") => {
                let version = message["params"]["protocolVersion"].as_str().and_then(ProtocolVersion::parse);
                Initialize(version.expect("a revision").as_str())
            }
            Some("server/discover") => Asks,
            other => panic!("unexpected {other:?}"),
        };
    }
    match &client.take_events()[..] {
        [Event::Ready] if client.conn.version() == MODERN => Modern,
        [] => Waits,
        [Event::Closed(reason)] => {
            assert!(!reason.is_clean());
            Leaves(match reason {
                CloseReason::Refused(_) => "refused",
                CloseReason::UnsupportedVersion(_) => "unsupported",
                CloseReason::LegacyServer(_) => "old",
                CloseReason::HandshakeTimeout => "too late",
                other => panic!("unexpected {other:?}"),
            })
        }
        events => panic!("unexpected {events:?}"),
    }
}

/// Checks the step after each response to the probe, of a client of both eras and of one of only the modern era.
fn check(table: &[(Value, Next, Next)]) {
    for (answer, dual, alone) in table {
        for (versions, expected) in [(VersionSet::ALL, dual), (modern_only(), alone)] {
            let (mut client, probe) = opened(versions);
            assert_eq!((probe["method"].as_str(), &probe["id"]), (Some("server/discover"), &json!(1)));
            client.feed(answer);
            assert_eq!(next(&mut client), *expected, "{answer} for {versions:?}");
        }
    }
}

fn unsupported(versions: Value) -> Value {
    refuse(&json!({"id": 1}), -32022, json!({"supported": versions, "requested": "2026-07-28"}))
}

fn error(code: i64) -> Value {
    refuse(&json!({"id": 1}), code, json!(null))
}

fn result(result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

// req: M-META-001 M-META-002 M-META-004 M-DISC-002 M-VERS-001 M-DUAL-001 M-DUAL-008
#[test]
fn modern_clients_send_discover_first() {
    for versions in [VersionSet::ALL, modern_only()] {
        let (_, probe) = opened(versions);
        assert_eq!(probe["method"], "server/discover");
        let key = |name| format!("io.modelcontextprotocol/{name}");
        let meta = probe["params"]["_meta"].as_object().expect("every request has it");
        assert_eq!(meta[&key("protocolVersion")], "2026-07-28");
        assert_eq!(meta[&key("clientInfo")], json!({"name": "client", "version": "1"}));
        assert!(meta[&key("clientCapabilities")].is_object());
        assert_eq!(probe["params"].as_object().map(serde_json::Map::len), Some(1));
    }
    let (_, hello) = opened(VersionSet::LEGACY);
    assert_eq!(hello["method"], "initialize");
}

// req: M-DUAL-002 M-DUAL-030 M-DUAL-037 M-DISC-009 M-VERS-014
#[test]
fn discovered_versions_select_the_era() {
    let discovered_with = |versions: &[&str]| discovered(&json!(1), versions);
    check(&[
        (discovered_with(&["2026-07-28"]), Modern, Modern),
        (discovered_with(&["2031-01-01", "2026-07-28", "2025-11-25"]), Modern, Modern),
        (discovered_with(&["2025-11-25", "2026-07-28"]), Modern, Modern),
        // Listed revisions of the legacy era are reached by `initialize` only.
        (discovered_with(&["2025-06-18", "2024-11-05"]), Initialize("2025-06-18"), Leaves("unsupported")),
        (discovered_with(&["2025-03-26", "2031-01-01"]), Initialize("2025-03-26"), Leaves("unsupported")),
        (discovered_with(&["2031-01-01"]), Leaves("unsupported"), Leaves("unsupported")),
        (discovered_with(&["2026-07-28 ", "2026-07", "DRAFT"]), Leaves("unsupported"), Leaves("unsupported")),
        (discovered_with(&[]), Leaves("unsupported"), Leaves("unsupported")),
    ]);
}

// req: M-DUAL-003 M-DUAL-004 M-DUAL-030 M-DUAL-037 M-VERS-005 M-VERS-006
#[test]
fn modern_errors_reveal_a_modern_server() {
    check(&[
        (unsupported(json!(["2026-07-28"])), Asks, Asks),
        (unsupported(json!(["2025-11-25", "2026-07-28"])), Asks, Asks),
        (unsupported(json!(["2025-03-26"])), Initialize("2025-03-26"), Leaves("unsupported")),
        (unsupported(json!(["2031-01-01"])), Leaves("unsupported"), Leaves("unsupported")),
        (unsupported(json!([])), Leaves("unsupported"), Leaves("unsupported")),
        (unsupported(json!("2025-11-25")), Leaves("unsupported"), Leaves("unsupported")),
        (error(-32022), Leaves("unsupported"), Leaves("unsupported")),
        (error(-32020), Leaves("refused"), Leaves("refused")),
        (error(-32021), Leaves("refused"), Leaves("refused")),
    ]);
}

// req: M-DUAL-005 M-DUAL-007 M-DUAL-009
#[test]
fn other_probe_errors_mean_legacy_server() {
    let codes = [-32700, -32601, -32602, -32600, -32603, -32000, -32001, -32002, -32042, -32019, -32023, -1, 0, 1, 404];
    check(&codes.map(|code| (error(code), NEWEST, Leaves("old"))));
    // Some errors are not valid error objects, either.
    check(&[
        (json!({"jsonrpc": "2.0", "id": 1, "error": "no"}), NEWEST, Leaves("old")),
        (json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32022}}), NEWEST, Leaves("old")),
        (json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "m"}}), NEWEST, Leaves("old")),
    ]);
}

// req: M-DUAL-005 M-DUAL-009
#[test]
fn unusable_discovery_result_means_legacy_server() {
    check(&[
        (result(json!({})), NEWEST, Leaves("old")),
        (result(json!({"capabilities": {}})), NEWEST, Leaves("old")),
        (result(json!({"supportedVersions": "all", "capabilities": {}})), NEWEST, Leaves("old")),
        (result(json!({"supportedVersions": ["2026-07-28"]})), NEWEST, Leaves("old")),
        (result(json!([])), NEWEST, Leaves("old")),
        (result(json!(null)), NEWEST, Leaves("old")),
    ]);
}

// req: M-DUAL-006 M-DUAL-009
#[test]
fn unanswered_probe_means_legacy_server() {
    let junk = ["some banner", "{}", "[]", "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}", "\u{0}", "true"];
    for noise in [&[][..], &junk[..]] {
        for (versions, patience, expected) in [(VersionSet::ALL, 5, NEWEST), (modern_only(), 30, Leaves("old"))] {
            let (mut client, _) = opened(versions);
            noise.iter().for_each(|line| client.feed_text(line));
            let violations = client.take_events();
            assert!(violations.iter().all(|event| matches!(event, Event::Violation(_))), "{violations:?}");
            assert_eq!(violations.len(), noise.len());
            assert_eq!(client.sent(), NOTHING, "who has not said what it is gets no answers");
            client.advance(Duration::from_secs(patience) - Duration::from_nanos(1));
            assert_eq!(next(&mut client), Waits, "{versions:?}");
            client.advance(Duration::from_nanos(1));
            assert_eq!(next(&mut client), expected, "{versions:?}");
        }
    }
}

#[test]
fn handshake_timeout_limits_the_probe() {
    let mut config = full_client_with(VersionSet::ALL);
    config.settings.handshake_timeout = Duration::from_millis(200);
    let mut client = Client::client(config);
    client.sent_one();
    client.advance(Duration::from_millis(200));
    assert_eq!(next(&mut client), NEWEST);
    client.advance(Duration::from_millis(200));
    assert_eq!(next(&mut client), Leaves("too late"));
}

// req: M-DUAL-006
#[test]
fn probe_response_before_the_timeout_counts() {
    for (answer, expected) in [(discovered(&json!(1), &["2026-07-28"]), Modern), (error(-32601), NEWEST)] {
        let (mut client, _) = opened(VersionSet::ALL);
        client.advance(Duration::from_millis(4_999));
        client.feed(&answer);
        assert_eq!(next(&mut client), expected);
        client.advance(Duration::from_millis(2));
        assert_eq!(next(&mut client), Waits, "the time for the answer is up, and it is there");
    }
}

fn old_server(hello: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": hello, "result": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}})
}

// req: M-DUAL-036 M-DUAL-004
#[test]
fn late_probe_responses_are_ignored() {
    for late in [discovered(&json!(1), &["2026-07-28"]), error(-32601), unsupported(json!(["2026-07-28"]))] {
        let (mut client, _) = opened(VersionSet::ALL);
        client.advance(Duration::from_secs(5));
        let hello = client.sent_one();
        assert_eq!((hello["method"].as_str(), &hello["id"]), (Some("initialize"), &json!(2)), "no cancellation either");
        client.feed(&late);
        assert_eq!(client.take_events(), [], "{late}");
        client.feed(&old_server(&hello["id"]));
        assert_eq!(client.take_events(), [Event::Ready]);
        client.feed(&late);
        assert_eq!(client.take_events(), [], "{late}");
        assert_eq!(client.conn.version(), Some(ProtocolVersion::V2025_06_18));
    }
}

// req: M-VERS-015
#[test]
fn discovery_is_retried_once() {
    for versions in [VersionSet::ALL, modern_only()] {
        let (mut client, first) = opened(versions);
        client.feed(&unsupported(json!(["2026-07-28"])));
        let second = client.sent_one();
        assert_ne!(second["id"], first["id"]);
        client.feed(&refuse(&second, -32022, json!({"supported": ["2026-07-28"], "requested": "2026-07-28"})));
        assert_eq!(next(&mut client), Leaves("refused"));
    }
}

/// A server that starts slowly does not answer the probe in time, and refuses the handshake then.
#[test]
fn slow_modern_servers_are_probed_again() {
    let (mut client, _) = opened(VersionSet::ALL);
    client.advance(Duration::from_secs(5));
    let hello = client.sent_one();
    client.feed(&discovered(&json!(1), &["2026-07-28"]));
    client.take_events();
    client.feed(&refuse(&hello, -32602, json!(null)));
    let again = client.sent_one();
    assert_eq!(again["method"], "server/discover");
    client.feed(&discovered(&again["id"], &["2026-07-28"]));
    assert_eq!(next(&mut client), Modern);

    // A legacy server that refuses the handshake is not probed a third time.
    let (mut client, _) = opened(VersionSet::ALL);
    client.advance(Duration::from_secs(5));
    let hello = client.sent_one();
    client.feed(&refuse(&hello, -32602, json!(null)));
    let again = client.sent_one();
    client.feed(&refuse(&again, -32601, json!(null)));
    assert_eq!(next(&mut client), Leaves("refused"));

    // A server that answered the probe is not probed again.
    let (mut client, _) = opened(VersionSet::ALL);
    client.feed(&error(-32601));
    let hello = client.sent_one();
    client.feed(&refuse(&hello, -32602, json!(null)));
    assert_eq!(next(&mut client), Leaves("refused"));
}

// ---- hints from an earlier connection ----

fn known(era: Era) -> Opening {
    Opening::known(era)
}

// req: M-DUAL-016 M-DUAL-017 M-DUAL-018
#[test]
fn era_hint_skips_the_probe_or_extends_its_timeout() {
    // A legacy server is not probed.
    let (mut client, hello) = begun(VersionSet::ALL, known(Era::Legacy));
    assert_eq!((hello["method"].as_str(), &hello["id"]), (Some("initialize"), &json!(1)));
    client.feed(&old_server(&hello["id"]));
    assert_eq!(client.take_events(), [Event::Ready]);
    // A modern server has the whole handshake timeout for the probe.
    let (mut client, probe) = begun(VersionSet::ALL, known(Era::Modern));
    assert_eq!(probe["method"], "server/discover");
    client.advance(Duration::from_millis(29_999));
    client.feed(&discovered(&probe["id"], &["2026-07-28"]));
    assert_eq!(next(&mut client), Modern);
    // A client of only one era ignores the hint.
    let (_, first) = begun(modern_only(), known(Era::Legacy));
    assert_eq!(first["method"], "server/discover");
    let (_, first) = begun(VersionSet::LEGACY, known(Era::Modern));
    assert_eq!(first["method"], "initialize");
}

// req: M-DUAL-017
#[test]
fn wrong_era_hints_are_corrected() {
    // The legacy server has become a modern one.
    for code in [-32602, -32601, -32022] {
        let (mut client, hello) = begun(VersionSet::ALL, known(Era::Legacy));
        client.feed(&refuse(&hello, code, json!({"supported": ["2026-07-28"], "requested": "2025-11-25"})));
        let probe = client.sent_one();
        assert_eq!(probe["method"], "server/discover");
        client.feed(&discovered(&probe["id"], &["2026-07-28"]));
        assert_eq!(next(&mut client), Modern, "{code}");
    }
    // The server is still a legacy one, and has refused the handshake for another reason.
    let (mut client, hello) = begun(VersionSet::ALL, known(Era::Legacy));
    client.feed(&refuse(&hello, -32603, json!(null)));
    let probe = client.sent_one();
    client.feed(&refuse(&probe, -32601, json!(null)));
    let refused = ErrorObject::new(mcp_proto::wire::ErrorCode(-32603), "no");
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Closed(CloseReason::Refused(error))] if error.code == refused.code),
        "{events:?}"
    );
    // The modern server has become a legacy one, with and without an error.
    let (mut client, probe) = begun(VersionSet::ALL, known(Era::Modern));
    client.feed(&refuse(&probe, -32601, json!(null)));
    assert_eq!(next(&mut client), NEWEST);
    let (mut client, _) = begun(VersionSet::ALL, known(Era::Modern));
    client.advance(Duration::from_secs(30));
    assert_eq!(next(&mut client), NEWEST);
}

// ---- a server that exits ----

type Leave = fn(&mut Client);

const WAYS: [(&str, Leave); 3] = [
    ("end of input", |client| client.conn.handle_eof(client.now)),
    ("broken", |client| client.conn.handle_disconnect()),
    ("lost", |client| client.conn.handle_transport_error("the server ended with exit status: 1")),
];

// req: M-DUAL-005 M-STDIO-017 M-STDIO-018
#[test]
fn exit_on_probe_restarts_with_initialize() {
    type Before = fn(&mut Client);
    let moments: [(&str, Before); 3] = [
        ("asked", |_| {}),
        ("asked, and silent", |client| client.advance(Duration::from_secs(5))),
        ("it has answered that it does not know", |client| client.feed(&error(-32601))),
    ];
    for (moment, before) in moments {
        for (way, leave) in WAYS {
            let (mut client, _) = opened(VersionSet::ALL);
            before(&mut client);
            leave(&mut client);
            assert!(matches!(client.take_events()[..], [Event::Closed(_)]), "{moment}, {way}");
            let again = client.conn.next_opening().expect("it is worth another try");
            assert_eq!(again.era(), Some(Era::Legacy), "{moment}, {way}");
            let (mut client, hello) = begun(VersionSet::ALL, again);
            assert_eq!(hello["method"], "initialize");
            // There is neither a third start nor another probe.
            if way == "lost" {
                leave(&mut client);
                assert_eq!(client.conn.next_opening(), None);
            } else {
                client.feed(&refuse(&hello, -32602, json!(null)));
                assert_eq!(next(&mut client), Leaves("refused"));
            }
        }
    }
}

// req: M-DUAL-017 M-STDIO-017
#[test]
fn wrong_legacy_hint_restarts_with_a_probe() {
    for (way, leave) in WAYS {
        let (mut client, hello) = begun(VersionSet::ALL, known(Era::Legacy));
        assert_eq!(hello["method"], "initialize");
        leave(&mut client);
        let again = client.conn.next_opening().expect("it is worth another try");
        assert_eq!(again.era(), None, "{way}");
        let (mut client, probe) = begun(VersionSet::ALL, again);
        assert_eq!(probe["method"], "server/discover");
        leave(&mut client);
        assert_eq!(client.conn.next_opening(), None, "{way}");
    }
}

#[test]
fn restarts_only_when_another_era_may_work() {
    for (way, leave) in WAYS {
        // The client has no other era to try.
        for versions in [VersionSet::LEGACY, modern_only()] {
            let (mut client, _) = opened(versions);
            leave(&mut client);
            assert_eq!(client.conn.next_opening(), None, "{way}, {versions:?}");
        }
        // The server exits after a successful handshake.
        let (mut client, probe) = opened(VersionSet::ALL);
        client.feed(&discovered(&probe["id"], &["2026-07-28"]));
        leave(&mut client);
        assert_eq!(client.conn.next_opening(), None, "{way}");
    }
    // This side has closed the connection.
    let (mut client, _) = opened(VersionSet::ALL);
    client.conn.close(client.now);
    assert_eq!(client.conn.next_opening(), None);
    // The server supports no revision of this client.
    let (mut client, _) = opened(VersionSet::ALL);
    client.feed(&unsupported(json!(["2031-01-01"])));
    client.conn.handle_eof(client.now);
    assert_eq!(client.conn.next_opening(), None);
}

// ---- every pair of sides ----

/// The result of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Negotiated {
    /// Stateless requests.
    NoSession,
    /// A session in the newest legacy revision.
    Session,
    /// The client closes with a reason.
    Fails,
}

fn negotiate(client: VersionSet, server: VersionSet, opening: Opening, link: LinkConfig) -> (Negotiated, Testbed) {
    let mut config = full_server();
    config.settings.versions = server;
    let mut testbed = Testbed::with_opening(full_client_with(client), opening, config, link, link);
    testbed.advance(Duration::from_secs(120));
    let negotiated = match &testbed.client.take_events()[..] {
        [Event::Ready] => match testbed.client.conn.version().map(ProtocolVersion::era) {
            Some(Era::Modern) => Negotiated::NoSession,
            _ => Negotiated::Session,
        },
        [Event::Closed(_)] => Negotiated::Fails,
        events => panic!("{client:?} {server:?}: {events:?}"),
    };
    (negotiated, testbed)
}

const SETS: [VersionSet; 3] = [VersionSet::LEGACY, VersionSet::MODERN, VersionSet::ALL];

/// Rows: the revisions of the client. Columns: the revisions of the server.
const MATRIX: [[Negotiated; 3]; 3] = {
    use Negotiated::{Fails, NoSession, Session};
    [[Session, Fails, Session], [Fails, NoSession, NoSession], [Session, NoSession, NoSession]]
};

// req: M-DUAL-001 M-DUAL-002 M-DUAL-005 M-DUAL-009 M-DUAL-019 M-DUAL-020 M-DUAL-024 M-DUAL-025
#[test]
fn era_pairs_negotiate_per_the_table() {
    let links = [
        LinkConfig::default(),
        LinkConfig::one_byte(),
        LinkConfig { delay: Duration::from_millis(2_400), ..LinkConfig::default() },
    ];
    let openings = [Opening::unknown(), known(Era::Legacy), known(Era::Modern)];
    for (client, row) in SETS.into_iter().zip(MATRIX) {
        for (server, expected) in SETS.into_iter().zip(row) {
            for link in links {
                for opening in openings {
                    let (mut negotiated, testbed) = negotiate(client, server, opening, link);
                    // Both eras are possible, and the client begins with the hint.
                    if client == server && client == VersionSet::ALL && opening == known(Era::Legacy) {
                        assert_eq!(negotiated, Negotiated::Session);
                        negotiated = expected;
                    }
                    assert_eq!(negotiated, expected, "{client:?} with {server:?}, {opening:?}, {link:?}");
                    if negotiated == Negotiated::Session {
                        assert_eq!(testbed.client.conn.version(), Some(ProtocolVersion::LATEST_LEGACY));
                    }
                }
            }
        }
    }
}

// req: M-DUAL-009 M-DUAL-024
#[test]
fn failed_negotiation_explains_the_cause() {
    let why = |client, server| {
        let mut config = full_server();
        config.settings.versions = server;
        let mut testbed = Testbed::new(full_client_with(client), config, LinkConfig::default(), LinkConfig::default());
        testbed.settle();
        match &testbed.client.take_events()[..] {
            [Event::Closed(reason)] => reason.to_string(),
            events => panic!("{events:?}"),
        }
    };
    let old_client = why(VersionSet::LEGACY, VersionSet::MODERN);
    assert!(old_client.contains("2026-07-28"), "{old_client}");
    let old_server = why(VersionSet::MODERN, VersionSet::LEGACY);
    assert!(old_server.contains("older revision"), "{old_server}");
}

// req: M-DUAL-006 M-DUAL-036
#[test]
fn slow_links_still_negotiate() {
    let link = LinkConfig { delay: Duration::from_secs(3), ..LinkConfig::default() };
    for (server, expected) in SETS.into_iter().zip([Negotiated::Session, Negotiated::NoSession, Negotiated::Session]) {
        let mut config = full_server();
        config.settings.versions = server;
        let mut testbed = Testbed::new(full_client_with(VersionSet::ALL), config, link, link);
        testbed.advance(Duration::from_secs(120));
        let events = testbed.client.take_events();
        assert_eq!(events, [Event::Ready], "{server:?}");
        let era = testbed.client.conn.version().map(ProtocolVersion::era);
        assert_eq!(era == Some(Era::Modern), expected == Negotiated::NoSession, "{server:?}");
    }
}

// req: M-STDIO-007
#[test]
fn noise_does_not_hide_the_probe_response() {
    let (mut client, probe) = opened(VersionSet::ALL);
    client.feed_text("Starting up …");
    client.feed(&json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
    client.feed(&json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}));
    let events = client.take_events();
    assert!(matches!(events[0], Event::Violation(Violation::Noise(_))), "{events:?}");
    assert!(events.iter().all(|event| !matches!(event, Event::Request { .. })), "{events:?}");
    assert_eq!(client.sent(), NOTHING);
    client.feed(&discovered(&probe["id"], &["2026-07-28"]));
    assert_eq!(next(&mut client), Modern);
    assert_eq!(client.sent(), NOTHING);
    assert!(client.conn.request_raw(client.now, Method::ListTools.as_str(), None, Default::default()).is_ok());
}
