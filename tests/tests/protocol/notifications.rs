//! Notifications: lists that change, custom methods, and what is carried along.

use mcp_proto::{
    connection::{Event, RequestOptions, SendError},
    protocol::{Era, Method, MethodKind, MethodName, ProtocolVersion},
    schema::{ClientCapabilities, RootsListChangedParams, ServerCapabilities, ToolsListChangedParams},
    wire::{Json, RawJson},
};
use mcp_tests::{
    bed::Bed,
    link::LinkConfig,
    message::{notification, notification_with, request_with, result},
    solo::{Solo, full_client, full_server},
};
use serde_json::{Value, json};

const NOTHING: [Value; 0] = [];
const LISTS: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

#[test]
fn five_hundred_changes_of_a_list_are_one_notification() {
    for version in ProtocolVersion::LEGACY {
        let mut server = Solo::ready_server(version);
        for _ in 0..3 {
            for change in 0..500 {
                server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
                server.conn.notify_raw(LISTS[change % LISTS.len()], None).expect("it was declared");
            }
            assert_eq!(server.sent(), LISTS.map(notification), "{version}");
            assert_eq!(server.sent(), NOTHING);
        }
        let mut client = Solo::ready_client(version);
        for _ in 0..500 {
            client.conn.notify(&RootsListChangedParams::default()).expect("it was declared");
        }
        assert_eq!(client.sent(), [notification("notifications/roots/list_changed")]);
    }
}

#[test]
fn a_list_that_nobody_declared_to_change_is_not_announced() {
    let mut config = full_server();
    let quiet = json!({"tools": {}, "prompts": {"listChanged": false}, "resources": {"subscribe": true}});
    config.capabilities = serde_json::from_value::<ServerCapabilities>(quiet).expect("capabilities");
    let mut server = Solo::ready_server_with(config, ProtocolVersion::V2025_06_18);
    for list in LISTS {
        assert!(matches!(server.conn.notify_raw(list, None), Err(SendError::Undeclared(_))), "{list}");
    }
    assert_eq!(server.sent(), NOTHING);
    let mut config = full_client();
    config.capabilities = serde_json::from_value::<ClientCapabilities>(json!({"roots": {}})).expect("capabilities");
    let mut client = Solo::ready_client_with(config, ProtocolVersion::V2025_06_18);
    assert!(matches!(client.conn.notify(&RootsListChangedParams::default()), Err(SendError::Undeclared(_))));
    assert_eq!(client.sent(), NOTHING);
}

#[test]
fn a_peer_that_reads_slowly_hears_of_a_changing_list_once_for_each_time_it_reads() {
    let mut bed = Bed::ready_over(LinkConfig::one_byte());
    bed.down.stalled = true;
    for _ in 0..100_000 {
        bed.server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
        bed.run();
    }
    assert!(bed.server.log.len() < 3000, "the driver's buffer has filled up, and nothing else has");
    assert!(bed.server.conn.usage().outbox_bytes < 100);
    bed.down.stalled = false;
    bed.settle();
    let heard = bed.client.take_events();
    assert_eq!(heard.len(), bed.server.log.len());
    bed.assert_at_rest();
}

#[test]
fn a_change_is_forgotten_with_the_connection() {
    let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
    server.conn.notify(&ToolsListChangedParams::default()).expect("it was declared");
    server.conn.handle_disconnect();
    server.take_events();
    assert_eq!(server.sent(), NOTHING);
    assert!(server.conn.is_drained());
}

/// Methods that no revision has, with params that no method has.
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
fn notifications_that_nobody_knows_are_handed_on_as_they_came() {
    fn check<E>(mut solo: Solo<E>) {
        for (method, params) in strange() {
            solo.feed(&match &params {
                Some(params) => notification_with(method, params.clone()),
                None => notification(method),
            });
            let events = solo.take_events();
            let [Event::Notification { method: told, params: handed }] = &events[..] else { panic!("{events:?}") };
            assert_eq!(*told, MethodName::Custom(method.into()));
            assert_eq!(handed.as_ref().map(|handed| handed.decode().expect("it is JSON")), params);
        }
        assert_eq!(solo.sent(), NOTHING);
        assert_eq!(solo.conn.stats().violations, 0);
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
    // They may come before the handshake, too.
    check(Solo::server(full_server()));
}

#[test]
fn methods_of_somebodys_own_go_both_ways_in_every_revision() {
    fn check<E>(mut solo: Solo<E>) {
        for (method, params) in strange() {
            let raw = params.as_ref().map(|params| Json::new(params).expect("it is JSON"));
            let raw = raw.as_ref().map(RawJson::from);
            let options = RequestOptions { progress: false, ..RequestOptions::default() };
            let call = solo.conn.request_raw(solo.now, method, raw.as_ref(), options).expect("anyone may");
            solo.conn.notify_raw(method, raw.as_ref()).expect("anyone may");
            let mut sent = solo.sent();
            sent.sort_by_key(|message| message.get("id").is_none());
            assert!(sent.iter().all(|message| message["method"] == method));
            assert!(sent.iter().all(|message| message.get("params") == params.as_ref()), "{sent:?}");
            assert_eq!((&sent[0]["id"], sent.len()), (&json!(call.as_u64()), 2));
            solo.feed(&result(call.as_u64(), json!({"ok": true})));
            solo.take_events();

            let key = solo.ask(&request_with("q", method, params.clone().unwrap_or(json!(null))));
            let unknown = mcp_proto::wire::ErrorObject::method_not_found(method);
            solo.conn.respond_error(key, &unknown).expect("an answer is owed");
            let sent = solo.sent();
            assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!("q"), &json!(-32601)));
        }
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
}

#[test]
fn a_method_is_sent_as_its_own_kind_or_not_at_all() {
    fn check<E>(mut solo: Solo<E>) {
        for method in Method::ALL.iter().map(|method| method.in_era(Era::Legacy)) {
            let outcome = match method.kind() {
                MethodKind::Request => solo.conn.notify_raw(method.as_str(), None),
                MethodKind::Notification => {
                    solo.conn.request_raw(solo.now, method.as_str(), None, RequestOptions::default()).map(|_| ())
                }
            };
            assert_eq!(outcome, Err(SendError::WrongKind(method)));
        }
        // These belong to a request or to the handshake, and have verbs of their own.
        for method in [Method::Cancelled, Method::Progress, Method::Initialized] {
            let outcome = solo.conn.notify_raw(method.as_str(), None);
            assert!(matches!(outcome, Err(SendError::WrongKind(_) | SendError::WrongDirection(_))), "{outcome:?}");
        }
        let again = solo.conn.request_raw(solo.now, "initialize", None, RequestOptions::default());
        assert_eq!(again, Err(SendError::WrongKind(Method::Initialize)));
        assert_eq!(solo.sent(), NOTHING);
    }
    for version in ProtocolVersion::LEGACY {
        check(Solo::ready_client(version));
        check(Solo::ready_server(version));
    }
}

#[test]
fn notifications_and_answers_leave_in_the_order_in_which_they_were_said() {
    let mut server = Solo::ready_server(ProtocolVersion::V2025_06_18);
    let keys = [1, 2].map(|id| server.ask(&request_with(id, "vendor/a", json!({}))));
    server.conn.notify_raw("vendor/b", None).expect("it is ready");
    server.answer(keys[1], &json!({}));
    server.conn.notify_raw("vendor/c", None).expect("it is ready");
    server.answer(keys[0], &json!({}));
    let expected = [notification("vendor/b"), result(2, json!({})), notification("vendor/c"), result(1, json!({}))];
    assert_eq!(server.sent(), expected);
}

// req: BASE-018 META-001 META-004
#[test]
fn what_is_in_meta_is_carried_along_and_means_nothing_else() {
    let meta = json!({"": 1, "vendor.example/x": {"deep": [1]}, "io.modelcontextprotocol/unheard-of": true,
        "io.modelcontextprotocol/protocolVersion": "1999-01-01", "io.modelcontextprotocol/logLevel": 7,
        "mcp.dev/x": null, "not a key": 2});
    for version in ProtocolVersion::LEGACY {
        let mut client = Solo::ready_client(version);
        let params = json!({"_meta": meta, "level": "info", "data": "x"});
        client.feed(&notification_with("notifications/message", params.clone()));
        client.feed(&request_with(1, "roots/list", params.clone()));
        let call = client.call("tools/list");
        client.feed(&result(call.as_u64(), json!({"_meta": meta, "tools": [], "unknown": 1})));
        let events = client.take_events();
        let [
            Event::Notification { params: Some(notified), .. },
            Event::Request { key, params: Some(asked), .. },
            Event::Response { outcome: mcp_proto::connection::Outcome::Result(answered), .. },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        let value = |raw: &RawJson<'_>| raw.decode::<Value>().expect("it is JSON");
        assert_eq!((value(notified), value(asked)), (params.clone(), params));
        assert_eq!(value(answered)["_meta"], meta);
        client.answer(*key, &json!({"_meta": meta, "roots": []}));
        assert_eq!(client.sent(), [result(1, json!({"_meta": meta, "roots": []}))]);
        assert_eq!(client.conn.version(), Some(version));
    }
}
