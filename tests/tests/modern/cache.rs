//! The cache of a client: which requests are sent again, and which are not. The cache itself is tested in the core.

use std::{sync::Arc, time::Duration};

use mcp_proto::{
    connection::{ClientRole, Event, Outcome, RequestOptions, ResourceUsage, SendError, Violation},
    protocol::{ProtocolVersion, VersionSet},
    rpc::CallId,
    schema::{
        CallToolParams, CompleteParams, CompletionArgument, DiscoverParams, GetPromptParams, ListPromptsParams,
        ListResourceTemplatesParams, ListResourcesParams, ListToolsParams, PromptReference, ReadResourceParams,
        Request,
    },
    wire::{Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client_with},
    modern::{answer, modern_only, refuse},
};
use serde_json::{Value, json};

type Client = Harness<ClientRole>;

const NOTHING: [Value; 0] = [];

fn send_request_with<R: Request>(client: &mut Client, params: &R, options: RequestOptions) -> CallId {
    client.conn.request(client.now, params, options).expect("it is ready")
}

/// Makes a call, and returns the messages that are sent for it.
fn send_request<R: Request>(client: &mut Client, params: &R) -> (CallId, Vec<Value>) {
    let call = send_request_with(client, params, RequestOptions::default());
    (call, client.sent())
}

/// Returns whether a request is sent. It gets a response that is fresh for a minute.
fn is_sent<R: Request>(client: &mut Client, params: &R) -> bool {
    let (call, sent) = send_request(client, params);
    let requested = !sent.is_empty();
    if requested {
        client.feed(&answer(&sent[0], good(60_000)));
    }
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call),
        "{events:?}"
    );
    requested
}

fn good(ttl: u64) -> Value {
    json!({"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": "private"})
}

fn tools(cursor: Option<&str>) -> ListToolsParams {
    ListToolsParams { cursor: cursor.map(Into::into), ..ListToolsParams::default() }
}

// req: M-CACHE-006 M-CACHE-009 M-CACHE-012 M-CACHE-013 M-CACHE-020 M-CACHE-022
#[test]
fn fresh_entries_are_reused_and_stale_ones_refetched() {
    let mut client = Client::modern_client();
    assert!(is_sent(&mut client, &tools(None)));
    assert!(!is_sent(&mut client, &tools(None)));
    client.advance(Duration::from_secs(30));
    // Each page has its own time to live and its own entry.
    assert!(is_sent(&mut client, &tools(Some("2"))));
    client.advance(Duration::from_millis(29_999));
    assert!(!is_sent(&mut client, &tools(None)));
    client.advance(Duration::from_millis(1));
    assert_eq!(client.sent(), NOTHING, "nothing is fetched because it is stale");
    assert!(!is_sent(&mut client, &tools(Some("2"))));
    assert!(is_sent(&mut client, &tools(None)));
    let stats = client.conn.stats();
    assert_eq!((stats.cache_hits, stats.cache_misses), (3, 3));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

// req: M-CACHE-009
#[test]
fn freshness_is_checked_at_request_time() {
    let mut client = Client::modern_client();
    assert!(is_sent(&mut client, &tools(None)));
    // No message has arrived since, and no deadline has passed.
    client.now = client.now + Duration::from_secs(60);
    assert!(is_sent(&mut client, &tools(None)));
}

#[test]
fn cached_results_are_identical_with_a_new_call_id() {
    let mut client = Client::modern_client();
    let (first, sent) = send_request(&mut client, &tools(None));
    client.feed_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{ "ttlMs":1000, "tools":[ ],"x":"\u00e4" }}}}"#,
        sent[0]["id"]
    ));
    let outcome = |client: &mut Client| match &client.take_events()[..] {
        [Event::Response { call, outcome: Outcome::Result(result) }] => (*call, result.get().to_owned()),
        events => panic!("{events:?}"),
    };
    let (ended, text) = outcome(&mut client);
    assert_eq!((ended, text.as_str()), (first, r#"{ "ttlMs":1000, "tools":[ ],"x":"\u00e4" }"#));
    let (second, sent) = send_request(&mut client, &tools(None));
    assert_eq!(sent, NOTHING);
    assert_ne!(first, second);
    // The call ids differ before and after the event.
    assert_eq!([first, second].map(CallId::is_cached), [false, true]);
    assert!(!client.conn.is_in_flight(second), "it has ended");
    // The call has ended, so it cannot be cancelled.
    assert_eq!(client.conn.cancel(second, None), Err(SendError::UnknownCall));
    assert_eq!(outcome(&mut client), (second, text));
    // The call was never sent, so a response with its id is unknown.
    client.feed(&json!({"jsonrpc": "2.0", "id": second.as_u64(), "result": {}}));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownResponse(_))]));
    let (third, sent) = send_request(&mut client, &tools(Some("x")));
    assert_eq!(sent[0]["id"], third.as_u64());
}

// req: M-CACHE-028
#[test]
fn caches_only_lists_resources_and_discovery() {
    let mut client = Client::modern_client();
    fn twice<R: Request>(client: &mut Client, params: &R) -> bool {
        is_sent(client, params);
        is_sent(client, params)
    }
    assert!(!twice(&mut client, &ListToolsParams::default()));
    assert!(!twice(&mut client, &ListPromptsParams::default()));
    assert!(!twice(&mut client, &ListResourcesParams::default()));
    assert!(!twice(&mut client, &ListResourceTemplatesParams::default()));
    assert!(!twice(&mut client, &ReadResourceParams::new("a:b")));
    assert!(!twice(&mut client, &DiscoverParams::default()));
    assert!(twice(&mut client, &CallToolParams::new("t")));
    assert!(twice(&mut client, &GetPromptParams::new("p")));
    let completion = CompleteParams::new(PromptReference::new("p"), CompletionArgument::new("a", "b"));
    assert!(twice(&mut client, &completion));
    // A raw request with the same method and params uses the same entry.
    let raw = Json::parse(r#"{"uri":"a:b"}"#).expect("JSON");
    let options = RequestOptions::default();
    client.conn.request_raw(client.now, "resources/read", Some(&RawJson::from(&raw)), options).expect("it is ready");
    assert_eq!(client.sent(), NOTHING);
}

// req: M-CACHE-009
#[test]
fn discovery_results_are_cached() {
    let mut client = Harness::client(full_client_with(VersionSet::ALL));
    let probe = client.sent_one();
    let mut found = mcp_tests::modern::discovered(&probe["id"], &["2026-07-28"]);
    found["result"]["ttlMs"] = json!(60_000);
    client.feed(&found);
    client.take_events();
    assert!(!is_sent(&mut client, &DiscoverParams::default()));
    client.advance(Duration::from_secs(60));
    assert!(is_sent(&mut client, &DiscoverParams::default()));
}

// req: M-CACHE-015 M-CACHE-023
#[test]
fn bypassing_requests_refresh_the_cache() {
    let mut client = Client::modern_client();
    assert!(is_sent(&mut client, &tools(None)));
    let options = RequestOptions { bypass_cache: true, ..RequestOptions::default() };
    send_request_with(&mut client, &tools(None), options.clone());
    let request = client.sent_one();
    let mut newer = good(60_000);
    newer["tools"] = json!([{"name": "new", "inputSchema": {"type": "object"}}]);
    client.feed(&answer(&request, newer));
    client.take_events();
    send_request(&mut client, &tools(None));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { outcome: Outcome::Result(result), .. }] if result.get().contains("new")),
        "{events:?}"
    );
    // A result without a time to live removes the old entry.
    send_request_with(&mut client, &tools(None), options);
    let request = client.sent_one();
    client.feed(&answer(&request, good(0)));
    client.take_events();
    assert!(is_sent(&mut client, &tools(None)));
}

// req: M-CACHE-005 M-CACHE-007
#[test]
fn results_after_input_requests_are_not_cached() {
    for requires_input in [json!({"requestState": "s"}), json!({"inputRequests": {"r": {"method": "roots/list"}}})] {
        let mut client = Client::modern_client();
        let (_, sent) = send_request(&mut client, &ReadResourceParams::new("a:b"));
        let mut input_request = good(60_000);
        input_request["resultType"] = json!("input_required");
        input_request
            .as_object_mut()
            .expect("an object")
            .extend(requires_input.as_object().expect("an object").clone());
        client.feed(&answer(&sent[0], input_request));
        if let [Event::Request { key, .. }] = client.take_events()[..] {
            client.conn.respond_raw(key, &(&Json::parse("{\"roots\":[]}").expect("JSON")).into()).expect("it is owed");
        }
        let again = client.sent_one();
        client.feed(&answer(&again, good(60_000)));
        client.take_events();
        assert!(is_sent(&mut client, &ReadResourceParams::new("a:b")), "{requires_input}");
    }
}

fn acknowledge(client: &mut Client, filter: &Value) -> Value {
    let raw = Json::new(&json!({ "notifications": filter })).expect("JSON");
    let options = RequestOptions::default();
    client
        .conn
        .request_raw(client.now, "subscriptions/listen", Some(&RawJson::from(&raw)), options)
        .expect("it is ready");
    let id = client.sent_one()["id"].clone();
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": filter, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    client.take_events();
    id
}

fn change(id: &Value, what: &str, uri: Option<&str>) -> Value {
    let mut params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}});
    if let Some(uri) = uri {
        params["uri"] = json!(uri);
    }
    json!({"jsonrpc": "2.0", "method": format!("notifications/{what}"), "params": params})
}

// req: M-CACHE-019 M-CACHE-030 M-SUBS-024
#[test]
fn change_notifications_invalidate_the_cache() {
    let mut client = Client::modern_client();
    let id = acknowledge(&mut client, &json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}));
    let reads = ["file:///a", "file:///a/b", "file:///c"].map(ReadResourceParams::new);
    let fill = |client: &mut Client| {
        let lists = is_sent(client, &tools(None));
        let prompts = is_sent(client, &ListPromptsParams::default());
        [lists, prompts, is_sent(client, &reads[0]), is_sent(client, &reads[1]), is_sent(client, &reads[2])]
    };
    assert_eq!(fill(&mut client), [true; 5]);
    assert_eq!(fill(&mut client), [false; 5]);
    let table = [
        (change(&id, "tools/list_changed", None), [true, false, false, false, false]),
        (change(&id, "resources/updated", Some("file:///a/b")), [false, false, true, true, false]),
        (change(&id, "prompts/list_changed", None), [false, true, false, false, false]),
        (json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), [true, false, false, false, false]),
    ];
    for (change, expected) in table {
        client.feed(&change);
        client.take_events();
        assert_eq!(fill(&mut client), expected, "{change}");
    }
}

/// The first acknowledgement invalidates entries once, since changes may have been missed.
#[test]
fn repeated_acknowledgements_keep_the_cache() {
    let mut client = Client::modern_client();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    let ended = acknowledge(&mut client, &filter);
    client.feed(&json!({"jsonrpc": "2.0", "id": ended, "result": {"resultType": "complete"}}));
    client.take_events();
    assert!(is_sent(&mut client, &tools(None)));
    assert!(is_sent(&mut client, &ReadResourceParams::new("file:///a/b")));
    assert!(is_sent(&mut client, &ReadResourceParams::new("file:///c")));
    let id = acknowledge(&mut client, &filter);
    assert!(is_sent(&mut client, &tools(None)), "it may have changed while nothing was heard");
    assert!(is_sent(&mut client, &ReadResourceParams::new("file:///a/b")));
    assert!(!is_sent(&mut client, &ReadResourceParams::new("file:///c")));
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": filter, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    client.take_events();
    assert!(!is_sent(&mut client, &tools(None)));
    assert!(!is_sent(&mut client, &ReadResourceParams::new("file:///a/b")));
}

// req: M-CACHE-019
#[test]
fn change_during_a_request_prevents_caching() {
    let mut client = Client::modern_client();
    let id = acknowledge(&mut client, &json!({"toolsListChanged": true}));
    let (_, sent) = send_request(&mut client, &tools(None));
    client.feed(&change(&id, "tools/list_changed", None));
    client.feed(&answer(&sent[0], good(60_000)));
    client.take_events();
    assert!(is_sent(&mut client, &tools(None)));
    assert!(!is_sent(&mut client, &tools(None)));
}

// req: M-CACHE-024
#[test]
fn refused_cursor_invalidates_its_list() {
    let mut client = Client::modern_client();
    for page in [None, Some("2")] {
        assert!(is_sent(&mut client, &tools(page)));
    }
    assert!(is_sent(&mut client, &ListPromptsParams::default()));
    let (_, sent) = send_request(&mut client, &tools(Some("3")));
    client.feed(&refuse(&sent[0], -32603, json!(null)));
    client.take_events();
    assert!(!is_sent(&mut client, &tools(None)), "any other error says nothing of the list");
    let (_, sent) = send_request(&mut client, &tools(Some("3")));
    client.feed(&refuse(&sent[0], -32602, json!(null)));
    client.take_events();
    for page in [None, Some("2")] {
        assert!(is_sent(&mut client, &tools(page)), "{page:?}");
    }
    assert!(!is_sent(&mut client, &ListPromptsParams::default()));
    // An error for one resource does not invalidate the others.
    assert!(is_sent(&mut client, &ReadResourceParams::new("a:b")));
    let (_, sent) = send_request(&mut client, &ReadResourceParams::new("a:c"));
    client.feed(&refuse(&sent[0], -32602, json!(null)));
    client.take_events();
    assert!(!is_sent(&mut client, &ReadResourceParams::new("a:b")));
}

// req: M-CACHE-017 M-CACHE-018
#[test]
fn private_entries_are_not_shared_between_principals() {
    let mut client = Client::modern_client();
    assert!(is_sent(&mut client, &tools(None)));
    client.conn.act_as(Some(Arc::from("ada")));
    assert!(is_sent(&mut client, &tools(None)));
    assert!(!is_sent(&mut client, &tools(None)));
    client.conn.act_as(Some(Arc::from("eve")));
    let (_, sent) = send_request(&mut client, &tools(None));
    let mut public = good(60_000);
    public["cacheScope"] = json!("public");
    client.feed(&answer(&sent[0], public));
    client.take_events();
    client.conn.act_as(Some(Arc::from("bob")));
    assert!(!is_sent(&mut client, &tools(None)));
    client.conn.clear_cache();
    assert!(is_sent(&mut client, &tools(None)));
}

// req: M-DUAL-028
#[test]
fn sessions_do_not_cache() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Client::ready_client(version);
        assert!(is_sent(&mut client, &tools(None)));
        assert!(is_sent(&mut client, &tools(None)));
        assert!(client.conn.cache().is_empty());
    }
}

#[test]
fn cache_size_is_bounded_and_can_be_zero() {
    let mut config = full_client_with(modern_only());
    config.settings.limits.cache_entries = 2;
    let mut client = Client::modern_client_with(config);
    for page in ["1", "2", "3"] {
        assert!(is_sent(&mut client, &tools(Some(page))));
    }
    assert_eq!(client.conn.cache().len(), 2);
    assert!(!is_sent(&mut client, &tools(Some("3"))));
    assert!(is_sent(&mut client, &tools(Some("1"))));

    for (entries, bytes) in [(0, 1 << 20), (100, 0)] {
        let mut config = full_client_with(modern_only());
        let limits = &mut config.settings.limits;
        (limits.cache_entries, limits.cache_bytes) = (entries, bytes);
        let mut client = Client::modern_client_with(config);
        assert!(is_sent(&mut client, &tools(None)));
        assert!(is_sent(&mut client, &tools(None)));
        assert_eq!((client.conn.cache().len(), client.conn.cache().bytes()), (0, 0));
    }
}

#[test]
fn cache_hits_work_with_a_full_outbox() {
    let mut config = full_client_with(modern_only());
    config.settings.limits.outbox_bytes = 500;
    let mut client = Client::modern_client_with(config);
    assert!(is_sent(&mut client, &tools(None)));
    while client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).is_ok() {}
    assert!(client.conn.request(client.now, &tools(None), RequestOptions::default()).is_ok());
    // A request that was not sent was not looked up either.
    let before = client.conn.stats();
    assert_eq!(client.conn.request(client.now, &tools(Some("x")), RequestOptions::default()), Err(SendError::Busy));
    assert_eq!(client.conn.stats(), before);
}

#[test]
fn uncached_calls_keep_no_cache_key() {
    // The cache key of a cacheable call counts as retained bytes.
    let kept = |entries: usize, send_request: fn(&mut Client)| {
        let mut config = full_client_with(modern_only());
        config.settings.limits.cache_entries = entries;
        let mut client = Client::modern_client_with(config);
        client.conn.act_as(Some("me".into()));
        send_request(&mut client);
        client.conn.usage().call_bytes
    };
    let list: fn(&mut Client) = |client| drop(send_request(client, &tools(Some("2"))));
    assert_eq!(kept(0, list), r#"{"cursor":"2"}"#.len());
    assert_eq!(kept(1, list), 2 * r#"{"cursor":"2"}"#.len() + "me".len());
    let call: fn(&mut Client) = |client| drop(send_request(client, &CallToolParams::new("t")));
    assert_eq!([kept(0, call), kept(1, call)], [r#"{"name":"t"}"#.len(); 2]);
}

/// A response to a request of another principal is not cached.
#[test]
fn switching_principal_prevents_caching_in_flight() {
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    for there_and_back in [false, true] {
        let mut client = Harness::modern_client();
        client.conn.act_as(Some(a.clone()));
        client
            .conn
            .request(client.now, &ListToolsParams::default(), RequestOptions::default())
            .expect("it may be sent");
        client.conn.act_as(Some(b.clone()));
        if there_and_back {
            client.conn.act_as(Some(a.clone()));
        }
        let request = client.sent_one();
        client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {
            "resultType": "complete", "tools": [], "ttlMs": 100_000, "cacheScope": "private"}}));
        client.take_events();
        for who in [&a, &b] {
            client.conn.act_as(Some(who.clone()));
            client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("a call");
            assert_eq!(client.sent().len(), 1, "{who} asks for itself");
        }
    }
    // Setting the same principal again has no effect.
    let mut client = Harness::modern_client();
    client.conn.act_as(Some(a.clone()));
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it may be sent");
    client.conn.act_as(Some(a));
    let request = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {
        "resultType": "complete", "tools": [], "ttlMs": 100_000, "cacheScope": "private"}}));
    client.take_events();
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("a call");
    assert_eq!(client.sent(), NOTHING);
}
