//! Batches of a server over HTTP (2025-03-26): the client sends all responses to one batch in one POST.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use mcp_proto::{
    connection::{Event, Outcome, ResourceUsage},
    http::client::{ClientOptions, ExchangeId},
    protocol::ProtocolVersion,
    rpc::ReplyKey,
    wire::{Json, RawJson},
};
use mcp_tests::http_client::{HttpClient, event, header, json_response, message, options, stream_response};
use serde_json::{Value, json};

const BATCHES: ProtocolVersion = ProtocolVersion::V2025_03_26;

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn sampling(id: u64) -> Value {
    let params = json!({"messages": [], "maxTokens": 1});
    json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params})
}

/// Returns the ids of the responses in the array that a request carries, sorted.
#[track_caller]
fn answered(request: &Request<Arc<[u8]>>) -> Vec<u64> {
    let Value::Array(members) = message(request) else { panic!("this is no array: {request:?}") };
    assert!(members.iter().all(|member| member["result"].is_object() && member["jsonrpc"] == "2.0"), "{members:?}");
    let mut ids: Vec<_> = members.iter().map(|member| member["id"].as_u64().expect("a number")).collect();
    ids.sort_unstable();
    ids
}

/// Passes a batch of a ping and a request for the application to the client, and returns the key of the latter.
#[track_caller]
fn send_request(caller: &mut HttpClient, stream: ExchangeId, ids: [u64; 2]) -> ReplyKey {
    caller.body(stream, event("", &json!([ping(ids[0]), sampling(ids[1])])));
    match &caller.take_events()[..] {
        [Event::Request { key, .. }] => *key,
        events => panic!("{events:?}"),
    }
}

fn reply(caller: &mut HttpClient, key: ReplyKey) {
    let result = json!({"role": "assistant", "content": {"type": "text", "text": ""}, "model": "m"});
    let result = Json::new(&result).expect("JSON");
    caller.core.connection(caller.now).respond_raw(key, &RawJson::from(&result)).expect("the response is accepted");
    caller.settle();
}

fn in_session(change: impl FnOnce(&mut ClientOptions)) -> (HttpClient, ExchangeId) {
    let mut options = options();
    change(&mut options);
    HttpClient::in_session_with(BATCHES, options)
}

/// Begins a call whose response is a stream, and returns the exchange.
fn streaming_call(caller: &mut HttpClient) -> (ExchangeId, Value) {
    caller.call("tools/list", &json!({}));
    let (exchange, request) = caller.posted("tools/list");
    caller.head(exchange, stream_response());
    (exchange, message(&request)["id"].clone())
}

// req: BATCH-001 BATCH-005 BATCH-010
#[test]
fn a_batch_of_the_server_gets_its_responses_in_one_post() {
    for on_post in [false, true] {
        let (mut caller, get) = in_session(|_| {});
        let (post, id) = streaming_call(&mut caller);
        let stream = if on_post { post } else { get };
        let key = send_request(&mut caller, stream, [1, 2]);
        assert!(caller.requests.is_empty(), "the array waits until it is complete");
        reply(&mut caller, key);
        let (exchange, request) = caller.request();
        assert_eq!(
            (request.method().as_str(), request.uri().to_string()),
            ("POST", "http://server.example/mcp".into())
        );
        assert_eq!(answered(&request), [1, 2]);
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        assert_eq!(header(&request, "accept"), Some("application/json, text/event-stream"));
        // This revision has no header for the version.
        assert_eq!((header(&request, "mcp-session-id"), header(&request, "mcp-protocol-version")), (Some("s-1"), None));
        assert_eq!(caller.core.call_on(exchange), None);
        let before = caller.core.usage().exchanges;
        caller.accept(exchange);
        assert_eq!((caller.core.usage().exchanges, caller.aborted.len()), (before - 1, 0));
        // A batch with one request is answered with an array, too.
        caller.body(stream, event("", &json!([ping(3)])));
        let (exchange, request) = caller.request();
        assert_eq!(answered(&request), [3]);
        caller.accept(exchange);
        // The server uses the ids again, and the call ends.
        let key = send_request(&mut caller, stream, [2, 1]);
        reply(&mut caller, key);
        let (exchange, request) = caller.request();
        assert_eq!(answered(&request), [1, 2]);
        caller.accept(exchange);
        caller.body(post, event("", &json!([{"jsonrpc": "2.0", "id": id, "result": {"tools": []}}])));
        caller.end(post);
        let events = caller.take_events();
        assert!(matches!(&events[..], [Event::Response { outcome: Outcome::Result(_), .. }]), "{events:?}");
        let now = caller.now;
        assert_eq!(caller.core.connection(now).usage(), ResourceUsage::default());
        assert_eq!(caller.core.usage().exchanges, 1, "the GET stream remains");
    }
}

/// A batch of notifications has no response, and neither has a batch whose requests were all cancelled.
#[test]
fn a_batch_without_responses_sends_nothing() {
    let (mut caller, stream) = in_session(|_| {});
    caller.body(stream, event("", &json!([{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}])));
    caller.body(stream, event("", &json!([sampling(1)])));
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    caller.body(stream, event("", &cancelled));
    let events = caller.take_events();
    let [Event::Notification { .. }, Event::Request { key, .. }, Event::Cancelled { .. }] = events[..] else {
        panic!("{events:?}")
    };
    reply(&mut caller, key);
    assert!(caller.requests.is_empty());
}

/// Calls may wait for the responses to requests of the server, so these do not wait for the calls.
#[test]
fn responses_to_a_batch_need_no_exchange_of_a_call() {
    for single in [false, true] {
        let (mut caller, get) = in_session(|options| options.limits.exchanges = 2);
        let (post, _) = streaming_call(&mut caller);
        caller.call("tools/list", &json!({}));
        assert!(caller.requests.is_empty(), "there is no room for a second call");
        if single {
            caller.body(get, event("", &ping(1)));
            let (exchange, request) = caller.request();
            assert_eq!(message(&request)["id"], 1);
            caller.accept(exchange);
            continue;
        }
        let key = send_request(&mut caller, post, [1, 2]);
        reply(&mut caller, key);
        let (exchange, request) = caller.request();
        assert_eq!(answered(&request), [1, 2]);
        caller.accept(exchange);
        assert!(caller.requests.is_empty());
    }
}

#[test]
fn post_of_a_batch_is_handled_as_post_of_a_response() {
    let (mut caller, stream) = in_session(|options| options.authenticates = true);
    let mut next = 0;
    let mut batch = |caller: &mut HttpClient| {
        next += 2;
        let key = send_request(caller, stream, [next, next + 1]);
        reply(caller, key);
        let (exchange, request) = caller.request();
        assert_eq!(answered(&request), [next, next + 1]);
        (exchange, request.into_body())
    };
    // With new credentials, and to another address, the same array is sent again.
    let (first, body) = batch(&mut caller);
    caller.respond(first, Response::builder().status(401), "");
    let now = caller.now;
    let second = caller.core.retry(now, first).expect("it is still needed");
    let (exchange, request) = caller.request();
    assert_eq!((exchange, request.body(), header(&request, "mcp-session-id")), (second, &body, Some("s-1")));
    caller.respond(second, Response::builder().status(307).header("location", "/elsewhere"), "");
    let (third, request) = caller.request();
    assert_eq!((request.uri().path(), request.body(), request.method().as_str()), ("/elsewhere", &body, "POST"));
    caller.accept(third);
    assert_eq!(caller.take_events(), []);
    // A refusal is reported if it explains itself.
    let (exchange, _) = batch(&mut caller);
    let error = json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}});
    caller.respond(exchange, json_response(400), error.to_string());
    let events = caller.take_events();
    assert!(matches!(&events[..], [Event::PeerError(error)] if error.code.0 == -32600), "{events:?}");
    let (exchange, _) = batch(&mut caller);
    caller.fail(exchange);
    // A server that does not accept it holds no exchange for ever.
    let (exchange, _) = batch(&mut caller);
    let now = caller.now;
    assert_eq!(caller.core.poll_timeout().map(|deadline| deadline.at), Some(now + Duration::from_secs(60)));
    caller.aborted.clear();
    caller.advance(Duration::from_secs(60));
    assert_eq!((caller.take_events(), &caller.aborted[..]), (vec![], &[exchange][..]));
    assert_eq!(caller.core.usage().exchanges, 1, "the GET stream remains");
}
