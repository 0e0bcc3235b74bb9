//! The share of one client of what an endpoint limits for all clients: requests in flight, and bodies that are being
//! read.

use http::Request;
use mcp_proto::{
    connection::{Principal, ServerConfig},
    http::{
        Policy,
        server::{EndpointOptions, RequestReader},
    },
    protocol::{Capability, VersionSet},
    wire::Json,
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef, initialize, modern, post},
};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn both_eras() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

fn with_request_bytes(bytes: usize) -> HttpServer {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.request_bytes = bytes;
    HttpServer::with(both_eras(), options)
}

fn with_body_bytes(bytes: usize) -> HttpServer {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.body_bytes = bytes;
    HttpServer::with(both_eras(), options)
}

/// Returns the bytes of the requests of all sessions, as their connections count them.
fn in_flight(server: &HttpServer) -> usize {
    server.sessions.values().map(|session| session.view().usage().request_bytes).sum()
}

fn listen(server: &mut HttpServer, id: u64, params: Value) -> RequestRef {
    server.send(modern(&json!(id), "subscriptions/listen", params))
}

fn large_call(server: &mut HttpServer, id: &str, number: u64, bytes: usize) -> RequestRef {
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(bytes)}});
    server.send_message(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
}

/// Checks that a client without any usage can begin a session, ping and make a call.
#[track_caller]
fn is_served(server: &mut HttpServer) {
    let begun =
        server.request(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request"));
    assert_eq!(begun.status(), 200);
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    let ready = server.send_message(&id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(server.reply(ready).status(), 202);
    server.take_events();
    let ping = server.send_message(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(server.reply(ping).json()["result"], json!({}));
    let call = large_call(server, &id, 2, 1000);
    let key = server.take_request();
    server.respond(key, &json!({"content": []}));
    assert_eq!(server.reply(call).json()["id"], json!(2));
    let discovered = server.request(modern(&json!(3), "server/discover", json!({})));
    assert_eq!(discovered.status(), 200);
    server.take_events();
}

#[test]
fn subscriptions_count_their_retained_bytes() {
    let mut server = HttpServer::new(both_eras());
    let ones = json!(vec![1; 170_000]);
    for number in 0..16 {
        let mut params = json!({"notifications": {"toolsListChanged": true}});
        if number % 2 == 0 {
            params["x"] = ones.clone();
        } else {
            params["_meta"] = json!({"vendor/x": ones});
        }
        let requested = listen(&mut server, number, params);
        assert_eq!(server.reply(requested).status(), 200, "{number}");
    }
    let held = in_flight(&server);
    assert!(held < 16 * 2000, "{held} bytes for 16 subscriptions that say little");
    is_served(&mut server);
    // Names that are kept count.
    let names: Vec<_> = (0..10_000).map(|number| format!("mem://{number}")).collect();
    listen(&mut server, 16, json!({"notifications": {"resourceSubscriptions": names}}));
    let kept = in_flight(&server) - held;
    assert!((10_000 * 40..10_000 * 400).contains(&kept), "{kept} bytes for 10,000 names");
    // They do not count on a server without notifications about resources.
    let mut config = both_eras();
    config.capabilities = Default::default();
    let mut server = HttpServer::new(config);
    listen(&mut server, 1, json!({"notifications": {"resourceSubscriptions": names}}));
    assert_eq!(server.sessions.len(), 1);
    assert!(in_flight(&server) < 2000, "{} bytes for names that are not kept", in_flight(&server));
}

#[test]
fn requests_count_their_memory_not_their_length() {
    let mut server = with_request_bytes(8 * MIB);
    let described: serde_json::Map<_, _> = (0..50_000).map(|number| (format!("{number:x}"), json!({}))).collect();
    let params = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": {"experimental": described}}});
    for number in 0..4 {
        let requested = server.send(modern(&json!(number), "tools/list", params.clone()));
        let held = in_flight(&server);
        assert!(held <= 8 * MIB, "{held} bytes of 8 MiB");
        assert_eq!(server.reply(requested).head.is_some(), number > 0, "there is room for one");
    }
}

#[test]
fn one_client_leaves_capacity_for_others() {
    let mut server = with_request_bytes(8 * MIB);
    // One client opens subscriptions with as many names as fit.
    server.set_principal("eve");
    for count in [6000, 100, 0] {
        let names: Vec<_> = (0..count).map(|number| format!("mem://{number}")).collect();
        let refused = (0..10_000).find(|number| {
            let requested = listen(&mut server, *number, json!({"notifications": {"resourceSubscriptions": names}}));
            server.reply(requested).status() == 503
        });
        assert!(refused.is_some(), "{} bytes for one client", in_flight(&server));
    }
    assert!((6 * MIB..=7 * MIB).contains(&in_flight(&server)), "{} bytes of 8 MiB", in_flight(&server));
    server.set_principal("ada");
    is_served(&mut server);
    // Another client has sessions with unread responses and queued requests.
    server.set_principal("mallory");
    let ids: Vec<_> = (0..4).map(|_| server.begin("2025-11-25")).collect();
    server.reads = false;
    for bytes in [16 << 10, 1000, 0] {
        let refused = (0..10_000_u64).find(|number| {
            let session = &ids[usize::try_from(number % 4).expect("few")];
            let requested = large_call(&mut server, session, 100_000 * bytes as u64 + number, bytes);
            server.reply(requested).head.is_some()
        });
        assert!(refused.is_some(), "{} bytes for two clients", in_flight(&server));
    }
    server.reads = true;
    server.take_events();
    server.set_principal("ada");
    is_served(&mut server);
}

#[test]
fn one_anonymous_session_leaves_capacity_for_others() {
    let mut server = with_request_bytes(8 * MIB);
    let id = server.begin("2025-11-25");
    for bytes in [10 << 10, 100, 0] {
        for number in (0..).map(|number| 10_000 * bytes as u64 + number) {
            let requested = large_call(&mut server, &id, number, bytes);
            if server.reply(requested).head.is_some() {
                break;
            }
        }
    }
    assert!(in_flight(&server) > 6 * MIB);
    server.take_events();
    is_served(&mut server);
}

#[test]
fn queued_requests_count_as_in_flight() {
    let mut options = EndpointOptions::new(Policy::loopback());
    (options.limits.request_bytes, options.limits.exchanges) = (8 * MIB, 1);
    let mut server = HttpServer::with(both_eras(), options);
    server.set_principal("eve");
    let ids: Vec<_> = (0..2).map(|_| server.begin("2025-11-25")).collect();
    let mut waiting = 0;
    for id in &ids {
        large_call(&mut server, id, 0, 0);
        for number in 1..=8 {
            let requested = large_call(&mut server, id, number, MIB - 2048);
            waiting += usize::from(server.reply(requested).head.is_none());
        }
    }
    // Each session may queue four, and one client may use seven eighths of the limit.
    assert!((6..=7).contains(&waiting), "{waiting} of 8 MiB wait");
    server.take_events();
    server.set_principal("ada");
    is_served(&mut server);
}

#[test]
fn batches_count_against_the_request_limit() {
    let mut server = with_request_bytes(8 * MIB);
    server.set_principal("eve");
    let id = server.begin("2025-03-26");
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(MIB - 1000)}});
    let call = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
    let requested: Vec<_> = (0..12).map(|number| server.send_message(&id, &json!([call(number)]))).collect();
    let refused = requested.iter().filter(|requested| server.reply(**requested).head.is_some());
    assert!(refused.clone().count() >= 5, "of 12, with {} bytes in flight", in_flight(&server));
    assert!(refused.clone().all(|requested| server.reply(*requested).status() == 503));
    server.take_events();
    server.set_principal("ada");
    is_served(&mut server);
}

/// Each request may have a principal of its own, whose claims the client has chosen.
#[test]
fn requests_count_their_principals() {
    const CLAIMS: usize = 100_000;
    let mut server = with_request_bytes(8 * MIB);
    let mut eve = Principal::new("eve");
    eve.scopes = (0..100).map(|number| format!("scope-{number}")).collect();
    eve.claims = Some(Json::new(&json!({"groups": "x".repeat(CLAIMS)})).expect("JSON"));
    server.set_caller(eve);
    let call = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t"}});
    for batches in [false, true] {
        let id = server.begin("2025-03-26");
        let mut requested = Vec::new();
        for number in 0..100 {
            let message = if batches { json!([call(number)]) } else { call(number) };
            requested.push(server.send_message(&id, &message));
        }
        let mut opened = server.take_requests();
        assert!((10..84).contains(&opened.len()), "{} requests are open", opened.len());
        assert!((opened.len() * CLAIMS..8 * MIB).contains(&in_flight(&server)), "{} bytes", in_flight(&server));
        while let Some(key) = opened.pop() {
            server.respond(key, &json!({"content": []}));
            opened.extend(server.take_requests());
        }
        assert_eq!(in_flight(&server), 0);
    }
    let requested = server.send(modern(&json!(1), "tools/call", json!({"name": "t"})));
    assert!(in_flight(&server) > CLAIMS, "{} bytes", in_flight(&server));
    let key = server.take_request();
    server.respond(key, &json!({"resultType": "complete", "content": []}));
    assert_eq!((server.reply(requested).status(), in_flight(&server)), (200, 0));
}

/// A connection has a limit of its own, at which requests wait as well.
#[test]
fn requests_with_large_principals_wait_for_room() {
    let mut config = both_eras();
    config.settings.limits.request_bytes = MIB;
    let mut server = HttpServer::with(config, EndpointOptions::new(Policy::loopback()));
    let mut eve = Principal::new("eve");
    eve.claims = Some(Json::new(&json!({"groups": "x".repeat(100_000)})).expect("JSON"));
    server.set_caller(eve);
    let id = server.begin("2025-03-26");
    let call = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t"}});
    let requested: Vec<_> = (0..10).map(|number| server.send_message(&id, &call(number))).collect();
    let mut opened = server.take_requests();
    assert_eq!(opened.len(), 5);
    while let Some(key) = opened.pop() {
        assert!(in_flight(&server) <= MIB);
        server.respond(key, &json!({"content": []}));
        opened.extend(server.take_requests());
    }
    assert!(requested.iter().all(|requested| server.reply(*requested).json()["result"].is_object()));
}

/// Each member counts the principal, since members end one by one.
#[test]
fn batches_count_the_principal_of_each_member() {
    let mut server = with_request_bytes(2 * MIB);
    let mut eve = Principal::new("eve");
    eve.claims = Some(Json::new(&json!({"groups": "x".repeat(100_000)})).expect("JSON"));
    server.set_caller(eve);
    let id = server.begin("2025-03-26");
    let call = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "t"}});
    server.send_message(&id, &call(100));
    let note = json!({"jsonrpc": "2.0", "method": "vendor/news"});
    let news: Vec<_> = (0..50).map(|_| &note).collect();
    let told = server.send_message(&id, &json!(news));
    assert_eq!(server.reply(told).status(), 202, "only requests keep it");
    let large: Vec<_> = (0..20).map(call).collect();
    let refused = server.send_message(&id, &json!(large));
    assert_eq!(server.reply(refused).status(), 503);
    assert!(in_flight(&server) < MIB);
    let small: Vec<_> = (0..4).map(call).collect();
    server.send_message(&id, &json!(small));
    assert_eq!(server.take_requests().len(), 5);
}

#[test]
fn open_task_subscriptions_count_retained_bytes() {
    let mut config = both_eras();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    let mut server = HttpServer::new(config);
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"notifications": {"taskIds": ["t", "u"]}, "x": "x".repeat(100_000),
        "_meta": {"io.modelcontextprotocol/clientCapabilities": extension}});
    listen(&mut server, 1, params);
    let (session, key) = server.take_request();
    assert!(in_flight(&server) > 100_000, "the application has all of the message");
    let now = server.now;
    let conn = server.sessions.get_mut(&session).expect("it is open").connection(now);
    conn.accept_subscription(key, |_| true).expect("it names tasks");
    server.settle();
    assert!((100..2000).contains(&in_flight(&server)), "{} bytes for two names", in_flight(&server));
}

fn head(target: &str) -> http::request::Parts {
    post(target).body(()).map(Request::into_parts).expect("a request").0
}

/// Feeds `bytes` bytes, and returns whether they were accepted.
fn feed(reader: &mut RequestReader, bytes: usize) -> bool {
    reader.feed(&vec![b' '; bytes]).is_ok()
}

#[test]
fn large_bodies_leave_capacity_for_small_ones() {
    let mut server = with_body_bytes(16 * MIB);
    let head = head("/mcp");
    let mut slow: Vec<_> =
        (0..16).map(|_| server.endpoint.begin(&head, server.caller.clone()).expect("a head takes nothing")).collect();
    let taken = slow.iter_mut().filter_map(|reader| feed(reader, MIB - 1).then_some(())).count();
    assert!(taken >= 14, "{taken} of 16");
    is_served(&mut server);
}

#[test]
fn bodies_of_one_client_leave_capacity_for_others() {
    let mut server = with_body_bytes(MIB);
    let head = head("/mcp");
    server.set_principal("eve");
    let mut slow: Vec<_> =
        (0..300).map(|_| server.endpoint.begin(&head, server.caller.clone()).expect("a head takes nothing")).collect();
    // Each of them is small.
    let taken = slow.iter_mut().filter_map(|reader| feed(reader, 4000).then_some(())).count();
    assert!((200..240).contains(&taken), "{taken} of 300");
    server.set_principal("ada");
    let mut large = server.endpoint.begin(&head, server.caller.clone()).expect("a head takes nothing");
    assert!(feed(&mut large, 60_000), "another client finds something");
    is_served(&mut server);
    // The bytes of finished bodies are freed.
    drop((slow, large));
    server.set_principal("eve");
    let mut large = server.endpoint.begin(&head, server.caller.clone()).expect("a head takes nothing");
    assert!(feed(&mut large, 900_000));
}
