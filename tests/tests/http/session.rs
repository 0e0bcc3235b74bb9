//! Sessions of the legacy era: how they begin and end, and who may use them.

use std::{collections::BTreeSet, time::Duration};

use mcp_proto::{
    connection::{CloseReason, Event},
    http::{SessionId, server::Caller},
};
use mcp_tests::{
    solo::full_server,
    web::{Web, initialize, post},
};
use serde_json::json;

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

// req: HTTP-001 HTTP-002 HTTP-013 HTTP-017 HTTP-053 HTTP-055
#[test]
fn a_session_begins_with_initialize_and_ends_with_delete() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let first = web.begin(version);
        let second = web.begin(version);
        assert_ne!(first, second);
        assert_eq!(web.endpoint.len(), 2);
        let asked = web.say(&first, &json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}));
        let key = web.asked();
        web.answer(key, &json!({"tools": []}));
        assert_eq!(web.reply(asked).status(), 200);
        assert_eq!(web.reply(asked).json(), json!({"jsonrpc": "2.0", "id": "a", "result": {"tools": []}}));
        assert_eq!(web.reply(asked).header("mcp-session-id"), None);
        assert_eq!(web.delete(&first).status(), 204);
        assert_eq!(web.take_events(), [Event::Closed(CloseReason::Eof)]);
        assert_eq!((web.endpoint.len(), web.sessions.len()), (1, 1));
    }
}

// req: HTTP-059 HTTP-060 HTTP-064
#[test]
fn a_session_that_is_over_is_not_found() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(web.ask(web.in_session(&id, &ping)).status(), 200);
        web.delete(&id);
        for id in [&*id, "", "short", &"x".repeat(32)] {
            assert_eq!(web.ask(web.in_session(id, &ping)).status(), 404, "{id:?}");
            let asked = web.listen(id, None);
            assert_eq!(web.reply(asked).status(), 404, "{id:?}");
            assert_eq!(web.delete(id).status(), 404, "{id:?}");
        }
        let bare = post("/mcp").body(ping.to_string().into_bytes()).expect("a request");
        let reply = web.ask(bare);
        assert_eq!((reply.status(), &reply.json()["id"]), (400, &json!(1)), "the error names the request");
    }
}

// req: SEC-002
#[test]
fn the_id_of_a_session_consists_of_random_bits_only() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = Web::new(full_server());
        let mut seen = BTreeSet::new();
        for bit in 0..192 {
            let mut random = [0; 24];
            random[bit / 8] = 1 << (bit % 8);
            web.random = Some(random);
            let id = web.begin(version);
            // The id depends neither on the client nor on the sessions before, and each bit makes a difference.
            assert_eq!(id, SessionId::new(random).as_str(), "{version}: bit {bit}");
            assert!(seen.insert(id), "{version}: bit {bit}");
        }
    }
}

#[test]
fn a_session_without_use_expires() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let idle = Duration::from_secs(30 * 60);
    // A stream that is open, or a request that is worked on, keeps it.
    let stream = web.listen(&id, None);
    web.advance(10 * idle);
    assert_eq!(web.endpoint.len(), 1);
    let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let key = web.asked();
    web.hang_up(stream);
    web.hang_up(asked);
    web.advance(10 * idle);
    assert_eq!(web.endpoint.len(), 1);
    web.answer(key, &json!({"tools": []}));
    web.advance(idle - Duration::from_nanos(1));
    assert_eq!(web.endpoint.len(), 1);
    web.advance(Duration::from_nanos(1));
    assert_eq!((web.endpoint.len(), web.sessions.len()), (0, 0));
    assert_eq!(web.take_events(), [Event::Closed(CloseReason::Expired)]);
}

#[test]
fn a_session_that_nobody_comes_back_to_expires_soon() {
    let mut web = Web::new(full_server());
    for _ in 0..100 {
        let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
        assert_eq!(web.ask(request).status(), 200);
    }
    assert_eq!(web.endpoint.len(), 100);
    web.advance(Duration::from_secs(60));
    assert_eq!((web.endpoint.len(), web.sessions.len()), (0, 0));
}

#[test]
fn a_client_that_hangs_up_on_initialize_leaves_no_session() {
    let mut web = Web::new(full_server());
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let (head, body) = request.into_parts();
    let mut reader = web.endpoint.begin(&head, web.caller.clone()).expect("it is fine");
    reader.feed(&body).expect("it is small");
    let mut request = reader.end().expect("it is a message");
    let sessions = &mut web.sessions;
    let routed = web.endpoint.route(web.now, &request, [1; 24], |session| {
        sessions.insert(1, session);
        1
    });
    routed.expect("there is room");
    let session = web.sessions.get_mut(&1).expect("it was made");
    let (exchange, _) = session.open(web.now, &mut request).expect("there is room");
    session.handle_disconnect(web.now, exchange);
    web.settle();
    assert_eq!((web.endpoint.len(), web.sessions.len()), (0, 0));
}

// req: HTTP-056
#[test]
fn ids_of_sessions_are_visible_characters() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        for _ in 0..50 {
            let id = web.begin(version);
            assert!(id.len() == 32 && id.bytes().all(|byte| matches!(byte, 0x21..=0x7e)), "{version}: {id:?}");
        }
        assert_eq!(web.endpoint.len(), 50, "{version}: each is another one");
    }
}

// req: SEC-001 SEC-003
#[test]
fn a_session_belongs_to_who_began_it() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = Web::new(full_server());
        web.come_from("ada");
        let id = web.begin(version);
        let stream = web.listen(&id, None);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        for stranger in [Some("eve"), None] {
            match stranger {
                Some(stranger) => web.come_from(stranger),
                None => web.caller = Caller::Anybody,
            }
            assert_eq!(web.ask(web.in_session(&id, &ping)).status(), 404);
            let asked = web.listen(&id, None);
            assert_eq!(web.reply(asked).status(), 404);
            let asked = web.listen(&id, Some("g1-0"));
            assert_eq!(web.reply(asked).status(), 404);
            assert_eq!(web.delete(&id).status(), 404);
        }
        assert!(!web.reply(stream).ended);
        web.come_from("ada");
        assert_eq!(web.ask(web.in_session(&id, &ping)).status(), 200);
        let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
        let (session, key) = web.asked();
        let context = web.last_session().connection(mcp_proto::rpc::Timestamp::ZERO).context(key).expect("it is open");
        assert_eq!(context.principal.map(|principal| &*principal.id), Some("ada"));
        web.answer((session, key), &json!({"tools": []}));
        assert_eq!(web.reply(asked).status(), 200);
    }
}

// req: SEC-003
#[test]
fn an_anonymous_session_is_not_open_to_a_known_principal() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        web.come_from("eve");
        assert_eq!(web.ask(web.in_session(&id, &ping)).status(), 404);
        let asked = web.listen(&id, None);
        assert_eq!(web.reply(asked).status(), 404);
        assert_eq!(web.delete(&id).status(), 404);
        web.caller = Caller::Anybody;
        assert_eq!(web.ask(web.in_session(&id, &ping)).status(), 200);
    }
}

fn open_session(web: &mut Web) -> u16 {
    web.ask(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request")).status()
}

/// Begins a session, and comes back to it, whatever gives way to it. Its id.
fn use_session(web: &mut Web) -> String {
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let id = web.ask(request).header("mcp-session-id").expect("a session").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(web.ask(web.in_session(&id, &ready)).status(), 202);
    id
}

fn narrow(sessions: usize, each: usize) -> Web {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    (options.limits.sessions, options.limits.sessions_each) = (sessions, each);
    Web::with(full_server(), options)
}

#[test]
fn there_are_only_so_many_sessions() {
    let mut web = narrow(3, 3);
    let ids: Vec<_> = (0..3).map(|_| web.begin("2025-11-25")).collect();
    let streams: Vec<_> = ids.iter().map(|id| web.listen(id, None)).collect();
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let reply = web.ask(request);
    assert_eq!((reply.status(), reply.header("retry-after")), (503, Some("1")), "all are in use");
    assert_eq!(web.sessions.len(), 3);
    web.hang_up(streams[1]);
    assert_eq!(open_session(&mut web), 200);
    assert_eq!((web.endpoint.len(), web.sessions.len()), (3, 3));
    assert!(web.named(&ids[1]).is_none() && web.named(&ids[0]).is_some());
    assert_eq!(web.take_events(), [Event::Closed(CloseReason::Expired)]);
}

#[test]
fn the_session_that_is_idle_longest_gives_way() {
    let mut web = narrow(100, 100);
    let ids: Vec<_> = (0..50)
        .map(|_| {
            web.advance(Duration::from_secs(1));
            web.begin("2025-11-25")
        })
        .collect();
    // Sessions whose clients have not come back take the rest, and give way to each other first.
    for _ in 0..50 {
        web.advance(Duration::from_millis(10));
        assert_eq!(open_session(&mut web), 200);
    }
    for _ in 0..10_000 {
        assert_eq!(open_session(&mut web), 200);
        assert_eq!(web.endpoint.len(), 100);
    }
    assert!(ids.iter().all(|id| web.named(id).is_some()));
    assert_eq!(web.sessions.len(), 100);
    // One that is used does not give way to those that come back; the one that is idle longest does.
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    web.advance(Duration::from_secs(1));
    assert_eq!(web.ask(web.in_session(&ids[0], &ping)).status(), 200);
    for _ in 0..60 {
        use_session(&mut web);
    }
    let left: Vec<_> = ids.iter().map(|id| web.named(id).is_some()).collect();
    assert_eq!(left, [&[true][..], &[false; 10], &[true; 39]].concat());
}

#[test]
fn a_principal_has_a_share_of_the_sessions() {
    let mut web = narrow(100, 10);
    web.come_from("ada");
    let ada = web.begin("2025-11-25");
    web.come_from("eve");
    for _ in 0..1_000 {
        use_session(&mut web);
        assert!(web.endpoint.len() <= 11);
    }
    assert!(web.named(&ada).is_some());
    // What was given up is not counted any more.
    web.come_from("ada");
    for _ in 0..9 {
        use_session(&mut web);
    }
    assert!(web.named(&ada).is_some());
    assert_eq!(web.endpoint.len(), 20);
}

fn at(address: &str) -> Caller {
    Caller::Anonymous(address.parse().expect("an address"))
}

#[test]
fn an_address_has_a_share_of_the_sessions() {
    let mut web = narrow(160, 160);
    let begin = |web: &mut Web, address: &str, count: usize| -> Vec<_> {
        web.caller = at(address);
        (0..count).map(|_| use_session(web)).collect()
    };
    let honest = begin(&mut web, "192.0.2.2", 5);
    // Those of one address, or of one network, give way to each other, although they were all used later.
    for number in 0..1_000 {
        web.advance(Duration::from_millis(10));
        web.caller = at(if number % 2 == 0 { "2001:db8::1" } else { "2001:db8::ffff:1" });
        use_session(&mut web);
    }
    assert!(honest.iter().all(|id| web.named(id).is_some()), "those of another address have given way");
    assert_eq!(web.endpoint.len(), 5 + 136, "seven times of what is free");
    // Others fill the rest, and then those of the address with most give way, and not each other's.
    let mut others = Vec::new();
    for number in 0..100 {
        web.advance(Duration::from_millis(10));
        others.extend(begin(&mut web, &format!("10.0.0.{number}"), 1));
    }
    assert_eq!(web.endpoint.len(), 160);
    assert!(honest.iter().chain(&others).all(|id| web.named(id).is_some()), "those of others have given way");
    // What is in use does not give way.
    let mut web = narrow(16, 16);
    let mut in_use = Vec::new();
    for id in begin(&mut web, "192.0.2.1", 14) {
        in_use.push((web.listen(&id, None), id));
    }
    assert_eq!(open_session(&mut web), 503, "all of its own are in use");
    let honest = begin(&mut web, "192.0.2.2", 1);
    web.caller = at("192.0.2.1");
    assert_eq!(open_session(&mut web), 503, "the last place is that of others");
    web.hang_up(in_use[3].0);
    assert_eq!(open_session(&mut web), 200);
    let left: Vec<_> = in_use.iter().map(|(_, id)| web.named(id).is_some()).collect();
    assert_eq!(left, [&[true; 3][..], &[false], &[true; 10]].concat());
    assert!(web.named(&honest[0]).is_some());
}

/// Sessions that were begun and left give way before those that clients have come back to, even if those belong to the
/// client with the most sessions.
#[test]
fn a_crowd_that_does_not_come_back_takes_no_session_in_use() {
    let mut web = narrow(64, 64);
    web.caller = at("192.0.2.1");
    let used: Vec<_> = (0..20).map(|_| use_session(&mut web)).collect();
    for number in 0..90 {
        web.advance(Duration::from_millis(10));
        web.caller = at(&format!("10.0.0.{number}"));
        assert_eq!(open_session(&mut web), 200);
    }
    assert_eq!(web.endpoint.len(), 64);
    let left = used.iter().filter(|id| web.named(id).is_some()).count();
    assert_eq!(left, 20, "44 sessions are there that no client has come back to");
}

/// Over a store that processes share, a session is adopted before it is known where its client is.
#[test]
fn a_session_counts_where_its_client_is_found() {
    let mut web = narrow(16, 16);
    let ids: Vec<_> = (0..3).map(|_| web.begin("2025-11-25")).collect();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    web.caller = at("192.0.2.1");
    for id in &ids {
        web.advance(Duration::from_secs(1));
        assert_eq!(web.ask(web.in_session(id, &ping)).status(), 200);
    }
    // With eleven more it has 14 of 16, so that its next ones take the place of its own.
    for _ in 0..11 {
        use_session(&mut web);
    }
    assert_eq!(web.endpoint.len(), 14);
    web.advance(Duration::from_secs(1));
    use_session(&mut web);
    assert_eq!((web.endpoint.len(), web.named(&ids[0]).is_some()), (14, false));
}

#[test]
fn a_session_with_too_many_requests_can_be_ended() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.exchanges = 2;
    let mut web = Web::with(full_server(), options);
    let id = web.begin("2025-11-25");
    for number in 0..3 {
        let asked = web.say(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"}));
        assert!(web.reply(asked).head.is_none());
    }
    assert_eq!(web.last_session().usage().waiting_requests, 1, "the third waits");
    assert_eq!(web.delete(&id).status(), 204);
    assert_eq!((web.sessions.len(), web.endpoint.len()), (0, 0));
}
