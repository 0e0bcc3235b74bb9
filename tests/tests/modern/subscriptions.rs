//! Subscriptions of 2026-07-28 on a server whose client does not read, or reads more slowly than notifications arise.

use mcp_proto::{
    connection::{CloseReason, Event, ResourceUsage, SendError, ServerRole},
    protocol::VersionSet,
    rpc::ReplyKey,
    schema::{PromptsListChangedParams, ResourceUpdatedParams, ToolsListChangedParams},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, listen, modern, notification, request_with, subscription_of},
};
use serde_json::{Value, json};

/// Returns a server with a small outbox.
fn small() -> Harness<ServerRole> {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    let limits = &mut config.settings.limits;
    (limits.outbox_bytes, limits.control_bytes, limits.subscriptions) = (4000, 2000, 8);
    Harness::server(config)
}

/// Queues responses until the outbox is full.
fn fill(server: &mut Harness<ServerRole>) {
    for id in 0.. {
        let key = server.receive_request(&modern(id, "tools/list", json!({})));
        let pad = mcp_proto::wire::Json::new(&json!({"tools": [], "pad": "x".repeat(100)})).expect("JSON");
        match server.conn.respond_raw(key, &(&pad).into()) {
            Ok(()) => {}
            Err(SendError::Busy) => {
                server.feed(&cancelled(id));
                server.take_events();
                return server.respond(key, &json!({}));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

// req: M-SUBS-017
#[test]
fn subscriptions_end_even_with_a_full_outbox() {
    for close in [true, false] {
        let mut server = small();
        for id in ["a", "b"] {
            server.feed(&listen(id, json!({"toolsListChanged": true})));
        }
        server.sent();
        fill(&mut server);
        if close {
            server.conn.close(server.now);
        } else {
            server.conn.handle_eof(server.now);
        }
        // No other response is open, and the application does not receive the subscriptions.
        let events = server.take_events();
        assert!(matches!(events[..], [Event::Closed(CloseReason::Local | CloseReason::Eof)]), "{events:?}");
        let sent = server.sent();
        let ended: Vec<_> = sent.iter().filter(|it| it["result"]["_meta"].get(SUBSCRIPTION).is_some()).collect();
        assert_eq!(ended.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(sent.last().map(|it| &it["params"]["requestId"]), Some(&json!("b")));
        assert!(server.conn.is_drained());
        assert_eq!(server.conn.usage(), ResourceUsage::default());
    }
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[test]
fn unread_acknowledgements_close_the_connection() {
    let mut server = small();
    let uris: Vec<String> = (0..100).map(|n| format!("mem://a/long/name/of/a/resource/{n}")).collect();
    let mut most = 0;
    for id in 0..8 {
        server.feed(&listen(id, json!({"resourceSubscriptions": uris})));
        most = most.max(server.conn.usage().outbox_bytes);
    }
    assert_eq!(server.take_events(), [Event::Closed(CloseReason::PeerNotReading)]);
    // The limit, and one message above it.
    assert!(most < 6000 + 6000, "{most}");
    server.sent();
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

// req: M-SUBS-013
#[test]
fn list_changes_wait_for_outbox_capacity() {
    let mut server = small();
    server.feed(&request_with(
        "init",
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"}}),
    ));
    server.feed(&notification("notifications/initialized"));
    for id in 0..8 {
        server.feed(&listen(id, json!({"toolsListChanged": true, "promptsListChanged": true})));
    }
    server.sent();
    server.take_events();
    // One message is sent for each change, and each change concerns every subscription.
    let mut out = Vec::new();
    for round in 0..500 {
        server.conn.notify(&ToolsListChangedParams::default()).expect("it is declared");
        server.conn.notify(&PromptsListChangedParams::default()).expect("it is declared");
        assert!(server.conn.poll_transmit(&mut out).is_some());
        let usage = server.conn.usage();
        assert!(usage.outbox_bytes < 4000 + 20 * 300, "{usage:?} in round {round}");
    }
    // The last change reaches every subscription in the end.
    let sent = server.sent();
    for id in 0..8 {
        assert!(sent.iter().any(|it| subscription_of(it) == Some(&json!(id))), "{id}");
    }
    assert!(sent.iter().any(|it| subscription_of(it).is_none()));
    assert_eq!(server.conn.usage().outbox_bytes, 0);
    assert_eq!(server.conn.usage().changes, 0);
}

#[test]
fn notify_returns_busy_when_the_outbox_is_full() {
    let mut server = small();
    server.feed(&listen("s", json!({"resourceSubscriptions": ["a:b"]})));
    server.sent();
    let update = ResourceUpdatedParams::new("a:b");
    let notified = (0..1000).take_while(|_| server.conn.notify(&update).is_ok()).count();
    assert_eq!(server.conn.notify(&update), Err(SendError::Busy));
    assert_eq!(server.sent().len(), notified);
    assert_eq!(server.conn.notify(&update), Ok(()));
    assert_eq!(server.sent().len(), 1);
    let nothing: [Value; 0] = [];
    server.conn.notify(&ResourceUpdatedParams::new("a:other")).expect("no listener is fine");
    assert_eq!(server.sent(), nothing);
}

/// Returns the number of sent messages with a subscription id, and of those without one.
fn notified(server: &mut Harness<ServerRole>) -> (usize, usize) {
    let sent = server.sent();
    let tagged = sent.iter().filter(|it| subscription_of(it).is_some()).count();
    (tagged, sent.len() - tagged)
}

// req: M-SUBS-013
#[test]
fn notifications_reach_all_subscribers_or_none() {
    let update = ResourceUpdatedParams::new("a:b");
    for has_session in [false, true] {
        for waiting in 0..20 {
            let mut server = small();
            if has_session {
                let info = json!({"name": "old", "version": "1"});
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
                server.feed(&request_with("init", "initialize", params));
                server.feed(&notification("notifications/initialized"));
            }
            for id in ["a", "b"] {
                server.feed(&listen(id, json!({"resourceSubscriptions": ["a:b"]})));
            }
            server.sent();
            server.take_events();
            // For any queued output, either all notifications are sent or none.
            for id in 0..waiting {
                let key = server.receive_request(&modern(id, "tools/list", json!({})));
                let pad = mcp_proto::wire::Json::new(&json!({"tools": [], "pad": "x".repeat(60)})).expect("JSON");
                let _ = server.conn.respond_raw(key, &(&pad).into());
            }
            let before = server.conn.usage();
            match server.conn.notify(&update) {
                Ok(()) => {
                    let answers = before.outbox_frames;
                    assert_eq!(notified(&mut server), (2, answers + usize::from(has_session)), "{waiting}");
                }
                Err(error) => {
                    assert_eq!(error, SendError::Busy);
                    assert_eq!(server.conn.usage(), before, "{waiting}");
                }
            }
        }
    }
}

#[test]
fn oversized_notifications_are_sent_to_no_subscriber() {
    let mut config = full_server();
    config.settings.versions = VersionSet::ALL;
    config.settings.limits.frame_bytes = 1000;
    let mut server = Harness::server(config);
    let info = json!({"name": "old", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    server.feed(&request_with("init", "initialize", params));
    server.feed(&notification("notifications/initialized"));
    server.feed(&listen("a", json!({"resourceSubscriptions": ["a:"]})));
    server.sent();
    let update = ResourceUpdatedParams::new(format!("a:/{}", "x".repeat(2000)));
    assert_eq!(server.conn.notify(&update), Err(SendError::TooLarge));
    assert_eq!(server.conn.notify_subscribers(&update, |_| true), Err(SendError::TooLarge));
    assert_eq!(notified(&mut server), (0, 0));
}

#[test]
fn changes_reach_permitted_subscribers() {
    let mut server = small();
    for (id, uri) in [("a", "a:b"), ("b", "a:b"), ("c", "a:c")] {
        server.feed(&listen(id, json!({"resourceSubscriptions": [uri]})));
    }
    server.sent();
    let listeners = server.conn.listeners("a:b");
    assert_eq!([listeners.len(), server.conn.listeners("a:c").len(), server.conn.listeners("a:d").len()], [2, 1, 0]);
    assert!(!listeners.contains(&server.conn.listeners("a:c")[0]));
    let update = ResourceUpdatedParams::new("a:b");
    let mut tell = |is_subscribed: &dyn Fn(ReplyKey) -> bool| {
        server.conn.notify_subscribers(&update, is_subscribed).expect("there is room");
        let sent = server.sent();
        sent.iter().map(|it| subscription_of(it).and_then(Value::as_str).expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tell(&|key| key == listeners[1]).len(), 1);
    assert_eq!(tell(&|_| false), [""; 0]);
    let mut all = tell(&|_| true);
    all.sort_unstable();
    assert_eq!(all, ["a", "b"]);
}

/// All subscriptions are notified, or none, also if a copy is too large only because of the id of its subscription.
#[test]
fn notification_has_to_fit_for_the_longest_id() {
    let long = "x".repeat(200);
    let update = || ResourceUpdatedParams::new(format!("a:b/{}", "u".repeat(500)));
    let listening = |frame_bytes: usize| {
        let mut config = full_server();
        config.settings.versions = VersionSet::ALL;
        config.settings.limits.frame_bytes = frame_bytes;
        let mut server = Harness::server(config);
        for id in ["a", &*long] {
            server.feed(&listen(id, json!({"resourceSubscriptions": ["a:b"]})));
        }
        server.sent();
        server
    };
    let mut server = listening(1 << 20);
    server.conn.notify(&update()).expect("there is room");
    let sizes: Vec<_> = server.sent().iter().map(|it| it.to_string().len()).collect();
    let (short, longest) = (sizes.iter().min().expect("two"), sizes.iter().max().expect("two"));
    assert_eq!(longest - short, 199);
    for (frame_bytes, expected) in [
        (*longest, Ok(())),
        (longest - 1, Err(SendError::TooLarge)),
        (longest - 2, Err(SendError::TooLarge)),
        (*short, Err(SendError::TooLarge)),
        (short - 1, Err(SendError::TooLarge)),
    ] {
        let mut server = listening(frame_bytes.max(1));
        assert_eq!(server.conn.notify(&update()), expected, "{frame_bytes}");
        assert_eq!(server.sent().len(), if expected.is_ok() { 2 } else { 0 }, "{frame_bytes}");
    }
}
