//! The streams of a session: which message is sent on which stream, in all revisions with sessions.

use std::time::Duration;

use mcp_proto::{
    connection::{CancelCause, Event, Failure, Outcome, RequestOptions},
    rpc::{ReplyKey, Timestamp},
    schema::{ResourceUpdatedParams, ToolsListChangedParams},
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::full_server,
    http_server::{HttpServer, RequestRef},
};
use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn call(server: &mut HttpServer, id: &str, number: u64) -> (RequestRef, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let requested =
        server.send_message(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    let (_, key) = server.take_request();
    (requested, key)
}

fn progress(server: &mut HttpServer, id: &str, key: ReplyKey, progress: f64) {
    let now = server.now;
    server.session(id).expect("it is open").connection(now).progress(key, progress, None, None).expect("it may report");
    server.settle();
}

fn answer(server: &mut HttpServer, id: &str, key: ReplyKey) {
    let now = server.now;
    let result = Json::parse("{\"content\":[]}").expect("JSON");
    let session = server.session(id).expect("it is open");
    session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    server.settle();
}

fn changed(server: &mut HttpServer, id: &str) {
    let now = server.now;
    server
        .session(id)
        .expect("it is open")
        .connection(now)
        .notify(&ToolsListChangedParams::default())
        .expect("declared");
    server.settle();
}

fn methods(server: &HttpServer, requested: RequestRef) -> Vec<String> {
    server.reply(requested).messages().iter().map(|it| it["method"].as_str().unwrap_or("answer").to_owned()).collect()
}

const CHANGED: &str = "notifications/tools/list_changed";
const PROGRESS: &str = "notifications/progress";

// req: HTTP-017 HTTP-019 HTTP-021 HTTP-023 HTTP-024 HTTP-035 HTTP-037 HTTP-040 HTTP-041 HTTP-044 HTTP-045 HTTP-046
#[test]
fn each_message_is_sent_on_one_stream() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        assert_eq!(server.reply(stream).status(), 200);
        assert_eq!(server.reply(stream).header("content-type"), Some("text/event-stream"));
        assert!(!server.reply(stream).body.is_empty(), "the head is passed on when there is something behind it");
        let (a, key_a) = call(&mut server, &id, 1);
        let (b, key_b) = call(&mut server, &id, 2);
        progress(&mut server, &id, key_b, 1.0);
        changed(&mut server, &id);
        progress(&mut server, &id, key_b, 2.0);
        answer(&mut server, &id, key_a);
        answer(&mut server, &id, key_b);
        assert_eq!(methods(&server, stream), [CHANGED]);
        assert_eq!(server.reply(a).json()["id"], json!(1));
        assert_eq!(methods(&server, b), [PROGRESS, PROGRESS, "answer"]);
        assert!(server.reply(b).ended && !server.reply(stream).ended);
        server.disconnect(stream);
        assert_eq!(server.endpoint.len(), 1, "a session outlives its streams");
    }
}

// req: HTTP-020 HTTP-021 HTTP-039
#[test]
fn server_requests_use_the_stream_of_their_request() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        let (requested, key) = call(&mut server, &id, 1);
        let now = server.now;
        let conn = server.session(&id).expect("it is open").connection(now);
        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
        let related = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        let other = conn.request_raw(now, "roots/list", None, RequestOptions::default()).expect("it may ask");
        server.settle();
        assert_eq!(methods(&server, requested), ["roots/list"]);
        assert_eq!(methods(&server, stream), ["roots/list"]);
        for (call, carrier) in [(related, requested), (other, stream)] {
            let server_request = server.reply(carrier).messages()[0].clone();
            let reply = server
                .send_message(&id, &json!({"jsonrpc": "2.0", "id": server_request["id"], "result": {"roots": []}}));
            assert_eq!((server.reply(reply).status(), server.reply(reply).body.len()), (202, 0));
            let events = server.take_events();
            let [Event::Response { call: ended, outcome: Outcome::Result(_) }] = &events[..] else {
                panic!("{events:?}")
            };
            assert_eq!(*ended, call);
        }
        answer(&mut server, &id, key);
        assert_eq!(methods(&server, requested), ["roots/list", "answer"]);
    }
}

// req: HTTP-012 HTTP-013 HTTP-014
#[test]
fn notifications_return_202_without_a_body() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}),
            json!({"jsonrpc": "2.0", "method": "vendor/news"}),
        ] {
            let requested = server.send_message(&id, &message);
            let reply = server.reply(requested);
            assert_eq!((reply.status(), reply.body.len(), reply.ended), (202, 0, true), "{message}");
        }
    }
}

// req: HTTP-010 HTTP-012 HTTP-016 HTTP-075
#[test]
fn batch_responses_are_sent_together() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-03-26");
    let ping = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "ping"});
    let news = json!({"jsonrpc": "2.0", "method": "vendor/news"});
    let requested = server.send_message(&id, &json!([ping(1), news, ping(2)]));
    assert_eq!(server.reply(requested).json().as_array().map(Vec::len), Some(2));
    let requested = server.send_message(&id, &json!([news, news]));
    assert_eq!((server.reply(requested).status(), server.reply(requested).body.len()), (202, 0));
    server.take_events();
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}});
    let requested = server.send_message(&id, &json!([ping(1), list]));
    let (_, key) = server.take_request();
    progress(&mut server, &id, key, 1.0);
    answer(&mut server, &id, key);
    let messages = server.reply(requested).messages();
    assert_eq!((messages.len(), messages[1].as_array().map(Vec::len)), (2, Some(2)));
    assert!(server.reply(requested).ended);
    // A batch whose requests are all cancelled has no response.
    let requested = server.send_message(&id, &json!([{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}]));
    let (_, key) = server.take_request();
    server
        .send_message(&id, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    assert!(server.reply(requested).ended && server.reply(requested).events().is_empty());
    answer(&mut server, &id, key);
    server.take_events();
    for version in ["2025-06-18", "2025-11-25"] {
        let id = server.begin(version);
        let requested = server.send_message(&id, &json!([ping(1)]));
        assert_eq!(
            (server.reply(requested).status(), &server.reply(requested).json()["error"]["code"]),
            (400, &json!(-32600))
        );
        server.take_events();
    }
}

// req: HTTP-032 HTTP-022
#[test]
fn disconnect_does_not_cancel_but_notification_does() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        for streaming in [false, true] {
            let (requested, key) = call(&mut server, &id, 1);
            if streaming {
                progress(&mut server, &id, key, 1.0);
            }
            server.disconnect(requested);
            assert_eq!(server.take_events(), []);
            answer(&mut server, &id, key);
        }
        for streaming in [false, true] {
            let (requested, key) = call(&mut server, &id, 2);
            if streaming {
                progress(&mut server, &id, key, 1.0);
            }
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
            let reply = server.send_message(&id, &cancel);
            assert_eq!(server.reply(reply).status(), 202);
            assert_eq!(server.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }]);
            let reply = server.reply(requested);
            assert!(reply.ended, "there will be no answer");
            assert_eq!(reply.messages().len(), usize::from(streaming));
            answer(&mut server, &id, key);
            assert_eq!(server.reply(requested).messages().len(), usize::from(streaming));
        }
    }
}

// req: HTTP-042 HTTP-045
#[test]
fn unrelated_messages_wait_for_a_session_stream() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let now = server.now;
        let updated = |server: &mut HttpServer, number: usize| {
            let params = ResourceUpdatedParams::new(format!("mem://{number}"));
            server.session(&id).expect("it is open").connection(now).notify(&params).expect("declared");
            server.settle();
        };
        for number in 0..10 {
            updated(&mut server, number);
        }
        let stream = server.listen(&id, None);
        updated(&mut server, 10);
        server.disconnect(stream);
        updated(&mut server, 11);
        let next = server.listen(&id, None);
        updated(&mut server, 12);
        let uris = |server: &HttpServer, requested| -> Vec<Value> {
            server.reply(requested).messages().into_iter().map(|message| message["params"]["uri"].clone()).collect()
        };
        let expected =
            |range: std::ops::Range<usize>| range.map(|number| json!(format!("mem://{number}"))).collect::<Vec<_>>();
        assert_eq!((uris(&server, stream), uris(&server, next)), (expected(0..11), expected(11..13)));
    }
}

#[test]
fn oldest_waiting_message_is_dropped_and_reported() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let now = server.now;
    let conn = server.session(&id).expect("it is open").connection(now);
    let call = conn.request_raw(now, "roots/list", None, RequestOptions::default()).expect("it may ask");
    server.settle();
    for number in 0..256 {
        let params = ResourceUpdatedParams::new(format!("mem://{number}"));
        server.session(&id).expect("it is open").connection(now).notify(&params).expect("declared");
        server.settle();
        assert_eq!(server.session(&id).expect("it is open").usage().waiting, (number + 2).min(256));
    }
    let events = server.take_events();
    assert_eq!(events, [Event::Response { call, outcome: Outcome::Failed(Failure::NoStream) }]);
    let stream = server.listen(&id, None);
    assert_eq!(server.reply(stream).messages().len(), 256);
}

// req: HTTP-044
#[test]
fn latest_session_stream_carries_messages() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let streams: Vec<_> = (0..8).map(|_| server.listen(&id, None)).collect();
    let refused = server.listen(&id, None);
    assert_eq!(server.reply(refused).status(), 409);
    changed(&mut server, &id);
    for stream in &streams {
        assert!(!server.reply(*stream).ended, "none of them takes the place of another");
        assert_eq!(methods(&server, *stream).len(), usize::from(stream == &streams[7]));
    }
    server.disconnect(streams[7]);
    changed(&mut server, &id);
    assert_eq!(methods(&server, streams[6]), [CHANGED]);
    let again = server.listen(&id, None);
    assert_eq!(server.reply(again).status(), 200);
}

// req: HTTP-026 HTTP-027
#[test]
fn streams_start_with_an_empty_id_event() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        let stream = server.listen(&id, None);
        let (requested, key) = call(&mut server, &id, 1);
        progress(&mut server, &id, key, 1.0);
        for requested in [stream, requested] {
            let events = server.reply(requested).events();
            let primed = events.first().is_some_and(|(_, data, id)| data.is_empty() && !id.is_empty());
            assert_eq!(primed, version == "2025-11-25");
            assert_eq!(String::from_utf8_lossy(&server.reply(requested).body).contains("data: \n"), primed);
        }
    }
}

// req: HTTP-028 HTTP-030 HTTP-043
#[test]
fn streams_are_released_only_when_resumable() {
    for version in VERSIONS {
        let mut server = HttpServer::new(full_server());
        let id = server.begin(version);
        for streaming in [false, true] {
            let (requested, key) = call(&mut server, &id, 1);
            if streaming {
                progress(&mut server, &id, key, 1.0);
            }
            let now = server.now;
            let conn = server.session(&id).expect("it is open").connection(now);
            conn.release_stream(key, Some(Duration::from_millis(500)));
            server.settle();
            let ended = server.reply(requested).ended;
            assert_eq!(ended, version == "2025-11-25");
            answer(&mut server, &id, key);
            if ended {
                let text = String::from_utf8_lossy(&server.reply(requested).body).into_owned();
                assert!(text.ends_with("retry: 500\n\n"), "{text}");
                let last = server.reply(requested).events().last().expect("it was primed").2.clone();
                let resumed = server.listen(&id, Some(&last));
                assert_eq!(methods(&server, resumed), ["answer"]);
                assert!(server.reply(resumed).ended);
            } else {
                assert!(server.reply(requested).ended);
            }
        }
    }
}

// req: LIFE-040
#[test]
fn close_ends_streams_and_drains_requests() {
    let mut server = HttpServer::new(full_server());
    let id = server.begin("2025-11-25");
    let stream = server.listen(&id, None);
    let (requested, key) = call(&mut server, &id, 1);
    let (lost, _) = call(&mut server, &id, 2);
    let now = server.now;
    server.session(&id).expect("it is open").close(now);
    server.settle();
    assert!(server.reply(stream).ended);
    assert!(String::from_utf8_lossy(&server.reply(stream).body).ends_with("retry: 1000\n\n"));
    answer(&mut server, &id, key);
    assert_eq!(server.reply(requested).json()["id"], json!(1));
    assert!(server.reply(lost).head.is_none());
    server.advance(Duration::from_secs(5));
    assert_eq!(server.reply(lost).status(), 404);
    assert!(server.sessions.is_empty() && server.endpoint.is_empty());
}

#[test]
fn queued_requests_time_out_with_503() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.exchanges = 3;
    let mut server = HttpServer::with(full_server(), options);
    let id = server.begin("2025-11-25");
    let mut keys = Vec::new();
    for number in 0..3 {
        keys.push(call(&mut server, &id, number));
    }
    let list = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"});
    let waits = server.send_message(&id, &list(9));
    let cancelled = server.send_message(&id, &list(10));
    let late = server.send_message(&id, &list(11));
    assert!([waits, cancelled, late].iter().all(|requested| server.reply(*requested).head.is_none()));
    assert_eq!(server.take_events(), []);
    let refused = server.listen(&id, None);
    assert_eq!(server.reply(refused).status(), 503, "streams do not wait");
    // Notifications do not wait.
    let told = server.send_message(&id, &json!({"jsonrpc": "2.0", "method": "vendor/news"}));
    assert_eq!(server.reply(told).status(), 202);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10}});
    let told = server.send_message(&id, &cancel);
    assert_eq!(server.reply(told).status(), 202);
    assert!(server.reply(cancelled).ended && server.reply(cancelled).events().is_empty());
    server.take_events();
    answer(&mut server, &id, keys[0].1);
    let (_, key) = server.take_request();
    server.advance(Duration::from_secs(30));
    let reply = server.reply(late);
    assert_eq!((reply.status(), reply.header("retry-after"), &reply.json()["id"]), (503, Some("1"), &json!(11)));
    for key in [keys[1].1, keys[2].1, key] {
        answer(&mut server, &id, key);
    }
    assert_eq!(server.reply(waits).messages().len(), 1);
    server.advance(Duration::from_secs(301));
    server.assert_idle();
}

#[test]
fn keepalive_pings_are_not_sent_in_http_sessions() {
    let mut config = full_server();
    config.settings.keepalive =
        Some(mcp_proto::connection::Keepalive { interval: Duration::from_secs(1), max_missed: 1 });
    let mut server = HttpServer::new(config);
    let id = server.begin("2025-11-25");
    server.advance(Duration::from_secs(600));
    assert!(server.session(&id).is_some());
    assert_eq!(server.now, Timestamp::ZERO + Duration::from_secs(600));
}
