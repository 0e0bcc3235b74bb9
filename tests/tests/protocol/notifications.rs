//! Notifications: list changes, custom methods, and `_meta`.

use mcp_proto::{
    connection::{Event, RequestOptions, SendError, ServerRole},
    protocol::{Era, Method, MethodKind, MethodName, ProtocolVersion},
    rpc::ReplyKey,
    schema::{ClientCapabilities, RootsListChangedParams, ServerCapabilities, ToolsListChangedParams},
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_client, full_server},
    link::LinkConfig,
    message::{listen, modern, notification, notification_with, request_with, result},
    testbed::Testbed,
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];
const LISTS: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

#[test]
fn list_changes_are_coalesced() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Harness::ready_server(version);
        for _ in 0..3 {
            for change in 0..500 {
                server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
                server.conn.notify_raw(LISTS[change % LISTS.len()], None).expect("it was declared");
            }
            assert_eq!(server.sent(), LISTS.map(notification), "{version}");
            assert_eq!(server.sent(), NOTHING);
        }
        let mut client = Harness::ready_client(version);
        for _ in 0..500 {
            client.conn.notify(&RootsListChangedParams::default()).expect("it was declared");
        }
        assert_eq!(client.sent(), [notification("notifications/roots/list_changed")]);
    }
}

/// A peer that has a response can rely on what the request has changed.
#[test]
fn list_changes_precede_the_next_response() {
    for version in ProtocolVersion::LEGACY {
        for refused in [false, true] {
            let mut server = Harness::ready_server(version);
            let key = server.receive_request(&request_with(1, "tools/call", json!({"name": "add"})));
            for list in LISTS {
                server.conn.notify_raw(list, None).expect("it was declared");
            }
            respond(&mut server, key, refused);
            let sent = server.sent();
            assert_eq!(sent[..3], LISTS.map(notification), "{version}: {sent:?}");
            assert_eq!((sent.len(), &sent[3]["id"]), (4, &json!(1)), "{version}");
        }
        let mut client = Harness::ready_client(version);
        let key = client.receive_request(&request_with(1, "roots/list", json!({})));
        client.conn.notify(&RootsListChangedParams::default()).expect("it was declared");
        client.respond(key, &json!({"roots": []}));
        let sent = client.sent();
        assert_eq!(sent[0], notification("notifications/roots/list_changed"), "{version}: {sent:?}");
    }
}

#[test]
fn list_changes_precede_the_next_response_for_subscribers() {
    for refused in [false, true] {
        let mut server = Harness::modern_server();
        let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        server.feed(&listen("listening", filter));
        server.sent();
        let key = server.receive_request(&modern(1, "tools/call", json!({"name": "add", "arguments": {}})));
        for list in LISTS {
            server.conn.notify_raw(list, None).expect("it is subscribed to");
        }
        respond(&mut server, key, refused);
        let sent = server.sent();
        let methods: Vec<_> = sent.iter().filter_map(|message| message["method"].as_str()).collect();
        assert_eq!((methods.as_slice(), sent.len()), (LISTS.as_slice(), 4), "{sent:?}");
        assert_eq!(sent[3]["id"], json!(1));
    }
}

/// A response that is refused changes nothing.
#[test]
fn refused_responses_send_no_list_changes() {
    let mut config = full_server();
    config.settings.limits.frame_bytes = 1000;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let key = server.receive_request(&request_with(1, "tools/call", json!({"name": "add"})));
    server.conn.notify_raw(LISTS[0], None).expect("it was declared");
    let before = server.conn.usage();
    let large = Json::new(&json!({"content": [], "_meta": {"a/b": "x".repeat(1000)}})).expect("JSON");
    assert_eq!(server.conn.respond_raw(key, &(&large).into()), Err(SendError::TooLarge));
    assert_eq!(server.conn.usage(), before);
    server.respond(key, &json!({"content": []}));
    let sent = server.sent();
    assert_eq!((&sent[0], &sent[1]["id"]), (&notification(LISTS[0]), &json!(1)));
}

fn respond(server: &mut Harness<ServerRole>, key: ReplyKey, refused: bool) {
    if refused {
        server.conn.respond_error(key, &ErrorObject::internal("refused")).expect("it is open");
    } else {
        server.respond(key, &json!({"content": []}));
    }
}

#[test]
fn undeclared_list_changes_are_not_sent() {
    let mut config = full_server();
    let quiet = json!({"tools": {}, "prompts": {"listChanged": false}, "resources": {"subscribe": true}});
    config.capabilities = serde_json::from_value::<ServerCapabilities>(quiet).expect("capabilities");
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_06_18);
    for list in LISTS {
        assert!(matches!(server.conn.notify_raw(list, None), Err(SendError::Undeclared(_))), "{list}");
    }
    assert_eq!(server.sent(), NOTHING);
    let mut config = full_client();
    config.capabilities = serde_json::from_value::<ClientCapabilities>(json!({"roots": {}})).expect("capabilities");
    let mut client = Harness::ready_client_with(config, ProtocolVersion::V2025_06_18);
    assert!(matches!(client.conn.notify(&RootsListChangedParams::default()), Err(SendError::Undeclared(_))));
    assert_eq!(client.sent(), NOTHING);
}

#[test]
fn list_changes_coalesce_for_slow_readers() {
    let mut testbed = Testbed::ready_over(LinkConfig::one_byte());
    testbed.down.stalled = true;
    for _ in 0..100_000 {
        testbed.server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
        testbed.run();
    }
    assert!(testbed.server.log.len() < 3000, "the driver's buffer has filled up, and nothing else has");
    assert!(testbed.server.conn.usage().outbox_bytes < 100);
    testbed.down.stalled = false;
    testbed.settle();
    let heard = testbed.client.take_events();
    assert_eq!(heard.len(), testbed.server.log.len());
    testbed.assert_idle();
}

#[test]
fn disconnect_discards_pending_list_changes() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
    server.conn.handle_disconnect();
    server.take_events();
    assert_eq!(server.sent(), NOTHING);
    assert!(server.conn.is_drained());
}

/// Returns methods that no revision has, with unusual params.
fn strange() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("$/progress", Some(json!({"token": 1, "value": {"kind": "begin"}}))),
        ("$/cancelRequest", Some(json!({"id": 1}))),
        ("window/logMessage", Some(json!({"type": 3, "message": "m"}))),
        ("notifications/unheard/of", None),
        ("notifications/cancelled ", Some(json!({"requestId": 1}))),
        ("Notifications/Progress", Some(json!({"progressToken": 1}))),
        ("vendor/ünïcode \"quoted\"\n", Some(json!({"": null}))),
        ("rpc.discover", None),
        ("", Some(json!({}))),
    ]
}

#[test]
fn unknown_notifications_are_delivered_unchanged() {
    fn check<E>(mut harness: Harness<E>) {
        for (method, params) in strange() {
            harness.feed(&match &params {
                Some(params) => notification_with(method, params.clone()),
                None => notification(method),
            });
            let events = harness.take_events();
            let [Event::Notification { method: told, params: handed, .. }] = &events[..] else { panic!("{events:?}") };
            assert_eq!(*told, MethodName::Custom(method.into()));
            assert_eq!(handed.as_ref().map(|handed| handed.decode().expect("it is JSON")), params);
        }
        assert_eq!(harness.sent(), NOTHING);
        assert_eq!(harness.conn.stats().violations, 0);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
    // They may arrive before the handshake, too.
    check(Harness::server(full_server()));
}

#[test]
fn custom_methods_work_in_every_revision() {
    fn check<E>(mut harness: Harness<E>) {
        for (method, params) in strange() {
            let raw = params.as_ref().map(|params| Json::new(params).expect("it is JSON"));
            let raw = raw.as_ref().map(RawJson::from);
            let options = RequestOptions { progress: false, ..RequestOptions::default() };
            let call = harness.conn.request_raw(harness.now, method, raw.as_ref(), options).expect("anyone may");
            harness.conn.notify_raw(method, raw.as_ref()).expect("anyone may");
            let mut sent = harness.sent();
            sent.sort_by_key(|message| message.get("id").is_none());
            assert!(sent.iter().all(|message| message["method"] == method));
            assert!(sent.iter().all(|message| message.get("params") == params.as_ref()), "{sent:?}");
            assert_eq!((&sent[0]["id"], sent.len()), (&json!(call.as_u64()), 2));
            harness.feed(&result(call.as_u64(), json!({"ok": true})));
            harness.take_events();

            let key = harness.receive_request(&request_with("q", method, params.clone().unwrap_or(json!(null))));
            let unknown = ErrorObject::method_not_found(method);
            harness.conn.respond_error(key, &unknown).expect("an answer is owed");
            let sent = harness.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!("q"), &json!(-32601)));
        }
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

#[test]
fn methods_are_sent_only_as_their_own_kind() {
    fn check<E>(mut harness: Harness<E>) {
        for method in Method::ALL.iter().map(|method| method.in_era(Era::Legacy)) {
            let outcome = match method.kind() {
                MethodKind::Request => harness.conn.notify_raw(method.as_str(), None),
                MethodKind::Notification => {
                    harness.conn.request_raw(harness.now, method.as_str(), None, RequestOptions::default()).map(|_| ())
                }
            };
            assert_eq!(outcome, Err(SendError::WrongKind(method)));
        }
        // These belong to a request or to the handshake, and have functions of their own.
        for method in [Method::Cancelled, Method::Progress, Method::Initialized] {
            let outcome = harness.conn.notify_raw(method.as_str(), None);
            assert!(matches!(outcome, Err(SendError::WrongKind(_) | SendError::WrongDirection(_))), "{outcome:?}");
        }
        let again = harness.conn.request_raw(harness.now, "initialize", None, RequestOptions::default());
        assert_eq!(again, Err(SendError::WrongKind(Method::Initialize)));
        assert_eq!(harness.sent(), NOTHING);
    }
    for version in ProtocolVersion::LEGACY {
        check(Harness::ready_client(version));
        check(Harness::ready_server(version));
    }
}

#[test]
fn output_keeps_its_order() {
    let mut server = Harness::ready_server(ProtocolVersion::V2025_06_18);
    let keys = [1, 2].map(|id| server.receive_request(&request_with(id, "vendor/a", json!({}))));
    server.conn.notify_raw("vendor/b", None).expect("it is ready");
    server.respond(keys[1], &json!({}));
    server.conn.notify_raw("vendor/c", None).expect("it is ready");
    server.respond(keys[0], &json!({}));
    let expected = [notification("vendor/b"), result(2, json!({})), notification("vendor/c"), result(1, json!({}))];
    assert_eq!(server.sent(), expected);
}

// req: BASE-018 META-001 META-004
#[test]
fn unknown_meta_is_passed_through() {
    let meta = json!({"": 1, "vendor.example/x": {"deep": [1]}, "io.modelcontextprotocol/unheard-of": true,
        "io.modelcontextprotocol/protocolVersion": "1999-01-01", "io.modelcontextprotocol/logLevel": 7,
        "mcp.dev/x": null, "not a key": 2});
    for version in ProtocolVersion::LEGACY {
        let mut client = Harness::ready_client(version);
        let params = json!({"_meta": meta, "level": "info", "data": "x"});
        client.feed(&notification_with("notifications/message", params.clone()));
        client.feed(&request_with(1, "roots/list", params.clone()));
        let call = client.call("tools/list");
        client.feed(&result(call.as_u64(), json!({"_meta": meta, "tools": [], "unknown": 1})));
        let events = client.take_events();
        let [
            Event::Notification { params: Some(notified), .. },
            Event::Request { key, params: Some(requested), .. },
            Event::Response { outcome: mcp_proto::connection::Outcome::Result(answered), .. },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        let value = |raw: &RawJson<'_>| raw.decode::<Value>().expect("it is JSON");
        assert_eq!((value(notified), value(requested)), (params.clone(), params));
        assert_eq!(value(answered)["_meta"], meta);
        client.respond(*key, &json!({"_meta": meta, "roots": []}));
        assert_eq!(client.sent(), [result(1, json!({"_meta": meta, "roots": []}))]);
        assert_eq!(client.conn.version(), Some(version));
    }
}
