//! The streams of a session: which message goes where, in all revisions with sessions.

use std::time::Duration;

use mcp_proto::{
    connection::{CancelCause, Event, Failure, Outcome, RequestOptions},
    rpc::{ReplyKey, Timestamp},
    schema::{ResourceUpdatedParams, ToolsListChangedParams},
    wire::{Json, RawJson},
};
use mcp_tests::{
    solo::full_server,
    web::{Asked, Web},
};
use serde_json::{Value, json};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn call(web: &mut Web, id: &str, number: u64) -> (Asked, ReplyKey) {
    let params = json!({"name": "t", "_meta": {"progressToken": number}});
    let asked = web.say(id, &json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}));
    let (_, key) = web.asked();
    (asked, key)
}

fn progress(web: &mut Web, id: &str, key: ReplyKey, progress: f64) {
    let now = web.now;
    web.named(id).expect("it is open").connection(now).progress(key, progress, None, None).expect("it may report");
    web.settle();
}

fn answer(web: &mut Web, id: &str, key: ReplyKey) {
    let now = web.now;
    let result = Json::parse("{\"content\":[]}").expect("JSON");
    let session = web.named(id).expect("it is open");
    session.connection(now).respond_raw(key, &RawJson::from(&result)).expect("an answer is owed");
    web.settle();
}

fn changed(web: &mut Web, id: &str) {
    let now = web.now;
    web.named(id).expect("it is open").connection(now).notify(&ToolsListChangedParams::default()).expect("declared");
    web.settle();
}

fn methods(web: &Web, asked: Asked) -> Vec<String> {
    web.reply(asked).messages().iter().map(|it| it["method"].as_str().unwrap_or("answer").to_owned()).collect()
}

const CHANGED: &str = "notifications/tools/list_changed";
const PROGRESS: &str = "notifications/progress";

// req: HTTP-017 HTTP-019 HTTP-021 HTTP-023 HTTP-024 HTTP-035 HTTP-037 HTTP-040 HTTP-041 HTTP-044 HTTP-045 HTTP-046
#[test]
fn every_message_goes_to_one_stream() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let stream = web.listen(&id, None);
        assert_eq!(web.reply(stream).status(), 200);
        assert_eq!(web.reply(stream).header("content-type"), Some("text/event-stream"));
        assert!(!web.reply(stream).body.is_empty(), "the head is passed on when there is something behind it");
        let (a, key_a) = call(&mut web, &id, 1);
        let (b, key_b) = call(&mut web, &id, 2);
        progress(&mut web, &id, key_b, 1.0);
        changed(&mut web, &id);
        progress(&mut web, &id, key_b, 2.0);
        answer(&mut web, &id, key_a);
        answer(&mut web, &id, key_b);
        assert_eq!(methods(&web, stream), [CHANGED]);
        assert_eq!(web.reply(a).json()["id"], json!(1));
        assert_eq!(methods(&web, b), [PROGRESS, PROGRESS, "answer"]);
        assert!(web.reply(b).ended && !web.reply(stream).ended);
        web.hang_up(stream);
        assert_eq!(web.endpoint.len(), 1, "a session outlives its streams");
    }
}

// req: HTTP-020 HTTP-021 HTTP-039
#[test]
fn what_a_handler_asks_travels_with_its_request() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let stream = web.listen(&id, None);
        let (asked, key) = call(&mut web, &id, 1);
        let now = web.now;
        let conn = web.named(&id).expect("it is open").connection(now);
        let options = RequestOptions { related_request: Some(key), ..RequestOptions::default() };
        let related = conn.request_raw(now, "roots/list", None, options).expect("it may ask");
        let other = conn.request_raw(now, "roots/list", None, RequestOptions::default()).expect("it may ask");
        web.settle();
        assert_eq!(methods(&web, asked), ["roots/list"]);
        assert_eq!(methods(&web, stream), ["roots/list"]);
        for (call, carrier) in [(related, asked), (other, stream)] {
            let question = web.reply(carrier).messages()[0].clone();
            let reply = web.say(&id, &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}));
            assert_eq!((web.reply(reply).status(), web.reply(reply).body.len()), (202, 0));
            let events = web.take_events();
            let [Event::Response { call: ended, outcome: Outcome::Result(_) }] = &events[..] else {
                panic!("{events:?}")
            };
            assert_eq!(*ended, call);
        }
        answer(&mut web, &id, key);
        assert_eq!(methods(&web, asked), ["roots/list", "answer"]);
    }
}

// req: HTTP-012 HTTP-013 HTTP-014
#[test]
fn notifications_and_answers_are_accepted_without_a_word() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}),
            json!({"jsonrpc": "2.0", "method": "vendor/news"}),
        ] {
            let asked = web.say(&id, &message);
            let reply = web.reply(asked);
            assert_eq!((reply.status(), reply.body.len(), reply.ended), (202, 0, true), "{message}");
        }
    }
}

// req: HTTP-010 HTTP-012 HTTP-016 HTTP-075
#[test]
fn a_batch_is_answered_as_a_whole() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-03-26");
    let ping = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "ping"});
    let news = json!({"jsonrpc": "2.0", "method": "vendor/news"});
    let asked = web.say(&id, &json!([ping(1), news, ping(2)]));
    assert_eq!(web.reply(asked).json().as_array().map(Vec::len), Some(2));
    let asked = web.say(&id, &json!([news, news]));
    assert_eq!((web.reply(asked).status(), web.reply(asked).body.len()), (202, 0));
    web.take_events();
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}});
    let asked = web.say(&id, &json!([ping(1), list]));
    let (_, key) = web.asked();
    progress(&mut web, &id, key, 1.0);
    answer(&mut web, &id, key);
    let messages = web.reply(asked).messages();
    assert_eq!((messages.len(), messages[1].as_array().map(Vec::len)), (2, Some(2)));
    assert!(web.reply(asked).ended);
    // A batch whose requests were all cancelled is owed nothing.
    let asked = web.say(&id, &json!([{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}]));
    let (_, key) = web.asked();
    web.say(&id, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    assert!(web.reply(asked).ended && web.reply(asked).events().is_empty());
    answer(&mut web, &id, key);
    web.take_events();
    for version in ["2025-06-18", "2025-11-25"] {
        let id = web.begin(version);
        let asked = web.say(&id, &json!([ping(1)]));
        assert_eq!((web.reply(asked).status(), &web.reply(asked).json()["error"]["code"]), (400, &json!(-32600)));
        web.take_events();
    }
}

// req: HTTP-032 HTTP-022
#[test]
fn hanging_up_does_not_cancel_and_cancelling_does() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        for streaming in [false, true] {
            let (asked, key) = call(&mut web, &id, 1);
            if streaming {
                progress(&mut web, &id, key, 1.0);
            }
            web.hang_up(asked);
            assert_eq!(web.take_events(), []);
            answer(&mut web, &id, key);
        }
        for streaming in [false, true] {
            let (asked, key) = call(&mut web, &id, 2);
            if streaming {
                progress(&mut web, &id, key, 1.0);
            }
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
            let reply = web.say(&id, &cancel);
            assert_eq!(web.reply(reply).status(), 202);
            assert_eq!(web.take_events(), [Event::Cancelled { key, cause: CancelCause::Peer(None) }]);
            let reply = web.reply(asked);
            assert!(reply.ended, "there will be no answer");
            assert_eq!(reply.messages().len(), usize::from(streaming));
            answer(&mut web, &id, key);
            assert_eq!(web.reply(asked).messages().len(), usize::from(streaming));
        }
    }
}

// req: HTTP-042 HTTP-045
#[test]
fn what_belongs_to_nobody_waits_for_a_stream() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let now = web.now;
        let updated = |web: &mut Web, number: usize| {
            let params = ResourceUpdatedParams::new(format!("mem://{number}"));
            web.named(&id).expect("it is open").connection(now).notify(&params).expect("declared");
            web.settle();
        };
        for number in 0..10 {
            updated(&mut web, number);
        }
        let stream = web.listen(&id, None);
        updated(&mut web, 10);
        web.hang_up(stream);
        updated(&mut web, 11);
        let next = web.listen(&id, None);
        updated(&mut web, 12);
        let uris = |web: &Web, asked| -> Vec<Value> {
            web.reply(asked).messages().into_iter().map(|message| message["params"]["uri"].clone()).collect()
        };
        let expected =
            |range: std::ops::Range<usize>| range.map(|number| json!(format!("mem://{number}"))).collect::<Vec<_>>();
        assert_eq!((uris(&web, stream), uris(&web, next)), (expected(0..11), expected(11..13)));
    }
}

#[test]
fn what_waits_too_long_for_a_stream_is_given_up_aloud() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let now = web.now;
    let conn = web.named(&id).expect("it is open").connection(now);
    let call = conn.request_raw(now, "roots/list", None, RequestOptions::default()).expect("it may ask");
    web.settle();
    for number in 0..256 {
        let params = ResourceUpdatedParams::new(format!("mem://{number}"));
        web.named(&id).expect("it is open").connection(now).notify(&params).expect("declared");
        web.settle();
        assert_eq!(web.named(&id).expect("it is open").usage().waiting, (number + 2).min(256));
    }
    let events = web.take_events();
    assert_eq!(events, [Event::Response { call, outcome: Outcome::Failed(Failure::NoStream) }]);
    let stream = web.listen(&id, None);
    assert_eq!(web.reply(stream).messages().len(), 256);
}

// req: HTTP-044
#[test]
fn several_streams_can_be_open_and_the_latest_is_used() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let streams: Vec<_> = (0..8).map(|_| web.listen(&id, None)).collect();
    let refused = web.listen(&id, None);
    assert_eq!(web.reply(refused).status(), 409);
    changed(&mut web, &id);
    for stream in &streams {
        assert!(!web.reply(*stream).ended, "none of them takes the place of another");
        assert_eq!(methods(&web, *stream).len(), usize::from(stream == &streams[7]));
    }
    web.hang_up(streams[7]);
    changed(&mut web, &id);
    assert_eq!(methods(&web, streams[6]), [CHANGED]);
    let again = web.listen(&id, None);
    assert_eq!(web.reply(again).status(), 200);
}

// req: HTTP-026 HTTP-027
#[test]
fn streams_begin_with_an_id_where_clients_know_of_that() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        let stream = web.listen(&id, None);
        let (asked, key) = call(&mut web, &id, 1);
        progress(&mut web, &id, key, 1.0);
        for asked in [stream, asked] {
            let events = web.reply(asked).events();
            let primed = events.first().is_some_and(|(_, data, id)| data.is_empty() && !id.is_empty());
            assert_eq!(primed, version == "2025-11-25");
            assert_eq!(String::from_utf8_lossy(&web.reply(asked).body).contains("data: \n"), primed);
        }
    }
}

// req: HTTP-028 HTTP-030 HTTP-043
#[test]
fn a_stream_is_let_go_where_clients_come_back() {
    for version in VERSIONS {
        let mut web = Web::new(full_server());
        let id = web.begin(version);
        for streaming in [false, true] {
            let (asked, key) = call(&mut web, &id, 1);
            if streaming {
                progress(&mut web, &id, key, 1.0);
            }
            let now = web.now;
            let conn = web.named(&id).expect("it is open").connection(now);
            conn.release_stream(key, Some(Duration::from_millis(500)));
            web.settle();
            let ended = web.reply(asked).ended;
            assert_eq!(ended, version == "2025-11-25");
            answer(&mut web, &id, key);
            if ended {
                let text = String::from_utf8_lossy(&web.reply(asked).body).into_owned();
                assert!(text.ends_with("retry: 500\n\n"), "{text}");
                let last = web.reply(asked).events().last().expect("it was primed").2.clone();
                let resumed = web.listen(&id, Some(&last));
                assert_eq!(methods(&web, resumed), ["answer"]);
                assert!(web.reply(resumed).ended);
            } else {
                assert!(web.reply(asked).ended);
            }
        }
    }
}

// req: LIFE-040
#[test]
fn a_server_that_closes_ends_its_streams_and_answers_what_it_can() {
    let mut web = Web::new(full_server());
    let id = web.begin("2025-11-25");
    let stream = web.listen(&id, None);
    let (asked, key) = call(&mut web, &id, 1);
    let (lost, _) = call(&mut web, &id, 2);
    let now = web.now;
    web.named(&id).expect("it is open").close(now);
    web.settle();
    assert!(web.reply(stream).ended);
    assert!(String::from_utf8_lossy(&web.reply(stream).body).ends_with("retry: 1000\n\n"));
    answer(&mut web, &id, key);
    assert_eq!(web.reply(asked).json()["id"], json!(1));
    assert!(web.reply(lost).head.is_none());
    web.advance(Duration::from_secs(5));
    assert_eq!(web.reply(lost).status(), 404);
    assert!(web.sessions.is_empty() && web.endpoint.is_empty());
}

#[test]
fn requests_wait_for_an_exchange_and_for_so_long_only() {
    let mut options = mcp_proto::http::server::EndpointOptions::new(mcp_proto::http::Policy::loopback());
    options.limits.exchanges = 3;
    let mut web = Web::with(full_server(), options);
    let id = web.begin("2025-11-25");
    let mut keys = Vec::new();
    for number in 0..3 {
        keys.push(call(&mut web, &id, number));
    }
    let list = |number: u64| json!({"jsonrpc": "2.0", "id": number, "method": "tools/list"});
    let waits = web.say(&id, &list(9));
    let cancelled = web.say(&id, &list(10));
    let late = web.say(&id, &list(11));
    assert!([waits, cancelled, late].iter().all(|asked| web.reply(*asked).head.is_none()));
    assert_eq!(web.take_events(), []);
    let refused = web.listen(&id, None);
    assert_eq!(web.reply(refused).status(), 503, "streams do not wait");
    // What may be waited for does not wait.
    let told = web.say(&id, &json!({"jsonrpc": "2.0", "method": "vendor/news"}));
    assert_eq!(web.reply(told).status(), 202);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10}});
    let told = web.say(&id, &cancel);
    assert_eq!(web.reply(told).status(), 202);
    assert!(web.reply(cancelled).ended && web.reply(cancelled).events().is_empty());
    web.take_events();
    answer(&mut web, &id, keys[0].1);
    let (_, key) = web.asked();
    web.advance(Duration::from_secs(30));
    let reply = web.reply(late);
    assert_eq!((reply.status(), reply.header("retry-after"), &reply.json()["id"]), (503, Some("1"), &json!(11)));
    for key in [keys[1].1, keys[2].1, key] {
        answer(&mut web, &id, key);
    }
    assert_eq!(web.reply(waits).messages().len(), 1);
    web.advance(Duration::from_secs(301));
    web.assert_at_rest();
}

#[test]
fn pings_go_nowhere_where_streams_show_who_is_there() {
    let mut config = full_server();
    config.settings.keepalive =
        Some(mcp_proto::connection::Keepalive { interval: Duration::from_secs(1), max_missed: 1 });
    let mut web = Web::new(config);
    let id = web.begin("2025-11-25");
    web.advance(Duration::from_secs(600));
    assert!(web.named(&id).is_some());
    assert_eq!(web.now, Timestamp::ZERO + Duration::from_secs(600));
}
