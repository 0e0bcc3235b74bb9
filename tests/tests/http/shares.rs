//! What one client may hold of what all clients of an endpoint share: requests in flight, and bodies that are being read.

use http::Request;
use mcp_proto::{
    connection::ServerConfig,
    http::{
        Policy,
        server::{EndpointOptions, RequestReader},
    },
    protocol::{Capability, VersionSet},
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web, initialize, modern, post},
};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn both_eras() -> ServerConfig {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config
}

fn with_request_bytes(bytes: usize) -> Web {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.request_bytes = bytes;
    Web::with(both_eras(), options)
}

fn with_body_bytes(bytes: usize) -> Web {
    let mut options = EndpointOptions::new(Policy::loopback());
    options.limits.body_bytes = bytes;
    Web::with(both_eras(), options)
}

/// What the requests of all sessions take, as their connections count it.
fn in_flight(web: &Web) -> usize {
    web.sessions.values().map(|session| session.view().usage().request_bytes).sum()
}

fn listen(web: &mut Web, id: u64, params: Value) -> Asked {
    web.send(modern(&json!(id), "subscriptions/listen", params))
}

fn large_call(web: &mut Web, id: &str, number: u64, bytes: usize) -> Asked {
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(bytes)}});
    web.say(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
}

/// A client that holds nothing begins a session, is answered a ping, and makes a call.
#[track_caller]
fn is_served(web: &mut Web) {
    let begun = web.ask(post("/mcp").body(initialize("2025-11-25").to_string().into_bytes()).expect("a request"));
    assert_eq!(begun.status(), 200);
    let id = begun.header("mcp-session-id").expect("a session").to_owned();
    let ready = web.say(&id, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(web.reply(ready).status(), 202);
    web.take_events();
    let ping = web.say(&id, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(web.reply(ping).json()["result"], json!({}));
    let call = large_call(web, &id, 2, 1000);
    let key = web.asked();
    web.answer(key, &json!({"content": []}));
    assert_eq!(web.reply(call).json()["id"], json!(2));
    let discovered = web.ask(modern(&json!(3), "server/discover", json!({})));
    assert_eq!(discovered.status(), 200);
    web.take_events();
}

#[test]
fn a_subscription_counts_what_is_kept_of_it() {
    let mut web = Web::new(both_eras());
    let ones = json!(vec![1; 170_000]);
    for number in 0..16 {
        let mut params = json!({"notifications": {"toolsListChanged": true}});
        if number % 2 == 0 {
            params["x"] = ones.clone();
        } else {
            params["_meta"] = json!({"vendor/x": ones});
        }
        let asked = listen(&mut web, number, params);
        assert_eq!(web.reply(asked).status(), 200, "{number}");
    }
    let held = in_flight(&web);
    assert!(held < 16 * 2000, "{held} bytes for 16 subscriptions that say little");
    is_served(&mut web);
    // Names that are kept count.
    let names: Vec<_> = (0..10_000).map(|number| format!("mem://{number}")).collect();
    listen(&mut web, 16, json!({"notifications": {"resourceSubscriptions": names}}));
    let kept = in_flight(&web) - held;
    assert!((10_000 * 40..10_000 * 400).contains(&kept), "{kept} bytes for 10,000 names");
    // They do not count where the server does not tell of resources at all.
    let mut config = both_eras();
    config.capabilities = Default::default();
    let mut web = Web::new(config);
    listen(&mut web, 1, json!({"notifications": {"resourceSubscriptions": names}}));
    assert_eq!(web.sessions.len(), 1);
    assert!(in_flight(&web) < 2000, "{} bytes for names that are not kept", in_flight(&web));
}

#[test]
fn what_a_request_takes_is_looked_at_and_not_its_length() {
    let mut web = with_request_bytes(8 * MIB);
    let described: serde_json::Map<_, _> = (0..50_000).map(|number| (format!("{number:x}"), json!({}))).collect();
    let params = json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": {"experimental": described}}});
    for number in 0..4 {
        let asked = web.send(modern(&json!(number), "tools/list", params.clone()));
        let held = in_flight(&web);
        assert!(held <= 8 * MIB, "{held} bytes of 8 MiB");
        assert_eq!(web.reply(asked).head.is_some(), number > 0, "there is room for one");
    }
}

#[test]
fn one_client_leaves_room_for_others() {
    let mut web = with_request_bytes(8 * MIB);
    // One has subscriptions that are never over, with as many names as there is room for.
    web.come_from("eve");
    for count in [6000, 100, 0] {
        let names: Vec<_> = (0..count).map(|number| format!("mem://{number}")).collect();
        let refused = (0..10_000).find(|number| {
            let asked = listen(&mut web, *number, json!({"notifications": {"resourceSubscriptions": names}}));
            web.reply(asked).status() == 503
        });
        assert!(refused.is_some(), "{} bytes for one client", in_flight(&web));
    }
    assert!((6 * MIB..=7 * MIB).contains(&in_flight(&web)), "{} bytes of 8 MiB", in_flight(&web));
    web.come_from("ada");
    is_served(&mut web);
    // Another one has sessions whose answers are not read, and requests that wait for room there.
    web.come_from("mallory");
    let ids: Vec<_> = (0..4).map(|_| web.begin("2025-11-25")).collect();
    web.reads = false;
    for bytes in [16 << 10, 1000, 0] {
        let refused = (0..10_000_u64).find(|number| {
            let session = &ids[usize::try_from(number % 4).expect("few")];
            let asked = large_call(&mut web, session, 100_000 * bytes as u64 + number, bytes);
            web.reply(asked).head.is_some()
        });
        assert!(refused.is_some(), "{} bytes for two clients", in_flight(&web));
    }
    web.reads = true;
    web.take_events();
    web.come_from("ada");
    is_served(&mut web);
}

#[test]
fn one_session_leaves_room_for_others_where_clients_are_not_told_apart() {
    let mut web = with_request_bytes(8 * MIB);
    let id = web.begin("2025-11-25");
    for bytes in [10 << 10, 100, 0] {
        for number in (0..).map(|number| 10_000 * bytes as u64 + number) {
            let asked = large_call(&mut web, &id, number, bytes);
            if web.reply(asked).head.is_some() {
                break;
            }
        }
    }
    assert!(in_flight(&web) > 6 * MIB);
    web.take_events();
    is_served(&mut web);
}

#[test]
fn requests_that_wait_count_as_those_in_flight() {
    let mut options = EndpointOptions::new(Policy::loopback());
    (options.limits.request_bytes, options.limits.exchanges) = (8 * MIB, 1);
    let mut web = Web::with(both_eras(), options);
    web.come_from("eve");
    let ids: Vec<_> = (0..2).map(|_| web.begin("2025-11-25")).collect();
    let mut waiting = 0;
    for id in &ids {
        large_call(&mut web, id, 0, 0);
        for number in 1..=8 {
            let asked = large_call(&mut web, id, number, MIB - 2048);
            waiting += usize::from(web.reply(asked).head.is_none());
        }
    }
    // Each session may have four waiting, and one client has no more than seven eighths.
    assert!((6..=7).contains(&waiting), "{waiting} of 8 MiB wait");
    web.take_events();
    web.come_from("ada");
    is_served(&mut web);
}

#[test]
fn batches_count_as_their_requests() {
    let mut web = with_request_bytes(8 * MIB);
    web.come_from("eve");
    let id = web.begin("2025-03-26");
    let params = json!({"name": "t", "arguments": {"x": "x".repeat(MIB - 1000)}});
    let call = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
    let asked: Vec<_> = (0..12).map(|number| web.say(&id, &json!([call(number)]))).collect();
    let refused = asked.iter().filter(|asked| web.reply(**asked).head.is_some());
    assert!(refused.clone().count() >= 5, "of 12, with {} bytes in flight", in_flight(&web));
    assert!(refused.clone().all(|asked| web.reply(*asked).status() == 503));
    web.take_events();
    web.come_from("ada");
    is_served(&mut web);
}

#[test]
fn a_subscription_to_tasks_counts_what_is_kept_of_it_once_it_is_open() {
    let mut config = both_eras();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    let mut web = Web::new(config);
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"notifications": {"taskIds": ["t", "u"]}, "x": "x".repeat(100_000),
        "_meta": {"io.modelcontextprotocol/clientCapabilities": extension}});
    listen(&mut web, 1, params);
    let (session, key) = web.asked();
    assert!(in_flight(&web) > 100_000, "the application has all of the message");
    let now = web.now;
    let conn = web.sessions.get_mut(&session).expect("it is open").connection(now);
    conn.accept_subscription(key, |_| true).expect("it names tasks");
    web.settle();
    assert!((100..2000).contains(&in_flight(&web)), "{} bytes for two names", in_flight(&web));
}

fn head(target: &str) -> http::request::Parts {
    post(target).body(()).map(Request::into_parts).expect("a request").0
}

/// Feeds so many bytes; whether there was room.
fn feed(reader: &mut RequestReader, bytes: usize) -> bool {
    reader.feed(&vec![b' '; bytes]).is_ok()
}

#[test]
fn large_bodies_leave_room_for_small_ones() {
    let mut web = with_body_bytes(16 * MIB);
    let head = head("/mcp");
    let mut slow: Vec<_> =
        (0..16).map(|_| web.endpoint.begin(&head, web.caller.clone()).expect("a head takes nothing")).collect();
    let taken = slow.iter_mut().filter_map(|reader| feed(reader, MIB - 1).then_some(())).count();
    assert!(taken >= 14, "{taken} of 16");
    is_served(&mut web);
}

#[test]
fn the_bodies_of_one_client_leave_room_for_those_of_others() {
    let mut web = with_body_bytes(MIB);
    let head = head("/mcp");
    web.come_from("eve");
    let mut slow: Vec<_> =
        (0..300).map(|_| web.endpoint.begin(&head, web.caller.clone()).expect("a head takes nothing")).collect();
    // Each of them is small.
    let taken = slow.iter_mut().filter_map(|reader| feed(reader, 4000).then_some(())).count();
    assert!((200..240).contains(&taken), "{taken} of 300");
    web.come_from("ada");
    let mut large = web.endpoint.begin(&head, web.caller.clone()).expect("a head takes nothing");
    assert!(feed(&mut large, 60_000), "another client finds something");
    is_served(&mut web);
    // What was read is given back.
    drop((slow, large));
    web.come_from("eve");
    let mut large = web.endpoint.begin(&head, web.caller.clone()).expect("a head takes nothing");
    assert!(feed(&mut large, 900_000));
}
