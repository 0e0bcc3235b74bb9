//! The cost of responses and of notifications to many subscribers, and the handling of those that are too large.

use mcp_proto::{
    connection::{CloseReason, Event, ResourceUsage, SendError, ServerConfig, ServerRole, Violation},
    protocol::{Capability, Phase, ProtocolVersion, VersionSet},
    rpc::ReplyKey,
    wire::{ErrorObject, Json, RawJson},
};
use mcp_tests::{
    harness::{Harness, full_server},
    message::{cancelled, listen, request},
};
use serde_json::{Value, json};

use super::allocated;

type Server = Harness<ServerRole>;

/// Returns a server of the revision with batches whose outbox holds `outbox_bytes`.
fn server(outbox_bytes: usize) -> Server {
    let mut config = full_server();
    (config.settings.limits.outbox_bytes, config.settings.limits.control_bytes) = (outbox_bytes, 10_000);
    Harness::ready_server_with(config, ProtocolVersion::V2025_03_26)
}

/// Feeds a batch of requests that wait for the application.
#[track_caller]
fn batch(server: &mut Server, ids: impl Iterator<Item = u64>) -> Vec<ReplyKey> {
    server.feed(&Value::Array(ids.map(|id| request(id, "vendor/x")).collect()));
    let key = |event| if let Event::Request { key, .. } = event { key } else { panic!("{event:?}") };
    server.take_events().into_iter().map(key).collect()
}

fn result_of(bytes: usize) -> Json {
    Json::new(&json!({"pad": "x".repeat(bytes)})).expect("it is JSON")
}

#[test]
fn oversized_batch_responses_become_errors() {
    const OUTBOX: usize = 1 << 20;
    let mut server = server(OUTBOX);
    let keys = batch(&mut server, 1..4);
    let large = result_of(600 << 10);
    assert_eq!(server.conn.respond_raw(keys[0], &RawJson::from(&large)), Ok(()));
    // Nothing can be polled that would free capacity, so a retry cannot succeed.
    assert!(!server.conn.has_output());
    assert_eq!(server.conn.respond_raw(keys[1], &RawJson::from(&large)), Err(SendError::TooLarge));
    assert!(server.conn.has_room());
    // The connection stays open.
    server.feed(&request(9, "ping"));
    let single = server.receive_request(&request(10, "vendor/x"));
    server.conn.respond_raw(single, &RawJson::from(&result_of(10))).expect("it is beside the batch");
    assert_eq!(server.sent().len(), 2);
    // An error always fits, also one that the connection creates.
    server.conn.respond_error(keys[1], &ErrorObject::internal("too large")).expect("it is small");
    let replaced = server.conn.respond_raw_or_error(keys[2], &RawJson::from(&large));
    assert_eq!(replaced, Ok(Some(SendError::TooLarge)));
    let sent = server.sent();
    let [Value::Array(answers)] = &sent[..] else { panic!("one batch") };
    assert_eq!(answers.iter().map(|answer| &answer["id"]).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(answers[0]["result"]["pad"].is_string());
    assert_eq!((&answers[1]["error"]["code"], &answers[2]["error"]["code"]), (&json!(-32603), &json!(-32603)));
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn batch_responses_stay_within_the_frame_limit() {
    const FRAME: usize = 20_000;
    let mut config = full_server();
    config.settings.limits.frame_bytes = FRAME;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_03_26);
    let keys = batch(&mut server, 1..9);
    let result = result_of(6_000);
    let replaced: Vec<_> = keys
        .iter()
        .map(|key| server.conn.respond_raw_or_error(*key, &RawJson::from(&result)).expect("an answer is owed"))
        .collect();
    let sent = server.sent();
    let [Value::Array(answers)] = &sent[..] else { panic!("one batch") };
    let bytes = sent[0].to_string().len();
    assert!(bytes <= FRAME, "{bytes} bytes");
    // Two fit while the others are still open. One more fits because the ones between became small errors.
    let is_sent: Vec<_> = answers.iter().map(|answer| answer["result"].is_object()).collect();
    assert_eq!(is_sent, [true, true, false, false, true, false, false, false]);
    assert!(replaced.iter().zip(is_sent).all(|(replaced, is_sent)| replaced.is_none() == is_sent));
    // The last response may use the capacity that is left.
    let keys = batch(&mut server, 1..4);
    for key in keys {
        assert_eq!(server.conn.respond_raw_or_error(key, &RawJson::from(&result)), Ok(None));
    }
    assert!(server.sent()[0].to_string().len() <= FRAME);
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn batch_memory_is_bounded_and_all_requests_answered() {
    const OUTBOX: usize = 100_000;
    let mut server = server(OUTBOX);
    // One request of each batch waits for the application, and the responses to the pings wait for it.
    let members = |id: u64| {
        let mut members: Vec<_> = (1..100).map(|ping| request(1000 * id + ping, "ping")).collect();
        members.push(request(1000 * id, "vendor/x"));
        Value::Array(members)
    };
    let (mut open, mut refused) = (Vec::new(), 0);
    for id in 0..1000 {
        server.feed(&members(id));
        match &server.take_events()[..] {
            [Event::Request { key, .. }] => open.push(*key),
            [Event::Violation(Violation::TooManyRequests)] => {
                // The batch does not wait for the application, so all of its members have a response.
                refused += 1;
                let sent = server.sent();
                let [Value::Array(answers)] = &sent[..] else { panic!("one batch") };
                assert_eq!((answers.len(), &answers[99]["error"]["code"]), (100, &json!(-32603)));
            }
            other => panic!("{other:?}"),
        }
        assert!(server.conn.usage().outbox_bytes < OUTBOX + 20_000, "{:?}", server.conn.usage());
        assert!(server.conn.has_room());
    }
    assert!(open.len() > 5 && refused > 900, "{} {refused}", open.len());
    let count = open.len();
    for key in open {
        server.respond(key, &json!({}));
    }
    assert_eq!(server.sent().len(), count);
    assert_eq!(server.conn.usage(), ResourceUsage::default());
}

#[test]
fn cancelling_removes_a_queued_batch_response() {
    let mut server = server(1 << 20);
    let mut keys = Vec::new();
    for id in [10, 20, 30] {
        server.feed(&json!([
            request(id + 1, "ping"),
            request(id, "vendor/x"),
            request(id + 1, "ping"),
            request(5, "ping")
        ]));
        let events = server.take_events();
        let [Event::Request { key, .. }] = events[..] else { panic!("{events:?}") };
        keys.push(key);
    }
    for (id, count) in [(21, 1), (5, 1), (31, 2), (5, 1)] {
        for _ in 0..count {
            let before = server.conn.stats().cancelled;
            server.feed(&cancelled(id));
            assert_eq!(server.conn.stats().cancelled, before + 1, "{id}");
        }
    }
    server.feed(&cancelled(31));
    assert_eq!(server.conn.stats().cancelled, 5, "there is none any more");
    for key in keys {
        server.respond(key, &json!({}));
    }
    let ids: Vec<Vec<u64>> = server
        .sent()
        .iter()
        .map(|batch| {
            batch.as_array().expect("a batch").iter().map(|answer| answer["id"].as_u64().expect("an id")).collect()
        })
        .collect();
    assert_eq!(ids, [vec![11, 11, 10], vec![21, 20], vec![5, 30]]);
}

/// Returns a server of 2026-07-28 with `listeners` subscriptions.
fn listened(outbox_bytes: usize, listeners: u64) -> Server {
    let mut config: ServerConfig = full_server();
    config.capabilities = config.capabilities.with(Capability::TasksExtension);
    config.settings.versions = VersionSet::only(ProtocolVersion::V2026_07_28);
    config.settings.limits.outbox_bytes = outbox_bytes;
    let mut server = Harness::server(config);
    for id in 0..listeners {
        server.feed(&listen(id, json!({"resourceSubscriptions": ["a:b"]})));
        assert_eq!(server.take_events(), []);
        server.sent();
    }
    server
}

#[test]
fn notifications_are_charged_per_subscription() {
    const OUTBOX: usize = 1 << 20;
    let news = |bytes: usize| Json::new(&json!({"uri": format!("a:b/{}", "x".repeat(bytes))})).expect("it is JSON");
    let tell = |server: &mut Server, bytes| {
        server.conn.notify_raw("notifications/resources/updated", Some(&RawJson::from(&news(bytes))))
    };
    let mut server = listened(OUTBOX, 64);
    let taken = allocated(|| assert_eq!(tell(&mut server, 256 << 10), Err(SendError::TooLarge)));
    assert!(taken < 4 << 20, "{taken} bytes to find out that 16 MiB do not fit into one");
    assert_eq!(server.conn.usage().outbox_bytes, 0);
    // All but one fit.
    assert_eq!(tell(&mut server, 10 << 10), Ok(()));
    let waits = server.conn.usage().outbox_bytes;
    assert!(waits < OUTBOX, "{waits}");
    assert_eq!(tell(&mut server, 10 << 10), Err(SendError::Busy));
    assert_eq!(server.conn.usage().outbox_bytes, waits, "either all subscriptions are notified or none");
    assert_eq!(server.sent().len(), 64);
    assert_eq!(tell(&mut server, 10 << 10), Ok(()));
    server.sent();
    // A single subscription gets a notification of any size within the limit.
    let mut server = listened(OUTBOX, 1);
    assert_eq!(tell(&mut server, 2 * OUTBOX), Ok(()));
    assert_eq!(tell(&mut server, 1), Err(SendError::Busy));
    assert_eq!(server.sent().len(), 1);
}

#[test]
fn unsendable_responses_become_errors() {
    let mut config = full_server();
    config.settings.limits.frame_bytes = 1000;
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let (key, small) =
        (server.receive_request(&request(1, "vendor/x")), server.receive_request(&request(2, "vendor/x")));
    let replaced = server.conn.respond_raw_or_error(key, &RawJson::from(&result_of(2000)));
    assert_eq!(replaced, Ok(Some(SendError::TooLarge)));
    assert_eq!(server.conn.respond_raw_or_error(key, &RawJson::from(&result_of(1))), Err(SendError::Answered));
    assert_eq!(server.conn.respond_raw_or_error(small, &RawJson::from(&result_of(1))), Ok(None));
    let sent = server.sent();
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(1), &json!(-32603)));
    assert!(sent[1]["result"].is_object());
    assert_eq!(server.conn.usage(), ResourceUsage::default());
    // A full outbox returns `Busy` and sends nothing, so the caller retries.
    let key = server.receive_request(&request(3, "vendor/x"));
    while server.conn.notify_raw("vendor/y", None).is_ok() {}
    assert_eq!(server.conn.respond_raw_or_error(key, &RawJson::from(&result_of(2000))), Err(SendError::Busy));
    server.sent();
    assert_eq!(server.conn.respond_raw_or_error(key, &RawJson::from(&result_of(2000))), Ok(Some(SendError::TooLarge)));
    // A result that is not an object is replaced by an error, too.
    let key = server.receive_request(&request(4, "vendor/x"));
    let not_an_object = Json::parse("[]").expect("JSON");
    let replaced = server.conn.respond_raw_or_error(key, &RawJson::from(&not_an_object));
    assert!(matches!(replaced, Ok(Some(SendError::Encode(_)))), "{replaced:?}");
    assert!(server.sent().iter().all(|answer| answer["error"]["code"] == -32603));
}

#[test]
fn refusals_do_not_wait_for_room() {
    let mut config = full_server();
    (config.settings.limits.outbox_bytes, config.settings.limits.control_bytes) = (2000, 4000);
    let mut server = Harness::ready_server_with(config, ProtocolVersion::V2025_11_25);
    let keys: Vec<_> = (0..100).map(|id| server.receive_request(&request(id, "vendor/x"))).collect();
    let error = ErrorObject::internal("Nothing serves it");
    while server.conn.notify_raw("vendor/y", None).is_ok() {}
    assert_eq!(server.conn.respond_error(keys[0], &error), Err(SendError::Busy));
    assert_eq!(server.conn.refuse(keys[0], &error), Ok(()));
    assert_eq!(server.conn.refuse(keys[0], &error), Err(SendError::Answered));
    let sent = server.sent();
    let answers: Vec<_> = sent.iter().filter(|line| line["id"] == 0).map(|line| &line["error"]["message"]).collect();
    assert_eq!(answers, ["Nothing serves it"]);
    assert_eq!((server.conn.usage().requests, server.conn.is_open(keys[1])), (99, true));
    // A peer that reads nothing causes no more of them than fit beside the other output.
    while server.conn.notify_raw("vendor/y", None).is_ok() {}
    let refused = keys[1..].iter().take_while(|key| {
        assert_eq!(server.conn.refuse(**key, &error), Ok(()));
        let bytes = server.conn.usage().outbox_bytes;
        assert!(bytes <= 6000 + 200, "{bytes}");
        server.conn.phase() != Phase::Closed
    });
    assert!((10..99).contains(&refused.count()));
    let events = server.take_events();
    assert!(matches!(events.last(), Some(Event::Closed(CloseReason::PeerNotReading))), "{events:?}");
}

#[test]
fn pending_batches_do_not_count_as_unread_output() {
    let mut server = server(10_000);
    let keys = batch(&mut server, 1..3);
    server.conn.respond_raw(keys[0], &RawJson::from(&result_of(9_000))).expect("there is room");
    for id in 0..1_000 {
        server.feed(&request(100 + id, "ping"));
        assert_eq!(server.sent().len(), 1);
    }
    assert_eq!(server.take_events(), []);
    // If the peer does not read, the responses to pings exceed the limit in the end.
    let closed = (0..1_000_000).any(|id| {
        server.feed(&request(id, "ping"));
        server.take_events().last() == Some(&Event::Closed(CloseReason::PeerNotReading))
    });
    assert!(closed);
}
