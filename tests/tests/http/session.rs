//! Sessions of the legacy era: how they begin and end, and which callers may use them.

use std::{collections::BTreeSet, time::Duration};

use mcp_proto::{
    connection::{CloseReason, Event},
    http::{SessionId, server::Caller},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, initialize, post},
};
use serde_json::json;

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

// req: HTTP-001 HTTP-002 HTTP-013 HTTP-017 HTTP-053 HTTP-055
#[test]
fn initialize_opens_and_delete_closes_a_session() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let first = server.begin(version);
        let second = server.begin(version);
        assert_ne!(first, second);
        assert_eq!(server.endpoint.len(), 2);
        let requested = server.send_message(&first, &json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}));
        let key = server.take_request();
        server.respond(key, &json!({"tools": []}));
        assert_eq!(server.reply(requested).status(), 200);
        assert_eq!(server.reply(requested).json(), json!({"jsonrpc": "2.0", "id": "a", "result": {"tools": []}}));
        assert_eq!(server.reply(requested).header("mcp-session-id"), None);
        assert_eq!(server.delete(&first).status(), 204);
        assert_eq!(server.take_events(), [Event::Closed(CloseReason::Eof)]);
        assert_eq!((server.endpoint.len(), server.sessions.len()), (1, 1));
    }
}

// req: HTTP-059 HTTP-060 HTTP-064
#[test]
fn ended_sessions_return_404() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(server.request(server.in_session(&id, &ping)).status(), 200);
        server.delete(&id);
        for id in [&*id, "", "short", &"x".repeat(32)] {
            assert_eq!(server.request(server.in_session(id, &ping)).status(), 404, "{id:?}");
            let requested = server.listen(id, None);
            assert_eq!(server.reply(requested).status(), 404, "{id:?}");
            assert_eq!(server.delete(id).status(), 404, "{id:?}");
        }
        let bare = post("/mcp").body(ping.to_string().into_bytes()).expect("a request");
        let reply = server.request(bare);
        assert_eq!((reply.status(), &reply.json()["id"]), (400, &json!(1)), "the error names the request");
    }
}

// req: SEC-002
#[test]
fn session_ids_depend_only_on_random_bits() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        let mut seen = BTreeSet::new();
        for bit in 0..192 {
            let mut random = [0; 24];
            random[bit / 8] = 1 << (bit % 8);
            server.random = Some(random);
            let id = server.begin(version);
            // The id depends only on the random bits, and on each of them.
            assert_eq!(id, SessionId::new(random).as_str(), "{version}: bit {bit}");
            assert!(seen.insert(id), "{version}: bit {bit}");
        }
    }
}

#[test]
fn idle_sessions_expire() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let idle = Duration::from_secs(30 * 60);
    // An open stream or a request in progress keeps the session.
    let stream = server.listen(&id, None);
    server.advance(10 * idle);
    assert_eq!(server.endpoint.len(), 1);
    let requested = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let key = server.take_request();
    server.disconnect(stream);
    server.disconnect(requested);
    server.advance(10 * idle);
    assert_eq!(server.endpoint.len(), 1);
    server.respond(key, &json!({"tools": []}));
    server.advance(idle - Duration::from_nanos(1));
    assert_eq!(server.endpoint.len(), 1);
    server.advance(Duration::from_nanos(1));
    assert_eq!((server.endpoint.len(), server.sessions.len()), (0, 0));
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Expired)]);
}

#[test]
fn unused_sessions_expire_early() {
    let mut server = HttpServer::new(full_server());
    for _ in 0..100 {
        let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
        assert_eq!(server.request(request).status(), 200);
    }
    assert_eq!(server.endpoint.len(), 100);
    server.advance(Duration::from_secs(60));
    assert_eq!((server.endpoint.len(), server.sessions.len()), (0, 0));
}

#[test]
fn disconnect_during_initialize_leaves_no_session() {
    let mut server = HttpServer::new(full_server());
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let (head, body) = request.into_parts();
    let mut reader = server.endpoint.begin(&head, server.caller.clone()).expect("it is fine");
    reader.feed(&body).expect("it is small");
    let mut request = reader.end().expect("it is a message");
    let sessions = &mut server.sessions;
    let routed = server.endpoint.route(server.now, &request, [1; 24], |session| {
        sessions.insert(1, session);
        1
    });
    routed.expect("there is room");
    let session = server.sessions.get_mut(&1).expect("it was made");
    let (exchange, _) = session.open(server.now, &mut request).expect("there is room");
    session.handle_disconnect(server.now, exchange);
    server.settle();
    assert_eq!((server.endpoint.len(), server.sessions.len()), (0, 0));
}

// req: HTTP-056
#[test]
fn session_ids_are_visible_ascii() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        for _ in 0..50 {
            let id = server.begin(version);
            assert!(id.len() == 32 && id.bytes().all(|byte| matches!(byte, 0x21..=0x7e)), "{version}: {id:?}");
        }
        assert_eq!(server.endpoint.len(), 50, "{version}: each is another one");
    }
}

// req: SEC-001 SEC-003
#[test]
fn sessions_belong_to_their_principal() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        server.set_principal("ada");
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        for stranger in [Some("eve"), None] {
            match stranger {
                Some(stranger) => server.set_principal(stranger),
                None => server.caller = Caller::Anybody,
            }
            assert_eq!(server.request(server.in_session(&id, &ping)).status(), 404);
            let requested = server.listen(&id, None);
            assert_eq!(server.reply(requested).status(), 404);
            let requested = server.listen(&id, Some("g1-0"));
            assert_eq!(server.reply(requested).status(), 404);
            assert_eq!(server.delete(&id).status(), 404);
        }
        assert!(!server.reply(stream).ended);
        server.set_principal("ada");
        assert_eq!(server.request(server.in_session(&id, &ping)).status(), 200);
        let requested = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
        let (session, key) = server.take_request();
        let context =
            server.last_session().connection(mcp_proto::rpc::Timestamp::ZERO).context(key).expect("it is open");
        assert_eq!(context.principal.map(|principal| &*principal.id), Some("ada"));
        server.respond((session, key), &json!({"tools": []}));
        assert_eq!(server.reply(requested).status(), 200);
    }
}

// req: SEC-003
#[test]
fn anonymous_sessions_reject_principals() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        server.set_principal("eve");
        assert_eq!(server.request(server.in_session(&id, &ping)).status(), 404);
        let requested = server.listen(&id, None);
        assert_eq!(server.reply(requested).status(), 404);
        assert_eq!(server.delete(&id).status(), 404);
        server.caller = Caller::Anybody;
        assert_eq!(server.request(server.in_session(&id, &ping)).status(), 200);
    }
}

fn open_session(server: &mut HttpServer) -> u16 {
    server.request(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request")).status()
}

/// Begins and uses a session, which may evict another one, and returns its id.
fn use_session(server: &mut HttpServer) -> String {
    let id = handshake(server);
    ping(server, &id);
    id
}

fn ping(server: &mut HttpServer, id: &str) {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(server.request(server.in_session(id, &ping)).status(), 200);
}

/// Begins a session with no more than the handshake, and returns its id.
fn handshake(server: &mut HttpServer) -> String {
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let id = server.request(request).header("mcp-session-id").expect("a session").to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.request(server.in_session(&id, &ready)).status(), 202);
    id
}

fn narrow(sessions: usize, each: usize) -> HttpServer {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    (options.limits.sessions, options.limits.sessions_each) = (sessions, each);
    HttpServer::with(full_server(), options)
}

#[test]
fn total_sessions_are_limited() {
    let mut server = narrow(3, 3);
    let ids: Vec<_> = (0..3).map(|_| server.begin("2025-11-25")).collect();
    let streams: Vec<_> = ids.iter().map(|id| server.listen(id, None)).collect();
    let request = post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request");
    let reply = server.request(request);
    assert_eq!((reply.status(), reply.header("retry-after")), (503, Some("1")), "all are in use");
    assert_eq!(server.sessions.len(), 3);
    server.disconnect(streams[1]);
    assert_eq!(open_session(&mut server), 200);
    assert_eq!((server.endpoint.len(), server.sessions.len()), (3, 3));
    assert!(server.session(&ids[1]).is_none() && server.session(&ids[0]).is_some());
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::Expired)]);
}

#[test]
fn evicts_the_session_idle_longest() {
    let mut server = narrow(100, 100);
    let ids: Vec<_> = (0..50)
        .map(|_| {
            server.advance(Duration::from_secs(1));
            let id = server.begin("2025-11-25");
            ping(&mut server, &id);
            id
        })
        .collect();
    // Unused sessions fill the rest, and evict each other first.
    for _ in 0..50 {
        server.advance(Duration::from_millis(10));
        assert_eq!(open_session(&mut server), 200);
    }
    for _ in 0..10_000 {
        assert_eq!(open_session(&mut server), 200);
        assert_eq!(server.endpoint.len(), 100);
    }
    assert!(ids.iter().all(|id| server.session(id).is_some()));
    assert_eq!(server.sessions.len(), 100);
    // New sessions evict the one that is idle longest, and not one that was used recently.
    server.advance(Duration::from_secs(1));
    ping(&mut server, &ids[0]);
    for _ in 0..60 {
        use_session(&mut server);
    }
    let left: Vec<_> = ids.iter().map(|id| server.session(id).is_some()).collect();
    assert_eq!(left, [&[true][..], &[false; 10], &[true; 39]].concat());
}

#[test]
fn sessions_per_principal_are_limited() {
    let mut server = narrow(100, 10);
    server.set_principal("ada");
    let ada = server.begin("2025-11-25");
    server.set_principal("eve");
    for _ in 0..1_000 {
        use_session(&mut server);
        assert!(server.endpoint.len() <= 11);
    }
    assert!(server.session(&ada).is_some());
    // Evicted sessions are not counted.
    server.set_principal("ada");
    for _ in 0..9 {
        use_session(&mut server);
    }
    assert!(server.session(&ada).is_some());
    assert_eq!(server.endpoint.len(), 20);
}

fn at(address: &str) -> Caller {
    Caller::Anonymous(address.parse().expect("an address"))
}

#[test]
fn sessions_per_address_are_limited() {
    let mut server = narrow(160, 160);
    let begin = |server: &mut HttpServer, address: &str, count: usize| -> Vec<_> {
        server.caller = at(address);
        (0..count).map(|_| use_session(server)).collect()
    };
    let honest = begin(&mut server, "192.0.2.2", 5);
    // Sessions of one address or network evict each other, although all of them were used later.
    for number in 0..1_000 {
        server.advance(Duration::from_millis(10));
        server.caller = at(if number % 2 == 0 { "2001:db8::1" } else { "2001:db8::ffff:1" });
        use_session(&mut server);
    }
    assert!(honest.iter().all(|id| server.session(id).is_some()), "those of another address have given way");
    assert_eq!(server.endpoint.len(), 5 + 136, "seven times of what is free");
    // Other addresses fill the rest. Then sessions of the address with the most of them are evicted.
    let mut others = Vec::new();
    for number in 0..100 {
        server.advance(Duration::from_millis(10));
        others.extend(begin(&mut server, &format!("10.0.0.{number}"), 1));
    }
    assert_eq!(server.endpoint.len(), 160);
    assert!(honest.iter().chain(&others).all(|id| server.session(id).is_some()), "those of others have given way");
    // Sessions in use are not evicted.
    let mut server = narrow(16, 16);
    let mut in_use = Vec::new();
    for id in begin(&mut server, "192.0.2.1", 14) {
        in_use.push((server.listen(&id, None), id));
    }
    assert_eq!(open_session(&mut server), 503, "all of its own are in use");
    let honest = begin(&mut server, "192.0.2.2", 1);
    server.caller = at("192.0.2.1");
    assert_eq!(open_session(&mut server), 503, "the last place is that of others");
    server.disconnect(in_use[3].0);
    assert_eq!(open_session(&mut server), 200);
    let left: Vec<_> = in_use.iter().map(|(_, id)| server.session(id).is_some()).collect();
    assert_eq!(left, [&[true; 3][..], &[false], &[true; 10]].concat());
    assert!(server.session(&honest[0]).is_some());
}

/// Unused sessions are evicted before used ones, even if the used ones belong to the client with the most sessions.
#[test]
fn unused_sessions_are_evicted_first() {
    for whole_handshake in [false, true] {
        let mut server = narrow(64, 64);
        server.caller = at("192.0.2.1");
        let used: Vec<_> = (0..20).map(|_| use_session(&mut server)).collect();
        for number in 0..90 {
            server.advance(Duration::from_millis(10));
            server.caller = at(&format!("10.0.0.{number}"));
            if whole_handshake {
                handshake(&mut server);
            } else {
                assert_eq!(open_session(&mut server), 200);
            }
        }
        assert_eq!(server.endpoint.len(), 64);
        let left = used.iter().filter(|id| server.session(id).is_some()).count();
        assert_eq!(left, 20, "44 sessions are there that no client has used, {whole_handshake}");
    }
}

/// These sessions are in use at first: their responses to `initialize` are not read.
#[test]
fn unread_initialize_sessions_are_evicted_first() {
    let mut server = narrow(64, 64);
    server.caller = at("192.0.2.1");
    let used: Vec<_> = (0..20).map(|_| use_session(&mut server)).collect();
    let send = |server: &mut HttpServer, number: u32| {
        server.caller = at(&format!("10.0.0.{number}"));
        server.send(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request"))
    };
    server.reads = false;
    let unread: Vec<_> = (0..45).map(|number| send(&mut server, number)).collect();
    server.reads = true;
    let left = |server: &mut HttpServer| used.iter().filter(|id| server.session(id).is_some()).count();
    assert_eq!((server.endpoint.len(), left(&mut server)), (64, 19), "no other session was idle");
    unread.into_iter().for_each(|requested| server.read(requested, true));
    for number in 45..100 {
        server.advance(Duration::from_millis(10));
        let requested = send(&mut server, number);
        assert_eq!(server.reply(requested).status(), 200);
    }
    assert_eq!((server.endpoint.len(), left(&mut server)), (64, 19));
}

/// With a shared store, a session is adopted before the address of its client is known.
#[test]
fn sessions_count_for_their_latest_address() {
    let mut server = narrow(16, 16);
    let ids: Vec<_> = (0..3).map(|_| server.begin("2025-11-25")).collect();
    server.caller = at("192.0.2.1");
    for id in &ids {
        server.advance(Duration::from_secs(1));
        ping(&mut server, id);
    }
    // With eleven more it has 14 of 16, so its next sessions evict its own.
    for _ in 0..11 {
        use_session(&mut server);
    }
    assert_eq!(server.endpoint.len(), 14);
    server.advance(Duration::from_secs(1));
    use_session(&mut server);
    assert_eq!((server.endpoint.len(), server.session(&ids[0]).is_some()), (14, false));
}

#[test]
fn overloaded_sessions_can_be_deleted() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.exchanges = 2;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-11-25");
    for number in 0..3 {
        let requested = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"}));
        assert!(server.reply(requested).head.is_none());
    }
    assert_eq!(server.last_session().usage().waiting_requests, 1, "the third waits");
    assert_eq!(server.delete(&id).status(), 204);
    assert_eq!((server.sessions.len(), server.endpoint.len()), (0, 0));
}
