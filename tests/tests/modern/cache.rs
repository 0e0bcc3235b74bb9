//! The cache of a client: what is asked again, and what is not. What the cache itself keeps is tested where it is.

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
    modern::{answer, modern_only, refuse, speaking},
    solo::Solo,
};
use serde_json::{Value, json};

type Client = Solo<ClientRole>;

const NOTHING: [Value; 0] = [];

fn ask_with<R: Request>(client: &mut Client, params: &R, options: RequestOptions) -> CallId {
    client.conn.request(client.now, params, options).expect("it is ready")
}

/// Asks, and hands out what goes over the wire.
fn ask<R: Request>(client: &mut Client, params: &R) -> (CallId, Vec<Value>) {
    let call = ask_with(client, params, RequestOptions::default());
    (call, client.sent())
}

/// Whether asking goes over the wire. If so it is answered, with something that is good for a minute.
fn is_asked<R: Request>(client: &mut Client, params: &R) -> bool {
    let (call, sent) = ask(client, params);
    let asked = !sent.is_empty();
    if asked {
        client.feed(&answer(&sent[0], good(60_000)));
    }
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { call: ended, outcome: Outcome::Result(_) }] if *ended == call),
        "{events:?}"
    );
    asked
}

fn good(ttl: u64) -> Value {
    json!({"resultType": "complete", "tools": [], "ttlMs": ttl, "cacheScope": "private"})
}

fn tools(cursor: Option<&str>) -> ListToolsParams {
    ListToolsParams { cursor: cursor.map(Into::into), ..ListToolsParams::default() }
}

// req: M-CACHE-006 M-CACHE-009 M-CACHE-012 M-CACHE-013 M-CACHE-020 M-CACHE-022
#[test]
fn what_is_good_is_not_asked_again_and_what_is_stale_is_at_its_next_use() {
    let mut client = Client::modern_client();
    assert!(is_asked(&mut client, &tools(None)));
    assert!(!is_asked(&mut client, &tools(None)));
    client.advance(Duration::from_secs(30));
    // A page has its own time, and its own place.
    assert!(is_asked(&mut client, &tools(Some("2"))));
    client.advance(Duration::from_millis(29_999));
    assert!(!is_asked(&mut client, &tools(None)));
    client.advance(Duration::from_millis(1));
    assert_eq!(client.sent(), NOTHING, "nothing is fetched because it is stale");
    assert!(!is_asked(&mut client, &tools(Some("2"))));
    assert!(is_asked(&mut client, &tools(None)));
    let stats = client.conn.stats();
    assert_eq!((stats.cache_hits, stats.cache_misses), (3, 3));
    assert_eq!(client.conn.usage(), ResourceUsage::default());
}

// req: M-CACHE-009
#[test]
fn what_counts_is_the_time_in_which_it_is_asked() {
    let mut client = Client::modern_client();
    assert!(is_asked(&mut client, &tools(None)));
    // Nothing has come in meanwhile, and no deadline has passed.
    client.now = client.now + Duration::from_secs(60);
    assert!(is_asked(&mut client, &tools(None)));
}

#[test]
fn an_answer_that_is_used_again_is_the_same_and_ends_its_own_call() {
    let mut client = Client::modern_client();
    let (first, sent) = ask(&mut client, &tools(None));
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
    let (second, sent) = ask(&mut client, &tools(None));
    assert_eq!(sent, NOTHING);
    assert_ne!(first, second);
    // The two can be told apart before and behind the event.
    assert_eq!([first, second].map(CallId::is_cached), [false, true]);
    assert!(!client.conn.is_in_flight(second), "it has ended");
    // It is over already: there is nothing to cancel, and nothing to answer.
    assert_eq!(client.conn.cancel(second, None), Err(SendError::UnknownCall));
    assert_eq!(outcome(&mut client), (second, text));
    // It was never on the wire: an answer under that number is one to no request.
    client.feed(&json!({"jsonrpc": "2.0", "id": second.as_u64(), "result": {}}));
    assert!(matches!(client.take_events()[..], [Event::Violation(Violation::UnknownResponse(_))]));
    let (third, sent) = ask(&mut client, &tools(Some("x")));
    assert_eq!(sent[0]["id"], third.as_u64());
}

// req: M-CACHE-028
#[test]
fn only_lists_resources_and_the_server_itself_are_kept() {
    let mut client = Client::modern_client();
    fn twice<R: Request>(client: &mut Client, params: &R) -> bool {
        is_asked(client, params);
        is_asked(client, params)
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
    // By name it is the same question.
    let raw = Json::parse(r#"{"uri":"a:b"}"#).expect("JSON");
    let options = RequestOptions::default();
    client.conn.request_raw(client.now, "resources/read", Some(&RawJson::from(&raw)), options).expect("it is ready");
    assert_eq!(client.sent(), NOTHING);
}

// req: M-CACHE-009
#[test]
fn what_the_server_has_said_of_itself_is_kept_too() {
    let mut client = Solo::client(speaking(VersionSet::ALL));
    let probe = client.sent_one();
    let mut found = mcp_tests::modern::discovered(&probe["id"], &["2026-07-28"]);
    found["result"]["ttlMs"] = json!(60_000);
    client.feed(&found);
    client.take_events();
    assert!(!is_asked(&mut client, &DiscoverParams::default()));
    client.advance(Duration::from_secs(60));
    assert!(is_asked(&mut client, &DiscoverParams::default()));
}

// req: M-CACHE-015 M-CACHE-023
#[test]
fn whoever_wants_it_fresh_asks_and_brings_it_for_the_others() {
    let mut client = Client::modern_client();
    assert!(is_asked(&mut client, &tools(None)));
    let options = RequestOptions { bypass_cache: true, ..RequestOptions::default() };
    ask_with(&mut client, &tools(None), options.clone());
    let request = client.sent_one();
    let mut newer = good(60_000);
    newer["tools"] = json!([{"name": "new", "inputSchema": {"type": "object"}}]);
    client.feed(&answer(&request, newer));
    client.take_events();
    ask(&mut client, &tools(None));
    let events = client.take_events();
    assert!(
        matches!(&events[..], [Event::Response { outcome: Outcome::Result(result), .. }] if result.get().contains("new")),
        "{events:?}"
    );
    // What is not good for any time takes the old one's place as well.
    ask_with(&mut client, &tools(None), options);
    let request = client.sent_one();
    client.feed(&answer(&request, good(0)));
    client.take_events();
    assert!(is_asked(&mut client, &tools(None)));
}

// req: M-CACHE-005 M-CACHE-007
#[test]
fn what_has_come_of_questions_is_nobody_elses() {
    for asks in [json!({"requestState": "s"}), json!({"inputRequests": {"r": {"method": "roots/list"}}})] {
        let mut client = Client::modern_client();
        let (_, sent) = ask(&mut client, &ReadResourceParams::new("a:b"));
        let mut question = good(60_000);
        question["resultType"] = json!("input_required");
        question.as_object_mut().expect("an object").extend(asks.as_object().expect("an object").clone());
        client.feed(&answer(&sent[0], question));
        if let [Event::Request { key, .. }] = client.take_events()[..] {
            client.conn.respond_raw(key, &(&Json::parse("{\"roots\":[]}").expect("JSON")).into()).expect("it is owed");
        }
        let again = client.sent_one();
        client.feed(&answer(&again, good(60_000)));
        client.take_events();
        assert!(is_asked(&mut client, &ReadResourceParams::new("a:b")), "{asks}");
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
fn a_change_that_was_told_is_looked_at() {
    let mut client = Client::modern_client();
    let id = acknowledge(&mut client, &json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]}));
    let reads = ["file:///a", "file:///a/b", "file:///c"].map(ReadResourceParams::new);
    let fill = |client: &mut Client| {
        let lists = is_asked(client, &tools(None));
        let prompts = is_asked(client, &ListPromptsParams::default());
        [lists, prompts, is_asked(client, &reads[0]), is_asked(client, &reads[1]), is_asked(client, &reads[2])]
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

/// What was missed before the first acknowledgement is looked at once.
#[test]
fn an_acknowledgement_that_comes_again_changes_nothing() {
    let mut client = Client::modern_client();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    let ended = acknowledge(&mut client, &filter);
    client.feed(&json!({"jsonrpc": "2.0", "id": ended, "result": {"resultType": "complete"}}));
    client.take_events();
    assert!(is_asked(&mut client, &tools(None)));
    assert!(is_asked(&mut client, &ReadResourceParams::new("file:///a/b")));
    assert!(is_asked(&mut client, &ReadResourceParams::new("file:///c")));
    let id = acknowledge(&mut client, &filter);
    assert!(is_asked(&mut client, &tools(None)), "it may have changed while nothing was heard");
    assert!(is_asked(&mut client, &ReadResourceParams::new("file:///a/b")));
    assert!(!is_asked(&mut client, &ReadResourceParams::new("file:///c")));
    client.feed(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": filter, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    client.take_events();
    assert!(!is_asked(&mut client, &tools(None)));
    assert!(!is_asked(&mut client, &ReadResourceParams::new("file:///a/b")));
}

// req: M-CACHE-019
#[test]
fn a_change_between_question_and_answer_counts() {
    let mut client = Client::modern_client();
    let id = acknowledge(&mut client, &json!({"toolsListChanged": true}));
    let (_, sent) = ask(&mut client, &tools(None));
    client.feed(&change(&id, "tools/list_changed", None));
    client.feed(&answer(&sent[0], good(60_000)));
    client.take_events();
    assert!(is_asked(&mut client, &tools(None)));
    assert!(!is_asked(&mut client, &tools(None)));
}

// req: M-CACHE-024
#[test]
fn a_cursor_that_is_refused_takes_its_whole_list_with_it() {
    let mut client = Client::modern_client();
    for page in [None, Some("2")] {
        assert!(is_asked(&mut client, &tools(page)));
    }
    assert!(is_asked(&mut client, &ListPromptsParams::default()));
    let (_, sent) = ask(&mut client, &tools(Some("3")));
    client.feed(&refuse(&sent[0], -32603, json!(null)));
    client.take_events();
    assert!(!is_asked(&mut client, &tools(None)), "any other error says nothing of the list");
    let (_, sent) = ask(&mut client, &tools(Some("3")));
    client.feed(&refuse(&sent[0], -32602, json!(null)));
    client.take_events();
    for page in [None, Some("2")] {
        assert!(is_asked(&mut client, &tools(page)), "{page:?}");
    }
    assert!(!is_asked(&mut client, &ListPromptsParams::default()));
    // What is not there says nothing of what is.
    assert!(is_asked(&mut client, &ReadResourceParams::new("a:b")));
    let (_, sent) = ask(&mut client, &ReadResourceParams::new("a:c"));
    client.feed(&refuse(&sent[0], -32602, json!(null)));
    client.take_events();
    assert!(!is_asked(&mut client, &ReadResourceParams::new("a:b")));
}

// req: M-CACHE-017 M-CACHE-018
#[test]
fn what_is_private_is_not_used_for_another() {
    let mut client = Client::modern_client();
    assert!(is_asked(&mut client, &tools(None)));
    client.conn.act_as(Some(Arc::from("ada")));
    assert!(is_asked(&mut client, &tools(None)));
    assert!(!is_asked(&mut client, &tools(None)));
    client.conn.act_as(Some(Arc::from("eve")));
    let (_, sent) = ask(&mut client, &tools(None));
    let mut public = good(60_000);
    public["cacheScope"] = json!("public");
    client.feed(&answer(&sent[0], public));
    client.take_events();
    client.conn.act_as(Some(Arc::from("bob")));
    assert!(!is_asked(&mut client, &tools(None)));
    client.conn.clear_cache();
    assert!(is_asked(&mut client, &tools(None)));
}

// req: M-DUAL-028
#[test]
fn a_session_keeps_nothing() {
    for version in ProtocolVersion::LEGACY {
        let mut client = Client::ready_client(version);
        assert!(is_asked(&mut client, &tools(None)));
        assert!(is_asked(&mut client, &tools(None)));
        assert!(client.conn.cache().is_empty());
    }
}

#[test]
fn what_is_kept_is_bounded_and_can_be_nothing() {
    let mut config = speaking(modern_only());
    config.settings.limits.cache_entries = 2;
    let mut client = Client::modern_client_with(config);
    for page in ["1", "2", "3"] {
        assert!(is_asked(&mut client, &tools(Some(page))));
    }
    assert_eq!(client.conn.cache().len(), 2);
    assert!(!is_asked(&mut client, &tools(Some("3"))));
    assert!(is_asked(&mut client, &tools(Some("1"))));

    for (entries, bytes) in [(0, 1 << 20), (100, 0)] {
        let mut config = speaking(modern_only());
        let limits = &mut config.settings.limits;
        (limits.cache_entries, limits.cache_bytes) = (entries, bytes);
        let mut client = Client::modern_client_with(config);
        assert!(is_asked(&mut client, &tools(None)));
        assert!(is_asked(&mut client, &tools(None)));
        assert_eq!((client.conn.cache().len(), client.conn.cache().bytes()), (0, 0));
    }
}

#[test]
fn a_full_outbox_keeps_nobody_from_what_is_known() {
    let mut config = speaking(modern_only());
    config.settings.limits.outbox_bytes = 500;
    let mut client = Client::modern_client_with(config);
    assert!(is_asked(&mut client, &tools(None)));
    while client.conn.request(client.now, &CallToolParams::new("t"), RequestOptions::default()).is_ok() {}
    assert!(client.conn.request(client.now, &tools(None), RequestOptions::default()).is_ok());
    // What was not asked was not looked for either.
    let before = client.conn.stats();
    assert_eq!(client.conn.request(client.now, &tools(Some("x")), RequestOptions::default()), Err(SendError::Busy));
    assert_eq!(client.conn.stats(), before);
}

#[test]
fn a_call_that_nothing_remembers_is_not_kept_for_that() {
    // The key of what may be used again is part of what is kept of a call.
    let kept = |entries: usize, ask: fn(&mut Client)| {
        let mut config = speaking(modern_only());
        config.settings.limits.cache_entries = entries;
        let mut client = Client::modern_client_with(config);
        ask(&mut client);
        client.conn.usage().call_bytes
    };
    let list: fn(&mut Client) = |client| drop(ask(client, &tools(Some("2"))));
    assert_eq!(kept(0, list), r#"{"cursor":"2"}"#.len());
    assert!(kept(1, list) > kept(0, list));
    let call: fn(&mut Client) = |client| drop(ask(client, &CallToolParams::new("t")));
    assert_eq!([kept(0, call), kept(1, call)], [r#"{"name":"t"}"#.len(); 2]);
}

/// What was asked as one and answered to another belongs to neither.
#[test]
fn what_is_under_way_while_the_client_becomes_somebody_else_is_not_kept() {
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    for there_and_back in [false, true] {
        let mut client = Solo::modern_client();
        client.conn.act_as(Some(a.clone()));
        client
            .conn
            .request(client.now, &ListToolsParams::default(), RequestOptions::default())
            .expect("it may be asked");
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
    // To become who one is changes nothing.
    let mut client = Solo::modern_client();
    client.conn.act_as(Some(a.clone()));
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("it may be asked");
    client.conn.act_as(Some(a));
    let request = client.sent_one();
    client.feed(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {
        "resultType": "complete", "tools": [], "ttlMs": 100_000, "cacheScope": "private"}}));
    client.take_events();
    client.conn.request(client.now, &ListToolsParams::default(), RequestOptions::default()).expect("a call");
    assert_eq!(client.sent(), NOTHING);
}
