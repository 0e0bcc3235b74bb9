//! Calls of tools with middleware whose jobs run on one thread, where each call reuses the memory of the one before.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_proto::{
    codec::Frame,
    connection::{Event, Limits, Settings},
    protocol::ProtocolVersion,
    wire::JsonObject,
};
use serde_json::{Value, json};

use super::{
    asynchronous::{call, job, poll},
    echo,
    pair::Pair,
};
use crate::{
    client::Host,
    driver_api::connection_handle::Application,
    inbound::middleware::{Completed, IncomingRequest, Next},
    server::{service::Service, tool::Tool},
    util::lock::lock,
};

/// Runs a call of `echo`. Returns the text of its result.
fn echoed(pair: &Pair, id: u8, message: &str) -> Value {
    let mut line = call(id, "echo");
    line["params"]["arguments"] = json!({"message": message});
    job(pair, &line).run();
    pair.server.flush();
    pair.server.take_lines().pop().expect("a response")["result"]["content"][0]["text"].clone()
}

#[test]
fn a_kept_request_is_not_overwritten() {
    let kept: Arc<Mutex<Vec<IncomingRequest>>> = Arc::default();
    let keeps = kept.clone();
    let service = echo().layer(move |request: IncomingRequest, next: Next| {
        // Every other request is kept.
        if request.id().is_some_and(|id| id.as_json().len() == 1) {
            lock(&keeps).push(request.clone());
        }
        async move { Ok(next.run().await) }
    });
    let pair = Pair::simple(&service.build().expect("a good service"));
    for (id, message) in [(1, "a"), (10, "b"), (2, "c"), (20, "d"), (3, "e")] {
        assert_eq!(echoed(&pair, id, message), message);
    }
    let messages = |request: &IncomingRequest| request.decode_arguments::<Value>().expect("JSON")["message"].clone();
    assert_eq!(lock(&kept).iter().map(messages).collect::<Vec<_>>(), ["a", "c", "e"]);
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn a_reused_call_has_nothing_of_another_client() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let sees = seen.clone();
    let service = echo().layer(move |request: IncomingRequest, next: Next| {
        let seen = sees.clone();
        async move {
            let client = request.context().info().peer.as_ref().map(|peer| peer.name.clone());
            let is_replaced = client.as_deref() == Some("first");
            let replaced = || JsonObject::parse(r#"{"message": "secret"}"#).expect("an object");
            let completed = if is_replaced { next.with_arguments(replaced()).run() } else { next.run() }.await;
            // The encoded result is kept until it was sent.
            let result: Option<Value> = completed.result().and_then(|result| result.decode().ok());
            lock(&seen).push(json!([client, result.map(|result| result["content"][0]["text"].clone())]));
            Ok(completed)
        }
    });
    let service = service.build().expect("a good service");
    let clients = ["first", "second"].map(|name| {
        let host = Host::builder(name, "1").build();
        Pair::new(&host, &service, ProtocolVersion::LATEST_LEGACY)
    });
    for (id, client, expected) in [(1, 0, "secret"), (1, 1, "a"), (2, 1, "a"), (2, 0, "secret")] {
        assert_eq!(echoed(&clients[client], id, "a"), expected, "call {id} of client {client}");
    }
    let [first, second] = [json!(["first", "secret"]), json!(["second", "a"])];
    assert_eq!(*lock(&seen), [first.clone(), second.clone(), second, first]);
}

#[test]
fn a_call_that_is_cancelled_before_it_starts_does_not_run() {
    let (begun, ran) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (begins, runs) = (begun.clone(), ran.clone());
    let tool = Tool::new("count", move || runs.fetch_add(1, Ordering::Relaxed).to_string());
    let service = Service::builder("test", "1").tool(tool).layer(move |_: IncomingRequest, next: Next| {
        begins.fetch_add(1, Ordering::Relaxed);
        async move { Ok(next.run().await) }
    });
    let pair = Pair::simple(&service.build().expect("a good service"));
    let waiting = job(&pair, &call(1, "count"));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).to_string();
    let event = pair
        .server
        .with_conn(|conn| conn.handle_frame(Default::default(), Frame::new(cancel.as_bytes())).map(Event::into_owned));
    assert!(pair.server_session.handle(&pair.server.connection(), event.expect("a cancellation")).is_none());
    waiting.run();
    pair.server.flush();
    assert!(pair.server.take_lines().iter().all(|line| line["id"] != 1), "no response");
    assert_eq!((begun.load(Ordering::Relaxed), ran.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn a_refused_call_leaves_no_state() {
    let service = echo().layer(async |request: IncomingRequest, next: Next| {
        let arguments: Value = request.decode_arguments()?;
        if arguments["message"] == "no" {
            return Err("refused".into());
        }
        Ok(next.run().await)
    });
    let pair = Pair::simple(&service.build().expect("a good service"));
    for (id, message) in [(1, "a"), (2, "no"), (3, "b"), (4, "no"), (5, "c")] {
        let expected = if message == "no" { Value::Null } else { message.into() };
        assert_eq!(echoed(&pair, id, message), expected);
    }
    assert_eq!(pair.server_session.shared().in_flight.len(), 0);
}

#[test]
fn responses_of_layered_calls_wait_for_room() {
    let layers: [fn(IncomingRequest, Completed) -> Completed; 2] = [
        |_, completed| completed,
        // It is encoded for middleware before it is sent.
        |_, completed| {
            assert!(completed.result().is_some());
            completed
        },
    ];
    for layer in layers {
        let mut limits = Limits::default();
        limits.outbox_bytes = 2000;
        let service = Service::builder("test", "1")
            .tool(Tool::new_async("quick", async || "quick"))
            .layer(move |request: IncomingRequest, next: Next| async move { Ok(layer(request, next.run().await)) })
            .settings(Settings { limits, ..Settings::default() });
        let pair = Pair::simple(&service.build().expect("a good service"));
        let mut run = job(&pair, &call(1, "quick")).into_kind();
        // The client does not read for a while.
        pair.server.with_conn(|conn| while conn.notify_raw("test/stuff", None).is_ok() {});
        assert!(poll(&mut run).is_pending());
        pair.server.flush();
        assert!(poll(&mut run).is_ready());
        pair.server.flush();
        let response = pair.server.take_lines().into_iter().find(|line| line["id"] == 1).expect("a response");
        assert_eq!(response["result"]["content"][0]["text"], "quick");
        assert_eq!(pair.server_session.shared().in_flight.len(), 0);
    }
}
